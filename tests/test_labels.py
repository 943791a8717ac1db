from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruct_distill import labels as labels_module
from instruct_distill.errors import InputError
from instruct_distill.labels import LabelStore, from_record, read_header, read_labels, to_line
from instruct_distill.records import Comparison, ListLabel

FINGERPRINT = {"teacher": "tiny", "strategy": "allpairs", "max_length": 512}
CHUNKS = [["q1", "q2"], ["q3"], ["q4", "café"], ["q6"]]
HEADER = '{"labels": 1, "fingerprint": {"teacher": "tiny", "strategy": "allpairs", "max_length": 512}}\n'


def label(query_id: str) -> ListLabel:
    score = len(query_id) + ord(query_id[-1]) / 7
    return ListLabel(
        query_id,
        (f"é-{query_id}", "d2"),
        (score, 1.0),
        (Comparison(0, 1, score / 3), Comparison(1, 0, -0.1)),
    )


def work(store: LabelStore) -> list[int]:
    """Label what is missing; return the chunks that were asked."""
    asked = store.pending()
    for chunk in asked:
        store.append(chunk, map(label, store.chunks[chunk]))
    return asked


def open_store(folder: Path, rank: int = 0, processes: int = 1) -> LabelStore:
    return LabelStore(folder / "labels.jsonl", FINGERPRINT, CHUNKS, rank=rank, processes=processes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    store = open_store(folder)
    assert work(store) == [0, 1, 2, 3]
    assert store.complete()
    return (folder / "labels.jsonl").read_bytes()


@pytest.fixture
def written(whole: bytes, tmp_path: Path) -> Path:
    (tmp_path / "labels.jsonl").write_bytes(whole)
    return tmp_path / "labels.jsonl"


# -- lines --------------------------------------------------------------------------------------------------


def test_a_line() -> None:
    line = to_line(
        ListLabel("q1", ("d2", "d5"), (2.0, 0.0), (Comparison(0, 1, 0.1), Comparison(1, 0, -3.25)))
    )
    assert line == (
        '{"query_id":"q1","doc_ids":["d2","d5"],"scores":[2.0,0.0],"comparisons":[[0,1,0.1],[1,0,-3.25]]}\n'
    )


def test_a_line_comes_back_as_it_was() -> None:
    single = 0.30000001192092896  # the float32 next to 0.3
    before = ListLabel(
        "q\u2028", ("\u0085", "7", "007"), (single, -1e-30, 16777216.0), (Comparison(2, 0, 1.5),)
    )
    after = from_record(json.loads(to_line(before)), "x")
    assert after.query_id == "q\u2028"
    assert after.doc_ids == ("\u0085", "7", "007")
    assert after.comparisons == before.comparisons
    assert after.scores == pytest.approx(before.scores, rel=1e-7)
    assert after.scores[0] == 0.3  # the shortest decimal that is the same float32
    assert to_line(after) == to_line(before)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_b15_what_is_not_finite_is_never_written(tmp_path: Path, value: float) -> None:
    store = open_store(tmp_path)
    store.append(1, [label("q3")])
    before = (tmp_path / "labels.jsonl").read_bytes()
    broken = label("q1")._replace(scores=(value, 1.0))
    with pytest.raises(InputError, match="query 'q1' has a score or margin that is not finite"):
        store.append(0, [label("q2"), broken])
    with pytest.raises(InputError, match="not finite"):
        to_line(label("q1")._replace(comparisons=(Comparison(0, 1, value),)))
    assert (tmp_path / "labels.jsonl").read_bytes() == before
    assert store.pending() == [0, 2, 3]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"scores": [1.0]},
            "1 scores for 2 documents of query 'q1'; delete the line to have it labelled again",
        ),
        ({"scores": None}, "expected query_id, doc_ids, scores and comparisons"),
        ({"query_id": 7}, "expected query_id, doc_ids, scores and comparisons"),
        ({"scores": ["good", 1.0]}, "a score or comparison of query 'q1' is no number"),
        ({"comparisons": [[0, 1]]}, "a score or comparison of query 'q1' is no number"),
        ({"comparisons": [[0, 2, 1.0]]}, "names no pair of its 2 documents"),
        ({"comparisons": [[1, 1, 1.0]]}, "names no pair of its 2 documents"),
        ({"scores": [math.nan, 1.0]}, "has a number that is not finite"),
    ],
)
def test_records_that_do_not_fit(change: dict[str, object], problem: str) -> None:
    record = json.loads(to_line(label("q1"))) | change
    with pytest.raises(InputError, match=f"^labels.jsonl line 812: .*{problem}"):
        from_record(record, "labels.jsonl line 812")


# -- whole files --------------------------------------------------------------------------------------------


def test_the_file(written: Path) -> None:
    lines = written.read_text("utf-8").splitlines(keepends=True)
    assert lines[0] == HEADER
    assert [json.loads(line)["query_id"] for line in lines[1:]] == ["q1", "q2", "q3", "q4", "café", "q6"]
    assert read_header(written) == FINGERPRINT
    assert [item.query_id for item in read_labels(written)] == ["q1", "q2", "q3", "q4", "café", "q6"]


def test_a_finished_file_is_left_alone(written: Path, whole: bytes) -> None:
    store = open_store(written.parent)
    assert store.pending() == []
    assert store.finished_queries() == 6
    assert store.complete()
    assert written.read_bytes() == whole


@pytest.mark.parametrize(
    "content", [b"", b'{"labels": 1, "fing', b"[1]\n", b'{"labels": 2, "fingerprint": {}}\n']
)
def test_files_without_a_header(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "labels.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=r"header|damaged"):
        read_header(tmp_path / "labels.jsonl")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"labels\.jsonl: no such label file; run the label stage first"):
        list(read_labels(tmp_path / "labels.jsonl"))


# -- resuming -----------------------------------------------------------------------------------------------


def whole_chunks(whole: bytes, kept: int) -> set[int]:
    """The chunks whose lines are all within the first bytes of a file."""
    lines = whole[:kept].split(b"\n")[:-1][1:]
    there = {json.loads(line)["query_id"] for line in lines}
    return {i for i, chunk in enumerate(CHUNKS) if there.issuperset(chunk)}


def test_b19_a_file_cut_at_any_byte_is_finished_to_the_same_bytes(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    for kept in range(len(whole) + 1):
        path.write_bytes(whole[:kept])
        asked = work(open_store(tmp_path))
        assert set(asked) == {0, 1, 2, 3} - whole_chunks(whole, kept), kept
        assert path.read_bytes() == whole, kept


def test_b19_the_cases_of_a_torn_end(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    accent = whole.rindex("é".encode()) + 1
    cuts = {len(whole) - 20: [3], len(whole) - 1: [3], accent: [3], whole.rindex(b"caf") + 4: [2, 3]}
    for kept, missing in cuts.items():
        path.write_bytes(whole[:kept])
        assert work(open_store(tmp_path)) == missing
        assert path.read_bytes() == whole


@pytest.mark.parametrize("damage", ['{"query_id":"q3","doc_', "\ufffd", "", "[1, 2]", "[" * 100_000])
def test_b19_damage_in_the_middle_is_an_error(written: Path, damage: str) -> None:
    lines = written.read_text("utf-8").splitlines()
    lines[3] = damage
    written.write_text("\n".join(lines) + "\n", "utf-8")
    before = written.read_bytes()
    with pytest.raises(
        InputError, match=r"labels\.jsonl line 4: damaged .*delete the line to have it labelled"
    ):
        open_store(written.parent)
    with pytest.raises(InputError, match=r"labels\.jsonl line 4: damaged"):
        list(read_labels(written))
    assert written.read_bytes() == before


def test_bytes_that_are_no_utf8_are_damage(written: Path) -> None:
    written.write_bytes(written.read_bytes().replace("é".encode(), b"\x9d", 1))
    with pytest.raises(InputError, match=r"line 2: damaged .*0x9d"):
        open_store(written.parent)


def test_a_deleted_line_is_labelled_again(written: Path) -> None:
    lines = written.read_text("utf-8").splitlines(keepends=True)
    del lines[3]  # q3, a chunk of its own
    written.write_text("".join(lines), "utf-8")
    assert work(open_store(written.parent)) == [1]
    labels = {item.query_id: item for item in read_labels(written)}
    assert labels["q3"] == from_record(json.loads(to_line(label("q3"))), "x")
    assert len(labels) == 6


@pytest.mark.parametrize("doubled", [1, 3, 6])
def test_a_query_that_stands_there_twice(written: Path, doubled: int) -> None:
    lines = written.read_text("utf-8").splitlines(keepends=True)
    lines.insert(doubled, lines[doubled])
    written.write_text("".join(lines), "utf-8")
    with pytest.raises(InputError, match=rf"line {doubled + 2}: query .* out of its place or twice"):
        open_store(written.parent)


def test_a_line_missing_within_a_chunk(written: Path) -> None:
    lines = written.read_text("utf-8").splitlines(keepends=True)
    del lines[1]
    written.write_text("".join(lines), "utf-8")
    with pytest.raises(InputError, match=r"line 3: query 'q3' stands there out of its place"):
        open_store(written.parent)


def test_a_query_of_another_candidate_file(written: Path) -> None:
    with pytest.raises(InputError, match="line 2: query 'q1' is not in the candidate file"):
        LabelStore(written, FINGERPRINT, [["x1"]])


@pytest.mark.parametrize(
    ("fingerprint", "message"),
    [
        (FINGERPRINT | {"teacher": "other"}, r"\(teacher: 'tiny' there, 'other' now\)"),
        (FINGERPRINT | {"dtype": "bf16"}, r"\(dtype: None there, 'bf16' now\)"),
        (
            {"teacher": "tiny", "strategy": "run"},
            r"strategy: 'allpairs' there, 'run' now; max_length: 512 there, N",
        ),
    ],
)
def test_another_fingerprint_names_its_fields(
    written: Path, whole: bytes, fingerprint: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=f"made with other settings .*{message}") as error:
        LabelStore(written, fingerprint, CHUNKS)
    assert "redo=label" in str(error.value)
    assert written.read_bytes() == whole


# -- several processes --------------------------------------------------------------------------------------


def test_b47_two_processes_make_the_same_file(tmp_path: Path, whole: bytes) -> None:
    first, second = (open_store(tmp_path, rank, 2) for rank in (0, 1))
    assert (first.pending(), second.pending()) == ([0, 2], [1, 3])
    work(second)
    assert not first.complete()
    work(first)
    assert first.complete()
    first.merge()
    assert [path.name for path in tmp_path.iterdir()] == ["labels.jsonl"]
    assert (tmp_path / "labels.jsonl").read_bytes() == whole


def cuts(size: int) -> Iterator[int]:
    yield from range(0, size, 17)
    yield from (size - 1, size)


def test_a_killed_shard_is_finished_by_any_number_of_processes(tmp_path: Path, whole: bytes) -> None:
    folder = tmp_path / "shards"
    work(open_store(folder, 1, 2))
    shard = (folder / "labels.jsonl.process-1").read_bytes()
    for processes in (1, 2, 3):
        for kept in cuts(len(shard)):
            for file in folder.iterdir():
                file.unlink()
            (folder / "labels.jsonl.process-1").write_bytes(shard[:kept])
            stores = [open_store(folder, rank, processes) for rank in range(processes)]
            for store in stores:
                work(store)
            assert stores[0].complete()
            stores[0].merge()
            assert (folder / "labels.jsonl").read_bytes() == whole, (processes, kept)


def test_one_process_began_and_two_go_on(tmp_path: Path, whole: bytes) -> None:
    store = open_store(tmp_path)
    store.append(0, map(label, CHUNKS[0]))
    first, second = (open_store(tmp_path, rank, 2) for rank in (0, 1))
    assert (first.pending(), second.pending()) == ([2], [1, 3])
    work(first)
    work(second)
    assert first.complete()
    first.merge()
    assert (tmp_path / "labels.jsonl").read_bytes() == whole


def test_waiting_reads_a_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (open_store(tmp_path, rank, 2) for rank in (0, 1))
    work(first)
    parse, read = labels_module.parse_line, list[str]()

    def counted(raw: bytes, where: str) -> dict[str, object]:
        read.append(where)
        return parse(raw, where)

    monkeypatch.setattr(labels_module, "parse_line", counted)
    assert not first.complete()
    seen = len(read)
    for _ in range(5):
        assert not first.complete()
    assert len(read) == seen
    second.append(1, map(label, CHUNKS[1]))
    assert not first.complete()
    assert len(read) == seen + len(CHUNKS[1])
    second.append(3, map(label, CHUNKS[3]))
    assert first.complete()
    assert first.complete()
    assert len(read) == seen + len(CHUNKS[1]) + len(CHUNKS[3])


def test_an_unfinished_chunk_that_is_cut_off_and_written_again(tmp_path: Path) -> None:
    first, second = (open_store(tmp_path, rank, 2) for rank in (0, 1))
    work(second)
    shard = tmp_path / "labels.jsonl.process-0"
    header = shard.read_bytes()
    work(first)
    done = shard.read_bytes()
    for kept in range(len(header), len(done), 7):
        shard.write_bytes(done[:kept])
        waiting = open_store(tmp_path, 1, 2)
        assert not waiting.complete()
        again = open_store(tmp_path, 0, 2)  # cuts the shard back to its last whole chunk
        assert not waiting.complete()
        work(again)
        assert waiting.complete()
        assert shard.read_bytes() == done


def test_a_shard_with_another_fingerprint_is_named(tmp_path: Path) -> None:
    LabelStore(tmp_path / "labels.jsonl", {"teacher": "other"}, CHUNKS, rank=1, processes=2)
    with pytest.raises(
        InputError, match=r"labels\.jsonl\.process-1 was made with other settings \(teacher: 'oth"
    ):
        open_store(tmp_path, 0, 2)


def test_merging_without_shards_changes_nothing(written: Path, whole: bytes) -> None:
    open_store(written.parent).merge()
    assert written.read_bytes() == whole
