"""The model card: what a student is, how to use it, what it was made from and how well it ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from instruct_distill.card_update import mark, updated_card
from instruct_distill.card_usage import usage
from instruct_distill.evaluation.summary import META
from instruct_distill.files import write_whole
from instruct_distill.models.weights import describe
from instruct_distill.public_record import is_local_model, without_paths
from instruct_distill.student_folder import StudentRecord, read_record

CARD = "README.md"
PAPER = "2311.01555"

_SYSTEMS = {
    "first_stage": "first stage",
    "zero_shot": "base model, untrained",
    "teacher": "teacher",
    "student": "**this model**",
}
_CITATION = f"""```bibtex
@article{{sun2023instruction,
  title   = {{Instruction Distillation Makes Large Language Models Efficient Zero-shot Rankers}},
  author  = {{Sun, Weiwei and Chen, Zheng and Ma, Xinyu and Yan, Lingyong and Wang, Shuaiqiang and
             Ren, Pengjie and Chen, Zhumin and Yin, Dawei and Ren, Zhaochun}},
  journal = {{arXiv preprint arXiv:{PAPER}}},
  year    = {{2023}}
}}
```"""


def model_card(
    student: Path,
    *,
    repo_id: str | None = None,
    base_model: str | None = None,
    summary: Mapping[str, Any] | None = None,
    license: str | None = None,
) -> str:
    """Return the card of a student, metadata included; the same for the same files.

    Args:
        student: the student's folder.
        repo_id: where it is, or will be, on the hub.
        base_model: the hub id of the base model, if the record names a local folder.
        summary: the content of the run's ``summary.json``, if it was evaluated.
        license: the hub's name of a licence, such as ``apache-2.0``.

    Raises:
        InputError: the folder has no usable record, or no tokenizer.
    """
    record = read_record(student)
    on_hub = base_model is not None or not is_local_model(record.base_model, record.base_revision)
    record = without_paths(record, base_model=base_model)
    repo_id = repo_id or f"ORG/{record.training.get('recipe', 'NAME')}"
    name = repo_id.split("/")[-1]
    results = _results(summary or {})
    data = ModelCardData(
        base_model=record.base_model if on_hub and not record.base_model.startswith("pypi:") else None,
        eval_results=results or None,
        library_name="peft" if record.weights == "adapter" else "transformers",
        license=license,
        model_name=name if results else None,
        pipeline_tag="text-ranking",
        tags=["reranker", "instruction-distillation", "instruct-distill", f"arxiv:{PAPER}"],
    )
    parts = [
        f"# {name}",
        _what(record),
        f"## Use\n\n{usage(student, repo_id, record)}",
        f"## What it was made from\n\n{_made_from(record)}",
        f"## Prompt\n\n{_prompt(record)}",
        *([f"## Results\n\n{_tables(summary)}"] if summary and results else []),
        *([f"## Contamination\n\n{_contamination(summary)}"] if summary and results else []),
        f"## Limits\n\n{_limits(record, bool(results))}",
        f"## Licence\n\n{_licence(license)}",
        f"## Citation\n\n{_CITATION}",
    ]
    text = "\n" + "\n\n".join(parts) + "\n"
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n{text}{mark(text)}"))


def write_card(student: Path, summary: Mapping[str, Any] | None = None) -> None:
    """Write a student's card into its folder; the text of a card that somebody changed is kept.

    Raises:
        InputError: the folder has no usable record or no tokenizer, or its card's metadata is not YAML.
    """
    file = student / CARD
    existing = file.read_bytes().decode("utf-8-sig") if file.exists() else None
    card = updated_card(existing, model_card(student, summary=summary))
    with write_whole(file, "wb") as stream:
        stream.write(card.encode("utf-8"))


def _what(record: StudentRecord) -> str:
    teacher = record.training.get("teacher") or {}
    kind = teacher.get("strategy")
    if kind == "qrels":
        source = "relevance judgements"
    elif kind in ("run", "permutations"):
        source = f"a ranking that existed, {_teacher(teacher)}"
    else:
        source = f"the ranking of a teacher, {_teacher(teacher)}, without human judgements"
    adapter = (
        f" The files are a LoRA adapter, which is loaded with its base model, `{record.base_model}`."
        if record.weights == "adapter"
        else ""
    )
    return (
        "A pointwise reranker: it gives a query and a passage one score (a logit, higher is more relevant) "
        f"by one call to its {record.family} model. It was distilled with "
        f"[Instruction Distillation](https://arxiv.org/abs/{PAPER}) from {source}.{adapter}"
    )


def _teacher(teacher: Mapping[str, Any]) -> str:
    return f"`{describe(str(teacher.get('teacher', 'unknown')))}`"


def _made_from(record: StudentRecord) -> str:
    training = record.training
    teacher = training.get("teacher") or {}
    statistics = training.get("label_statistics") or {}
    rows = [
        ("base model", f"`{record.base_model}`, {_revision(record.base_revision)}"),
        ("weights", f"{record.family}, {record.dtype}, safetensors"),
        ("teacher", f"{_teacher(teacher)}, {_revision(teacher.get('revision'))}" if teacher else None),
        ("teacher strategy", teacher.get("strategy")),
        ("teacher prompt", (teacher.get("prompt") or {}).get("name")),
        ("training collection", training.get("collection")),
        ("training queries", training.get("queries")),
        ("candidates labelled", statistics.get("documents")),
        ("comparisons by the teacher", statistics.get("comparisons")),
        ("of them inconsistent in the two orders", _share(statistics.get("inconsistent"))),
        ("loss", training.get("loss")),
        ("epochs", training.get("epochs")),
        ("learning rate", training.get("learning_rate")),
        ("written by", f"instruct_distill {record.library_version}"),
    ]
    lines = [f"| {what} | {_cell(value)} |" for what, value in rows if value is not None]
    return "\n".join(["| | |", "|---|---|", *lines])


def _revision(revision: Any) -> str:
    """A commit, or the digest that stands in its place for what has none."""
    return f"{'revision' if len(str(revision)) == 40 else 'digest'} `{revision}`"


def _prompt(record: StudentRecord) -> str:
    words = f", passages to {record.document_words} words" if record.document_words else ""
    if record.score == "head":
        return (
            "None: query and passage go in as a pair, in the tokenizer's own form, and the score is the "
            f"head's output. Pairs are cut to {record.max_length} tokens{words}."
        )
    rule = {
        "yes_logit": f"the logit of `{record.prompt.answers[0]}`",
        "yes_minus_no": " minus ".join(f"the logit of `{answer}`" for answer in record.prompt.answers[:2]),
    }[record.score]
    return (
        f"`{record.prompt.name}`; the score is {rule}. Prompts are cut to {record.max_length} tokens{words}. "
        "Another prompt gives noise.\n\n"
        f"````text\n{record.prompt.template}\n````"
    )


def _results(summary: Mapping[str, Any]) -> list[EvalResult]:
    return [
        EvalResult(
            task_type="text-ranking",
            task_name="Reranking",
            dataset_type=task,
            dataset_name=task,
            metric_type=metric.lower(),
            metric_name=metric,
            metric_value=round(value, 4),
        )
        for task, systems in summary.items()
        if task != META
        for metric, value in systems.get("student", {}).items()
    ]


def _tables(summary: Mapping[str, Any]) -> str:
    parts = []
    for task, systems in summary.items():
        if task == META or "student" not in systems:
            continue
        metrics = list(systems["student"])
        about = summary.get(META, {}).get("tasks", {}).get(task, {})
        rows = [f"| {_cell(task)} | {' | '.join(metrics)} |", f"|---|{'---:|' * len(metrics)}"]
        for system, means in systems.items():
            rows.append(_row(_SYSTEMS.get(system, system), means, metrics))
        if expected := about.get("random_order"):
            rows.append(_row("random order, in closed form", expected, metrics))
        ceiling = about.get("recall_ceiling")
        if ceiling:
            rows.append(_row("best order of these candidates", ceiling, metrics))
        notes = "".join(f"\n\n{note[0].upper()}{note[1:]}." for note in about.get("notes", ()))
        parts.append("\n".join(rows) + "\n\n" + _reading(about, metrics[-1]) + notes)
    return "\n\n".join(parts)


def _row(name: str, means: Mapping[str, float], metrics: list[str]) -> str:
    values = (f"{means[metric]:.4f}" if metric in means else "" for metric in metrics)
    return f"| {name} | {' | '.join(values)} |"


def _reading(about: Mapping[str, Any], metric: str) -> str:
    """How many queries, and the difference to what the student started from and reordered."""
    sentences = [
        f"Means over {about.get('queries', 'the')} judged queries, all systems on the same candidates."
    ]
    differences = about.get("significance", {}).get("student", {})
    for earlier in ("first_stage", "zero_shot"):
        found = differences.get(earlier, {}).get(metric)
        if found:
            sentences.append(
                f"{metric} against the {_SYSTEMS[earlier]}: {found['difference']:+.4f} "
                f"(95% interval {found['low']:+.4f} to {found['high']:+.4f})."
            )
    return " ".join(sentences)


def _contamination(summary: Mapping[str, Any]) -> str:
    lines = []
    for task, found in summary.get(META, {}).get("contamination", {}).items():
        queries, documents = found["queries"]["found"], found["documents"]
        others = documents["found_without_same_document"]
        compared = found["compared"]
        line = (
            f"- {task}: {queries} of {compared['test_queries']} test queries and {others} test passages "
            f"(besides {documents['same_document']['count']} that are candidates in both) were found among "
            f"{compared['training_queries']} training queries and {compared['training_documents']} training "
            "passages, by equal text or long shared spans."
        )
        left = found["without_found_queries"]
        student = left["systems"].get("student", {})
        if queries and student:
            metric = list(student)[-1]
            value = student[metric]["left"]
            figure = "no query is left" if value is None else f"{metric} is {value:.4f}"
            line += f" Without these queries {figure}."
        lines.append(line)
    unknown = "What the base model and the teacher had seen before is not known."
    return "\n".join(
        [*lines, "", unknown] if lines else ["Training and test data were not compared.", "", unknown]
    )


def _limits(record: StudentRecord, evaluated: bool) -> str:
    words = f"{record.max_length} tokens of prompt"
    if record.document_words:
        words += f" and {record.document_words} words of a passage"
    lines = [
        f"- It sees at most {words}; the rest of a passage is cut off.",
        "- Scores order the passages of one query. They are no probabilities, and those of different queries "
        "do not compare.",
        "- It learned its teacher's order, errors and preferences included, on the queries named above; "
        "other languages and kinds of text were not tested unless they stand under Results.",
        "- It reorders what a first stage found and cannot find anything itself.",
    ]
    if not evaluated:
        lines.append("- No results are given: measure it on your own task before you rely on it.")
    return "\n".join(lines)


def _licence(license: str | None) -> str:
    if license is None:
        return "Not stated here. The licence of the base model and the terms of the teacher apply."
    return f"{license}; the licence of the base model and the terms of the teacher apply, too."


def _share(value: Any) -> str | None:
    return f"{100 * value:.1f}%" if isinstance(value, (int, float)) else None


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
