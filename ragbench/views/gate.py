"""A gate's result as a document, as JSON, JUnit and annotations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from ragbench.safe_text import annotation, as_line, counted, shown_line, xml_text
from ragbench.views.comparison import change_lines, counts_text, source_text, system_section
from ragbench.views.document import (
    Document,
    Section,
    changes_of,
    flows_section,
    movement_cells,
    number_text,
    paired_cases_text,
    range_text,
)
from ragbench.views.explain import case_name
from ragbench.views.history import sparkline
from ragbench.views.html import charts
from ragbench.views.labels import corrected_section
from ragbench.views.run_document import causes_section, unfulfilled_section

_MOST_ANNOTATIONS = 9
"""GitHub shows ten of a level a step; the first one is the verdict's own."""
_MOST_CHECKS = 60
"""Checks in Markdown: forges allow a comment 65,536 letters."""
_MOST_LOST_CASES = 20
"""Cases with a lower score, or with expectations that do not hold, that are listed."""
_MOST_LABELS = 20
"""Tags and languages whose numbers of cases are named."""
_MOST_CHANGED_CASES = 5
"""Cases of each kind that went another way, in Markdown."""
_LONGEST = 160
"""Letters of an id, or of a line of examples."""
_MOST_EXAMPLES = 5
"""Examples in such a line."""
_MOST_MAIN_CHECKS = 3
"""Checks in the comment of a gate that passed."""
_MOST_RUNS = 30
"""Of how many runs of main there are bars."""
_TONES = {"green": "passes", "red": "fails", "yellow": "undecided"}
"""Of the headline of a document, by the verdict's colour."""
_LEVELS = {"green": "notice", "red": "error", "yellow": "warning"}
"""Of GitHub's annotations, by the verdict's colour."""


def comment_marker(verdict: GateResult) -> str:
    """The hidden first line of a gate's comment on a pull request, by which a later run finds it.

    A comment that begins with it is replaced, not repeated: another form leaves old comments
    behind.

    It is the same for every run of one system on one dataset.
    """
    slugs: list[str] = []
    for name in (verdict.run.dataset, verdict.run.rag):
        slugs.append(re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-"))
    return f"<!-- ragbench-gate {'/'.join(slugs)} -->"


def gate_document(
    verdict: GateResult, causes: Sequence[CauseCount] = (), against: Against | None = None
) -> Document:
    """The document of a gate's verdict, with all its checks.

    It has a short form for Markdown where the gate passed. The Markdown is a comment on a pull
    request: one that passed has nothing to act on, and a long comment on each of them would soon be
    read by none.

    Args:
        causes: what became of the run's cases.
        against: the run's cases beside those of the baseline.
    """
    corrections = [check.corrected for check in verdict.checks if check.corrected]
    # Without a baseline no case went another way.
    flows = () if against is None else against.flows
    document = Document(
        kind="ragbench gate",
        title=f"{verdict.word} ({verdict.run.rag} on {verdict.run.dataset})",
        headline=verdict.headline,
        tone=_TONES[verdict.colour],
        # In the order of a reviewer's questions; empty sections are left out.
        sections=(
            _refusals_section(verdict),
            _checks_section(verdict),
            corrected_section(corrections),
            dataset_section(verdict.dataset),
            _trends_section(verdict),
            system_section("the baseline", "this run", verdict.system),
            causes_section(causes),
            flows_section(flows),
            unfulfilled_section(verdict.unfulfilled),
            _cases_section(verdict, against),
        ),
        notes=verdict.notes,
        foot=_foot_text(verdict),
    )
    # Inconclusive gates are not green: they have something to act on.
    if verdict.colour == "green":
        document = replace(document, brief=_calm_document(verdict, document, against))
    return document


def _foot_text(verdict: GateResult) -> str:
    """The last line of a gate's document: which runs were compared, and by which settings.

    It is enough to repeat the gate.
    """
    runs = f"run {source_text(verdict.run)}"
    if verdict.baseline is not None:
        runs += f"; baseline {source_text(verdict.baseline)}"
    settings = ", ".join(f"{key} {value}" for key, value in verdict.settings.items())
    return f"{runs}. {settings}."


def _refusals_section(verdict: GateResult) -> Section:
    """The section on why a gate could not compare the runs, and what to do about each reason.

    Without it a reader would take an inconclusive gate for a small loss.
    """
    lines = [f"{refusal.what}: {refusal_text(refusal)}" for refusal in verdict.refusals]
    return Section(title="Not compared", lines=lines)


def _checks_section(verdict: GateResult) -> Section:
    """The table of all checks of a gate, each with a drawing of its change or figure.

    Below them is what several lost checks have in common: there is one thing to look for then.
    """
    rows: list[Sequence[object]] = []
    # Drawings of all checks together, since they share one scale.
    for check, drawing in zip(verdict.checks, _check_drawings(verdict.checks), strict=True):
        rows.append(_check_row(check, drawing))
    hint = ""
    if verdict.shared is not None:
        hint = verdict.shared.text
    return Section(
        title="Checks",
        columns=("check", "outcome", "", *CHECK_COLUMNS, "detectable", "why"),
        rows=rows,
        most=_MOST_CHECKS,
        hint=hint,
    )


def _trends_section(verdict: GateResult) -> Section:
    """The table of metrics that drifted over the runs of main.

    Their losses are too small to fail a single gate.
    """
    columns = ("metric", "from", "to", "runs", "since", "p", "course")
    rows = list(_trend_rows(verdict.checks))
    return Section(title="Main over its merges", columns=columns, rows=rows)


def _cases_section(verdict: GateResult, against: Against | None) -> Section:
    """The section of cases that pass in one run alone; without such, of those with a lower score.

    These are where to look for the reason of a lower figure.

    Args:
        against: the run's cases beside the baseline's; None where a baseline holds no cases.
    """
    if against is not None:
        changes = changes_of([against.pair], against.changed, {"run": verdict.run.source})
        if changes:
            return Section(
                title="Cases that went another way",
                lines=[counts_text(against.pair)],
                changes=changes,
                most=_MOST_CHANGED_CASES,
            )
    rows: list[Sequence[object]] = []
    # No case went another way, or the baseline holds no cases: those with a lower score are listed.
    for case in verdict.lost_cases:
        # A baseline file holds no questions.
        name = shown_line(case.id, longest=_LONGEST)
        if case.query:
            name = case_name(case.id, case.query)
        after = shown_line(after_text(case), longest=_LONGEST)
        rows.append((name, case.metric, number_text(case.before), after))
    return Section(
        title=f"Cases with a lower score ({len(verdict.lost_cases):,})",
        columns=("case", "metric", "before", "now"),
        rows=rows,
        most=_MOST_LOST_CASES,
    )


def _calm_document(verdict: GateResult, whole: Document, against: Against | None) -> Document:
    """The short document of a gate that passed, for a comment of at most 24 lines.

    A pull request that may be merged needs no more than the first figures and what to know besides.

    Args:
        whole: the document that the page shows, from which title and headline are taken.
    """
    rows: list[Sequence[object]] = []
    for check in _telling_checks(verdict):
        rows.append((check.label, check.outcome.value, *check_cells(check)))
    checks = Section(title="Checks", columns=("check", "outcome", *CHECK_COLUMNS), rows=rows)

    notes: list[str] = []
    courses: list[str] = []
    # The slots between are drawings and figures for the long table.
    for metric, start, end, *_, bars in _trend_rows(verdict.checks):
        courses.append(f"{metric} {start} to {end} {bars}")
    if courses:
        notes.append(f"Main over its merges: {'; '.join(courses)}.")
    # None where no systems were compared.
    if verdict.system is not None and not verdict.system.is_none:
        changes = list(change_lines(verdict.system))
        if changes:
            notes.append(f"Changed in the system: {as_line(changes, _MOST_EXAMPLES)}.")
    if against is not None and against.changed:
        notes.append(f"{counts_text(against.pair)}.")
    notes.extend(verdict.notes)
    # A copy of the whole with other sections: title and tone are the same on the page.
    return replace(
        whole,
        sections=(checks, dataset_section(verdict.dataset)),
        notes=notes,
        foot=f"{whole.foot} All checks and cases: --html, --json.",
    )


def _telling_checks(verdict: GateResult) -> list[GateCheck]:
    """The checks that the comment of a passed gate shows: the first ones of the whole run.

    Errors that the limit let through are shown beside them: cases that failed are in no score.
    """
    # Checks of a part of the run, or of how much was measured, are no first figures.
    of_a_part = (CheckKind.SLICE, CheckKind.COVERAGE, CheckKind.DRIFT)
    main = [check for check in verdict.checks if check.kind not in of_a_part]
    if not main:
        # A gate that has no other checks shows these.
        main = list(verdict.checks)
    errors: list[GateCheck] = []
    for check in verdict.checks:
        # An error rate of 0 needs no row.
        if check.subject == "error rate" and check.observed:
            errors.append(check)
    return main[:_MOST_MAIN_CHECKS] + errors


def unjudged_document(message: str) -> Document:
    """The document of a gate that could not run: a pull request needs a comment then, too.

    Without it, the comment of an earlier run would stay, and may say that it passed.

    Args:
        message: of the error. Its first line becomes the headline, each further one a note.
    """
    headline, *notes = message.splitlines() or [""]
    return Document(
        kind="ragbench gate", title="could not run", headline=headline, tone="fails", notes=notes
    )


def dataset_section(change: DatasetChange | None) -> Section:
    """The section on how the dataset changed since the baseline; empty where it did not.

    Scores on new cases beside the others tell whether a metric moved because of the system, or
    because the new cases are harder.
    """
    title = "How the dataset changed"
    # A section without lines and rows is empty, and left out.
    if change is None:
        return Section(title=title)
    lines = [f"unchanged: {counted(change.common, 'case')}"]
    labels = [f"{label.label} {label.before:,} -> {label.now:,}" for label in change.labels]
    if labels:
        lines.append(f"Cases by tag and language: {as_line(labels, _MOST_LABELS)}")
    # By metric: each has its own number of new cases.
    for score in change.scores:
        new = f"{number_text(score.new)} on new or edited cases ({score.new_cases:,})"
        common = f"{number_text(score.common)} on the others ({score.common_cases:,})"
        lines.append(f"{score.metric}: {new}, {common}")
    ids_by_kind: dict[str, Sequence[str]] = {
        "under another id": [f"{before} -> {now}" for before, now in change.renamed],
        "edited": change.edited,
        "added": change.added,
        "gone": change.gone,
    }
    # Kinds without a case have no row.
    rows: list[Sequence[object]] = []
    for kind, ids in ids_by_kind.items():
        if ids:
            examples = shown_line(as_line(ids, _MOST_EXAMPLES), longest=_LONGEST)
            rows.append((kind, f"{len(ids):,}", examples))
    columns = ("cases", "number", "for example")
    return Section(title=title, lines=lines, columns=columns, rows=rows)


def _check_row(check: GateCheck, drawing: Markup) -> Sequence[object]:
    """The cells of a check in the table of a gate.

    They hold its outcome, drawing and figures, and why it did not pass; the order is that of the
    columns in `_checks_section`.
    """
    # The smallest true loss that a test on so many cases would have shown.
    detectable = "-"
    if check.drop is not None:
        detectable = number_text(check.drop.detectable_drop, check.unit)
    reason = ""
    if check.outcome is not GateOutcome.PASSED:
        # Change and interval are drawn, and have columns of their own.
        reason = _FIGURES_OF_REASON.sub("", check.reason)
    outcome = check.outcome.value
    return (check.label, outcome, drawing, *check_cells(check), detectable, reason)


_FIGURES_OF_REASON = re.compile(
    r"^(up|down) .*? from .*? to \S+( s| ms)?(?: \(\d+% interval .*?\))?"
    r"(?:, on \S+ cases? in both \(.*?\))?(?:[,:] |$)"
    r"(?:a loss of more than the tolerated \S+ is )?"
)
"""The beginning of a check's reason as `ragbench.gate.words` writes it: "down 0.05 from 0.90 to
0.85 (95% interval ...), on 40 cases in both (...): a loss of more than the tolerated 0.02 is"."""


def _check_drawings(checks: Sequence[GateCheck]) -> Iterator[Markup]:
    """A drawing for each check of its change or figure, with the interval and the limit.

    Drawings below each other are compared by eye, which needs a common axis. Changes lie on both
    sides of 0, figures without a baseline above it: these two have axes of their own.
    """
    edges: dict[tuple[str, bool], float] = {}
    for check in checks:
        axis = (check.unit, check.drop is None)
        for number in (check.limit, *_drawn_figures(check)):
            if number is not None:
                edges[axis] = max(edges.get(axis, 0.0), abs(number))
    for check in checks:
        figure, low, high = _drawn_figures(check)
        edge = edges[check.unit, check.drop is None] or 1.0  # an axis needs a length
        if figure is None:
            yield Markup("")
        elif check.drop is None:
            yield charts.forest(figure, low, high, least=0.0, most=edge, limit=check.limit)
        else:
            # A loss of a metric of which less is better is a rise.
            limit = check.limit if check.drop.rises else -check.limit
            yield charts.forest(figure, low, high, least=-edge, most=edge, limit=limit)


def _drawn_figures(check: GateCheck) -> tuple[float | None, float | None, float | None]:
    """The three numbers that a check's drawing shows: change and ends of its interval.

    Without a baseline there is no change, and the figure itself is drawn.
    """
    # The three numbers are the same in kind, so that a drawing has one axis.
    if check.drop is not None:
        return check.drop.difference, check.drop.low, check.drop.high
    if check.interval is not None:
        return check.observed, check.interval.low, check.interval.high
    return check.observed, None, None


def _trend_rows(checks: Sequence[GateCheck]) -> Iterator[Sequence[str]]:
    """The table's rows of metrics that drifted on main, each with its course in bars.

    The drift is one that a test of all merges shows. `_calm_document` unpacks the rows by position.
    """
    for check in checks:
        trend = check.trend
        if trend is None:
            continue
        since = "-"
        if trend.since:
            since = trend.since[:10]  # the day of an ISO time
        yield (
            check.subject.removeprefix("drift: "),
            number_text(trend.start),
            number_text(trend.end),
            f"{trend.runs:,}",
            since,
            f"{trend.p_value:.2g}",
            sparkline(trend.levels, scale=1.0, width=_MOST_RUNS),
        )


def github_annotations(verdict: GateResult) -> str:
    """The lines that GitHub turns into annotations of a pull request, the verdict's own first.

    Then comes one for each refusal and each check against the run. GitHub reads such lines from the
    output of a step, ten of each level and no more.
    """
    title = f"ragbench {verdict.outcome.value}"
    annotations = [annotation(_LEVELS[verdict.colour], title, verdict.headline)]
    # Ten of each level are shown by GitHub: the rest would be dropped without a word.
    for refusal in verdict.refusals[:_MOST_ANNOTATIONS]:
        title = f"ragbench {refusal.what}"
        annotations.append(annotation(_LEVELS["yellow"], title, refusal_text(refusal)))
    for colour in ("red", "yellow"):
        checks = [check for check in verdict.against if check.outcome.colour == colour]
        for check in checks[:_MOST_ANNOTATIONS]:
            level = _LEVELS[colour]
            if verdict.outcome is GateOutcome.PASSED and not check.is_warning:
                level = _LEVELS["green"]  # chance may explain the loss: nothing to act on
            annotations.append(annotation(level, f"ragbench {check.name}", check.reason))
    return "".join(annotations)


def github_error(message: str) -> str:
    """The line that GitHub turns into an annotation for a gate that could not run.

    A workflow's page shows it, where the log would have to be opened else.
    """
    return annotation("error", "ragbench gate could not run", message)


def refusal_text(refusal: Refusal) -> str:
    """Why two runs are not compared, and the way out, in two sentences.

    All forms of a gate's result use these sentences.
    """
    return f"{refusal.reason}. To go on, {refusal.remedy}"


CHECK_COLUMNS = ("before", "now", "change", "interval", "limit", "cases")


class CheckCells(NamedTuple):
    """The cells of a check under `CHECK_COLUMNS`."""

    before: str
    now: str
    change: str
    interval: str
    """Of the change, or of the figure where there is no change."""
    limit: str
    cases: str


def check_cells(check: GateCheck) -> CheckCells:
    """A check's figure and what it is held against.

    Beside a baseline all three figures are of the cases that both runs measured: those that one of
    them measured alone are counted behind the number of these.
    """
    limit = limit_text(check)
    drop = check.drop
    # Without a baseline there is one figure, held against a fixed limit.
    if drop is None:
        now = number_text(check.observed, check.unit)
        interval = range_text(check.interval, check.unit)
        return CheckCells("-", now, "-", interval, limit, f"{check.cases:,}")
    before, now, change = movement_cells(drop.before, drop.after, check.unit)
    interval = range_text(drop, check.unit, sign=True)
    cases = paired_cases_text(check.cases, drop.cases_only_before, drop.cases_only_now)
    return CheckCells(before, now, change, interval, limit, cases)


def limit_text(check: GateCheck) -> str:
    """The limit of a gate's check in words: "at least 0.800"; ``-`` where nothing is demanded.

    Tests of pytest have it in their names, so another wording renames them.
    """
    if check.outcome is GateOutcome.NOT_JUDGED:
        return "-"
    number = number_text(check.limit, check.unit)
    # The words behind "limit" in a configuration, as a reader says them.
    words = {"min": "at least", "max": "at most", "max_drop": "loss up to"}
    return f"{words[check.bound]} {number}"


def after_text(change: CaseChange) -> str:
    """The score of a case in the judged run: a number, or why there is none, such as "failed".

    An error is no 0: a failed case is shown with its reason.
    """
    # A score goes before a status: a measured case has both.
    if change.after is not None:
        return number_text(change.after)
    if change.status == "failed" and change.reason:
        return f"{change.status}: {change.reason}"
    return change.status


def junit_report(verdict: GateResult) -> bytes:
    """A gate's verdict as JUnit XML, which servers for continuous integration show.

    The same verdict gives the same bytes.

    A check that failed is a failure, one that is inconclusive is skipped, with the reason, and a
    refusal to compare is an error: JUnit knows no "inconclusive".
    """
    return _junit_document(verdict.run.dataset, verdict.settings, list(_junit_cases(verdict)))


def junit_error(message: str) -> bytes:
    """The JUnit XML of a gate that could not run: a server must not take it for one that passed."""
    return _junit_document("", {}, [_JUnitCase("gate", "error", message, "could not run")])


class _JUnitCase(NamedTuple):
    """A check or a refusal as a test case."""

    name: str
    outcome: str
    """The element that holds the message: ``failure``, ``error``, ``skipped``, ``system-out``."""
    message: str
    kind: str = ""


def _junit_document(
    dataset: str, settings: Mapping[str, object], cases: Sequence[_JUnitCase]
) -> bytes:
    """The bytes of a JUnit document, ``testsuites`` with one suite, from test cases.

    The form is that of the schema which CI servers read: they refuse or ignore other attributes.

    Args:
        dataset: names the classes of the test cases, so that servers tell gates on several
            datasets apart; empty for a gate that could not run.
        settings: of the gate, which become properties.
    """
    from xml.etree import ElementTree as Tree

    suite = Tree.Element("testsuite")
    if settings:
        properties = Tree.SubElement(suite, "properties")
        for key, value in settings.items():
            Tree.SubElement(properties, "property", name=key, value=str(value))
    # Servers group tests by their class: a gate without a dataset ends without the dot.
    class_name = xml_text(f"ragbench.gate.{dataset}".rstrip("."))
    for case in cases:
        attributes = {"classname": class_name, "name": xml_text(case.name), "time": "0"}
        element = Tree.SubElement(suite, "testcase", attributes)
        message = xml_text(case.message)
        # A passed test has a text only: the schema has no message for it.
        if case.outcome == "system-out":
            Tree.SubElement(element, case.outcome).text = message
            continue
        result = Tree.SubElement(element, case.outcome, {"message": message})
        if case.kind:
            result.set("type", xml_text(case.kind))
            result.text = message

    # Counted from the cases, as both numbers are attributes above them.
    outcomes = Counter(case.outcome for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(outcomes["failure"]),
        "errors": str(outcomes["error"]),
    }
    name = "ragbench gate"
    if dataset:
        name = xml_text(f"ragbench gate: {dataset}")
    skipped = str(outcomes["skipped"])
    # The schema has the number of skipped cases on a suite, and not on the whole.
    suite.attrib.update({"name": name, **counts, "skipped": skipped, "time": "0"})
    root = Tree.Element("testsuites", {"name": "ragbench gate", **counts, "time": "0"})
    root.append(suite)
    Tree.indent(root)
    xml: bytes = Tree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _junit_cases(verdict: GateResult) -> Iterator[_JUnitCase]:
    """A gate's refusals and checks as JUnit test cases; checks that were not judged have none.

    A failed check is a failure, an inconclusive one is skipped. Their names hold no figures and
    must stay: servers follow a test by its name.
    """
    for refusal in verdict.refusals:
        message = refusal_text(refusal)
        yield _JUnitCase(f"comparable: {refusal.what}", "error", message, refusal.what)
    for check in verdict.checks:
        # Without figures: servers know a test by its name, and show its course over the builds.
        name = f"{check.name} ({check.bound})"
        if check.outcome is GateOutcome.FAILED:
            reason = _reason_in_full(verdict, check)
            yield _JUnitCase(name, "failure", reason, check.kind.value)
        elif check.outcome is GateOutcome.INCONCLUSIVE:
            yield _JUnitCase(name, "skipped", f"inconclusive: {check.reason}")
        elif check.outcome is GateOutcome.PASSED:
            yield _JUnitCase(name, "system-out", check.reason)


def _reason_in_full(verdict: GateResult, check: GateCheck) -> str:
    """The full text of a failed check: its reason, what it shares with others, failed expectations.

    A server shows the text of a failed test alone: all that explains it must be there.
    """
    lines = [check.reason]
    if verdict.shared is not None and check.subject in verdict.shared.subjects:
        lines.append(verdict.shared.text)
    # Only the check on expectations is explained by them.
    if verdict.unfulfilled is not None and check.subject == EXPECTATIONS:
        lines += unfulfilled_lines(verdict.unfulfilled)[:_MOST_LOST_CASES]
    return "\n".join(lines)


def unfulfilled_lines(unfulfilled: Unfulfilled) -> list[str]:
    """A line for each case with expectations that do not hold: its id, then these expectations.

    An expectation is what a case's author demands of its answer.
    """
    lines: list[str] = []
    for case in unfulfilled.cases:
        id = shown_line(case.id, longest=_LONGEST)
        lines.append(f"{id}: {'; '.join(case.sentences)}")
    return lines


def verdict_object(verdict: GateResult) -> dict[str, Any]:
    """A gate's verdict as the JSON object of ``--json``, in the form of ``verdict.schema.json``.

    Programs read it: a field that changes its meaning needs another ``schema_version``.
    """
    return {
        "schema_version": 2,
        "exit_code": verdict.outcome.exit_code,
        "colour": verdict.colour,
        **msgspec.to_builtins(verdict),
    }
