"""Write docs/scale.md: what sizes beyond one machine's cost, computed from stated assumptions.

    PYTHONPATH=. python scripts/benchmarks/write_scale.py

Operations are counted from the models' shapes, tokens are those of the benchmarks, bytes of labels are
counted by writing one, sizes of an index come from what is stored for each posting. Nothing was measured
on a GPU; the seconds of the paper's table 2 stand beside.
"""

from __future__ import annotations

import random
from itertools import permutations
from typing import NamedTuple

from gpu import SHAPES
from measuring import LINES, ROOT, table
from operations import forward_operations
from transformers import T5Config
from write_page import read_lines

from instruct_distill.labels import to_line
from instruct_distill.records import Comparison, ListLabel

PAGE = ROOT / "docs" / "scale.md"

XXL = {"d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64}
MODELS = {**SHAPES, "FLAN-T5-XXL": XXL}

CANDIDATES = 10
RERANKED = 100
EPOCHS = 3
QUERIES = (10_000, 1_000_000)
PASSAGES = {"8.8M": 8_841_823, "1B": 1_000_000_000}

PEAK = 989e12
SUSTAINED = 0.4
"""The share of the peak that is assumed; a card of one's own is measured by gpu.py."""

TERMS, WORDS = 30, 35
POSTING, ID, BUILD, TOKEN, SCORE = 8, 16, 40, 4, 4
TEXT = 340

PAPER = {
    "FLAN-T5-base": (21.51, 0.12),
    "FLAN-T5-large": (49.19, 1.10),
    "FLAN-T5-XL": (112.12, 1.30),
}
"""Table 2 of the paper: seconds a query over the top 100, all pairs and a student; hardware not stated."""

VRAM = 140
"""GiB of the card that is assumed."""


class Cost(NamedTuple):
    """What a model costs.

    Args:
        parameters: weights.
        pair: operations of one comparison.
        passage: operations of one score.
    """

    parameters: float
    pair: float
    passage: float


def tokens_of(work: str, unit: str) -> float:
    """Tokens of a prompt with passages of 100 words, as a benchmark with T5's tokenizer counted them."""
    line = next(each for each in read_lines(LINES) if each["work"] == work and "T5" in str(each["model"]))
    tokens = line["tokens"] if "tokens" in line else line["results"]["fp32"]["tokens"]
    return float(tokens / line[unit])


PAIR_TOKENS = round(tokens_of("label", "pairs"))
PASSAGE_TOKENS = round(tokens_of("score", "passages"))


def cost(shape: dict[str, int]) -> Cost:
    """Count a FLAN-T5's weights and operations."""
    config = T5Config(**shape, vocab_size=32128, feed_forward_proj="gated-gelu")  # type: ignore[arg-type]
    width, inner = shape["d_model"], shape["num_heads"] * shape["d_kv"]
    layer = 4 * width * inner + 3 * width * shape["d_ff"]
    parameters = shape["num_layers"] * (2 * layer + 4 * width * inner) + 2 * 32128 * width
    pair, passage = forward_operations(config, PAIR_TOKENS, 2), forward_operations(config, PASSAGE_TOKENS, 1)
    return Cost(parameters, pair, passage)


def hours(operations: float) -> float:
    """Hours of one card."""
    return operations / (PEAK * SUSTAINED) / 3600


def label_bytes() -> int:
    """Bytes of a query's line in labels.jsonl, with ids as MS MARCO's: one is written."""
    draw = random.Random(13)
    ids = tuple(str(draw.randrange(10**6, 8_841_823)) for _ in range(CANDIDATES))
    comparisons = tuple(Comparison(i, j, draw.gauss(0, 3)) for i, j in permutations(range(CANDIDATES), 2))
    scores = tuple(float(draw.randrange(2 * CANDIDATES)) for _ in ids)
    return len(to_line(ListLabel("1048585", ids, scores, comparisons)).encode())


def amount(value: float) -> str:
    """Three digits, thousands with commas."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(count: float) -> str:
    """Bytes as people read them."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= factor:
            return f"{amount(count / factor)} {unit}"
    return f"{amount(count / 1e3)} kB"


def models_table() -> str:
    """Operations and rates of each model."""
    rows = []
    for name, shape in MODELS.items():
        each = cost(shape)
        pairs, passages = PAPER.get(name, (None, None))
        rows.append(
            [
                name,
                f"{each.parameters / 1e6:,.0f}M",
                amount(each.pair / 1e9),
                amount(PEAK * SUSTAINED / each.pair),
                amount(RERANKED * (RERANKED - 1) / pairs) if pairs else "",
                amount(each.passage / 1e9),
                amount(PEAK * SUSTAINED / each.passage),
                amount(RERANKED / passages) if passages else "",
            ]
        )
    head = [
        "model",
        "weights",
        "Gflop a pair",
        "pairs/s",
        "paper's",
        "Gflop a passage",
        "passages/s",
        "paper's",
    ]
    return table(head, rows)


def hours_table() -> str:
    """GPU hours of the stages."""
    rows = []
    for name, shape in MODELS.items():
        each = cost(shape)
        for queries in QUERIES:
            prompts = queries * CANDIDATES * (CANDIDATES - 1)
            training = 3 * EPOCHS * queries * CANDIDATES * each.passage
            seconds = PAPER.get(name, (None, None))[0]
            by_paper = prompts / (RERANKED * (RERANKED - 1) / seconds) / 3600 if seconds else None
            rows.append(
                [
                    f"{name}, {queries:,} queries",
                    f"{prompts / 1e6:,.1f}M",
                    amount(hours(prompts * each.pair)),
                    amount(by_paper) if by_paper else "",
                    amount(hours(training)),
                    amount(hours(queries * RERANKED * each.passage)),
                ]
            )
    head = [
        "model and queries",
        "pairs",
        "label",
        "label, paper's rate",
        "train",
        f"rerank {RERANKED} a query",
    ]
    return table(head, rows)


def memory_table() -> str:
    """GPU memory of weights and of training."""
    rows = []
    for name, shape in MODELS.items():
        weights = cost(shape).parameters
        held = 16 * weights / 2**30
        cards = -(-held // (0.75 * VRAM))
        rows.append([name, amount(2 * weights / 2**30), amount(held), f"{cards:.0f}"])
    return table(
        ["model", "GiB to label and score", "GiB to train, activations apart", "cards to train"], rows
    )


def corpus_table() -> str:
    """Disk and memory of BM25."""
    rows = []
    for name, passages in PASSAGES.items():
        rows.append(
            [
                f"{name} passages",
                size(passages * TEXT),
                size(passages * (TERMS * POSTING + ID)),
                size(passages * (TERMS * BUILD + WORDS * TOKEN)),
                size(passages * SCORE),
            ]
        )
    return table(["corpus", "texts", "index", "memory to build", "memory of one search's scores"], rows)


def files_table() -> str:
    """Disk of a run's files."""
    line = label_bytes()
    candidate = len("1048585 Q0 8841822 10 12.345678 bm25\n")
    rows = [
        [
            f"{queries:,} queries",
            size(queries * CANDIDATES * candidate),
            size(queries * line),
            size(queries * RERANKED * candidate),
        ]
        for queries in QUERIES
    ]
    return table(["", "candidates.trec", "labels.jsonl", f"a run of {RERANKED} documents a query"], rows)


def page() -> str:
    """The whole page."""
    return f"""# Scale

What the recipe costs beyond a laptop, on paper. Every figure on this page is computed by
`scripts/benchmarks/write_scale.py` from the assumptions that it names; none was measured on a GPU.
`gpu.py` measures a card (see [Benchmarks](benchmarks.md)), and `instruct-distill plan RECIPE` a recipe on
the device it is started on.

## Assumptions

* Lists and prompts are the paper's: {CANDIDATES} candidates a training query, each pair in both orders
  ({CANDIDATES * (CANDIDATES - 1)} comparisons), {EPOCHS} epochs, a top {RERANKED} to rerank. A comparison
  has {PAIR_TOKENS} tokens (two passages of 100 words of TREC DL 2019, as the benchmarks count them), a
  student's prompt {PASSAGE_TOKENS}.
* A card of the H200's class: {PEAK / 1e12:.0f} Tflop/s of dense bf16 by its data sheet, of which
  {SUSTAINED:.0%} is assumed, and {VRAM} GiB. Hours scale with the inverse of that share. Beside the
  computed rates stand those behind the seconds a query in the paper's table 2, on hardware that it does
  not name. They are far lower: small models do not fill a card, short batches less so, and tokenising may
  take longer than the model. Take the computed hours as a lower bound, and the paper's rate as what a
  plain script reaches.
* Operations are those of matrix products of real tokens; training takes three times a forward pass.
* A passage has {WORDS} indexed words and {TERMS} different terms, {TEXT} bytes of text. bm25s stores
  {POSTING} bytes a posting and sorts {BUILD} a posting and {TOKEN} a word while it builds; {ID} bytes
  hold a document's id.

{models_table()}

## GPU hours

Hours of one card. Labelling is the largest part of a recipe, and grows with the square of the list.

{hours_table()}

A budget of pairs cuts labelling in proportion (see [A budget of pairs](sampled-pairs.md)). With a teacher
that asks about each passage alone, a query costs {CANDIDATES} prompts and not
{CANDIDATES * (CANDIDATES - 1)}.

## GPU memory

Two bytes a weight to ask, sixteen to train whole in one process. A quarter of each card is left to
activations.

{memory_table()}

More than one card to train means ZeRO or FSDP, which spread what is held (see [Launch files](launch.md)),
or LoRA, which trains little.

## Disk and memory of a corpus

{corpus_table()}

## Files of a run

{files_table()}

A label's line has {label_bytes():,} bytes: one with {CANDIDATES * (CANDIDATES - 1)} margins was written
and counted. Labels are read and written a line at a time.

## Where one machine ends

* **Candidates.** 8.8M passages are indexed and searched on one machine. At 1B the index no longer builds
  in its memory, and each query adds up an array over all documents. There BM25 belongs to a search engine
  (Lucene, Anserini, OpenSearch, Vespa), which hands over a TREC run: `candidates:
  {{method: run, file: FILE}}`. From there on a corpus costs what its candidate texts cost.
* **Labels.** 10,000 queries are an afternoon or less of one card up to XL. A million are a hundred times
  that.
* **Training.** XXL needs several cards for the optimizer alone. A million lists take a hundred times as
  long as ten thousand, and are seldom worth it: the paper trains on ten thousand.
* **Use.** A million queries with {RERANKED} passages each are the last column of the hours. Copies of the
  student on several cards share them: `Reranker.from_pretrained(FOLDER, device=["cuda:0", "cuda:1"])`, or
  a server on each.

## The same recipe on many machines

* **Labelling** needs no communication: each process takes its share of fixed chunks and writes a file of
  its own beside `labels.jsonl` in a folder that all see; the main process merges them. What is there is
  never asked again, so processes may come and go. The result does not depend on their number.
  `recipes/launch/multi-node.yaml` starts them; a teacher behind an inference server (see [Teachers behind
  a server](http-teacher.md)) leaves batching and splitting to it.
* **Training** is accelerate's: `multi-gpu.yaml` where a model fits into each card, DeepSpeed's ZeRO-2 as
  in the paper, ZeRO-3 or FSDP where it does not.
* **Evaluation** reads runs, and writes them a query at a time.

## The next bottleneck

None of this was tried at that size. With labels on many cards, it should be what is done once, by the
main process: reading candidate texts from a store (a random read each; a million queries have
{QUERIES[1] * CANDIDATES / 1e6:.0f}M), tokenising (beside computation it must keep up with the fastest
card), and merging label files ({size(QUERIES[1] * label_bytes())} at a million queries, read and written
once). After that, the shared folder: small appends by hundreds of processes, which an object store does
not offer. What to build then is a queue of chunks instead of a folder.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
