"""Models in ONNX's form, run by onnxruntime on a CPU: written from a student, and used as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from instruct_distill.errors import InputError
from instruct_distill.files import read_json, write_json
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import TokenBatch, pad
from instruct_distill.models.loading import LoadedModel, load_tokenizer
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.prompts.encoder import Family

FILE = "model.onnx"
ABOUT = "onnx.json"


class OnnxModel(AnswerModel):
    """A student that was exported: it gives the logits of its answers, and nothing else.

    Args:
        folder: what :func:`write_onnx` wrote.
    """

    def __init__(self, folder: Path) -> None:
        about = read_json(folder / ABOUT)
        # what the rest of the library asks of a transformers model
        shell: Any = nn.Module()
        shell.config = SimpleNamespace(decoder_start_token_id=about["decoder_start"])
        shell.dtype = torch.float32
        shell.place = nn.Parameter(torch.zeros(1), requires_grad=False)
        super().__init__(shell, about["pad_id"])
        self.family: Family = about["family"]
        self._session = _session(folder / FILE)

    def batch_logits(self, batch: TokenBatch, answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`."""
        inputs = {"input_ids": batch.ids.numpy(), "attention_mask": batch.mask.numpy()}
        (logits,) = self._session.run(None, inputs)
        return torch.from_numpy(np.asarray(logits, dtype=np.float32))

    def forward(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`."""
        return self.batch_logits(pad(prompts, self.pad_id, self.device), answers)

    def reference_logits(self, prompt: Sequence[int], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`AnswerModel`; there is no other forward to compare with."""
        found = self([prompt], answers)[0]
        ids = [continuation[0] for continuation in answers.continuations] or [0]
        logits = torch.zeros(max(ids) + 1)
        logits[ids] = found[: len(ids)]
        return logits

    def answer_rows(self, batch: TokenBatch, answers: EncodedAnswers) -> NoReturn:
        """An exported student has no hidden states."""
        raise InputError("an exported student gives the logits of its answers, and nothing else")

    def continuation_rows(
        self,
        prompts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        answers: EncodedAnswers | None,
    ) -> NoReturn:
        """An exported student has no hidden states."""
        raise InputError("an exported student gives the logits of its answers, and nothing else")

    def adjust(self, hidden: torch.Tensor) -> NoReturn:
        """An exported student has no hidden states."""
        raise InputError("an exported student gives the logits of its answers, and nothing else")


class _Exported(nn.Module):
    """What is traced: token ids and mask in, logits of the answers out."""

    def __init__(self, model: AnswerModel, answers: EncodedAnswers) -> None:
        super().__init__()
        self.model, self.answers = model, answers

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model.batch_logits(TokenBatch(input_ids, attention_mask.sum(1)), self.answers)


def write_onnx(
    loaded: LoadedModel, answers: EncodedAnswers, example: Sequence[int], folder: Path, *, int8: bool
) -> None:
    """Write a model as ONNX, and its tokenizer beside it.

    Args:
        loaded: the model, in float32 on the CPU; it is left with attention that is written out.
        answers: what it is asked.
        example: a prompt's token ids.
        folder: where to; it is there and empty.
        int8: make the weights 8-bit integers, and the activations at run time (dynamic quantisation).

    Raises:
        InputError: an answer has several tokens, or the packages are not installed.
    """
    try:
        import onnx  # noqa: F401 (torch.onnx needs it, and would say so late)
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(f"export needs {error.name}: pip install 'instruct-distill[onnx]'") from None
    model = loaded.model
    if model.family != "encoder" and not answers.single:
        raise InputError("only prompts whose answers are one token each can be exported")
    model.model.set_attn_implementation("eager")
    ids = torch.tensor([list(example)] * 3)  # of any number: 1 and 2 would be taken for constants
    mask = torch.ones_like(ids)
    mask[1, -1] = 0
    batch, length = torch.export.Dim("batch", min=1), torch.export.Dim("length", min=2)
    shapes = {0: batch, 1: length}
    with torch.inference_mode(False), torch.no_grad():
        torch.onnx.export(
            _Exported(model, answers).eval(),
            (ids, mask),
            folder / FILE,
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_shapes={"input_ids": shapes, "attention_mask": shapes},
            dynamo=True,
            external_data=not int8,  # the quantiser reads one file,
            verbose=False,
        )
    if int8:
        _quantise(folder)
    loaded.tokenizer.save_pretrained(folder)
    config: Any = model.model.config
    write_json(
        folder / ABOUT,
        {
            "family": model.family,
            "pad_id": model.pad_id,
            "decoder_start": getattr(config, "decoder_start_token_id", None),
            "int8": int8,
        },
    )


def is_onnx(folder: str | Path) -> bool:
    """Whether a folder holds an exported student."""
    return (Path(folder) / FILE).is_file() and (Path(folder) / ABOUT).is_file()


def load_onnx(folder: str | Path, name: str) -> LoadedModel:
    """Load an exported student.

    Raises:
        InputError: onnxruntime is not installed, or a file is damaged.
    """
    place = Path(folder)
    tokenizer = load_tokenizer(str(place), name, {"local_files_only": True})
    try:
        return LoadedModel(OnnxModel(place).eval(), tokenizer, name, _digest(place))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place / ABOUT}: not what an export wrote ({error})") from None


def _session(file: Path) -> Any:
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise InputError(
            "an exported student needs onnxruntime: pip install 'instruct-distill[onnx]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises types of its own for a damaged file
        raise InputError(f"{file} cannot be loaded ({' '.join(str(error).split())[:200]})") from None


def _quantise(folder: Path) -> None:
    """Replace the exported weights by 8-bit ones."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    whole, prepared = folder / "whole.onnx", folder / "prepared.onnx"
    (folder / FILE).rename(whole)
    quant_pre_process(str(whole), str(prepared), skip_symbolic_shape=True)
    quantize_dynamic(str(prepared), str(folder / FILE), weight_type=QuantType.QInt8, per_channel=True)
    for file in (whole, prepared, folder / f"{FILE}.data"):
        file.unlink(missing_ok=True)


def _digest(folder: Path) -> str:
    import hashlib

    found = hashlib.sha256()
    for file in sorted(folder.glob(f"{FILE}*")):
        with open(file, "rb") as stream:
            while block := stream.read(1 << 22):
                found.update(block)
    return found.hexdigest()[:16]
