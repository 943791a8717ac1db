"""Every strategy that asks a model, through the label stage: counts, and a killed run that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruct_distill.labels import read_header, read_labels
from instruct_distill.pipeline.distill import distill
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.recipe import Recipe
from instruct_distill.teachers.labelling import strategy_of

ROOT = Path(__file__).resolve().parents[2]

STRATEGIES = {
    "sampled_pairs": "{name: sampled_pairs, share: 0.5}",
    "heapsort": "{name: heapsort, k: 3}",
    "bubblesort": "{name: bubblesort, k: 2}",
    "setwise": "{name: setwise, k: 2, set_size: 3, rotate: true}",
    "listwise": "{name: listwise, window: 3, stride: 1}",
}
PROMPTS = {"setwise": "setwise-passage", "listwise": "listwise-passage"}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_label_stage(name: str, tiny_t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_TINY_T5", str(tiny_t5))
    recipe = Recipe.load(
        ROOT / "recipes" / "tiny.yaml",
        [
            f"runs={tmp_path}",
            f"collection=beir:{ROOT}/data/example/beir",
            "evaluation=[]",
            f"teacher.strategy={STRATEGIES[name]}",
            f"teacher.prompt={PROMPTS.get(name, 'pairwise-passage')}",
            "teacher.prompts_per_chunk=12",
        ],
    )
    distill(recipe, until="label")
    inputs = Inputs(recipe)
    strategy = strategy_of(recipe.teacher, inputs.context())
    path = recipe.folder / "labels.jsonl"
    header = read_header(path)
    assert (header["strategy"], header["strategy_parameters"]) == (name, strategy.settings())
    labels = list(read_labels(path))
    assert [label.query_id for label in labels] == [item.query.query_id for item in inputs.lists()]
    for label in labels:
        n = len(label.doc_ids)
        if name in ("heapsort", "bubblesort"):
            assert len(label.comparisons) <= strategy.prompts(n)
        if name == "sampled_pairs":
            assert len(label.comparisons) == strategy.prompts(n)
    whole = path.read_bytes()
    (recipe.folder / "label.done.json").unlink()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    distill(recipe, until="label")
    assert path.read_bytes() == whole
