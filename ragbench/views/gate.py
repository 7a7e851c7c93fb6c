"""A gate's result as words and numbers, JSON, JUnit, annotations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    GateCheck,
    GateOutcome,
    GateResult,
    Refusal,
)
from ragbench.core.origin import SystemChange
from ragbench.safe_text import annotation_message, annotation_property, shown_line, xml_text

_LEVELS = {
    GateOutcome.PASSED: "notice",
    GateOutcome.FAILED: "error",
    GateOutcome.INCONCLUSIVE: "warning",
}
_MOST = 9
"""GitHub shows ten of a level a step; the first one is the verdict's own."""


def github_annotations(verdict: GateResult) -> str:
    """A line for the verdict, then one for each check and refusal that stands against it."""
    groups = [
        [(verdict.outcome, verdict.outcome.value, verdict.headline)],
        [(GateOutcome.INCONCLUSIVE, one.what, refusal_text(one)) for one in verdict.refusals],
    ]
    for outcome in (GateOutcome.FAILED, GateOutcome.INCONCLUSIVE):
        # A slice that is too small to say anything is no warning.
        checks = [one for one in verdict.checks if one.outcome is outcome]
        if outcome is GateOutcome.INCONCLUSIVE:
            checks = [one for one in checks if one.kind is not CheckKind.SLICE]
        groups.append([(outcome, one.name, one.reason) for one in checks])
    return "".join(
        f"::{_LEVELS[outcome]} title={annotation_property(f'ragbench {name}')}"
        f"::{annotation_message(message)}\n"
        for group in groups
        for outcome, name, message in group[:_MOST]
    )


def refusal_text(refusal: Refusal) -> str:
    return f"{refusal.reason}. To go on, {refusal.remedy}"


def number_text(value: float | None, unit: str = "", *, sign: bool = False) -> str:
    """A number in as many places as its size needs; ``-`` where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    plus = "+" if sign else ""
    if unit == "share":
        return f"{value:{plus}.1%}"
    if unit == "s":
        return f"{value * 1e3:{plus}.1f} ms" if abs(value) < 1 else f"{value:{plus}.2f} s"
    return f"{value:{plus}.3f}" if abs(value) < 100 else f"{value:{plus},.1f}"


def range_text(low: float | None, high: float | None, unit: str = "", *, sign: bool = True) -> str:
    if low is None or high is None:
        return "-"
    return " .. ".join(number_text(end, unit, sign=sign) for end in (low, high))


CHECK_COLUMNS = ("now", "change", "interval", "limit", "cases")


def check_cells(check: GateCheck) -> tuple[str, ...]:
    """This run's figure and what it is held against, under `CHECK_COLUMNS`.

    The interval is that of the change, or of the figure where there is no change.
    """
    drop, known = check.drop, check.drop or check.interval
    return (
        number_text(check.observed, check.unit),
        "-" if drop is None else number_text(drop.difference, check.unit, sign=True),
        "-"
        if known is None
        else range_text(known.low, known.high, check.unit, sign=drop is not None),
        limit_text(check),
        f"{check.cases:,}",
    )


def limit_text(check: GateCheck) -> str:
    """The limit of the figure, in words."""
    number = number_text(check.limit, check.unit)
    words = {"min": "at least", "max": "at most", "max_drop": "loss up to"}
    return f"{words[check.bound]} {number}"


def after_text(change: CaseChange) -> str:
    """What a case came to now: a number, or why there is none."""
    if change.after is not None:
        return number_text(change.after)
    has_reason = change.status == "failed" and change.reason
    return f"{change.status}: {change.reason}" if has_reason else change.status


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
        first, *others = change.unseen
        more = f" (and {len(others):,} more)" if others else ""
        begin = "" if change.changes else "nothing that ragbench can see; "
        yield f"{begin}it cannot see into all: {shown_line(first, longest=_LONGEST)}{more}"


def junit_report(verdict: GateResult) -> bytes:
    """The verdict as a ``testsuites`` document; the same verdict gives the same bytes.

    A check that failed is a failure, one that is inconclusive is skipped, with the reason, and a
    refusal to compare is an error: JUnit knows no "cannot tell".
    """
    from xml.etree import ElementTree as Tree

    suite = Tree.Element("testsuite")
    if verdict.settings:
        properties = Tree.SubElement(suite, "properties")
        for key, value in verdict.settings.items():
            Tree.SubElement(properties, "property", name=key, value=str(value))
    found = Counter[str]()
    for name, outcome, message, kind in _junit_cases(verdict):
        found.update(("testcase", outcome))
        named = {"classname": f"ragbench.gate.{verdict.run.dataset}", "name": name}
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
    name = xml_text(f"ragbench gate: {verdict.run.dataset}")
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
        name = f"{check.name} ({limit_text(check)})"
        if check.outcome is GateOutcome.FAILED:
            yield name, "failure", check.reason, check.kind.value
        elif check.outcome is GateOutcome.INCONCLUSIVE:
            yield name, "skipped", f"cannot tell: {check.reason}", ""
        else:
            yield name, "system-out", check.reason, ""


def verdict_object(verdict: GateResult) -> dict[str, Any]:
    """The verdict as a JSON object: its fields, by ``verdict.schema.json``."""
    head = {"schema_version": 2, "exit_code": verdict.outcome.exit_code}
    return {**head, **msgspec.to_builtins(verdict)}
