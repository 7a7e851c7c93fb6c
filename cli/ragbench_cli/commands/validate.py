"""``ragbench validate``: verdicts on what a retriever returned."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.options import Panel, argument, option, takes_records
from ragbench_cli.output import Page, show
from ragbench_cli.validator_options import (
    CALLS,
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


class Given(Record):
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
    min_relevant: float | None = None
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
    sample: Annotated[int | None, option(panel=Panel.CASES)] = None
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
def command(given: Given, choice: DumpChoice, asked: CalibratedChoice) -> None:
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

    is_auto = asked.name == DEFAULT_VALIDATOR
    judge = asked.named if is_auto else asked
    if given.self_test:
        _self_test(judge, given.dump, given.limit or _SELF_TEST, json=given.json)
        return
    if str(given.out) == "-":
        given = replace(given, out=None, json=True)
    out, quiet, on = given.out, given.quiet, given.on
    if out is not None and out.exists() and Path(given.dump).exists() and out.samefile(given.dump):
        raise ConfigError(f"--out {out} is the dump itself: choose another file")
    if is_auto and judge.name == "local" and not quiet:
        console.say(
            "using the local reader model; --validator lexical is much faster but less accurate"
        )
    page = None if given.page == Page() else _page(given)
    emit, demands = _emitter(page, json=given.json, text=out is None), _demands(given)
    with judging(judge, given.dump, choice, on.engine, quiet=quiet) as at:
        if not quiet and at.engine != "local" and at.source.whole:
            console.say(f"read by this command, not by the workers: {at.source.whole}")
        found = validate_dump(
            at.source, at.make, out=out, emit=emit, demands=demands, against=given.against,
            engine=at.engine, workers=on.workers, strict=given.strict,
            limit=given.limit, sample=given.sample, seed=given.seed,
            threads=1 if at.may_be_many else on.workers or CALLS, fresh=given.fresh,
            stopped=at.stopped,
            advance=None if at.bars is None else _advance(at.bars, given, at.source),
        )  # fmt: skip
    _report(found, given, page)
    if not found.queries:
        console.say("Error: no query could be judged.")
        raise typer.Exit(ExitCode.CANNOT_RUN)
    if not found.is_met:
        raise typer.Exit(ExitCode.FAILED)


def _page(given: Given) -> DumpPage:
    from ragbench.stages.doctor import earlier_retrievals
    from ragbench.views.html.dump_page import DumpPage

    return DumpPage({} if given.against is None else earlier_retrievals(given.against))


_SELF_TEST = 40
"""Near misses of each kind, unless --limit says otherwise."""


def _self_test(judge: ValidatorChoice, corpus: str, limit: int, *, json: bool) -> None:
    from ragbench.validators.self_test import run_self_test
    from ragbench.views.validation import self_test_lines

    with validator_maker(judge) as (make, _):
        found = run_self_test(make(), corpus, limit=limit)
    show(found, lambda: typer.echo("\n".join(self_test_lines(found))), json=json)


def _emitter(page: DumpPage | None, *, json: bool, text: bool) -> Callable[[ValidatedQuery], None]:
    """Hands verdicts to a page, and prints them on standard output as it is now."""
    from ragbench.views.validation import validation_lines

    stream = sys.stdout

    def emit(judged: ValidatedQuery) -> None:
        if page is not None:
            page.add(judged.query_id, judged.query, judged.outcome)
        if json:
            stream.flush()
            stream.buffer.write(judged.line + b"\n")
        elif text:
            for line in validation_lines(judged.query_id, judged.query, judged.outcome):
                typer.echo(line, file=stream)
            typer.echo("", file=stream)

    return emit


def _advance(bars: StageAdvance, given: Given, dump: OpenDump) -> StageAdvance:
    """Shows progress, with about how many queries there are where a look at the file tells it."""
    from ragbench.io.dumps.pieces import count_lines

    total = count_lines(given.dump) if dump.mapping.layout == "queries" else None
    if total is not None and (most := given.limit or given.sample) is not None:
        total = min(most, total)
    return lambda event: bars(event._replace(cases=total))


def _report(found: DumpSummary, given: Given, page: DumpPage | None) -> None:
    from ragbench.io.atomic import write_whole
    from ragbench.views.report import json_bytes
    from ragbench.views.validation import summary_lines, summary_object

    path, out = given.summary, given.out
    if path is None and out is not None:
        path = out.with_name(f"{out.name.split('.')[0]}.summary.json")
    if path is not None:
        write_whole(path, json_bytes(summary_object(found)))
    # What is excluded from every figure is said in any case.
    for line in summary_lines(found, troubles_only=given.quiet):
        console.say(line)
    if out is not None and not given.quiet:
        console.say(f"verdicts  {out} (summary in {path})")
    if page is not None:
        given.page.write(page.page(found))


def _demands(given: Given) -> Demands:
    from ragbench.verbs.validate import Demands

    pairs = [_quality(text) for text in given.min_quality or ()]
    levels = dict(pairs)
    if len(levels) < len(pairs):
        raise ConfigError(f"--min-quality {', '.join(given.min_quality or ())}: each rating once")
    for name, share in (
        ("--min-answer-present", given.min_answer_present),
        ("--min-relevant", given.min_relevant),
        ("--max-malformed", given.max_malformed),
        *(("--min-quality", share) for share in levels.values()),
    ):
        if share is not None and not 0 <= share <= 1:
            raise ConfigError(f"{name} must be a share from 0 to 1, not {share:g}")
    return Demands(
        answer_present=given.min_answer_present,
        quality=levels,
        relevant=given.min_relevant,
        malformed=given.max_malformed,
    )


def _quality(text: str) -> tuple[RetrievalQuality, float]:
    from ragbench.core.validation import RetrievalQuality

    name, equals, written = text.partition("=")
    if not equals:
        try:
            name, written = RetrievalQuality.GOOD.value, str(float(name))
        except ValueError:
            written = "1"
    levels = {level.value.lower(): level for level in RetrievalQuality}
    try:
        return levels[name.strip().lower()], float(written)
    except (KeyError, ValueError):
        raise ConfigError(
            f"--min-quality {text}: expected Good, Partial or a share, such as Good=0.8"
        ) from None
