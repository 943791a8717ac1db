"""Finding the files of a reranker, and how it is used."""

from __future__ import annotations

import os

from instruct_distill.errors import InputError
from instruct_distill.known_rerankers import CARD, Usage, known_usage
from instruct_distill.models.onnx import is_onnx
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.student_folder import RECORD, read_record


def usage_of(folder: str, name: str, prompt: str | Prompt | None) -> tuple[Usage, str | None]:
    """Return how the model in a folder is used, and the family that its record names, if it has one."""
    if os.path.exists(os.path.join(folder, RECORD)):
        if prompt is not None:
            raise InputError(f"{name}: has its own prompt in {RECORD}; leave prompt out")
        record = read_record(folder)
        usage = Usage(
            record.prompt, record.score, record.max_length, record.document_words, record.probability
        )
        return usage, record.family
    if prompt is not None:
        given = named_prompt(prompt) if isinstance(prompt, str) else prompt
        return Usage(given, "head" if given.is_pair else "yes_logit"), None
    known = known_usage(folder, name)
    if known is None:
        raise InputError(
            f"{name}: no {RECORD}: without its prompt a model cannot be used as a reranker; give a folder "
            "that training wrote, or the prompt that it was trained with: from_pretrained(..., "
            'prompt="NAME"), or prompt=Prompt(template=..., answers=...)'
        )
    return known, None


def check_weights(folder: str, name: str) -> None:
    """Say at once what to do about a repository that only has pickled weights: they are never loaded."""
    if is_onnx(folder) or any(file.endswith(".safetensors") for file in os.listdir(folder)):
        return
    where = f"the folder {folder}" if folder == name else "its repository, or what is cached of it,"
    raise InputError(
        f"{name}: {where} holds no .safetensors weights, and pickled ones (pytorch_model.bin), which can run "
        "code, are not loaded (castorini/monot5-* have nothing else). Convert them once, if you trust them: "
        "AutoModelForSeq2SeqLM.from_pretrained(NAME).save_pretrained(FOLDER), for a cross-encoder "
        "AutoModelForSequenceClassification, the same with AutoTokenizer, "
        f"copy {CARD} beside them, and load FOLDER"
    )


def download(name: str, revision: str | None, local_files_only: bool) -> str:
    """Fetch a hub repository's student files into the hub's own cache, and return the folder."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return str(
            snapshot_download(
                name,
                revision=revision,
                local_files_only=local_files_only,
                allow_patterns=["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", CARD],
            )
        )
    except HFValidationError:
        raise InputError(f"{name}: no such folder, and no hub id") from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise InputError(
            f"{name}: no such folder, and not to be had from the hub ({' '.join(str(error).split())[:200]})"
        ) from None
