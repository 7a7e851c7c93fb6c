"""A verdict for a job's summary and for a comment under a change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ragbench.records.verdicts import CaseChange, Check, CheckKind, GateOutcome, JudgedRun, Verdict
from ragbench.reports.escape import markdown_text
from ragbench.reports.verdict_text import (
    after_text,
    change_text,
    detectable_text,
    interval_text,
    limit_text,
    number_text,
    observed_text,
)

__all__ = ["comment_marker", "verdict_markdown"]

_CASES = 20
_CHECKS = 60
_LONGEST = 160

_TITLES = {
    GateOutcome.PASSED: "passed",
    GateOutcome.FAILED: "failed",
    GateOutcome.INCONCLUSIVE: "cannot tell",
}


def comment_marker(verdict: Verdict) -> str:
    """The hidden first line: a comment that starts with it is replaced instead of repeated.

    It is the same for every run of one system on one dataset.
    """
    names = (verdict.run.dataset, verdict.run.rag)
    slugs = [re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") for name in names]
    return f"<!-- ragbench-gate {'/'.join(slugs)} -->"


def verdict_markdown(verdict: Verdict) -> str:
    """The verdict as GitHub-flavoured Markdown, below the size that forges allow a comment."""
    sections = (_title, _refusals, _undecided, _checks, _cases, _notes, _origin)
    parts = ["\n".join(section(verdict)) for section in sections]
    return "\n\n".join([comment_marker(verdict), *(part for part in parts if part)]) + "\n"


def _title(verdict: Verdict) -> Iterator[str]:
    run = verdict.run
    name = f"{markdown_text(run.rag)} on {markdown_text(run.dataset)}"
    yield f"### ragbench gate: {_TITLES[verdict.outcome]} ({name})"
    yield ""
    yield f"**{markdown_text(verdict.headline)}**"


def _refusals(verdict: Verdict) -> Iterator[str]:
    for refusal in verdict.refusals:
        yield f"- Not compared ({refusal.what}): {_sentence(refusal.reason)}"
        yield f"  To go on, {markdown_text(refusal.remedy)}."


def _undecided(verdict: Verdict) -> Iterator[str]:
    for check in verdict.checks:
        is_open = check.outcome is GateOutcome.INCONCLUSIVE and not check.informational
        if is_open and check.kind is not CheckKind.SLICE:
            yield f"- Cannot tell: `{_code(check.name)}` {_sentence(check.reason)}"


def _checks(verdict: Verdict) -> Iterator[str]:
    yield from _table(
        ("check", "outcome", "now", "change", "interval", "held against", "cases", "detectable"),
        (_check_row(check) for check in verdict.checks[:_CHECKS]),
    )
    yield from _rest(len(verdict.checks), _CHECKS, "checks")


def _check_row(check: Check) -> Sequence[str]:
    outcome = check.outcome.value
    if check.outcome is GateOutcome.FAILED:
        outcome = f"**{outcome}**"
    return (
        f"`{_code(check.name)}`",
        f"({check.outcome.value})" if check.informational else outcome,
        observed_text(check),
        change_text(check.drop, check.unit),
        interval_text(check),
        limit_text(check),
        f"{check.cases:,}",
        detectable_text(check),
    )


def _cases(verdict: Verdict) -> Iterator[str]:
    if not verdict.lost:
        return
    yield f"#### Cases that lost ({len(verdict.lost):,})"
    yield ""
    shown = verdict.lost[:_CASES]
    yield from _table(("case", "metric", "before", "now", "question"), map(_case_row, shown))
    yield from _rest(len(verdict.lost), _CASES, "cases")


def _case_row(change: CaseChange) -> Sequence[str]:
    return (
        markdown_text(change.id, longest=_LONGEST),
        f"`{_code(change.metric)}`",
        number_text(change.before),
        markdown_text(after_text(change), longest=_LONGEST),
        markdown_text(change.query or "", longest=_LONGEST),
    )


def _notes(verdict: Verdict) -> Iterator[str]:
    for note in verdict.notes:
        yield f"- {markdown_text(note)}"


def _origin(verdict: Verdict) -> Iterator[str]:
    told = [f"run {_run(verdict.run)}"]
    if verdict.baseline is not None:
        told.append(f"baseline {_run(verdict.baseline)}")
    settings = ", ".join(f"{key} {value}" for key, value in verdict.settings.items())
    yield f"<sub>{'; '.join(told)}. {markdown_text(settings)}.</sub>"


def _run(run: JudgedRun) -> str:
    commit = ""
    if run.commit is not None:
        commit = f" at {markdown_text(run.commit[:12])}{' with changes' if run.dirty else ''}"
    return f"{markdown_text(run.source)}{commit}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(' --- ' for _ in columns)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


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
