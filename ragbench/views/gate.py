"""A gate's result as words and numbers, JSON, JUnit, annotations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    Drop,
    GateCheck,
    GateOutcome,
    GateResult,
    Refusal,
)
from ragbench.core.origin import SystemChange
from ragbench.safe_text import annotation_message, annotation_property, shown_line, xml_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_LEVELS = {
    GateOutcome.PASSED: "notice",
    GateOutcome.FAILED: "error",
    GateOutcome.INCONCLUSIVE: "warning",
}
_MOST = 9
"""GitHub shows ten of a level a step; the first one is the verdict's own."""


def github_annotations(verdict: GateResult) -> str:
    """A line for the verdict, then one for each check and refusal that stands against it."""
    lines = [_line(_LEVELS[verdict.outcome], f"ragbench {verdict.outcome.value}", verdict.headline)]
    lines += list(_refusal_lines(verdict))[:_MOST]
    for outcome in (GateOutcome.FAILED, GateOutcome.INCONCLUSIVE):
        lines += list(_check_lines(verdict, outcome))[:_MOST]
    return "\n".join(lines) + "\n"


def _refusal_lines(verdict: GateResult) -> Iterator[str]:
    for refusal in verdict.refusals:
        message = f"{refusal.reason}. To go on, {refusal.remedy}"
        yield _line("warning", f"ragbench {refusal.what}", message)


def _check_lines(verdict: GateResult, outcome: GateOutcome) -> Iterator[str]:
    for check in verdict.checks:
        is_quiet = check.kind is CheckKind.SLICE and outcome is GateOutcome.INCONCLUSIVE
        if check.outcome is outcome and not is_quiet:
            yield _line(_LEVELS[outcome], f"ragbench {check.name}", check.reason)


def _line(level: str, title: str, message: str) -> str:
    return f"::{level} title={annotation_property(title)}::{annotation_message(message)}"


def number_text(value: float | None, unit: str = "", *, sign: bool = False) -> str:
    """A number in as many places as its size needs; ``-`` where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    plus = "+" if sign else ""
    if unit == "share":
        return f"{value:{plus}.1%}"
    if unit == "s":
        text = f"{value * 1e3:{plus}.1f} ms" if abs(value) < 1 else f"{value:{plus}.2f} s"
        return text
    return f"{value:{plus}.3f}" if abs(value) < 100 else f"{value:{plus},.1f}"


def observed_text(check: GateCheck) -> str:
    """This run's figure."""
    return number_text(check.observed, check.unit)


def limit_text(check: GateCheck) -> str:
    """The limit of the figure, in words."""
    number = number_text(check.limit, check.unit)
    words = {"min": "at least", "max": "at most", "max_drop": "loss up to"}
    return f"{words[check.bound]} {number}"


def change_text(drop: Drop | None, unit: str = "") -> str:
    return "-" if drop is None else number_text(drop.difference, unit, sign=True)


def after_text(change: CaseChange) -> str:
    """What a case came to now: a number, or why there is none."""
    if change.after is not None:
        return number_text(change.after)
    has_reason = change.status == "failed" and change.reason
    return f"{change.status}: {change.reason}" if has_reason else change.status


def interval_text(check: GateCheck) -> str:
    """The interval of the change, or of the figure where there is no change."""
    if check.drop is not None:
        low, high, sign = check.drop.low, check.drop.high, True
    elif check.interval is not None:
        low, high, sign = check.interval.low, check.interval.high, False
    else:
        return "-"
    if low is None or high is None:
        return "-"
    ends = (number_text(end, check.unit, sign=sign) for end in (low, high))
    return " .. ".join(ends)


def detectable_text(check: GateCheck) -> str:
    """The smallest true loss that these cases would have shown."""
    drop = check.drop
    return "-" if drop is None else number_text(drop.detectable_drop, check.unit)


_CHANGES = 8
"""How many changes of a system are named."""
_LONGEST = 200


def change_title(before: str, now: str) -> str:
    return f"what changed between {before} and {now}"


def change_lines(change: SystemChange, *, most: int = _CHANGES) -> Iterator[str]:
    """A line for each thing that differs, or one that says that nothing does, or is unknown."""
    if change.unknown:
        yield f"unknown: {shown_line(change.unknown, longest=_LONGEST)}"
        return
    if change.is_ruled_out:
        yield (
            "nothing that was imported, read or set: where scores of the same cases differ, it is "
            "noise"
        )
    for sentence in change.changes[:most]:
        yield shown_line(sentence, longest=_LONGEST)
    if len(change.changes) > most:
        yield f"and {len(change.changes) - most:,} more: see --json"
    if change.unseen:
        yield ("" if change.changes else "nothing that ragbench can see; ") + _unseen(change)


def _unseen(change: SystemChange) -> str:
    first, *others = change.unseen
    more = f" (and {len(others):,} more)" if others else ""
    return f"it cannot see into all: {shown_line(first, longest=_LONGEST)}{more}"


def junit_report(verdict: GateResult) -> bytes:
    """The verdict as a ``testsuites`` document; the same verdict gives the same bytes.

    A check that failed is a failure, one that is inconclusive is skipped, with the reason, and a
    refusal to compare is an error: JUnit knows no "cannot tell".
    """
    from xml.etree import ElementTree as Tree

    suite = Tree.Element("testsuite")
    for key, value in verdict.settings.items():
        properties = suite.find("properties")
        if properties is None:
            properties = Tree.SubElement(suite, "properties")
        Tree.SubElement(properties, "property", name=key, value=str(value))
    home = f"ragbench.gate.{verdict.run.dataset}"
    suite.extend(_of_refusal(refusal, home) for refusal in verdict.refusals)
    suite.extend(_of_check(check, home) for check in verdict.checks)
    cases = suite.findall("testcase")
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
    }
    skipped = str(sum(case.find("skipped") is not None for case in cases))
    name = xml_text(f"ragbench gate: {verdict.run.dataset}")
    suite.attrib.update({"name": name, **counts, "skipped": skipped, "time": "0"})
    root = Tree.Element("testsuites", {"name": "ragbench gate", **counts, "time": "0"})
    root.append(suite)
    Tree.indent(root)
    xml: bytes = Tree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _of_check(check: GateCheck, home: str) -> Element:
    name = f"{check.name} ({limit_text(check)})"
    if check.outcome is GateOutcome.FAILED:
        return _case(home, name, "failure", check.reason, kind=check.kind.value)
    if check.outcome is GateOutcome.INCONCLUSIVE:
        return _case(home, name, "skipped", f"cannot tell: {check.reason}")
    return _case(home, name, output=check.reason)


def _of_refusal(refusal: Refusal, home: str) -> Element:
    message = f"{refusal.reason}. To go on, {refusal.remedy}"
    return _case(home, f"comparable: {refusal.what}", "error", message, kind=refusal.what)


def _case(
    home: str, name: str, outcome: str = "", message: str = "", *, kind: str = "", output: str = ""
) -> Element:
    from xml.etree import ElementTree as Tree

    case = Tree.Element(
        "testcase", {"classname": xml_text(home), "name": xml_text(name), "time": "0"}
    )
    if outcome:
        found = Tree.SubElement(case, outcome, {"message": xml_text(message)})
        if kind:
            found.set("type", xml_text(kind))
            found.text = xml_text(message)
    if output:
        Tree.SubElement(case, "system-out").text = xml_text(output)
    return case


def verdict_object(verdict: GateResult) -> dict[str, Any]:
    """The verdict as a JSON object: its fields, by ``verdict.schema.json``."""
    head = {"schema_version": 2, "exit_code": verdict.outcome.exit_code}
    return {**head, **msgspec.to_builtins(verdict)}
