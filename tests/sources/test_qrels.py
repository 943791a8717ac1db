from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.sources.qrels import read_qrels

EXPECTED = {"q1": {"IPCC_report,_1992": 2, "d5": 0}, "q2": {"d1": -1}}


@pytest.mark.parametrize(
    "content",
    [
        "q1 0 IPCC_report,_1992 2\nq1 0 d5 0\nq2 0 d1 -1\n",
        "q1 Q0 IPCC_report,_1992 2\nq1 Q0 d5 0\nq2 Q0 d1 -1",
        "q1\t0\tIPCC_report,_1992\t2\r\nq1\t0\td5\t0\r\nq2\t0\td1\t-1\r\n",
        "q1  0   IPCC_report,_1992 2\n\n  q1 0 d5 0  \n\nq2 \t0 d1 -1\n\n",
        "q1\tIPCC_report,_1992\t2\nq1\td5\t0\nq2\td1\t-1\n",
        "query-id\tcorpus-id\tscore\nq1\tIPCC_report,_1992\t2\nq1\td5\t0\nq2\td1\t-1\n",
        "\ufeffquery-id\tcorpus-id\tscore\r\nq1\tIPCC_report,_1992\t+2\r\nq1\td5\t0\r\nq2\td1\t-1\r\n",
        "\ufeffq1\tIPCC_report,_1992\t2\nq1\td5\t0\nq1\td5\t0\nq2\td1\t-1\n",
    ],
    ids=["trec", "Q0", "tabs-crlf", "blanks", "beir", "beir-header", "bom-crlf-header", "bom-repeated"],
)
def test_b49_every_layout_reads_alike(tmp_path: Path, content: str) -> None:
    path = tmp_path / "qrels.txt"
    path.write_bytes(content.encode())
    assert read_qrels(path) == EXPECTED


def test_packed(tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv.gz"
    path.write_bytes(gzip.compress(b"q1\td1\t1\n"))
    assert read_qrels(path) == {"q1": {"d1": 1}}


def test_b51_ids_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("7 0 1E5 1\n007 0 100000 1\n0071 0 null 1\ntrue 0 NA 1\n")
    assert read_qrels(path) == {"7": {"1E5": 1}, "007": {"100000": 1}, "0071": {"null": 1}, "true": {"NA": 1}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q1 0 d1 1\nq1 0 night ferry 1\n", r"qrels.txt line 2: 5 columns; expected 4"),
        ("q1 d1\n", r"line 1: 2 columns; expected 3 .*or 4"),
        ("q1 0 d1 1\n\nq1 d2 1\n", r"line 3: 3 columns; expected 4"),
        ("q1 0 d1 1.0\n", r"line 1: grade '1.0' of query 'q1', document 'd1' is no whole number"),
        ("q1 0 d1 1\nq1 0 d2 0.5\n", r"line 2: grade '0.5'"),
        ("q1 d1 1\nquery-id corpus-id score\n", r"line 2: grade 'score'"),
        ("q1 0 d1 1\nq1 0 d1 2\n", r"line 2: document 'd1' has grade 2 for query 'q1', but grade 1"),
        ("query-id\tcorpus-id\tscore\n", r"no judgements"),
        ("", r"no judgements"),
    ],
)
def test_b46_b49_bad_lines_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_qrels(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file"):
        read_qrels(tmp_path / "nothing.txt")


def test_trec_dl(shared_data: Path) -> None:
    qrels = read_qrels(shared_data / "trec-dl" / "qrels.dl19-passage.txt")
    assert len(qrels) == 43
    assert sum(map(len, qrels.values())) == 9260
    assert {grade for grades in qrels.values() for grade in grades.values()} == {0, 1, 2, 3}
