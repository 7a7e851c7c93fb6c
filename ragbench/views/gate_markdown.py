"""A gate's result as Markdown, for a job's summary and for a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragbench.core.attribution import CauseCount
from ragbench.core.comparison import Against, CaseDifference
from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    GateCheck,
    GateOutcome,
    GateResult,
    JudgedRun,
)
from ragbench.safe_text import markdown_table, markdown_text
from ragbench.views.comparison import counts_text, flip_text, ids_text, response_text
from ragbench.views.gate import (
    after_text,
    change_lines,
    change_text,
    change_title,
    detectable_text,
    interval_text,
    limit_text,
    number_text,
    observed_text,
)
from ragbench.views.run_words import causes_markdown, flows_markdown

_CASES = 20
_CHANGED = 5
"""Cases that are shown with both answers; the page holds more."""
_CHECKS = 60
_LONGEST = 160

_TITLES = {
    GateOutcome.PASSED: "passed",
    GateOutcome.FAILED: "failed",
    GateOutcome.INCONCLUSIVE: "cannot tell",
}


def comment_marker(verdict: GateResult) -> str:
    """The hidden first line: a comment that starts with it is replaced instead of repeated.

    It is the same for every run of one system on one dataset.
    """
    names = (verdict.run.dataset, verdict.run.rag)
    slugs = [re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") for name in names]
    return f"<!-- ragbench-gate {'/'.join(slugs)} -->"


def verdict_markdown(
    verdict: GateResult, causes: Sequence[CauseCount] = (), against: Against | None = None
) -> str:
    """The verdict as GitHub-flavoured Markdown, below the size that forges allow a comment."""
    sections = [
        _title(verdict),
        _refusal_section(verdict),
        _undecided(verdict),
        _system(verdict),
        _check_section(verdict),
        _section("Where the answers were lost", causes_markdown(causes)),
        _section("How causes changed", flows_markdown(() if against is None else against.flows)),
        _cases(verdict) if against is None or not against.changed else _changed(against),
        _notes(verdict),
        _origin(verdict),
    ]
    parts = ["\n".join(section) for section in sections]
    return "\n\n".join([comment_marker(verdict), *(part for part in parts if part)]) + "\n"


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield f"#### {title}"
        yield ""
        yield from found


def _title(verdict: GateResult) -> Iterator[str]:
    run = verdict.run
    name = f"{markdown_text(run.rag)} on {markdown_text(run.dataset)}"
    yield f"### ragbench gate: {_TITLES[verdict.outcome]} ({name})"
    yield ""
    yield f"**{markdown_text(verdict.headline)}**"


def _refusal_section(verdict: GateResult) -> Iterator[str]:
    for refusal in verdict.refusals:
        yield f"- Not compared ({refusal.what}): {_sentence(refusal.reason)}"
        yield f"  To go on, {markdown_text(refusal.remedy)}."


def _undecided(verdict: GateResult) -> Iterator[str]:
    for check in verdict.checks:
        is_open = check.outcome is GateOutcome.INCONCLUSIVE
        if is_open and check.kind is not CheckKind.SLICE:
            yield f"- Cannot tell: `{_code(check.name)}` {_sentence(check.reason)}"


def _system(verdict: GateResult) -> Iterator[str]:
    if verdict.system is not None:
        yield f"**{change_title('the baseline', 'this run').capitalize()}**"
        yield ""
        yield from (f"- {markdown_text(line)}" for line in change_lines(verdict.system))


def _check_section(verdict: GateResult) -> Iterator[str]:
    yield from markdown_table(
        ("check", "outcome", "now", "change", "interval", "limit", "cases", "detectable"),
        (_check_row(check) for check in verdict.checks[:_CHECKS]),
    )
    yield from _rest(len(verdict.checks), _CHECKS, "checks")


def _check_row(check: GateCheck) -> Sequence[str]:
    outcome = check.outcome.value
    if check.outcome is GateOutcome.FAILED:
        outcome = f"**{outcome}**"
    return (
        f"`{_code(check.name)}`",
        outcome,
        observed_text(check),
        change_text(check.drop, check.unit),
        interval_text(check),
        limit_text(check),
        f"{check.cases:,}",
        detectable_text(check),
    )


def _cases(verdict: GateResult) -> Iterator[str]:
    if not verdict.lost_cases:
        return
    yield f"#### Cases that lost ({len(verdict.lost_cases):,})"
    yield ""
    shown = verdict.lost_cases[:_CASES]
    yield from markdown_table(
        ("case", "metric", "before", "now", "question"), map(_case_row, shown)
    )
    yield from _rest(len(verdict.lost_cases), _CASES, "cases")


def _changed(against: Against) -> Iterator[str]:
    """The cases that pass now and did not before, or the other way round, with both answers."""
    yield "#### Cases that went another way"
    yield ""
    yield f"{counts_text(against.pair)} cases."
    yield ""
    yield from markdown_table(
        ("case", "question", "what changed", "answer before", "answer now", "retrieved"),
        map(_changed_row, against.changed[:_CHANGED]),
    )
    yield from _rest(len(against.changed), _CHANGED, "cases: the page shows them")


def _changed_row(case: CaseDifference) -> Sequence[str]:
    before = response_text(case.response_before, case.stages_before.get("generate"))
    return (
        _short(case.id),
        _short(case.query or ""),
        _short(f"{case.kind.value}: {'; '.join(map(flip_text, case.flips))}"),
        _short(before) if case.stages_before else "not kept",
        _short(response_text(case.response_after, case.stages_after.get("generate"))),
        "" if case.ids is None else _short(ids_text(case.ids)),
    )


def _short(text: str) -> str:
    return markdown_text(text, longest=_LONGEST)


def _case_row(change: CaseChange) -> Sequence[str]:
    return (
        _short(change.id),
        f"`{_code(change.metric)}`",
        number_text(change.before),
        _short(after_text(change)),
        _short(change.query or ""),
    )


def _notes(verdict: GateResult) -> Iterator[str]:
    for note in verdict.notes:
        yield f"- {markdown_text(note)}"


def _origin(verdict: GateResult) -> Iterator[str]:
    runs = [f"run {_run(verdict.run)}"]
    if verdict.baseline is not None:
        runs.append(f"baseline {_run(verdict.baseline)}")
    settings = ", ".join(f"{key} {value}" for key, value in verdict.settings.items())
    yield f"<sub>{'; '.join(runs)}. {markdown_text(settings)}.</sub>"


def _run(run: JudgedRun) -> str:
    commit = ""
    if run.commit is not None:
        commit = f" at {markdown_text(run.commit[:12])}{' with changes' if run.dirty else ''}"
    return f"{markdown_text(run.source)}{commit}"


def _rest(count: int, shown: int, what: str) -> Iterator[str]:
    if count > shown:
        yield ""
        yield f"... and {count - shown:,} more {what}."


def _sentence(text: str) -> str:
    line = markdown_text(text)
    return line if line.endswith(".") else f"{line}."


def _code(text: str) -> str:
    """A text between backticks, in a cell of a table."""
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")
