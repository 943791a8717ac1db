"""Losses side by side: small students learn a big model's ranking of DL 2020 and are tested on DL 2019.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/reproduce/learning_comparison.py --student minilm
    INSTRUCT_DISTILL_DATA=FOLDER python scripts/reproduce/learning_comparison.py --student minilm --choose

The settings are those of the student's recipe. --choose is how they were found: students of one seed are
trained at each rate and measured on DL 2021 while they learn; nothing is tested then. A published ranking
has ranks and no pair probabilities, so RankNet's soft targets have nothing to aim at; its weights by rank
stand in their place.

Each run is a recipe of its own in --runs; stopped and started again, the script goes on.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct_distill.evaluation.table import aligned
from instruct_distill.files import read_json, read_jsonl
from instruct_distill.pipeline.distill import distill
from instruct_distill.recipe import Recipe
from instruct_distill.training.schedule import steps_per_epoch

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
STUDENTS = {"minilm": "trec-dl-minilm.yaml", "smollm2": "trec-dl-from-run.yaml"}
LOSSES: dict[str, Any] = {
    "ranknet": "ranknet",
    "ranknet-by-rank": {"name": "ranknet", "weights": "rank"},
    "lambda_loss": "lambda_loss",
    "listnet": "listnet",
}
METRICS = ("nDCG@1", "nDCG@5", "nDCG@10")
QUERIES = 54
"""Judged queries of DL 2020, which the teacher's run ranks."""


def variant(base: Recipe, name: str, runs: str, seed: int, **training: Any) -> Recipe:
    """Return the student's recipe under a name of its own, with another seed and other training keys."""
    content = base.as_dict()
    return Recipe.from_dict(
        {
            **content,
            "evaluation": [{**task, "zero_shot": False} for task in content["evaluation"]],  # the same in all
            "name": f"{base.name}-{name}",
            "runs": runs,
            "seed": seed,
            "training": {**content["training"], **training},
        }
    )


def dev_of(data: str, lists_per_step: int) -> dict[str, Any]:
    """Return the dev set: DL 2021 with its judgements, measured after every second epoch."""
    task = {
        "collection": f"rankgpt:{data}/trec-dl/candidates/dl21.bm25.json",
        "qrels": f"{data}/trec-dl/qrels.dl21-passage.txt",
        "name": "dl21",
        "candidates": {"method": "given"},
        "depth": 30,
        "metrics": ["nDCG@10"],
    }
    return {"task": task, "every": 2 * steps_per_epoch(QUERIES, lists_per_step)}


def choose(
    base: Recipe, losses: Sequence[str], rates: Sequence[float], epochs: int, runs: str, data: str
) -> str:
    """Train at each rate, and return the dev figures on the way as a table."""
    rows = [["loss", "rate", *(str(epoch) for epoch in range(2, epochs + 1, 2))]]
    for loss in losses:
        for rate in rates:
            recipe = variant(
                base,
                f"choose-{loss}-{rate:g}",
                runs,
                1,
                loss=LOSSES[loss],
                learning_rate=rate,
                epochs=epochs,
                dev=dev_of(data, base.training.lists_per_step),
            )
            distill(recipe, until="train")
            log = read_jsonl(recipe.folder / "training.jsonl")
            measured = [line["dev"]["nDCG@10"] for _, line in log if "dev" in line]
            rows.append([loss, f"{rate:g}", *(f"{value:.4f}" for value in measured)])
    return "\n".join(
        ["nDCG@10 on DL 2021 (BM25's top 30) after every second epoch", *aligned(rows, left=("loss",))]
    )


def compare(base: Recipe, losses: Sequence[str], seeds: Sequence[int], runs: str) -> str:
    """Train and test each loss with each seed, and return means and sample standard deviations as a table."""
    rows = [["system", *METRICS, "tau to teacher", "minutes"]]
    summary: Mapping[str, Any] = {}
    for loss in losses:
        figures, taus, minutes = [], [], []
        for seed in seeds:
            recipe = variant(base, f"{loss}-{seed}", runs, seed, loss=LOSSES[loss])
            summary = distill(recipe).summary
            figures.append(summary["dl19"]["student"])
            trained = read_json(recipe.folder / "train.done.json")["outcome"]
            taus.append(trained["agreement"])
            minutes.append(trained["seconds"] / 60)
        means = [spread([found[metric] for found in figures], 4) for metric in METRICS]
        rows.append([loss, *means, spread(taus, 3), spread(minutes, 1)])
    for system in ("first_stage", "teacher"):
        found = summary["dl19"][system]
        rows.append([system, *(f"{found[metric]:.4f}" for metric in METRICS), "", ""])
    title = f"{base.name}: DL 2019, mean and standard deviation over seeds {', '.join(map(str, seeds))}"
    return "\n".join([title, *aligned(rows, left=("system",))])


def spread(values: Sequence[float], digits: int) -> str:
    """Return mean ± sample standard deviation."""
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{deviation}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--student", choices=STUDENTS, default="minilm", help="whose recipe is used")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES), help="which losses")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="one run a loss and seed")
    parser.add_argument("--runs", default="runs/learning", help="folder of the runs")
    parser.add_argument("--choose", action="store_true", help="measure rates on DL 2021 and test nothing")
    parser.add_argument("--rates", nargs="+", type=float, default=[5e-5, 1e-4, 2e-4], help="with --choose")
    parser.add_argument("--epochs", type=int, default=10, help="with --choose, even")
    asked = parser.parse_args(arguments)
    base = Recipe.load(RECIPES / STUDENTS[asked.student])
    if asked.choose:
        data = os.environ["INSTRUCT_DISTILL_DATA"]
        print(choose(base, asked.losses, asked.rates, asked.epochs, asked.runs, data))
    else:
        print(compare(base, asked.losses, asked.seeds, asked.runs))


if __name__ == "__main__":
    main()
