"""Publishing to, and loading from, a stand-in for the hub: real HTTP on loopback, the hub's own client."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill import Reranker, publish
from instruct_distill.errors import InputError
from instruct_distill.models.loading import load_model
from instruct_distill.models.lora import add_lora
from instruct_distill.models.lora_parameters import LoraParameters
from instruct_distill.prompts.named import named_prompt
from instruct_distill.student_folder import StudentRecord, read_record, write_student

PAIRS = [("how to oil a chain", "Clean and oil the chain."), ("how to oil a chain", "Ferries leave hourly.")]
TOKEN = "hf_" + "x" * 20
SENT = [
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "reranker.json",
    "tokenizer.json",
    "tokenizer_config.json",
]
WRITTEN_BY_HAND = "---\nlicense: mit\ntags:\n- mine\n---\n\n# By hand\r\n\nDo not touch.  \n"


class Repository:
    """What the stand-in has under one name."""

    def __init__(self, private: bool, files: dict[str, bytes]) -> None:
        self.private, self.files, self.commits = private, files, 1

    @property
    def sha(self) -> str:
        return f"{self.commits:040x}"


class Hub(ThreadingHTTPServer):
    """The endpoints that publishing and loading a model call; weights go by LFS, the rest in the commit."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.moves_on = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""

    def answer(self, content: Any = None, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.server.asked.append(f"{self.command} {path}")
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = b""
            while size := int(self.rfile.readline(), 16):
                self.body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        authorised = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif self.command == "PUT":
            assert hashlib.sha256(self.body).hexdigest() == path.split("/")[-1]
            self.server.large[path.split("/")[-1]] = self.body
            self.answer({})
        elif self.command == "POST" and not authorised:
            self.answer({"error": "Invalid username or password."}, 401)
        elif path == "/api/repos/create":
            given = json.loads(self.body)
            name = f"{given['organization']}/{given['name']}" if "organization" in given else given["name"]
            private = given.get("visibility") == "private" or given.get("private") is True
            self.server.repositories[name] = Repository(private, {".gitattributes": b""})
            self.answer({"url": f"{self.server.url}/{name}", "id": name, "name": name})
        else:
            self.of_repository(path, authorised)

    do_GET = do_HEAD = do_POST = do_PUT = handle_any  # noqa: N815

    def of_repository(self, path: str, authorised: bool) -> None:
        found = re.fullmatch(r"/(?:api/models/)?([^/]+/[^/]+?)(?:\.git)?(?:/(.*))?", path)
        assert found is not None
        repo = self.server.repositories.get(found[1])
        verb, _, rest = (found[2] or "").partition("/")
        if repo is None or (repo.private and not authorised):
            self.answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
        elif verb in ("", "revision"):
            siblings = [{"rfilename": name} for name in repo.files]
            self.answer({"id": found[1], "sha": repo.sha, "private": repo.private, "siblings": siblings})
        elif verb == "tree":
            folder = rest.partition("/")[2]
            found_files = [
                {"type": "file", "path": name, "size": len(content), "oid": etag(content)}
                for name, content in repo.files.items()
                if name.startswith(f"{folder}/" if folder else "")
            ]
            if found_files or not folder:
                self.answer(found_files)
            else:
                self.answer({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
        elif verb == "resolve":
            content = repo.files.get(rest.partition("/")[2])
            if content is None:
                self.answer({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
            else:
                self.answer(content, ETag=f'"{etag(content)}"', X_Repo_Commit=repo.sha)
        elif verb == "preupload":
            files = json.loads(self.body)["files"]
            self.answer(
                {
                    "files": [
                        {
                            "path": file["path"],
                            "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                            "shouldIgnore": False,
                        }
                        for file in files
                    ]
                }
            )
        elif verb == "info":
            objects = json.loads(self.body)["objects"]
            for each in objects:
                each["actions"] = {"upload": {"href": f"{self.server.url}/large/{each['oid']}"}}
            self.answer({"transfer": "basic", "objects": objects})
        elif verb == "commit":
            self.commit(found[1], repo)

    def commit(self, name: str, repo: Repository) -> None:
        lines = [json.loads(line) for line in self.body.splitlines()]
        if self.server.moves_on:
            repo.commits += 1
        if lines[0]["value"].get("parentCommit") not in (None, repo.sha):
            self.answer({"error": "A commit has happened since. Please refresh and try again."}, 412)
            return
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                repo.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repo.files[value["path"]] = self.server.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del repo.files[value["path"]]
        repo.commits += 1
        url = f"{self.server.url}/{name}/commit/{repo.sha}"
        self.answer({"success": True, "commitOid": repo.sha, "commitUrl": url, "hookOutput": ""})


def etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    from huggingface_hub import close_session, constants
    from transformers.utils import hub as transformers_hub

    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        # transformers keeps a client of its own, which would go on asking the hub of an earlier test
        monkeypatch.setattr(transformers_hub, "_hf_api", None, raising=False)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the stand-in speaks LFS
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        close_session()
        yield server
        server.shutdown()
    close_session()


def write(model: Path, run: Path, device: torch.device, prompt: str) -> Path:
    """A run's folder as training leaves it, with much that must stay at home."""
    loaded = load_model(str(model), dtype="fp32", device=device)
    record = StudentRecord(
        family=loaded.model.family,
        prompt=named_prompt(prompt),
        score="yes_minus_no",
        max_length=128,
        document_words=None,
        dtype="fp32",
        base_model="org/base",
        base_revision="a" * 40,
        training={
            "recipe": "r",
            "collection": f"beir:{run}/data/mine",
            "queries": 3,
            "teacher": {"teacher": str(model), "revision": "0123456789abcdef", "strategy": "allpairs"},
        },
    )
    student = run / "student"
    write_student(student, loaded, record)
    (run / "labels.jsonl").write_text("{}\n", encoding="utf-8")
    (run / "recipe.yaml").write_text(f"runs: {run}\n", encoding="utf-8")
    for name in ("checkpoint-100/optimizer.pt", ".cache/x", "optimizer.safetensors", "pytorch_model.bin"):
        (student / name).parent.mkdir(exist_ok=True)
        (student / name).write_bytes(b"x")
    for name in ("labels.jsonl", "recipe.yaml", ".env", "training_args.bin", "state.json"):
        (student / name).write_text(str(run), encoding="utf-8")
    return run


@pytest.fixture(scope="module")
def made(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Path:
    return write(tiny_llama, tmp_path_factory.mktemp("made") / "r", device, "pointwise-short")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "runs" / "r")
    return tmp_path / "runs" / "r"


def scores(name: str | Path, device: torch.device, **settings: Any) -> Any:
    return Reranker.from_pretrained(name, dtype="fp32", device=device, **settings).score(PAIRS)


def change_record(run: Path, **changes: Any) -> None:
    file = run / "student" / "reranker.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, **changes}), encoding="utf-8")


def test_what_is_published_is_what_is_loaded(hub: Hub, run: Path, device: torch.device) -> None:
    found = publish(run, "org/name")
    assert found.url == f"{hub.url}/org/name/commit/{2:040x}"
    assert (found.repo_id, found.private) == ("org/name", True)
    loaded = Reranker.from_pretrained("org/name", dtype="fp32", device=device)
    assert loaded.name == "org/name"
    assert loaded.score(PAIRS).tolist() == scores(run / "student", device).tolist()
    hub.asked.clear()
    assert scores("org/name", device, local_files_only=True).tolist() == loaded.score(PAIRS).tolist()
    assert scores(run / "student", device).tolist() == loaded.score(PAIRS).tolist()
    assert hub.asked == []


def test_b37_only_the_student_leaves_this_machine(hub: Hub, run: Path, tmp_path: Path) -> None:
    found = publish(run, "org/name")
    repo = hub.repositories["org/name"]
    assert repo.private
    assert sorted(repo.files) == [".gitattributes", *SENT]
    assert found.files == {name: len(repo.files[name]) for name in SENT}
    assert repo.files["model.safetensors"] == (run / "student" / "model.safetensors").read_bytes()
    for name in set(SENT) - {"model.safetensors"}:
        text = repo.files[name].decode("utf-8")
        assert str(tmp_path) not in text
        assert str(run.parent) not in text
        assert "/tmp" not in text
        assert TOKEN not in text
    record = json.loads(repo.files["reranker.json"])
    assert record["training"]["collection"] == "beir:mine"
    assert "/" not in record["training"]["teacher"]["teacher"]
    assert record["prompt"] == named_prompt("pointwise-short").as_dict()


def test_b37_a_card_written_by_hand_keeps_its_text(hub: Hub, run: Path) -> None:
    hub.repositories["org/name"] = Repository(True, {"README.md": WRITTEN_BY_HAND.encode()})
    publish(run, "org/name", license="apache-2.0")
    card = hub.repositories["org/name"].files["README.md"].decode()
    assert card.endswith("---\n\n# By hand\r\n\nDo not touch.  \n")
    head = card.split("---")[1]
    assert "license: mit" in head
    assert "- mine\n- reranker\n" in head
    assert "base_model: org/base" in head
    publish(run, "org/name")
    assert hub.repositories["org/name"].files["README.md"].decode() == card


def test_b37_a_card_changed_beside_the_weights_is_the_one_that_is_sent(hub: Hub, run: Path) -> None:
    (run / "student" / "README.md").write_text("My own words.\n", encoding="utf-8")
    publish(run, "org/name")
    card = hub.repositories["org/name"].files["README.md"].decode()
    assert card.endswith("---\nMy own words.\n")
    assert "base_model: org/base" in card


def test_a_card_that_nobody_changed_is_written_anew(hub: Hub, run: Path) -> None:
    publish(run, "org/name")
    change_record(run, base_model="org/other")
    publish(run, "org/name")
    card = hub.repositories["org/name"].files["README.md"].decode()
    assert "org/other" in card
    assert "org/base" not in card


def test_b37_a_dry_run_lists_the_files_and_asks_nobody(hub: Hub, run: Path) -> None:
    found = publish(run, "org/name", dry_run=True)
    assert list(found.files) == SENT
    assert found.url is None
    assert "# name" in found.card
    assert hub.asked == []
    assert hub.repositories == {}
    assert publish(run, "org/name").files == found.files


def test_public_only_if_that_is_asked_for(hub: Hub, run: Path) -> None:
    assert publish(run, "org/open", private=False).private is False
    assert not hub.repositories["org/open"].private
    before = dict(hub.repositories["org/open"].files)
    with pytest.raises(InputError, match=r"org/open is there already and public; .*--public"):
        publish(run, "org/open")
    assert hub.repositories["org/open"].files == before
    hub.repositories["org/closed"] = Repository(True, {})
    publish(run, "org/closed", private=False)
    assert hub.repositories["org/closed"].private


def test_what_is_public_needs_no_token(
    hub: Hub, run: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(run, "org/open", private=False)
    publish(run, "org/closed")
    monkeypatch.delenv("HF_TOKEN")
    assert len(scores("org/open", device)) == 2
    with pytest.raises(InputError, match="org/closed: no such folder, and not to be had from the hub"):
        scores("org/closed", device)
    with pytest.raises(InputError, match="needs a token to write: run `hf auth login`, or set HF_TOKEN"):
        publish(run, "org/name")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(InputError, match=r"org/name: the hub did not take it \(.*401"):
        publish(run, "org/name")
    assert "org/name" not in hub.repositories


def test_weights_of_an_earlier_student_go(hub: Hub, run: Path) -> None:
    old = dict.fromkeys(
        ("model-00001-of-00002.safetensors", "model.safetensors.index.json", "notes.txt"), b"{}"
    )
    hub.repositories["org/name"] = Repository(True, old)
    publish(run, "org/name")
    assert sorted(hub.repositories["org/name"].files) == [*SENT[:5], "notes.txt", *SENT[5:]]


def write_adapter(hub: Hub, model: Path, run: Path, device: torch.device) -> Reranker:
    """A run's folder with a LoRA student on a model of the hub; returns the student before it was written."""
    hub.repositories["org/base"] = Repository(False, {f.name: f.read_bytes() for f in model.iterdir()})
    loaded = load_model("org/base", dtype="fp32", device=device)
    add_lora(loaded, LoraParameters(rank=2), 1)
    with torch.no_grad():
        for weight in loaded.model.parameters():
            if weight.requires_grad:
                weight.fill_(0.1)
    record = StudentRecord(
        family=loaded.model.family,
        prompt=named_prompt("pointwise-short"),
        score="yes_minus_no",
        max_length=128,
        document_words=None,
        dtype="fp32",
        base_model="org/base",
        base_revision=loaded.revision,
        training={"recipe": "r"},
        weights="adapter",
    )
    write_student(run / "student", loaded, record)
    return Reranker(loaded, record.prompt, score=record.score, max_length=record.max_length)


def test_an_adapter_is_published_and_loaded_with_its_base(
    hub: Hub, tiny_llama: Path, tmp_path: Path, device: torch.device
) -> None:
    expected = write_adapter(hub, tiny_llama, tmp_path / "r", device).score(PAIRS).tolist()
    hub.repositories["org/name"] = Repository(True, {"model.safetensors": b"of an earlier student"})
    publish(tmp_path / "r", "org/name")
    files = hub.repositories["org/name"].files
    assert sorted(files) == sorted(
        {*SENT, "adapter_config.json", "adapter_model.safetensors"}
        - {"generation_config.json", "model.safetensors"}
    )
    config = json.loads(files["adapter_config.json"])
    assert (config["base_model_name_or_path"], config["revision"]) == ("org/base", f"{1:040x}")
    card = files["README.md"].decode()
    assert "library_name: peft" in card
    assert "base_model: org/base" in card
    assert scores("org/name", device).tolist() == expected
    hub.asked.clear()
    assert scores("org/name", device, local_files_only=True).tolist() == expected
    assert hub.asked == []


@pytest.mark.parametrize(
    "changes",
    [
        {"base_model": "pypi:x==1/x.gguf#sha256=0", "base_revision": "0123456789abcdef"},
        {"base_model": "/models/flan", "base_revision": "0123456789abcdef"},
        {"base_model": "org/base", "base_revision": "main"},
    ],
)
def test_an_adapter_without_a_commit_of_its_base_stays_at_home(
    hub: Hub, tiny_llama: Path, tmp_path: Path, device: torch.device, changes: dict[str, str]
) -> None:
    write_adapter(hub, tiny_llama, tmp_path / "r", device)
    change_record(tmp_path / "r", **changes)
    with pytest.raises(InputError, match="published only where its base is a commit of a hub model"):
        publish(tmp_path / "r", "org/name")
    change_record(tmp_path / "r", base_model="org/base", base_revision="a" * 40)
    with pytest.raises(InputError, match="published only where"):
        publish(tmp_path / "r", "org/name", base_model="org/other")
    (tmp_path / "r" / "student" / "adapter_config.json").unlink()
    with pytest.raises(InputError, match=r"missing: adapter_config\.json"):
        publish(tmp_path / "r", "org/name")


def test_a_change_by_somebody_else_is_not_overwritten(hub: Hub, run: Path) -> None:
    hub.repositories["org/name"] = Repository(True, {"README.md": b"theirs"})
    hub.moves_on = True
    with pytest.raises(InputError, match=r"org/name: the hub did not take it \(.*412"):
        publish(run, "org/name")
    assert hub.repositories["org/name"].files == {"README.md": b"theirs"}


def test_a_card_with_broken_metadata_is_not_replaced(hub: Hub, run: Path) -> None:
    hub.repositories["org/name"] = Repository(True, {"README.md": b"---\na: [\n---\ntext\n"})
    with pytest.raises(InputError, match=r"README\.md: the metadata of the card that is there are not YAML"):
        publish(run, "org/name")
    assert list(hub.repositories["org/name"].files) == ["README.md"]


def test_a_base_model_that_is_a_local_path_is_refused(hub: Hub, run: Path) -> None:
    change_record(run, base_model="/home/me/flan", base_revision="0123456789abcdef")
    with pytest.raises(InputError, match=r"made from '/home/me/flan', a path of this machine.*--base-model"):
        publish(run, "org/name", dry_run=True)
    with pytest.raises(InputError, match=r"base_model './x': expected a hub id"):
        publish(run, "org/name", dry_run=True, base_model="./x")
    publish(run, "org/name", base_model="google/flan-t5-base")
    files = hub.repositories["org/name"].files
    assert json.loads(files["reranker.json"])["base_model"] == "google/flan-t5-base"
    assert "base_model: google/flan-t5-base" in files["README.md"].decode()
    assert all(b"/home/me" not in content for content in files.values())
    assert read_record(run / "student").base_model == "/home/me/flan"


def test_a_package_is_a_base_model_that_others_find(run: Path) -> None:
    model = f"pypi:llm-x==1.0/x.gguf#sha256={'0' * 64}"
    change_record(run, base_model=model, base_revision="0123456789abcdef")
    card = publish(run, "org/name", dry_run=True).card
    assert model in card
    assert "base_model:" not in card


def test_the_name_of_a_folder_in_a_config_is_left_out(hub: Hub, run: Path) -> None:
    file = run / "student" / "config.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, "_name_or_path": "/home/me/flan"}), encoding="utf-8")
    publish(run, "org/name")
    assert json.loads(hub.repositories["org/name"].files["config.json"]) == content


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("model.safetensors", r"holds no whole student; missing: model\.safetensors"),
        ("tokenizer.json", "holds no tokenizer"),
        ("reranker.json", r"no reranker\.json"),
    ],
)
def test_a_student_that_is_not_whole_stays_at_home(run: Path, gone: str, message: str) -> None:
    (run / "student" / gone).unlink()
    with pytest.raises(InputError, match=message):
        publish(run / "student", "org/name", dry_run=True)


@pytest.mark.parametrize("name", ["name", "a/b/c", "", "org/", "../x", "org/na me"])
def test_a_name_that_is_none_is_refused(run: Path, name: str) -> None:
    with pytest.raises(InputError, match="expected the name of a repository, ORG/NAME"):
        publish(run, name, dry_run=True)


def test_a_loaded_reranker_can_be_published(run: Path, device: torch.device) -> None:
    loaded = Reranker.from_pretrained(run / "student", dtype="fp32", device=device)
    assert list(publish(loaded, "org/name", dry_run=True).files) == SENT
    loaded.folder = None
    with pytest.raises(InputError, match="was not loaded from a student's folder"):
        publish(loaded, "org/name", dry_run=True)
    with pytest.raises(InputError, match="no such folder"):
        publish(run / "nothing", "org/name", dry_run=True)


def test_b36_no_hub_is_a_clear_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(InputError, match=r"org/name: the hub did not take it \(.*offline"):
        publish(run, "org/name")


def test_b36_what_was_loaded_once_is_there_without_the_hub(
    hub: Hub, run: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import close_session, constants

    publish(run, "org/name")
    first = scores("org/name", device).tolist()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    close_session()
    hub.asked.clear()
    assert scores("org/name", device).tolist() == first
    assert hub.asked == []
    cached = Path(constants.HF_HUB_CACHE)
    (weights,) = cached.glob("**/snapshots/*/model.safetensors")
    weights.unlink()
    with pytest.raises(InputError, match=r"org/name.*model\.safetensors"):
        scores("org/name", device)


def test_the_command_publishes_in_a_process_of_its_own(hub: Hub, run: Path, tmp_path: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        settings = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
        return subprocess.run(
            [sys.executable, "-m", "instruct_distill", "publish", str(run), "--to", "org/name", *arguments],
            env={**os.environ, **settings, "HF_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )

    dry = command("--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert [line.split()[-1] for line in dry.stdout.splitlines()[:-1]] == SENT
    assert dry.stdout.splitlines()[-1].startswith(
        "dry run: nothing was sent; a new org/name would be private"
    )
    assert hub.asked == []
    done = command("--license", "mit")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{hub.url}/org/name/commit/{2:040x}"
    assert b"license: mit" in hub.repositories["org/name"].files["README.md"]


# -- rerankers that others published -------------------------------------------------------------------


def put(hub: Hub, name: str, folder: Path, card: str = "", without: str = "") -> None:
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name != without}
    hub.repositories[name] = Repository(False, {**files, **({"README.md": card.encode()} if card else {})})


MONOT5 = "This model is a T5-base reranker fine-tuned on the MS MARCO passage dataset for 10k steps.\n"
DUOT5 = "This model is a T5-base pairwise reranker fine-tuned on MS MARCO passage dataset for 50k steps.\n"


def plain_logits(folder: Path, text: str) -> Any:
    """The first logits of the decoder, by transformers alone."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder)
    with torch.no_grad():
        ids = tokenizer(text, return_tensors="pt").input_ids
        return model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, -1].float().numpy()


def test_monot5_is_known_by_its_id_or_its_card(hub: Hub, tiny_t5: Path, device: torch.device) -> None:
    put(hub, "castorini/monot5-tiny", tiny_t5)
    put(hub, "me/copy", tiny_t5, card=MONOT5)
    wanted = []
    for query, passage in PAIRS:
        logits = plain_logits(tiny_t5, f"Query: {query} Document: {passage} Relevant:")
        wanted.append(logits[1176] - logits[6136])  # true, false
    for name in ("castorini/monot5-tiny", "me/copy"):
        np.testing.assert_allclose(scores(name, device), wanted, atol=1e-4)
    by_hand = scores(tiny_t5, device, prompt="monot5", score="yes_minus_no")
    np.testing.assert_allclose(by_hand, wanted, atol=1e-4)


def test_the_papers_students_are_known(hub: Hub, tiny_t5: Path, device: torch.device) -> None:
    put(hub, "fireballoon/rank-flan-t5-tiny", tiny_t5)
    wanted = [
        plain_logits(
            tiny_t5,
            f"Predict whether the given passage answer the question.\n\nQuestion: {query}\n\n"
            f"Passage: {passage}\n\nDoes the passage answer the question?",
        )[2163]
        for query, passage in PAIRS
    ]
    np.testing.assert_allclose(scores("fireballoon/rank-flan-t5-tiny", device), wanted, atol=1e-4)


def test_a_name_alone_or_another_card_is_not_enough(
    hub: Hub, tiny_t5: Path, tiny_llama: Path, device: torch.device
) -> None:
    put(hub, "castorini/monot5-llama", tiny_llama)
    put(hub, "me/monot5-base", tiny_t5)
    put(hub, "castorini/duot5-base", tiny_t5, card=DUOT5)
    for name in ("castorini/monot5-llama", "me/monot5-base", "castorini/duot5-base"):
        with pytest.raises(InputError, match=r"no reranker\.json: .*from_pretrained\(\.\.\., prompt="):
            scores(name, device)


def test_pickled_weights_are_not_loaded_and_the_way_out_is_named(
    hub: Hub, tiny_t5: Path, device: torch.device
) -> None:
    put(hub, "castorini/monot5-tiny", tiny_t5, without="model.safetensors")
    hub.repositories["castorini/monot5-tiny"].files["pytorch_model.bin"] = b"pickle"
    with pytest.raises(InputError, match=r"no \.safetensors weights, and pickled ones .*save_pretrained"):
        scores("castorini/monot5-tiny", device)
    assert not any("pytorch_model.bin" in asked for asked in hub.asked)


def test_a_prompt_is_for_models_that_have_none(run: Path, tiny_t5: Path, device: torch.device) -> None:
    with pytest.raises(InputError, match=r"has its own prompt in reranker\.json; leave prompt out"):
        scores(run / "student", device, prompt="monot5")
    with pytest.raises(InputError, match="score, max_length and document_words go with prompt"):
        scores(run / "student", device, score="yes_logit")
    with pytest.raises(InputError, match=r"unknown prompt 'mono5'.*monot5"):
        scores(tiny_t5, device, prompt="mono5")
    with pytest.raises(InputError, match="prompt 'pairwise-passage' does not fit a reranker"):
        scores(tiny_t5, device, prompt="pairwise-passage")
