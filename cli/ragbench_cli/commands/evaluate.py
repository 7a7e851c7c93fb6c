"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ragbench_cli import console
from ragbench_cli.exit_codes import ExitCode
from ragbench_cli.options import JsonOption

if TYPE_CHECKING:
    from ragbench.evaluation.rag_stages import RAG
    from ragbench.records.reports import Report

__all__ = ["command", "json_object"]


def command(
    dataset: Annotated[
        str,
        typer.Argument(
            help="File or folder with cases, '-' for standard input, 'hf:OWNER/NAME' for the hub. "
            "See: ragbench show formats.",
            show_default=False,
        ),
    ],
    rag: Annotated[
        str | None,
        typer.Option(
            help="Your RAG: package.module:attr (a class, a factory or an instance), file.py:attr "
            "or an http(s) address. Without it, the baseline RAG over the dataset's own corpus.",
            show_default=False,
        ),
    ] = None,
    rag_args: Annotated[
        str | None,
        typer.Option(help="Arguments for the class or factory, as JSON.", show_default=False),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Documents for the baseline RAG, if not those beside the cases.",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            "-m",
            help="Metrics by name, separated by commas. See: ragbench show metrics.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the run. By default one under reports/ that this command always "
            "arrives at again.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Take only the first N cases.", show_default=False)
    ] = None,
    sample: Annotated[
        int | None, typer.Option(help="Draw N cases at random.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    top_k: Annotated[
        int | None,
        typer.Option(
            help="How many contexts to ask for; the RAG decides when not given.",
            min=1,
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Queries a batch call.", min=1)] = 32,
    concurrency: Annotated[
        int, typer.Option(help="Calls in flight; more than 1 needs a RAG that allows it.", min=1)
    ] = 1,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds allowed for each query.", show_default=False),
    ] = None,
    matching: Annotated[
        str,
        typer.Option(
            help="How retrieved chunks are matched with the gold: auto, id, document_id or text."
        ),
    ] = "auto",
    format: Annotated[
        str | None,
        typer.Option(help="The dataset's format, if not to be recognised.", show_default=False),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            help="TARGET=SOURCE: where a field of the cases is found; repeatable.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over instead of continuing.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Call again what failed in an earlier run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no hints.")] = False,
    json: JsonOption = False,
) -> None:
    """Evaluate a RAG on a dataset: ask it every question, score what it says, write a report.

    The same command again continues an interrupted run.

    Examples:
    \b
      ragbench eval datasets/pellorin
      ragbench eval cases.jsonl --rag my_module:MyRAG --metrics recall@5,nDCG@10,token_f1
      ragbench eval squad.json --rag http://localhost:8000 --limit 100 --out run
    """
    from ragbench.data.read import read_cases
    from ragbench.evaluation.evaluate import evaluate
    from ragbench.evaluation.selection import Selection
    from ragbench.evaluation.stage import Limits
    from ragbench.reports.write import write_reports
    from ragbench.scoring.matching import Matching
    from ragbench.scoring.registry import default_metrics, parse_metrics

    chosen = default_metrics() if metrics is None else parse_metrics(metrics)
    selection = Selection(limit=limit, sample=sample, seed=seed)
    how = _one_of(matching, [mode.value for mode in Matching], "--matching")
    arguments = json_object(rag_args, "--rag-args")
    system, description, name = _load(rag, arguments, dataset, corpus, format)
    folder = out or Path("reports") / _default_name(dataset, name, description, selection, top_k)
    with console.stop_on_signal() as stopped, console.progress(shown=not (quiet or json)) as bars:
        report = evaluate(
            read_cases(dataset, format=format, fields=_mapping(field)),
            system,
            out=folder,
            metrics=chosen,
            name=_dataset_name(dataset),
            source=dataset,
            rag_name=name,
            rag_description=description,
            top_k=top_k,
            selection=selection,
            limits=Limits(batch_size=batch_size, concurrency=concurrency, timeout=timeout),
            matching=Matching(how),
            fresh=fresh,
            retry_failed=retry_failed,
            stopped=stopped,
            advance=bars,
        )
    write_reports(report, folder)
    _show(report, folder, as_json=json, quiet=quiet)


def _load(
    spec: str | None,
    arguments: dict[str, Any],
    dataset: str,
    corpus: str | None,
    format: str | None,
) -> tuple[RAG, dict[str, Any], str]:
    """The RAG to ask, what distinguishes it, and its name."""
    from ragbench.interface.identity import describe_rag

    if spec is None:
        from ragbench.pipeline import BaselineRAG

        baseline = BaselineRAG.from_corpus(corpus or dataset, **arguments)
        return baseline, dict(describe_rag(baseline, "baseline", arguments)), "baseline"
    from ragbench.errors import ConfigError
    from ragbench.interface.load import load_rag

    if corpus is not None:
        raise ConfigError("--corpus is for the baseline RAG: leave it out or leave out --rag")
    system = load_rag(spec, arguments)
    name = spec.rpartition(":")[2] if "://" not in spec else spec.split("://", 1)[1]
    return system, dict(describe_rag(system, spec, arguments)), name


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """The arguments that an option gives as a JSON object; none when it is not given.

    Raises:
        ConfigError: it is no JSON object.
    """
    import orjson

    from ragbench.errors import ConfigError

    if text is None:
        return {}
    try:
        value = cast("object", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise ConfigError(f'{option} is not JSON: {error}. Expected {{"name": value}}') from error
    if not isinstance(value, dict):
        raise ConfigError(f'{option} must be a JSON object such as {{"top_k": 3}}, not {text}')
    return cast("dict[str, Any]", value)


def _mapping(fields: list[str] | None) -> dict[str, str] | None:
    from ragbench.errors import ConfigError

    found: dict[str, str] = {}
    for entry in fields or ():
        target, equals, source = entry.partition("=")
        if not equals or not target or not source:
            raise ConfigError(f"--field {entry}: expected TARGET=SOURCE, such as query=Frage")
        found[target] = source
    return found or None


def _one_of(value: str, choices: list[str], option: str) -> str:
    from ragbench.errors import ConfigError

    if value not in choices:
        raise ConfigError(f"{option} must be one of {', '.join(choices)}, not '{value}'")
    return value


def _dataset_name(source: str) -> str:
    if source == "-":
        return "stdin"
    if source.startswith("hf:"):
        return source[3:]
    path = Path(source)
    is_generic = path.stem in ("cases", "queries", "test", "dev", "train")
    name = path.resolve().parent.name if is_generic else path.name
    return name.split(".")[0] or path.resolve().name


def _default_name(
    dataset: str, rag: str, description: object, selection: object, top_k: int | None
) -> str:
    from ragbench.runs.fingerprint import fingerprint
    from ragbench.runs.folder import run_name

    identity = fingerprint((dataset, description, selection, top_k))
    return run_name(_dataset_name(dataset), rag, identity)


def _show(report: Report, folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Prints the report and ends the command with its exit code."""
    from ragbench_cli.tables import print_report

    if as_json:
        import sys

        sys.stdout.write((folder / "report.json").read_text(encoding="utf-8"))
    else:
        print_report(report)
    if not quiet:
        console.say(f"Report: {folder / 'report.md'}  (also report.json, cases.csv)")
        if report.failures:
            console.say("Call what failed again: the same command with --retry-failed")
    if all(stage.measured + stage.abstained == 0 for stage in report.stages):
        console.say("Error: no call succeeded, so nothing was measured.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
