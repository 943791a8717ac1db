"""Write docs/benchmarks.md from the lines in docs/benchmarks/*.jsonl: no figure of the page is typed by hand.

    python scripts/benchmarks/write_page.py

Of lines about the same work, model and number format, the last counts; lines of smoke runs are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from measuring import LINES, ROOT, table

PAGE = ROOT / "docs" / "benchmarks.md"
OURS = "instruct_distill"

Line = dict[str, Any]
Rows = Iterable[list[str]]

HEAD = """# Benchmarks

Each script in `scripts/benchmarks/` does the same work with this library and with what one would use
instead, in one process or in turns, and appends a line to `docs/benchmarks/*.jsonl`.
`scripts/benchmarks/write_page.py` makes this page of those lines: of lines about the same work the last
counts.

* Results are compared first: in fp32 the scores of both must be the same, or nothing is timed.
* The systems take turns and medians are given, from texts to results, tokenisation included.
* "Of the matrix rate" is the rate of the operations that the real tokens need, over that of plain matrix
  products of the model's shapes in the same number format, measured between the turns. Padding and logits
  that nobody reads count as nothing.
* "Ratio" is that of the same minutes: how many times as fast this library was.

The cores of the machine were shared with other work: absolute rates are lower than on a free one, and
differ from turn to turn (each is in the lines). Ratios are of turns of the same minutes, and a ratio
within a tenth of 1 means nothing. Newer lines say how busy the machine was (`busy_machine`: processes
that wanted a core) and what the process itself computed (`busy_seconds`).

<!-- not run: it takes an hour, on a machine that does nothing else -->
```bash
INSTRUCT_DISTILL_DATA=FOLDER make benchmarks   # all of them; ARGS=--smoke tries each in its smallest size
```
"""


class Section(NamedTuple):
    """A part of the page.

    Args:
        title: its heading.
        work: the ``work`` of its lines.
        text: what was compared.
        head: the table's columns.
        rows: makes the rows of a line.
        command: what measures it, for lines that do not say so, and where there is none.
    """

    title: str
    work: str
    text: str
    head: list[str]
    rows: Callable[[Line], Rows]
    command: str


def label_rows(line: Line) -> Rows:
    """Pairs of the all-pairs teacher."""
    for each in line["results"]:
        ratio = line["speedup"][each["dtype"]].get(each["system"])
        yield [
            f"{each['dtype']}, {each['system']}",
            f"{each['pairs_per_second']:.2f}",
            f"{each['share']:.0%}",
            f"{ratio:.2f}" if ratio else "",
        ]
    for other, ratio in line["speedup"]["default"].items():
        yield [f"each at its default, {other}", "", "", f"{ratio:.2f}"]


def prefix_rows(line: Line) -> Rows:
    """Pairs with and without shared beginnings."""
    for dtype, each in line["results"].items():
        for kind in ("whole", "shared"):
            ratio = f"{each['speedup']:.2f}" if kind == "whole" else ""
            yield [f"{dtype}, {kind}", f"{each['pairs_per_second'][kind]:.2f}", ratio]


def score_rows(line: Line) -> Rows:
    """Passages of a student, or of the teacher that asks for the query's likelihood."""
    for dtype, result in line["results"].items():
        for system, each in result["systems"].items():
            yield [
                f"{line['model']}, {dtype}, {system}",
                f"{each['passages_per_second']:.2f}",
                f"{each['share']:.0%}",
                "" if system == OURS else f"{line['speedup'][dtype]:.2f}",
            ]
    yield [f"{line['model']}, each at its default", "", "", f"{line['speedup']['default']:.2f}"]


def train_rows(line: Line) -> Rows:
    """Tokens of an optimizer step."""
    for system, each in line["results"].items():
        ours = system == OURS
        yield [
            f"{line['model']}, {line['dtype']}, {system}",
            f"{each['tokens_per_second']:.0f}",
            f"{each['peak_mib']:,}",
            "" if ours else f"{line['speedup']:.2f}",
            "" if ours else f"{line['busy_ratio']:.2f}",
        ]


def bm25_rows(line: Line) -> Rows:
    """Index and search."""
    for system, each in line["systems"].items():
        yield [
            f"{line['documents']:,} documents, {system}",
            f"{median(each['index_seconds']):.0f}",
            f"{median(each['index_busy_seconds']):.0f}",
            "" if system == OURS else f"{1 / each['index_ratio']:.2f}",
            f"{each['queries_per_second']:.1f}",
            "" if system == OURS else f"{each['search_ratio']:.2f}",
        ]
    yield [
        f"{line['documents']:,} documents: {line['search_peak_mib']:.0f} MiB of memory to search, "
        f"{line['index_mib']:.0f} MiB on disk",
        *[""] * 5,
    ]


def evaluation_rows(line: Line) -> Rows:
    """Figures of runs."""
    for system, each in line["results"].items():
        ratio = "" if system == OURS else f"{line['speedup']:.2f}"
        yield [f"{line['tasks']} tasks, {system}", f"{median(each['seconds']):.2f}", ratio]


def recipe_rows(line: Line) -> Rows:
    """Stages."""
    for stage, seconds in line["seconds"].items():
        yield [f"{line['recipe']}, {stage}", f"{seconds:.0f}", f"{seconds / line['wall']:.1%}"]
    yield [f"{line['recipe']}, whole process", f"{line['wall']:.0f}", f"{line['share']:.1%}"]


def gpu_rows(line: Line) -> Rows:
    """Shapes and levers."""
    card = ", ".join(line["environment"].get("gpus", []))
    for shape, content in line["shapes"].items():
        for step, each in content["results"].items():
            yield [
                f"{card}, {shape}, {step}",
                f"{each['per_second']:.1f}" if "per_second" in each else "",
                f"{each['utilisation']:.0%}" if "utilisation" in each else "",
                str(each.get("peak_gib", "")),
                str(each.get("speedup") or ""),
            ]


SECTIONS = [
    Section(
        "Teacher, all pairs",
        "label",
        "A T5 of the shape of T5-base with random weights, pairs of passages of 100 words, beside a plain "
        "loop (batches "
        "of ten in list order, logits of the whole vocabulary) and `llm-rankers` (`allpair`, as it comes). "
        "The work is "
        "counted with the decoder's keys and values of every token, which this library gets around: a "
        "share may pass "
        "100%.",
        ["system", "pairs/s", "of the matrix rate", "ratio"],
        label_rows,
        "python scripts/benchmarks/label_throughput.py --llm-rankers PEERS",
    ),
    Section(
        "Teacher, all pairs, shared beginnings",
        "label-shared-prefix",
        "SmolLM2-135M-Instruct reads what pairs have in common at their beginnings once, or each pair whole.",
        ["system", "pairs/s", "ratio"],
        prefix_rows,
        "python scripts/benchmarks/shared_prefix.py",
    ),
    Section(
        "Teacher, query generation",
        "label-query-generation",
        "How likely is the query after the passage, beside a plain loop (batches of ten, a softmax over "
        "the vocabulary "
        "at every position).",
        ["system", "passages/s", "of the matrix rate", "ratio"],
        score_rows,
        "python scripts/benchmarks/query_generation.py",
    ),
    Section(
        "Scoring by a student",
        "score",
        "`Reranker.score` beside a plain loop (batches of ten in list order, logits of the whole "
        "vocabulary) and, for "
        "MiniLM, beside `CrossEncoder.predict` of sentence-transformers from the same folder.",
        ["system", "passages/s", "of the matrix rate", "ratio"],
        score_rows,
        "python scripts/benchmarks/student_scoring.py",
    ),
    Section(
        "Training",
        "train",
        "An optimizer step (RankNet, AdamW) on lists of eight passages, beside a plain loop with gradient "
        "accumulation. "
        "The second ratio is of the processor's time, which other work on the machine changes less.",
        ["system", "tokens/s", "peak MiB", "ratio", "ratio of processor time"],
        train_rows,
        "python scripts/benchmarks/training_throughput.py",
    ),
    Section(
        "BM25",
        "bm25",
        "Texts drawn from SciFact's term statistics, indexed from text and searched for ten documents, one "
        "query after "
        "another, beside `bm25s` (with the same terms, and with its own tokenizer) and `rank_bm25`.",
        ["system", "index s", "of it computing", "ratio", "queries/s", "ratio"],
        bm25_rows,
        "python scripts/benchmarks/bm25.py --documents 100000",
    ),
    Section(
        "Evaluation",
        "evaluation",
        "nDCG@1, 5 and 10, AP and RR of 50 queries with 100 documents a task, beside `ir_measures`; the "
        "same values. "
        "This library also makes sure that a run is sorted, finite and without repetitions.",
        ["system", "s", "ratio"],
        evaluation_rows,
        "python scripts/benchmarks/evaluation.py",
    ),
    Section(
        "A whole recipe",
        "recipe",
        "What each stage takes of the time from the start of the process to its end.",
        ["stage", "s", "of the wall time"],
        recipe_rows,
        "python scripts/benchmarks/whole_recipe.py recipes/quickstart.yaml",
    ),
    Section(
        "One GPU",
        "gpu",
        "FLAN-T5's shapes with random weights in bf16: labelling, scoring, training and each lever, within "
        "eight "
        "minutes.",
        ["work", "prompts/s", "of the matrix rate", "GiB", "ratio"],
        gpu_rows,
        "python scripts/benchmarks/gpu.py",
    ),
]


def read_lines(folder: Path) -> list[Line]:
    """Every line of every file; of the same work, model, number format and size the last."""
    kept: dict[tuple[str, ...], Line] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for text in file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if line.get("smoke"):
                continue
            kinds = ("work", "model", "dtype", "documents", "recipe")
            kept[tuple(str(line.get(kind)) for kind in kinds)] = line
    return list(kept.values())


def section(part: Section, lines: list[Line]) -> str:
    """A heading, what was compared, the table, and the command of each line."""
    own = [line for line in lines if line["work"] == part.work]
    written = [f"## {part.title}", part.text]
    if not own:
        written.append(f"Not measured yet: `{part.command}`.")
        return "\n\n".join(written)
    written.append(table(part.head, [row for line in own for row in part.rows(line)]))
    measured: dict[str, None] = {}
    for line in own:
        machine = line.get("machine") or line["environment"]
        busy = f", {line['busy_machine']} processes wanted a core" if line.get("busy_machine") else ""
        command = line.get("command", part.command).strip()
        threads = machine.get("threads", 1)  # unknown only where torch, which would use more, was not loaded
        measured[
            f"`{command}` ({line['date']}, {machine['processor']}, {threads} "
            f"thread{'s' if threads != 1 else ''}{busy})"
        ] = None
    written.append("\n".join(f"* {each}" for each in measured))
    return "\n\n".join(written)


def page(lines: list[Line]) -> str:
    """The whole page."""
    return HEAD + "\n" + "\n\n".join(section(part, lines) for part in SECTIONS) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(read_lines(LINES)), encoding="utf-8")
