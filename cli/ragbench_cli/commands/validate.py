"""``ragbench validate``: verdicts on what a retriever returned."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TextIO

import typer

from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.options import Panel, argument, option, takes_records
from ragbench_cli.output import Page, show
from ragbench_cli.validator_options import (
    DEFAULT_VALIDATOR,
    CalibratedChoice,
    DumpChoice,
    OnProcesses,
    ValidatorChoice,
    judging,
    validator_maker,
)

if TYPE_CHECKING:
    from ragbench.core.validation import DumpSummary, RetrievalQuality
    from ragbench.io.dumps.read import OpenDump
    from ragbench.verbs.validate import Demands, ValidatedQuery
    from ragbench.views.html.dump_page import DumpPage
    from ragbench_cli.console import StageAdvance


class ValidateOptions(Record):
    """Which dump is judged, what is written, and what is demanded."""

    PANEL: ClassVar = Panel.DEMANDED

    dump: Annotated[str, argument("DUMP")]
    """Retrieval log: a file of the chunks that a retriever returned; '-' for standard input. Forms:
    ragbench show dumps."""
    out: Annotated[Path | None, option("-o", panel=Panel.OUTPUT)] = None
    """File for the verdicts, one JSON line per query. It appears when it is complete. FILE.journal
    next to it keeps each verdict: after an interruption the same command continues, and when the
    dump changes, only the changed queries are judged."""
    page: Page
    json: Annotated[bool, option(panel=Panel.OUTPUT)] = False
    """Print one JSON line per query to standard output instead of text."""
    summary: Annotated[Path | None, option(panel=Panel.OUTPUT, rare=True)] = None
    """File for the summary as JSON. By default next to --out."""
    min_answer_present: float | None = None
    """Smallest share of queries whose answer must be present, 0 to 1."""
    min_quality: Annotated[list[str] | None, option("LEVEL[=SHARE]")] = None
    """Required rating of retrievals: Partial (all at least Partial), Good=0.8 (80% Good), 0.8 (the
    same); repeatable."""
    min_relevant: Annotated[float | None, option("SHARE", rare=True)] = None
    """Smallest share of chunks that must be relevant, 0 to 1."""
    against: Annotated[Path | None, option("--baseline")] = None
    """Verdicts (-o) on another retriever's dump of the same queries: which answers are won and
    lost, with a paired test."""
    max_malformed: Annotated[float, option(rare=True)] = 0.1
    """Largest share of records that may be unreadable, or that the validator failed on, 0 to 1."""
    strict: Annotated[bool, option("--fail-on-malformed", rare=True)] = False
    """Refuse a dump with a record that cannot be read."""
    limit: Annotated[int | None, option(min=1, panel=Panel.CASES)] = None
    """Judge only the first N queries."""
    sample: Annotated[int | None, option(panel=Panel.CASES, rare=True)] = None
    """Draw N queries at random."""
    seed: Annotated[int, option(panel=Panel.CASES, rare=True)] = 0
    """Seed of the draw."""
    on: OnProcesses
    fresh: Annotated[bool, option(panel=Panel.MEASURED)] = False
    """Judge everything again: reuse no verdict of an earlier command."""
    self_test: Annotated[bool, option("--stress-test", panel=Panel.MEASURED, rare=True)] = False
    """Test the validator: DUMP is a dataset with evidence or reference contexts; near misses are
    made of it by rule, up to --limit (40) of each kind."""
    quiet: Annotated[bool, option("-q", panel=Panel.OUTPUT)] = False
    """Show no progress, mapping or summary."""


@takes_records
def command(options: ValidateOptions, dump: DumpChoice, validator: CalibratedChoice) -> None:
    """Check retrieved chunks for the answer.

    Shows which chunks are relevant, whether they contain the answer, where it is, and how
    good the retrieval is. Nothing is retrieved and nothing is answered. Every quote is an exact
    substring of its chunk. Unreadable records are reported, counted and skipped.

    \b
    Examples:
      ragbench validate dump.jsonl
      ragbench validate qdrant-log.jsonl -o verdicts.jsonl --min-answer-present 0.8
      ragbench validate rows.csv --field text=chunk_text --json
      ragbench validate bm25.run --corpus scifact/ -o verdicts.jsonl
      ragbench validate my-dataset/ --stress-test
    """
    from ragbench.verbs.validate import validate_dump

    # The default is replaced by whichever validator this machine can run.
    is_auto = validator.name == DEFAULT_VALIDATOR
    if is_auto:
        validator = validator.named
    if options.self_test:
        _show_self_test(validator, options.dump, options.limit or _SELF_TEST, json=options.json)
        return
    # "-" is standard output, where only JSON can hold verdicts one by one.
    if str(options.out) == "-":
        options = replace(options, out=None, json=True)
    out = options.out
    # To open --out for writing would empty the dump before it is read.
    if out is not None and _is_same_file(out, Path(options.dump)):
        raise ConfigError(f"--out {out} is the dump itself: choose another file")
    # The model is slow: a user who did not choose it learns of the quick one.
    if is_auto and validator.name == "local" and not options.quiet:
        console.say(
            "using the local reader model; --validator lexical is much faster but less accurate"
        )
    page = _dump_page(options)
    emit = _emitter(page, json=options.json, text=out is None)
    demands = _demanded_shares(options)
    workers = options.on.workers
    with judging(validator, options.dump, dump, options.on.engine, quiet=options.quiet) as opened:
        if not options.quiet and opened.engine != "local" and opened.source.whole:
            console.say(f"read by this command, not by the workers: {opened.source.whole}")
        # A language model is asked in this process, by threads that wait for its answers.
        threads: int | None = None
        if not opened.may_be_many:
            threads = workers
        summary = validate_dump(
            opened.source,
            opened.make,
            out=out,
            emit=emit,
            demands=demands,
            against=options.against,
            engine=opened.engine,
            workers=workers,
            threads=threads,
            strict=options.strict,
            limit=options.limit,
            sample=options.sample,
            seed=options.seed,
            fresh=options.fresh,
            stopped=opened.stopped,
            advance=_progress_of_dump(opened.bars, options, opened.source),
        )
    _write_summary(summary, options, page)
    # Before the demands: without a verdict nothing was checked.
    if not summary.queries:
        console.say("Error: no query could be judged.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
    if not summary.is_met:
        raise typer.Exit(ExitCode.FAILED)


def _is_same_file(out: Path, dump: Path) -> bool:
    """Whether the output and the dump are one file, perhaps by a link.

    Writing the one would destroy the other.
    """
    if not out.exists() or not dump.exists():
        return False
    return out.samefile(dump)


def _dump_page(options: ValidateOptions) -> DumpPage | None:
    """The page that collects the verdicts on a dump; None where no page is wanted.

    With ``--baseline`` it has the verdicts on the earlier dump beside them.
    """
    # Nothing is collected without a page: a dump may be very long.
    if not options.page.is_wanted:
        return None
    from ragbench.stages.doctor import earlier_retrievals
    from ragbench.views.html.dump_page import DumpPage

    if options.against is None:
        return DumpPage({})
    return DumpPage(earlier_retrievals(options.against))


_SELF_TEST = 40
"""Near misses of each kind, unless --limit says otherwise."""


def _show_self_test(choice: ValidatorChoice, dataset: str, limit: int, *, json: bool) -> None:
    """Judges near misses that are made of a dataset, and shows how the validator does.

    Users see whether a validator is fooled by text that looks like an answer before they rely on
    it.

    Args:
        limit: near misses of each kind.
        json: whether the result is printed as JSON.
    """
    from ragbench.validators.self_test import run_self_test
    from ragbench.views.validation import self_test_lines

    # In this process alone: whether other processes may make their own validator does not matter.
    with validator_maker(choice) as (make, _):
        result = run_self_test(make(), dataset, limit=limit)
    show(result, lambda: typer.echo("\n".join(self_test_lines(result))), json=json)


def _emitter(page: DumpPage | None, *, json: bool, text: bool) -> Callable[[ValidatedQuery], None]:
    """The function that takes each verdict as it comes, hands it to a page and prints it.

    The present standard output is handed over: while a dump is judged, it is redirected, for what
    workers print.
    """
    return partial(_emit_verdict, page, sys.stdout, json, text)


def _emit_verdict(
    page: DumpPage | None, stream: TextIO, json: bool, text: bool, judged: ValidatedQuery
) -> None:
    """Hands the verdict on one query to a page, and prints it as JSON or as text.

    Verdicts are printed as they come, since a dump may have millions of queries.

    Args:
        page: None where no page is wanted.
        stream: standard output as it was before workers were kept from it.
        json: whether the verdict is printed as JSON.
        text: whether it is printed as text, if not as JSON.
    """
    from ragbench.views.validation import validation_lines

    # Also where nothing is printed: the page has every verdict.
    if page is not None:
        page.add(judged.query_id, judged.query, judged.outcome)
    if json:
        # Text written to the stream so far must come before the bytes, which pass it by.
        stream.flush()
        stream.buffer.write(judged.line + b"\n")
    elif text:
        for line in validation_lines(judged.query_id, judged.query, judged.outcome):
            typer.echo(line, file=stream)
        typer.echo("", file=stream)


def _progress_of_dump(
    bars: StageAdvance | None, options: ValidateOptions, dump: OpenDump
) -> StageAdvance | None:
    """The function that shows progress, with about how many queries the dump has if known.

    It is None where no progress is shown.
    """
    if bars is None:
        return None
    from ragbench.io.dumps.pieces import count_lines

    total: int | None = None
    if dump.mapping.layout == "queries":  # a line is a query
        total = count_lines(options.dump)
    most = options.limit or options.sample
    if total is not None and most is not None:
        total = min(most, total)
    return lambda event: bars(event._replace(cases=total))


def _write_summary(summary: DumpSummary, options: ValidateOptions, page: DumpPage | None) -> None:
    """Writes the summary of a validated dump and its page, and shows the summary.

    What is excluded from the figures is shown even with ``--quiet``: they must not look complete.
    """
    from ragbench.io.atomic import write_whole
    from ragbench.views.report import json_bytes
    from ragbench.views.validation import summary_lines, summary_object

    out = options.out
    path = options.summary
    # Beside the verdicts, under their name up to its first dot.
    if path is None and out is not None:
        path = out.with_name(f"{out.name.split('.')[0]}.summary.json")
    if path is not None:
        write_whole(path, json_bytes(summary_object(summary)))
    # What is excluded from every figure is reported in any case.
    for line in summary_lines(summary, troubles_only=options.quiet):
        console.say(line)
    if out is not None and not options.quiet:
        console.say(f"verdicts  {out} (summary in {path})")
    # At the end: the page shows the figures first.
    if page is not None:
        options.page.write(page.page(summary))


def _demanded_shares(options: ValidateOptions) -> Demands:
    """The shares of queries and chunks that the options demand of a dump.

    A dump that misses one ends the command with exit code 1.

    Raises:
        ConfigError: one of them is no share, or a rating is named twice.
    """
    from ragbench.verbs.validate import Demands

    texts = options.min_quality or ()
    quality: dict[RetrievalQuality, float] = {}
    for text in texts:
        level, least_share = _rating_and_share(text)
        quality[level] = least_share
    # A rating that comes twice has overwritten the first.
    if len(quality) < len(texts):
        raise ConfigError(f"--min-quality {', '.join(texts)}: each rating once")
    shares: list[tuple[str, float | None]] = [
        ("--min-answer-present", options.min_answer_present),
        ("--min-relevant", options.min_relevant),
        ("--max-malformed", options.max_malformed),
    ]
    # Shares of ratings are added for the check of the range alone: `Demands` takes them by rating.
    shares += [("--min-quality", least_share) for least_share in quality.values()]
    for name, share in shares:
        if share is not None and not 0 <= share <= 1:
            raise ConfigError(f"{name} must be a share from 0 to 1, not {share:g}")
    return Demands(
        answer_present=options.min_answer_present,
        quality=quality,
        relevant=options.min_relevant,
        malformed=options.max_malformed,
    )


def _rating_and_share(text: str) -> tuple[RetrievalQuality, float]:
    """The rating and its least share that ``--min-quality`` demands.

    From ``LEVEL=SHARE``, ``LEVEL`` (all queries), or ``SHARE`` (of Good).
    """
    from ragbench.core.validation import RetrievalQuality

    name, equals, share = text.partition("=")
    if not equals:
        try:
            share = str(float(name))  # it is a number: a share of Good
            name = RetrievalQuality.GOOD.value
        except ValueError:
            share = "1"  # it is a rating
    levels = {level.value.lower(): level for level in RetrievalQuality}
    try:
        return levels[name.strip().lower()], float(share)
    except (KeyError, ValueError):
        raise ConfigError(
            f"--min-quality {text}: expected Good, Partial or a share, such as Good=0.8"
        ) from None
