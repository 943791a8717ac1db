"""What a share of the pairs is worth: agreement with all pairs and nDCG@10 of ``sampled_pairs``.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/sampled_pairs.py --scores FILE

FILE is what ``dl_scores.py`` writes: scores of a real model for the BM25 lists of TREC DL 2019 and 2020. Five
teachers compare the first 10, 20 and 100 documents of these lists:

- ``scores``: margin(i, j) = s_i − s_j of the real model's scores. It never contradicts itself.
- ``0% wrong`` to ``30% wrong``: knows the judgements (documents of one grade stand in an order drawn once a
  list) and answers each prompt, by itself, the wrong way round at that rate. Margins are twice the difference
  of normal scores of the places, a wrong answer being as sure as a right one.

Each is asked by the library's own strategy, with hard choices (``margins: false``) and with margins
(``margins: true``), at four shares of the pairs and at all of them. Kendall τ-b compares with all pairs, same
rule and same answers; nDCG@10 is over all queries, ideal from all judgements. Written are
``docs/sampled-pairs.json`` (all figures), ``docs/sampled-pairs.svg``, and the tables: into their place in
``docs/sampled-pairs.md`` and to standard output. Ten minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist, fmean, pstdev
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instruct_distill.errors import InputError
from instruct_distill.evaluation.measures import per_query
from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.labels import read_labels
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document, ListLabel, Qrels, Query, ScoredDocument
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.statistics import kendall
from instruct_distill.teachers.strategy import Context

ROOT = Path(__file__).resolve().parents[2]
DEPTHS = (10, 20, 100)
SHARES = (0.1, 0.25, 0.5, 0.75)
FLIPS = (0.0, 0.1, 0.2, 0.3)
GAIN = "nDCG@10"
RULES = {"choices": False, "margins": True}
_LOGITS = 2.0

Matrix = npt.NDArray[np.float64]
Teacher = Callable[[ListLabel, int], Matrix]
"""(a list's scores by the real model, seed) → margin of every ordered pair, [n, n]."""


class Figures(NamedTuple):
    """What was found for one teacher, depth, rule and share.

    Args:
        tau: mean Kendall τ-b to all pairs over lists and seeds; None where every list is all ties.
        tau_spread: its standard deviation over lists and seeds.
        gain: mean nDCG@10 over queries and seeds.
        gain_spread: standard deviation over seeds of the mean over queries.
    """

    tau: float | None
    tau_spread: float
    gain: float
    gain_spread: float


class MatrixEngine:
    """Answers with a margin that is known for every ordered pair; document ids are rows."""

    def __init__(self, margins: Matrix) -> None:
        self.prompt: Prompt = named_prompt("pairwise-passage")
        self._margins = margins

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        rows, columns = zip(
            *((int(q.documents[0].doc_id), int(q.documents[1].doc_id)) for q in questions), strict=True
        )
        margins = self._margins[np.array(rows), np.array(columns)]
        return np.stack([margins, np.zeros_like(margins)], axis=1)

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        """Not asked for by a pairwise strategy."""
        raise NotImplementedError

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """Not asked for by a pairwise strategy."""
        raise NotImplementedError


def by_scores(label: ListLabel, seed: int) -> Matrix:
    """Differences of the real model's scores, whatever the seed."""
    scores = np.array(label.scores)
    return scores[:, None] - scores[None, :]  # type: ignore[no-any-return]


def judge(qrels: Qrels, flips: float) -> Teacher:
    """A teacher that knows the judgements and answers some prompts the wrong way round."""

    def margins(label: ListLabel, seed: int) -> Matrix:
        n = len(label.doc_ids)
        order = np.random.default_rng([int(label.query_id), n])
        grades = np.array([max(0, qrels[label.query_id].get(doc_id, 0)) for doc_id in label.doc_ids])
        places = np.empty(n, dtype=int)
        places[np.lexsort((order.random(n), grades))] = np.arange(n)  # 0 is worst
        normal = np.array([NormalDist().inv_cdf((place + 0.5) / n) for place in range(n)])[places]
        answers = np.random.default_rng([int(label.query_id), n, seed, round(100 * flips)])
        signs = np.where(answers.random((n, n)) < flips, -1.0, 1.0)
        return _LOGITS * (normal[:, None] - normal[None, :]) * signs  # type: ignore[no-any-return]

    return margins


def asked(margins: Matrix, query_id: str, share: float, *, soft: bool, seed: int) -> ListLabel:
    """Let the library ask for a share of the pairs and score the documents."""
    parameters = TeacherParameters(
        model="margins", strategy={"name": "sampled_pairs", "share": share, "margins": soft}
    )
    strategy = strategy_of(parameters, Context(qrels=lambda: None, query_ids=list, seed=seed))
    documents = tuple(Document(str(row), "-") for row in range(len(margins)))
    (label,) = label_chunk(strategy, MatrixEngine(margins), [CandidateTexts(Query(query_id, "-"), documents)])
    return label


def study(
    lists: Sequence[ListLabel], qrels: Qrels, teacher: Teacher, *, depth: int, soft: bool, seeds: int
) -> dict[float, Figures]:
    """Measure every share for one teacher; the last share, 1, is all pairs."""
    taus: dict[float, list[float]] = {share: [] for share in (*SHARES, 1.0)}
    gains: dict[float, list[float]] = {share: [] for share in (*SHARES, 1.0)}
    short = [ListLabel(each.query_id, each.doc_ids[:depth], each.scores[:depth]) for each in lists]
    for seed in range(seeds):
        runs: dict[float, dict[str, list[ScoredDocument]]] = {share: {} for share in (*SHARES, 1.0)}
        for label in short:
            margins = teacher(label, seed)
            every = asked(margins, label.query_id, 1.0, soft=soft, seed=seed)
            for share in (*SHARES, 1.0):
                found = every if share == 1.0 else asked(margins, label.query_id, share, soft=soft, seed=seed)
                tau = kendall(found.scores, every.scores)
                if tau is not None:
                    taus[share].append(tau)
                order = sorted(range(len(label.doc_ids)), key=lambda row: (-found.scores[row], row))
                runs[share][label.query_id] = [
                    ScoredDocument(label.doc_ids[row], found.scores[row]) for row in order
                ]
        for share, run in runs.items():
            gains[share].append(fmean(values[GAIN] for values in per_query(qrels, run, [GAIN]).values()))
    return {
        share: Figures(
            fmean(taus[share]) if taus[share] else None,
            pstdev(taus[share]) if taus[share] else 0.0,
            fmean(gains[share]),
            pstdev(gains[share]),
        )
        for share in taus
    }


Results = dict[tuple[int, str, str], dict[float, Figures]]
"""(depth, teacher, rule) → share → figures."""


def measure(lists: Sequence[ListLabel], qrels: Qrels, *, seeds: int, depths: Sequence[int]) -> Results:
    """Measure all teachers, depths and rules."""
    judged = [each for each in lists if any(grade > 0 for grade in qrels.get(each.query_id, {}).values())]
    teachers: dict[str, Teacher] = {"scores": by_scores}
    teachers |= {f"{flips:.0%} wrong": judge(qrels, flips) for flips in FLIPS}
    results: Results = {}
    for depth in depths:
        for name, teacher in teachers.items():
            for rule, soft in RULES.items():
                results[depth, name, rule] = study(
                    judged, qrels, teacher, depth=depth, soft=soft, seeds=seeds
                )
                print(f"n = {depth}: {name}, {rule}", file=sys.stderr, flush=True)
    return results


# -- table, file and plot -----------------------------------------------------------------------------------


def tables(results: Results) -> str:
    """Two markdown tables, Kendall τ and nDCG@10: a row for each depth, teacher and rule."""
    lines = []
    for title in ("Kendall τ-b to all pairs", GAIN):
        shares = SHARES if title != GAIN else (*SHARES, 1.0)
        heads = ["n", "teacher", "counted", *(f"{share:.0%}" for share in shares)]
        lines += [f"{title}:", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for (depth, teacher, rule), found in results.items():
            cells = [_cell(found[share], gain=title == GAIN) for share in shares]
            lines.append(f"| {' | '.join([str(depth), teacher, rule, *cells])} |")
        lines.append("")
    return "\n".join(lines)


def with_tables(page: str, text: str) -> str:
    """Return a page with the tables between its two marks."""
    before, begin, rest = page.partition("<!-- tables -->\n")
    _, end, after = rest.partition("<!-- end of tables -->\n")
    return f"{before}{begin}\n{text}{end}{after}"


def _cell(figures: Figures, *, gain: bool) -> str:
    if gain:
        return f"{figures.gain:.3f} ± {figures.gain_spread:.3f}"
    return "–" if figures.tau is None else f"{figures.tau:.2f} ± {figures.tau_spread:.2f}"


def record(results: Results, about: dict[str, Any]) -> dict[str, Any]:
    """Return everything as JSON values, with what it was made from."""
    rows = [
        {
            "n": depth,
            "teacher": teacher,
            "counted": rule,
            "share": share,
            **{key: None if value is None else round(value, 4) for key, value in values._asdict().items()},
        }
        for (depth, teacher, rule), found in results.items()
        for share, values in found.items()
    ]
    return {**about, "figures": rows}


def plot(results: Results, path: Path) -> None:
    """Draw a panel for each depth (columns), measure and rule (rows).

    Colours are those of Okabe and Ito, which the colour-blind can tell apart; marks and lines differ, too.
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = path.name  # the same figures give the same file
    depths = list(dict.fromkeys(depth for depth, _, _ in results))
    teachers = list(dict.fromkeys(teacher for _, teacher, _ in results))
    looks = list(
        zip(
            ("#000000", "#0072B2", "#009E73", "#E69F00", "#D55E00"),
            ("o", "s", "^", "D", "v"),
            ("-", "-", "--", "-.", ":"),
            strict=True,
        )
    )
    rows = [(gain, rule) for gain in (False, True) for rule in RULES]
    figure, panels = pyplot.subplots(
        len(rows), len(depths), figsize=(9.5, 11), sharex=True, sharey="row", squeeze=False
    )
    for row, (gain, rule) in enumerate(rows):
        for column, depth in enumerate(depths):
            panel = panels[row][column]
            for teacher, (colour, mark, line) in zip(teachers, looks, strict=True):
                found = results[depth, teacher, rule]
                values = [
                    (f.gain if gain else f.tau if f.tau is not None else math.nan) for f in found.values()
                ]
                panel.plot(
                    [100 * share for share in found],
                    values,
                    color=colour,
                    marker=mark,
                    linestyle=line,
                    label=teacher,
                    markersize=4,
                    linewidth=1.4,
                )
            panel.grid(color="0.85", linewidth=0.6)
            panel.set_xticks([10, 25, 50, 75, 100])
            if row == 0:
                panel.set_title(f"n = {depth}", fontsize=10)
            if row == len(rows) - 1:
                panel.set_xlabel("pairs asked (%)")
        panels[row][0].set_ylabel(f"{GAIN if gain else 'Kendall τ to all pairs'}\n({rule})")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=len(names), frameon=False)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--depths", type=int, nargs="+", default=list(DEPTHS))
    parser.add_argument("--out", type=Path, default=ROOT / "docs", metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    data = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not data:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl")
    try:
        lists = list(read_labels(chosen.scores))
        qrels = {
            query_id: judgements
            for year in ("19", "20")
            for query_id, judgements in read_qrels(f"{data}/trec-dl/qrels.dl{year}-passage.txt").items()
        }
    except InputError as error:
        parser.error(str(error))
    results = measure(lists, qrels, seeds=chosen.seeds, depths=chosen.depths)
    command = " ".join(
        ["python scripts/benchmarks/sampled_pairs.py --scores FILE", f"--seeds {chosen.seeds}"]
    )
    about = {"command": command, "lists": len(lists), "seeds": chosen.seeds}
    chosen.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record(results, about), ensure_ascii=False, indent=1)
    (chosen.out / "sampled-pairs.json").write_text(text + "\n", encoding="utf-8")
    plot(results, chosen.out / "sampled-pairs.svg")
    print(tables(results))
    page = chosen.out / "sampled-pairs.md"
    if page.exists():
        page.write_text(with_tables(page.read_text(encoding="utf-8"), tables(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
