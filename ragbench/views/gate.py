"""A gate's result as a document, as JSON, JUnit and annotations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup

from ragbench.core.attribution import CauseCount
from ragbench.core.comparison import Against
from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    DatasetChange,
    GateCheck,
    GateOutcome,
    GateResult,
    Refusal,
)
from ragbench.core.record import replace
from ragbench.core.unfulfilled import EXPECTATIONS, Unfulfilled
from ragbench.safe_text import annotation, as_line, shown_line, xml_text
from ragbench.views.comparison import change_lines, counts_text, source_text, system_section
from ragbench.views.document import (
    Document,
    Section,
    changes_of,
    flows_section,
    number_text,
    range_text,
)
from ragbench.views.history import sparkline
from ragbench.views.html import charts
from ragbench.views.labels import corrected_section
from ragbench.views.run_document import causes_section, unfulfilled_section

_MOST = 9
"""GitHub shows ten of a level a step; the first one is the verdict's own."""
_CHECKS, _LOST, _CHANGED = 60, 20, 5
"""Rows, and cases of a kind, in Markdown: forges allow a comment 65,536 letters."""
_LONGEST, _FEW = 160, 5
_RUNS = 30
"""Of how many runs of main there are bars."""
_TONES = {"green": "passes", "red": "fails", "yellow": "undecided"}
_LEVELS = {"green": "notice", "red": "error", "yellow": "warning"}
"""Of annotations, by colour."""


def comment_marker(verdict: GateResult) -> str:
    """The hidden first line: a comment that starts with it is replaced instead of repeated.

    It is the same for every run of one system on one dataset.
    """
    names = (verdict.run.dataset, verdict.run.rag)
    slugs = [re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") for name in names]
    return f"<!-- ragbench-gate {'/'.join(slugs)} -->"


def gate_document(
    verdict: GateResult, causes: Sequence[CauseCount] = (), against: Against | None = None
) -> Document:
    found = Document(
        kind="ragbench gate",
        title=f"{verdict.word} ({verdict.run.rag} on {verdict.run.dataset})",
        headline=verdict.headline,
        tone=_TONES[verdict.colour],
        sections=(
            Section(
                title="Not compared",
                lines=[f"{one.what}: {refusal_text(one)}" for one in verdict.refusals],
            ),
            Section(
                title="Checks",
                columns=("check", "outcome", "", *CHECK_COLUMNS, "detectable", "why"),
                rows=list(map(_check, verdict.checks, _drawings(verdict.checks))),
                most=_CHECKS,
            ),
            corrected_section([check.corrected for check in verdict.checks if check.corrected]),
            dataset_section(verdict.dataset),
            Section(
                title="Main over its merges",
                columns=("metric", "from", "to", "runs", "since", "p", "course"),
                rows=_trends(verdict.checks),
            ),
            system_section("the baseline", "this run", verdict.system),
            causes_section(causes),
            flows_section(() if against is None else against.flows),
            unfulfilled_section(verdict.unfulfilled),
            _cases_section(verdict, against),
        ),
        notes=verdict.notes,
        foot=_foot(verdict),
    )
    calm = _calm_document(verdict, found, against) if verdict.colour == "green" else None
    return replace(found, brief=calm)


def _foot(verdict: GateResult) -> str:
    runs = f"run {source_text(verdict.run)}"
    if verdict.baseline is not None:
        runs += f"; baseline {source_text(verdict.baseline)}"
    return f"{runs}. {', '.join(f'{key} {value}' for key, value in verdict.settings.items())}."


def _cases_section(verdict: GateResult, against: Against | None) -> Section:
    """The cases that pass in one of the runs alone; where there are none, those that lost."""
    if against is not None:
        places = {"run": verdict.run.source}
        if changed := changes_of([against.pair], against.changed, places):
            return Section(
                title="Cases that went another way",
                lines=[counts_text(against.pair)],
                changes=changed,
                most=_CHANGED,
            )
    return Section(
        title=f"Cases that lost ({len(verdict.lost_cases):,})",
        columns=("case", "metric", "before", "now", "question"),
        rows=[
            (
                shown_line(one.id, longest=_LONGEST),
                one.metric,
                number_text(one.before),
                shown_line(after_text(one), longest=_LONGEST),
                shown_line(one.query or "", longest=_LONGEST),
            )
            for one in verdict.lost_cases
        ],
        most=_LOST,
    )


def _calm_document(verdict: GateResult, whole: Document, against: Against | None) -> Document:
    """What a comment says where there is nothing to look into; it has at most 24 lines."""
    small = (CheckKind.SLICE, CheckKind.COVERAGE, CheckKind.DRIFT)
    main = [one for one in verdict.checks if one.kind not in small] or [*verdict.checks]
    broken = [one for one in verdict.checks if one.subject == "error rate" and one.observed]
    courses = "; ".join(
        f"{name} {start} to {end} {bars}" for name, start, end, *_, bars in _trends(verdict.checks)
    )
    system = verdict.system
    changes = () if system is None or system.is_none else as_line([*change_lines(system)], _FEW)
    return replace(
        whole,
        sections=(
            Section(
                title="Checks",
                columns=("check", "outcome", *CHECK_COLUMNS),
                rows=[
                    (one.label, one.outcome.value, *check_cells(one)) for one in main[:3] + broken
                ],
            ),
            dataset_section(verdict.dataset),
        ),
        notes=(
            *([f"Main over its merges: {courses}."] if courses else ()),
            *([f"Changed in the system: {changes}."] if changes else ()),
            *([f"{counts_text(against.pair)}."] if against and against.changed else ()),
            *verdict.notes,
        ),
        foot=f"{whole.foot} All checks and cases: --html, --json.",
    )


def unjudged_document(message: str) -> Document:
    """Why a gate could not run."""
    first, *rest = message.splitlines() or [""]
    kind, title = "ragbench gate", "could not run"
    return Document(kind=kind, title=title, headline=first, tone="fails", notes=rest)


def dataset_section(change: DatasetChange | None) -> Section:
    """Which cases differ, how many have which label, and how the new ones scored."""
    title = "How the dataset changed"
    if change is None:
        return Section(title=title)
    labels = [f"{one.label} {one.before:,} -> {one.now:,}" for one in change.labels]
    scores = [
        f"{one.metric}: {number_text(one.new)} on the {one.new_cases:,} new or edited cases, "
        f"{number_text(one.common)} on the {one.common_cases:,} others"
        for one in change.scores
    ]
    renamed = [f"{before} -> {now}" for before, now in change.renamed]
    kinds = {"under another id": renamed, "edited": change.edited, "added": change.added}
    return Section(
        title=title,
        lines=[
            f"{change.common:,} cases are the same",
            *([f"Cases by tag and language: {as_line(labels, _LOST)}"] if labels else ()),
            *scores,
        ],
        columns=("cases", "number", "for example"),
        rows=[
            (kind, f"{len(ids):,}", shown_line(as_line(ids, _FEW), longest=_LONGEST))
            for kind, ids in (kinds | {"gone": change.gone}).items()
            if ids
        ],
    )


def _check(check: GateCheck, drawn: Markup) -> Sequence[object]:
    drop, is_passed = check.drop, check.outcome is GateOutcome.PASSED
    return (
        check.label,
        check.outcome.value,
        drawn,
        *check_cells(check),
        # The smallest true loss that these cases would have shown.
        "-" if drop is None else number_text(drop.detectable_drop, check.unit),
        # Change and interval are drawn, and stand in columns of their own.
        "" if is_passed else _MOVED.sub("", check.reason),
    )


_MOVED = re.compile(
    r"^(up|down) .*? from .*? to \S+( s| ms)?(?: \(\d+% interval .*?\))?(?:[,:] |$)"
    r"(?:a loss of more than the tolerated \S+ is )?"
)


def _drawings(checks: Sequence[GateCheck]) -> Iterator[Markup]:
    """Each check's change or figure with its interval and limit, on one axis for each unit."""
    edges: dict[tuple[str, bool], float] = {}
    for check in checks:
        key, known = (check.unit, check.drop is None), [check.limit, *_drawn(check)]
        edges[key] = max(edges.get(key, 0.0), *(abs(one) for one in known if one is not None))
    for check in checks:
        figure, low, high = _drawn(check)
        edge, drop = edges[check.unit, check.drop is None] or 1.0, check.drop
        sign = 1.0 if drop is None or drop.rises else -1.0
        yield Markup("") if figure is None else charts.forest(
            figure, low, high, least=0.0 if drop is None else -edge, most=edge,
            limit=sign * check.limit,
        )  # fmt: skip


def _drawn(check: GateCheck) -> tuple[float | None, float | None, float | None]:
    drop, ends = check.drop, check.drop or check.interval
    figure = check.observed if drop is None else drop.difference
    return (figure, None, None) if ends is None else (figure, ends.low, ends.high)


def _trends(checks: Sequence[GateCheck]) -> list[Sequence[str]]:
    found: list[Sequence[str]] = []
    for check in checks:
        if (trend := check.trend) is not None:
            ends = (number_text(trend.start), number_text(trend.end), f"{trend.runs:,}")
            bars = sparkline(trend.levels, scale=1.0, width=_RUNS)
            since, p_value = (trend.since or "-")[:10], f"{trend.p_value:.2g}"
            found.append((check.subject.removeprefix("drift: "), *ends, since, p_value, bars))
    return found


def github_annotations(verdict: GateResult) -> str:
    """A line for the verdict, then one for each check and refusal that stands against it."""
    groups: list[list[tuple[str, str, str]]] = [
        [(verdict.colour, verdict.outcome.value, verdict.headline)],
        [("yellow", one.what, refusal_text(one)) for one in verdict.refusals],
    ]
    for colour in ("red", "yellow"):
        found = (one for one in verdict.against if one.outcome.colour == colour)
        groups.append([(colour, one.name, one.reason) for one in found])
    return "".join(
        annotation(_LEVELS[colour], f"ragbench {name}", message)
        for group in groups
        for colour, name, message in group[:_MOST]
    )


def github_error(message: str) -> str:
    return annotation("error", "ragbench gate could not run", message)


def refusal_text(refusal: Refusal) -> str:
    return f"{refusal.reason}. To go on, {refusal.remedy}"


CHECK_COLUMNS = ("now", "change", "interval", "limit", "cases")


def check_cells(check: GateCheck) -> tuple[str, ...]:
    """This run's figure and what it is held against, under `CHECK_COLUMNS`.

    The interval is that of the change, or of the figure where there is no change.
    """
    drop, known = check.drop, check.drop or check.interval
    return (
        number_text(check.observed, check.unit),
        "-" if drop is None else number_text(drop.difference, check.unit, sign=True),
        range_text(known, check.unit, sign=drop is not None),
        limit_text(check),
        f"{check.cases:,}",
    )


def limit_text(check: GateCheck) -> str:
    if check.outcome is GateOutcome.NOT_JUDGED:
        return "-"
    number = number_text(check.limit, check.unit)
    words = {"min": "at least", "max": "at most", "max_drop": "loss up to"}
    return f"{words[check.bound]} {number}"


def after_text(change: CaseChange) -> str:
    """What a case came to now: a number, or why there is none."""
    if change.after is not None:
        return number_text(change.after)
    has_reason = change.status == "failed" and change.reason
    return f"{change.status}: {change.reason}" if has_reason else change.status


def junit_report(verdict: GateResult) -> bytes:
    """The verdict as a ``testsuites`` document; the same verdict gives the same bytes.

    A check that failed is a failure, one that is inconclusive is skipped, with the reason, and a
    refusal to compare is an error: JUnit knows no "inconclusive".
    """
    return _junit(verdict.run.dataset, verdict.settings, _junit_cases(verdict))


def junit_error(message: str) -> bytes:
    """The document of a gate that could not run."""
    return _junit("", {}, [("gate", "error", message, "could not run")])


def _junit(
    dataset: str, settings: Mapping[str, object], cases: Iterable[tuple[str, str, str, str]]
) -> bytes:
    from xml.etree import ElementTree as Tree

    suite = Tree.Element("testsuite")
    if settings:
        properties = Tree.SubElement(suite, "properties")
        for key, value in settings.items():
            Tree.SubElement(properties, "property", name=key, value=str(value))
    found = Counter[str]()
    for name, outcome, message, kind in cases:
        found.update(("testcase", outcome))
        named = {"classname": f"ragbench.gate.{dataset}".rstrip("."), "name": name}
        case = Tree.SubElement(suite, "testcase", {k: xml_text(v) for k, v in named.items()})
        case.set("time", "0")
        if outcome == "system-out":
            Tree.SubElement(case, outcome).text = xml_text(message)
            continue
        result = Tree.SubElement(case, outcome, {"message": xml_text(message)})
        if kind:
            result.set("type", xml_text(kind))
            result.text = xml_text(message)
    kinds = {"tests": "testcase", "failures": "failure", "errors": "error"}
    counts = {name: str(found[tag]) for name, tag in kinds.items()}
    name = xml_text(f"ragbench gate: {dataset}" if dataset else "ragbench gate")
    suite.attrib.update({"name": name, **counts, "skipped": str(found["skipped"]), "time": "0"})
    root = Tree.Element("testsuites", {"name": "ragbench gate", **counts, "time": "0"})
    root.append(suite)
    Tree.indent(root)
    xml: bytes = Tree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _junit_cases(verdict: GateResult) -> Iterator[tuple[str, str, str, str]]:
    """Name, outcome, message and kind of each test case."""
    for refusal in verdict.refusals:
        yield f"comparable: {refusal.what}", "error", refusal_text(refusal), refusal.what
    for check in verdict.checks:
        name = f"{check.name} ({check.bound})"  # without figures: servers know a test by its name
        if check.outcome is GateOutcome.FAILED:
            yield name, "failure", _reason_with_names(verdict, check), check.kind.value
        elif check.outcome is GateOutcome.INCONCLUSIVE:
            yield name, "skipped", f"inconclusive: {check.reason}", ""
        elif check.outcome is GateOutcome.PASSED:
            yield name, "system-out", check.reason, ""


def _reason_with_names(verdict: GateResult, check: GateCheck) -> str:
    """Why a check failed; of expectations with those that do not hold."""
    if verdict.unfulfilled is None or check.subject != EXPECTATIONS:
        return check.reason
    return "\n".join([check.reason, *unfulfilled_lines(verdict.unfulfilled)[:_LOST]])


def unfulfilled_lines(found: Unfulfilled) -> list[str]:
    """A case with its expectations that do not hold per line."""
    return [
        f"{shown_line(case.id, longest=_LONGEST)}: {'; '.join(case.sentences)}"
        for case in found.cases
    ]


def verdict_object(verdict: GateResult) -> dict[str, Any]:
    """The verdict as a JSON object: its fields, by ``verdict.schema.json``."""
    head = {"schema_version": 2, "exit_code": verdict.outcome.exit_code, "colour": verdict.colour}
    return {**head, **msgspec.to_builtins(verdict)}
