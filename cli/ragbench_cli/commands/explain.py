"""``ragbench explain``: which stage lost the answer; with --replay, which change cures it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.chunk import Document
from ragbench.core.record import Record
from ragbench.core.report import CaseRow, Report
from ragbench.errors import ConfigError, DataError
from ragbench.ledger.folder import Manifest, RunFolder, read_manifest, run_around
from ragbench.llm.session import Chat
from ragbench.safe_text import counted, shown_line
from ragbench.stages.trial import Answering
from ragbench.verbs.cases import find_case, worst_by_cause
from ragbench.verbs.replay import Replay, ReplayedCase, cures, plan_replay
from ragbench.verbs.report import report_of
from ragbench.views.explain import case_story_lines, case_story_object, short_story_lines
from ragbench_cli import console
from ragbench_cli.console import Invocation
from ragbench_cli.models import budget_of
from ragbench_cli.options import JsonOption, RunArgument, argument, option, takes_records
from ragbench_cli.output import Blocks, Cell, draw, paragraph, show, styled, table
from ragbench_cli.report_tables import causes_table
from ragbench_cli.systems import BASELINE, DocumentsBeside, chosen_system, rag_of


class Asked(Record):
    run: RunArgument
    case: Annotated[str | None, argument("[CASE]")] = None
    """Id of one case; all of them by default."""
    each: Annotated[int, option("--cases", min=0, envvar="RAGBENCH_EXPLAIN_EACH")] = 1
    """How many cases are listed per cause."""
    full: Annotated[bool, option("--all")] = False
    """For a case: show every stage, chunk, score and judgement."""


class Replaying(Record):
    replay: bool = False
    """Ask the RAG again with one change of the context at a time, and show which one cures the
    case; without a case, over the worst lost ones."""
    most: Annotated[int, option(min=1)] = 20
    """How many lost cases are replayed."""
    rag: Annotated[str | None, option("RAG")] = None
    """RAG that is asked; by default the one that the run names."""
    rag_args: Annotated[str | None, option("JSON", rare=True)] = None
    """Arguments for the class or factory, as JSON."""
    pipeline: Path | None = None
    """YAML file of the RAG that is asked. See docs/pipeline.md."""
    max_cost: Annotated[str | None, option("AMOUNT", rare=True)] = None
    """Most that a pipeline's models may cost."""


@takes_records
def command(
    context: typer.Context, asked: Asked, replaying: Replaying, json: JsonOption = False
) -> None:
    """Show which stage lost the answer.

    For a run: how its cases ended (not in the corpus, not retrieved, dropped by an operator, shown
    and not used ...), with the worst case of each loss. For a case: the stage that lost the answer,
    the relevant contexts, the chunks with their ranks, and the answer. Nothing is recomputed, and
    no RAG or model is called; with --replay the RAG is, once for each change of its context.

    \b
    Examples:
      ragbench explain reports/pellorin-baseline-1a2b3c4d
      ragbench explain reports/pellorin-baseline-1a2b3c4d pto-carryover
      ragbench explain reports/pellorin-baseline-1a2b3c4d pto-carryover --replay
    """  # fmt: skip
    run = run_around(asked.run)
    if replaying.replay:
        _replay(run, asked.case, replaying, as_json=json)
        return
    report = report_of(run)
    if asked.case is None:
        _explain_run(report, asked.each, as_json=json)
        return
    row = find_case(report, asked.case)
    if json:
        console.print_json(case_story_object(row, report.metrics))
        return
    _explain_case(row, report, is_full=asked.full)
    if not asked.full:
        console.say(f"more: {context.ensure_object(Invocation).again('--all')}")


def _explain_run(report: Report, each: int, *, as_json: bool) -> None:
    worst = dict(worst_by_cause(report, each))
    if as_json:
        listed = {cause: [row.id for row in rows] for cause, rows in worst.items()}
        console.print_json({"schema_version": 1, "causes": report.causes, "worst": listed})
        return
    draw([causes_table(report.causes)])
    for cause, rows in worst.items():
        lines: list[Cell] = []
        for row in rows:
            lines.append(f"{shown_line(row.id, longest=60)}: {shown_line(row.query, longest=160)}")
            lines.append((f"  {shown_line(row.attribution.detail, longest=300)}", "dim"))
        draw(paragraph(cause.label, lines))


def _explain_case(row: CaseRow, report: Report, *, is_full: bool) -> None:
    from rich.table import Table

    found = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    found.add_column(no_wrap=True, style="dim")
    found.add_column(overflow="fold")
    lines = (
        case_story_lines(row, report.metrics)
        if is_full
        else short_story_lines(row, report.metrics, width=console.data_console().width - 11)
    )
    before = ""
    for label, line in lines:
        found.add_row(styled("" if label == before else label), styled(line))
        before = label
    draw([styled((shown_line(row.id), "bold")), found])


def _replay(run: Path, case: str | None, asked: Replaying, *, as_json: bool) -> None:
    """Asks the RAG again, with one change at a time."""
    manifest = read_manifest(RunFolder(path=run).manifest)
    spec, arguments = _system(manifest, asked)
    beside = DocumentsBeside(manifest.dataset.source)
    budget = budget_of(asked.max_cost)
    chosen = chosen_system(spec, asked.pipeline, arguments, beside, budget=budget)
    with console.users_code(), chosen as system:
        assert system.rag is not None
        documents = system.documents or (lambda: _documents(beside))
        plan = plan_replay(run, case=case, most=asked.most, documents=documents)
        with Answering(system.rag) as answering:  # refuses a RAG that cannot be asked so
            console.say(_price(plan, system.name, system.chats))
            done = list(plan.ask(answering))
    data = {"schema_version": 1, "cures": cures(done), "cases": done}
    show(data, lambda: draw(_cures(done) if case is None else _tries(done[0])), json=as_json)


def _system(manifest: Manifest, asked: Replaying) -> tuple[str | None, str | None]:
    """The RAG to ask and its arguments: the one that is named, or else the run's."""
    if asked.rag is not None or asked.pipeline is not None:
        return asked.rag, asked.rag_args
    described = manifest.rag.description
    if described.get("spec") == BASELINE:
        return BASELINE, json.dumps(described.get("arguments") or {})
    known = rag_of(manifest)
    if known is None:
        raise ConfigError(
            "which RAG gave the answers does not follow from the run: name it with --rag or "
            "--pipeline"
        )
    return known


def _documents(beside: DocumentsBeside) -> Iterator[Document]:
    try:
        yield from beside.read()
    except (ConfigError, DataError):
        return


def _price(plan: Replay, name: str, chats: Sequence[Chat]) -> str:
    text = f"asking {name} {counted(plan.questions, 'time')} for {counted(len(plan.cases), 'case')}"
    if plan.tokens is not None:
        text += f", about {plan.tokens * plan.questions:,.0f} tokens"
    models = ", ".join(dict.fromkeys(chat.name for chat in chats))
    return f"{text}{f' of {models}' if models else ''}"


def _tries(case: ReplayedCase) -> Blocks:
    yield styled((shown_line(case.id), "bold"), f": {case.cause.label}")
    for one in case.tries:
        state = ("cures it", "green") if one.cures else ("does not cure it", "dim")
        right = "unknown" if one.right is None else f"{one.right:.2f}"
        yield styled(f"  {one.change}: ", state, f" (right {right})")
        yield styled((f"    {shown_line(one.response or one.failure or '', longest=160)}", "dim"))


def _cures(done: Sequence[ReplayedCase]) -> Blocks:
    rows = [(one.change, f"{one.tried:,}", f"{one.cured:,}") for one in cures(done)]
    yield table(("one change at a time", "cases", "cured"), rows)
    yield ""
    for case in done:
        cured = [one.change for one in case.tries if one.cures]
        yield f"{shown_line(case.id, longest=40)}: {'; '.join(cured) or 'none cures it'}"
