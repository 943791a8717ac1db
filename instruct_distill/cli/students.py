"""A student at work: ``rank`` and ``publish``."""

from __future__ import annotations

from typing import Annotated

import typer

from instruct_distill.errors import InputError

app = typer.Typer()

Device = Annotated[
    str | None,
    typer.Option("--device", help="cpu, cuda, cuda:0,cuda:1 for a copy on each; chosen if left out."),
]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, bf16 or fp32.")]


@app.command()
def rank(
    model: Annotated[str, typer.Argument(help="A student's folder or hub id.")],
    query: Annotated[
        str | None, typer.Option("--query", help="One query, for --documents a line each.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Queries, JSONL or TSV, for --documents and --run.")
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option(
            "--documents", help="One document a line (- for stdin), or with --queries JSONL or TSV with ids."
        ),
    ] = None,
    run_file: Annotated[
        str | None, typer.Option("--run", help="The candidates of each query, a TREC run.")
    ] = None,
    requests: Annotated[
        str | None,
        typer.Option(
            "--requests",
            help='JSONL (- for stdin) of {"query": "...", "documents": ["...", ...]}; JSONL comes back.',
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="Where it goes; stdout if left out.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="trec or jsonl, for --run; trec if left out.")
    ] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="How many to keep; all if left out.")] = None,
    long_documents: Annotated[
        str, typer.Option("--long-documents", help="first: their beginning; max: their best window.")
    ] = "first",
    device: Device = None,
    dtype: Dtype = "auto",
    probability: Annotated[
        bool, typer.Option("--probability", help="With JSONL: the chance to beat a random candidate, too.")
    ] = False,
) -> None:
    """Rank one query's lines, a TREC run, or JSONL requests."""
    from instruct_distill.files import write_whole
    from instruct_distill.ranking_files import Choices, check_files, rank_lines, rank_requests, rank_run
    from instruct_distill.reranker import Reranker

    given = [
        name for name, value in (("--query", query), ("--run", run_file), ("--requests", requests)) if value
    ]
    if len(given) != 1:
        raise InputError(
            "rank takes one of: --query and --documents; --queries, --documents and --run; --requests. "
            f"Given: {', '.join(given) or 'none of them'}"
        )
    if (query or run_file) and documents is None:
        raise InputError(f"{given[0]} needs --documents")
    if run_file and queries is None:
        raise InputError("--run needs --queries")
    if form not in (None, "trec", "jsonl") or (form and not run_file):
        raise InputError(f"--format {form}: trec or jsonl, and only with --run")
    if long_documents not in ("first", "max"):
        raise InputError(f"--long-documents {long_documents}: first or max")
    check_files(documents, queries, run_file, requests)
    reranker = Reranker.from_pretrained(model, device=_devices(device), dtype=dtype)
    choices = Choices(top_k, long_documents, probability)  # type: ignore[arg-type]
    if query is not None and documents is not None:
        found = rank_lines(reranker, query, documents, choices)
    elif run_file and queries and documents:
        found = rank_run(reranker, queries, documents, run_file, form or "trec", choices)
    else:
        assert requests is not None
        found = rank_requests(reranker, requests, choices)
    if output is None:
        for line in found:
            typer.echo(line)
        return
    with write_whole(output) as stream:
        for line in found:
            stream.write(line + "\n")


@app.command()
def publish(
    student: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or a student's.")],
    to: Annotated[str, typer.Option("--to", metavar="ORG/NAME", help="The repository on the hub.")],
    public: Annotated[bool, typer.Option("--public", help="A repository that everybody can see.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files that would be sent, and send nothing.")
    ] = False,
    base_model: Annotated[
        str | None,
        typer.Option("--base-model", help="Hub id of the base model, if the student's is a local folder."),
    ] = None,
    license: Annotated[
        str | None, typer.Option("--license", help="Its licence, as the hub calls it: apache-2.0, mit, ...")
    ] = None,
) -> None:
    """Put a student with its model card on the Hugging Face hub, private unless told otherwise."""
    from instruct_distill.hub import publish as publish_student

    found = publish_student(
        student, to, private=not public, dry_run=dry_run, base_model=base_model, license=license
    )
    for name, size in found.files.items():
        typer.echo(f"{size:>14,}  {name}")
    if found.url is None:
        typer.echo(
            f"dry run: nothing was sent; a new {to} would be {'private' if found.private else 'public'}, "
            "a card that is there would keep its text"
        )
    else:
        typer.echo(found.url)


@app.command()
def export(
    student: Annotated[str, typer.Argument(metavar="STUDENT", help="A student's folder.")],
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Where to; it must not be there yet.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit weights: smaller, and with other scores.")
    ] = False,
) -> None:
    """Write a student as ONNX, which from_pretrained, rank, evaluate and serve load like any other."""
    from instruct_distill.exporting import export_onnx

    found = export_onnx(student, to, int8=int8)
    typer.echo(
        f"{found.folder}: {found.megabytes:.0f} MB, scores within {found.difference:.2g} of the original's"
    )


@app.command()
def serve(
    model: Annotated[str, typer.Argument(help="A student's folder or hub id.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 for a free one.")] = 8000,
    scores: Annotated[str, typer.Option("--scores", help="probability (0 to 1) or logit.")] = "probability",
    long_documents: Annotated[
        str, typer.Option("--long-documents", help="first: their beginning; max: their best window.")
    ] = "first",
    max_documents: Annotated[int, typer.Option("--max-documents", help="Documents of a request.")] = 1000,
    pairs_per_batch: Annotated[
        int, typer.Option("--pairs-per-batch", help="Pairs that are scored together.")
    ] = 64,
    batch_wait_ms: Annotated[
        float, typer.Option("--batch-wait-ms", help="How long a request waits to share its batch.")
    ] = 4.0,
    queue_pairs: Annotated[
        int, typer.Option("--queue-pairs", help="Pairs that may wait; more are answered with 429.")
    ] = 4096,
    device: Device = None,
    dtype: Dtype = "auto",
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds of a request; then 504.")] = 60.0,
) -> None:
    """Serve a reranker over HTTP, as Cohere's and Jina's clients expect it.

    API keys are read from INSTRUCT_DISTILL_API_KEYS, separated by commas; without it everybody may ask.
    """
    from pydantic import TypeAdapter, ValidationError

    from instruct_distill.reranker import Reranker

    try:
        from instruct_distill.serving.serve import serve as serve_reranker
        from instruct_distill.serving.settings import ServerSettings
    except ModuleNotFoundError as error:
        raise InputError(f"the server needs {error.name}: pip install 'instruct-distill[serve]'") from None
    try:
        settings = TypeAdapter(ServerSettings).validate_python(
            {
                "scores": scores,
                "long_documents": long_documents,
                "max_documents": max_documents,
                "pairs_per_batch": pairs_per_batch,
                "batch_wait_ms": batch_wait_ms,
                "queue_pairs": queue_pairs,
                "timeout_seconds": timeout,
            }
        )
    except ValidationError as error:
        problems = [f"{detail['loc'][0]}: {detail['msg']}" for detail in error.errors()]
        raise InputError("; ".join(problems)) from None
    reranker = Reranker.from_pretrained(model, device=_devices(device), dtype=dtype)
    serve_reranker(reranker, settings, host=host, port=port)


def _devices(given: str | None) -> str | list[str] | None:
    names = [name.strip() for name in given.split(",")] if given else []
    return names if len(names) > 1 else given
