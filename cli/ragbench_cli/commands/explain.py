"""``ragbench explain``: which stage lost the answer; with --replay, which change cures it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.attribution import Cause
from ragbench.core.chunk import Document
from ragbench.core.record import Record, field
from ragbench.core.report import CaseRow, Report
from ragbench.errors import ConfigError, DataError
from ragbench.ledger.folder import Manifest, RunFolder, read_manifest, run_around
from ragbench.llm.session import Chat
from ragbench.safe_text import counted, shown_line
from ragbench.stages.trial import Answering
from ragbench.verbs.cases import find_case, worst_by_cause
from ragbench.verbs.replay import Replay, ReplayedCase, cures, plan_replay
from ragbench.verbs.report import report_of
from ragbench.views.answers import answers_text
from ragbench.views.explain import (
    case_name,
    case_story_lines,
    case_story_object,
    short_story_lines,
)
from ragbench_cli import console
from ragbench_cli.console import Invocation
from ragbench_cli.models import budget_of
from ragbench_cli.options import (
    JsonOption,
    Labelled,
    RunArgument,
    argument,
    option,
    takes_records,
)
from ragbench_cli.output import Blocks, Cell, draw, paragraph, show, styled, table
from ragbench_cli.report_tables import causes_table
from ragbench_cli.systems import BASELINE, DocumentsBeside, chosen_system, rag_of

_LABEL_WIDTH = 11
"""Columns of the terminal that the labels beside a case's story take."""
_LONGEST = 300
"""Letters of the explanation of a case."""
_LONGEST_ANSWER = 160
"""Letters of an answer of a replay."""
_LONGEST_ID = 40
"""Letters of the id before the changes that cure a case."""


class ExplainOptions(Record):
    """Which run or case is explained, and how fully."""

    run: RunArgument
    case: Annotated[str | None, argument("[CASE]")] = None
    """Id or question of one case; all of them by default."""
    each: Annotated[int, option("--cases", min=0, envvar="RAGBENCH_EXPLAIN_EACH")] = 3
    """How many cases are listed per cause."""
    full: Annotated[bool, option("--all")] = False
    """For a case: show every stage, chunk, score and judgement."""
    labelled: Labelled = field(default_factory=Labelled)


class ReplayOptions(Record):
    """Whether the RAG is asked again, which RAG, and about how many cases."""

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
    context: typer.Context,
    options: ExplainOptions,
    replaying: ReplayOptions,
    json: JsonOption = False,
) -> None:
    """Show which stage lost the answer.

    For a run: how its cases ended (not retrieved, dropped, wrong passage, not used ...), with the
    meaning of each cause, a change that helps, and the worst cases of it. For a case: the stage
    that lost the answer, the relevant contexts, the chunks with their ranks, and the answer.
    Nothing is recomputed, and no RAG or model is called; with --replay the RAG is, once for each
    change of its context.

    \b
    Examples:
      ragbench explain reports/pellorin-baseline-1a2b3c4d
      ragbench explain reports/pellorin-baseline-1a2b3c4d pto-carryover
      ragbench explain reports/pellorin-baseline-1a2b3c4d pto-carryover --replay
    """
    run = run_around(options.run)
    # Before the report is read: a replay reads the run itself.
    if replaying.replay:
        _replay_run(run, options.case, replaying, as_json=json)
        return
    report = report_of(run)
    # Labels change causes, so they come before a case is looked for.
    book = options.labelled.book
    if book is not None:
        from ragbench.verbs.label import corrected_report

        report = corrected_report(report, run, book)
    if options.case is None:
        _explain_run(report, options.each, as_json=json)
        return
    row = find_case(report, options.case)
    if json:
        console.print_json(case_story_object(row, report.metrics))
        return
    _explain_case(row, report, is_full=options.full)
    # The command line as it was, with --all added.
    if not options.full:
        console.say(f"more: {context.ensure_object(Invocation).again('--all')}")


def _explain_run(report: Report, most: int, *, as_json: bool) -> None:
    """Shows where a run's cases were lost, as text or JSON, with the worst cases of each cause.

    The largest cause, with its remedy, is where to begin.

    Args:
        most: cases of each cause.
    """
    # In the order of a case's way through the stages.
    worst_rows = dict(worst_by_cause(report, most))
    if as_json:
        worst_ids: dict[Cause, list[str]] = {}
        for cause, rows in worst_rows.items():
            worst_ids[cause] = [row.id for row in rows]
        console.print_json({"schema_version": 1, "causes": report.causes, "worst": worst_ids})
        return
    draw([styled((answers_text(report), "bold")), causes_table(report.causes)])
    for cause, rows in worst_rows.items():
        lines: list[Cell] = [f"{cause.meaning} {cause.remedy}"]
        for row in rows:
            lines.append(f"- {case_name(row.id, row.query)}")
            explanation = shown_line(row.attribution.explanation, longest=_LONGEST)
            lines.append((f"  {explanation}", "dim"))
        draw(paragraph(cause.label, lines))


def _explain_case(row: CaseRow, report: Report, *, is_full: bool) -> None:
    """Prints a case's story from question to answer: a label and a text in each line.

    It is the screen of ``ragbench explain RUN CASE``.

    Args:
        is_full: whether all is shown; else as much as fits on a screen.
    """
    from rich.table import Table

    story = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    story.add_column(no_wrap=True, style="dim")
    story.add_column(overflow="fold")
    if is_full:
        lines = case_story_lines(row, report.metrics)
    else:
        width = console.data_console().width - _LABEL_WIDTH
        lines = short_story_lines(row, report.metrics, width=width)
    earlier_label = ""
    for label, line in lines:
        # A label is shown once, beside the first of its lines.
        shown_label = label
        if label == earlier_label:
            shown_label = ""
        story.add_row(styled(shown_label), styled(line))
        earlier_label = label
    draw([styled((shown_line(row.id), "bold")), story])


def _replay_run(run: Path, case: str | None, options: ReplayOptions, *, as_json: bool) -> None:
    """Asks the RAG again with one change of its context at a time, and shows which change cures.

    A change is such as adding the chunk that answers: the stage whose change cures is to blame.

    Args:
        case: id or question of one case; None for the worst lost ones.
    """
    manifest = read_manifest(RunFolder(path=run).manifest)
    rag, rag_args = _rag_to_ask(manifest, options)
    beside = DocumentsBeside(manifest.dataset.source)
    budget = budget_of(options.max_cost)
    chosen = chosen_system(rag, options.pipeline, rag_args, beside, budget=budget)
    with console.users_code(), chosen as system:
        # A replay is always of a system that is asked.
        assert system.rag is not None
        # A pipeline has documents of its own; for a RAG without any, those beside the dataset are
        # tried.
        documents = system.documents or partial(_read_if_there, beside)
        plan = plan_replay(run, case=case, most=options.most, documents=documents)
        with Answering(system.rag) as answering:  # refuses a RAG that cannot be asked so
            console.say(_announcement(plan, system.name, system.chats))
            cases = list(plan.ask(answering))
    data = {"schema_version": 1, "cures": cures(cases), "cases": cases}
    show(data, partial(_draw_replay, cases, is_single=case is not None), json=as_json)


def _draw_replay(cases: Sequence[ReplayedCase], *, is_single: bool) -> None:
    """Shows on the screen all changes of a single replayed case, or which changes cure several.

    A replay asks the RAG again with one change of its context at a time.
    """
    if is_single:
        draw(_try_blocks(cases[0]))
    else:
        draw(_cure_blocks(cases))


def _rag_to_ask(manifest: Manifest, options: ReplayOptions) -> tuple[str | None, str | None]:
    """The RAG to replay a run with, and its arguments: those of the options, else those of the run.

    A replay of another RAG than the run's would explain nothing, so it is not guessed.

    Raises:
        ConfigError: the run does not tell, as where its answers were recorded.
    """
    # The run's arguments were for the run's own RAG: a system named now gets only what was named
    # with it.
    if options.rag is not None or options.pipeline is not None:
        return options.rag, options.rag_args
    description = manifest.rag.description
    # The baseline is no import path: `rag_of` does not know it.
    if description.get("spec") == BASELINE:
        return BASELINE, json.dumps(description.get("arguments") or {})
    runs_rag = rag_of(manifest)
    if runs_rag is None:
        raise ConfigError(
            "which RAG gave the answers does not follow from the run: name it with --rag or "
            "--pipeline"
        )
    return runs_rag


def _read_if_there(beside: DocumentsBeside) -> Iterator[Document]:
    """The documents beside the dataset.

    There may be none: a replay tries fewer changes then.
    """
    try:
        yield from beside.read()
    except (ConfigError, DataError):
        return


def _announcement(plan: Replay, name: str, chats: Sequence[Chat]) -> str:
    """A line on how often a replay will ask the RAG, and how many tokens that takes.

    A user may want to stop it.

    Args:
        name: of the RAG.
        chats: the models of a pipeline, as far as they are known.
    """
    times = counted(plan.questions, "time")
    cases = counted(len(plan.cases), "case")
    text = f"asking {name} {times} for {cases}"
    if plan.tokens is not None:
        tokens = plan.tokens * plan.questions
        text += f", about {tokens:,.0f} tokens"
    # Each once, in the order of the stages: several stages may share a model.
    models = dict.fromkeys(chat.name for chat in chats)
    if models:
        text += f" of {', '.join(models)}"
    return text


def _try_blocks(case: ReplayedCase) -> Blocks:
    """The blocks with each change of a replayed case's context, and the answer that it brings.

    A change that cures shows the stage to mend: where adding the gold helps, retrieval lost it.
    """
    yield styled((shown_line(case.id), "bold"), f": {case.cause.label}")
    for attempt in case.tries:
        state = ("does not cure it", "dim")
        if attempt.cures:
            state = ("cures it", "green")
        right = "unknown"
        # None where no metric could compare the answer: it may be cured all the same.
        if attempt.right is not None:
            right = f"{attempt.right:.2f}"
        # An answer, or why there is none.
        answer = attempt.response or attempt.failure or ""
        yield styled(f"  {attempt.change}: ", state, f" (right {right})")
        yield styled((f"    {shown_line(answer, longest=_LONGEST_ANSWER)}", "dim"))


def _cure_blocks(cases: Sequence[ReplayedCase]) -> Blocks:
    """The blocks with the number of cases that each change cures, and the cures of each case.

    The change that cures most cases is the one to make first.
    """
    # The control without a change comes first; see `cures`.
    rows = [(cure.change, f"{cure.tried:,}", f"{cure.cured:,}") for cure in cures(cases)]
    yield table(("one change at a time", "cases", "cured"), rows)
    yield ""
    for case in cases:
        changes = [attempt.change for attempt in case.tries if attempt.cures]
        text = "none cures it"
        if changes:
            text = "; ".join(changes)
        yield f"{shown_line(case.id, longest=_LONGEST_ID)}: {text}"
