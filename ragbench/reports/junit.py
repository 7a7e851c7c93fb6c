"""A verdict as JUnit XML, which every CI server can show: a test case a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.records.verdicts import CaseChange, Check, GateOutcome, Refusal, Verdict
from ragbench.reports.escape import xml_text
from ragbench.reports.verdict_text import after_text, limit_text, number_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["junit_report"]


def junit_report(verdict: Verdict, *, with_cases: bool = False) -> bytes:
    """The verdict as a ``testsuites`` document; the same verdict gives the same bytes.

    A check that failed is a failure, one that is inconclusive is skipped, with the reason, and a
    refusal to compare is an error: JUnit knows no "cannot tell". Informational checks pass.

    Args:
        verdict: what the gate decided.
        with_cases: add a failure for each case that lost.
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
    if with_cases:
        suite.extend(
            _of_case(change, f"ragbench.cases.{verdict.run.dataset}") for change in verdict.lost
        )
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


def _of_check(check: Check, home: str) -> Element:
    name = f"{check.name} ({limit_text(check)})"
    if check.informational:
        return _case(home, name, told=f"informational, {check.outcome.value}: {check.reason}")
    if check.outcome is GateOutcome.FAILED:
        return _case(home, name, "failure", check.reason, kind=check.kind.value)
    if check.outcome is GateOutcome.INCONCLUSIVE:
        return _case(home, name, "skipped", f"cannot tell: {check.reason}")
    return _case(home, name, told=check.reason)


def _of_refusal(refusal: Refusal, home: str) -> Element:
    message = f"{refusal.reason}. To go on, {refusal.remedy}"
    return _case(home, f"comparable: {refusal.what}", "error", message, kind=refusal.what)


def _of_case(change: CaseChange, home: str) -> Element:
    message = f"{change.metric}: {number_text(change.before)} before, now {after_text(change)}"
    return _case(home, change.id, "failure", message, kind=change.status)


def _case(
    home: str, name: str, outcome: str = "", message: str = "", *, kind: str = "", told: str = ""
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
    if told:
        Tree.SubElement(case, "system-out").text = xml_text(told)
    return case
