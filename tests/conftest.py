"""What the tests share: real collections where there are some, the device, and a tiny model."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

# Set before any test imports a package that reads it: no test may wait for, or depend on, a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

_COLLECTIONS = ("trec-dl", "scifact", "noveleval", "redial", "t5-tokenizer")


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty cache folder, so that no test sees what an earlier run or the user's own work left."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSTRUCT_DISTILL_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real collections; skips where there is none, fails where it is incomplete."""
    chosen = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not chosen:
        pytest.skip("INSTRUCT_DISTILL_DATA is not set: the folder of real collections is not here")
    folder = Path(chosen)
    missing = [name for name in _COLLECTIONS if not (folder / name).is_dir()]
    if missing:
        pytest.fail(f"INSTRUCT_DISTILL_DATA={chosen} is incomplete: without {', '.join(missing)}")
    return folder


@pytest.fixture(scope="session")
def t5_tokenizer_folder(shared_data: Path) -> Path:
    """The real T5 vocabulary."""
    return shared_data / "t5-tokenizer"


@pytest.fixture(scope="session")
def device() -> torch.device:
    """CUDA where there is one, so that the whole suite also runs there; else the CPU."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session")
def tiny_t5(t5_tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder in the shape of FLAN-T5, untrained and small, untied, with the real T5 tokenizer."""
    import torch
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("tiny-t5")
    config = T5Config(
        vocab_size=32128,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():  # the seed of this model is nobody else's
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(config)
        # transformers ties T5's output layer whatever its config says; FLAN-T5's is a weight of its own.
        model.lm_head.weight = torch.nn.Parameter(torch.randn(config.vocab_size, 32) * 32**-0.5)
        model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(t5_tokenizer_folder).save_pretrained(folder)
    return folder


_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder-only model folder, untrained and small, with a byte-level tokenizer and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = [
        "Question",
        "passage",
        "query",
        "relevant",
        "answer",
        "Answer",
        "Yes",
        "No",
        "Passage",
        "A",
        "B",
        "Y",
        "N",
        "Movie",
        "the",
        "is",
        "of",
        "to",
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        [text for word in words for text in (word, f" {word}", f"\n{word}")] * 3, trainer
    )
    folder = tmp_path_factory.mktemp("tiny-llama")
    make: Any = PreTrainedTokenizerFast
    fast = make(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=_CHAT_TEMPLATE,
    )
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        initializer_range=0.2,  # far enough from zero for scores that differ
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


class ServedModel:
    """A model behind a server of the OpenAI interface.

    Args:
        url: the base of its endpoints.
        model: the model's name on it.
    """

    def __init__(self, url: str, model: str) -> None:
        self.url, self.model = url, model

    def seen(self) -> dict[str, Any]:
        """What it was asked so far."""
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/seen", timeout=10) as reply:
            found: dict[str, Any] = json.load(reply)
        return found


@pytest.fixture(scope="session")
def served_llama(tiny_llama: Path) -> Iterator[ServedModel]:
    """The tiny decoder-only model behind a server with log-probabilities, which misbehaves on request."""
    from tests.inference.model_server import serving

    with serving(tiny_llama) as url:
        yield ServedModel(url, "tiny")


def save_pair_tokenizer(folder: Path, *, types: bool = True) -> None:
    """Write a word-piece tokenizer that puts pairs together as BERT's does.

    Args:
        folder: where to.
        types: whether it makes token types.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["the", "is", "of", "to", "a", "what", "how", "oil", "chain", "clean", "ferries", "leave"]
    words += ["amber", "basil", "cedar", "dusk", "ember", "fern"]
    characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    pieces += [c for c in characters if c not in pieces] + [f"##{c}" for c in characters]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", pieces.index("[CLS]")), ("[SEP]", pieces.index("[SEP]"))],
    )
    make: Any = PreTrainedTokenizerFast
    make(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", *(["token_type_ids"] if types else []), "attention_mask"],
    ).save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder folder in the shape of BERT with one label, untrained and small."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("tiny-bert")
    save_pair_tokenizer(folder)
    config = BertConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=192,
        num_labels=1,
        initializer_range=0.2,  # far enough from zero for scores that differ
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def headless_bert(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same encoder without a score head, as embedding models are published."""
    from transformers import AutoTokenizer, BertModel

    folder = tmp_path_factory.mktemp("headless-bert")
    BertModel.from_pretrained(tiny_bert).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    return folder
