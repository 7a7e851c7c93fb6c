"""A verdict's forms: nothing that a user wrote breaks out of its place."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Tree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.attribution import Cause, CauseCount
from ragbench.core.case_table import CaseTexts, ScoredCase
from ragbench.core.gate_result import GateResult
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.gate.compare import cases_beside
from ragbench.gate.gate import gate
from ragbench.safe_text import annotation, markdown_text, xml_text
from ragbench.views.document import markdown
from ragbench.views.gate import (
    comment_marker,
    gate_document,
    github_annotations,
    junit_report,
    verdict_object,
)
from ragbench.views.html.document import document_page
from tests.cli.runs import schema
from tests.unit.gate.builders import column, config, run, run_of, with_cases, with_texts

NASTY = "a|b `c` <b>&amp;</b> \x00\x1b[31m\ud800 ]]> @all #1 [x](http://y)\r\n::error::x % \u2028"
SCHEMA = schema("verdict")
texts = st.text(st.characters(), max_size=40)


def failed_verdict(*, id: str = "case", text: str = "text", metric: str = "m") -> GateResult:
    """A drop that is shown, one that is not, a floor that holds, and a failed case."""
    now = run({metric: ["failed"] + [0.0] * 9, "n": [1, 0] * 5}, dataset=text, source=text)
    first: ScoredCase = now.cases[0]
    cell = replace(first.scores[metric], reason=text)
    broken = replace(first, id=id, scores={**first.scores, metric: cell})
    now = with_cases(now, (broken, *[*now.cases][1:]))
    before = run({metric: [1.0] * 10, "n": [0, 1] * 5})
    before = with_cases(before, (replace(before.cases[0], id=id), *[*before.cases][1:]))
    limits = {metric: {"max_drop": 0.02}, "n": {"max_drop": 0.02, "minimum": 0.5}}
    found = gate(now, before, config({"max_error_rate": 0.2}, **limits), notes=(text,))
    lost = tuple(replace(one, query=text if one.id == id else None) for one in found.lost_cases)
    return replace(found, lost_cases=lost)


def page_of(verdict: GateResult) -> str:
    return markdown(gate_document(verdict))


def refused_verdict() -> GateResult:
    """Of runs whose chunks were matched in two ways."""
    wanted = config(m={"max_drop": 0.02})
    return gate(run({"m": [1]}), run({"m": [1]}, matching="text"), wanted)


@pytest.fixture(params=["plain", "nasty", "refused"])
def verdict(request: pytest.FixtureRequest) -> GateResult:
    if request.param == "refused":
        return refused_verdict()
    return failed_verdict() if request.param == "plain" else failed_verdict(id=NASTY, text=NASTY)


# --- JSON


def test_the_object_fits_its_schema(verdict: GateResult) -> None:
    found = json.loads(json.dumps(verdict_object(verdict)))
    jsonschema.validate(found, SCHEMA)
    assert found.keys() >= {"schema_version", "exit_code", "outcome", "checks", "lost_cases"}


# --- JUnit

COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
SUITE = "errors failures name tests time"
# What the JUnit schema of CI servers allows, as far as it is used here.
ATTRIBUTES = {
    "testsuites": SUITE,
    "testsuite": "errors failures name skipped tests time",
    "properties": "",
    "property": "name value",
    "testcase": "classname name time",
    "failure": "message type",
    "error": "message type",
    "skipped": "message",
    "system-out": "",
}


def test_the_junit_document_is_what_ci_servers_read(verdict: GateResult) -> None:
    root = Tree.fromstring(junit_report(verdict))
    for element in root.iter():
        assert " ".join(sorted(element.attrib)) == ATTRIBUTES[element.tag]
    (suite,) = root
    cases = suite.findall("testcase")
    assert [child.tag for child in suite] == ["properties", *["testcase"] * len(cases)]
    assert {child.tag for child in suite[0]} == {"property"}
    results = [result.tag for case in cases for result in case]
    assert {*results} <= {*COUNTED.values(), "system-out"}
    assert {len(case) for case in cases} == {1}
    for attribute, tag in COUNTED.items():
        assert int(suite.attrib[attribute]) == results.count(tag)
    assert int(suite.attrib["tests"]) == len(cases)


def test_junit_has_a_test_case_per_check() -> None:
    checks = Tree.fromstring(junit_report(failed_verdict())).findall("testsuite/testcase")
    found = [(case.attrib["name"], case[0].tag) for case in checks]
    assert found[:3] == [
        ("m (max_drop)", "failure"),
        ("n (max_drop)", "skipped"),
        ("measured: m (max_drop)", "skipped"),
    ]
    assert dict(found[3:]) == dict.fromkeys(
        ("n (min)", "measured: n (max_drop)", "error rate (max)", "cases in common (min)"),
        "system-out",
    )


def test_a_refusal_is_no_failed_check_in_any_form() -> None:
    verdict = refused_verdict()
    (case,) = Tree.fromstring(junit_report(verdict)).findall("testsuite/testcase[error]")
    assert case.attrib["name"] == "comparable: matching"
    assert verdict_object(verdict)["exit_code"] == 3
    assert "::warning title=ragbench matching::" in github_annotations(verdict)
    page = page_of(verdict)
    assert "inconclusive" in page
    assert "set a new one with: ragbench baseline set RUN" in page


@given(texts)
def test_any_text_is_read_back_from_xml(text: str) -> None:
    element = Tree.Element("e", {"a": xml_text(text)})
    element.text = xml_text(text)
    back = Tree.fromstring(Tree.tostring(element, encoding="utf-8"))
    assert back.attrib["a"] == xml_text(text)
    assert (back.text or "") == xml_text(text).replace("\r\n", "\n").replace("\r", "\n")


# --- Markdown


def test_the_comment_starts_with_its_marker() -> None:
    verdict = failed_verdict()
    assert comment_marker(verdict) == "<!-- ragbench-gate text/rag -->"
    nasty = comment_marker(failed_verdict(text=NASTY))
    assert re.fullmatch(r"<!-- ragbench-gate [A-Za-z0-9./-]+ -->", nasty)
    assert nasty.count("--") == 2


def test_newly_failed_cases_stand_before_others() -> None:
    lines = page_of(failed_verdict()).splitlines()
    cases = lines.index("| case | metric | before | now |")
    assert lines[cases + 2] == "| case: text | m | 1.000 | failed: text |"
    assert lines[cases + 3] == "| q10 | m | 1.000 | 0.000 |"


def test_a_long_comment_stays_below_the_limit_of_forges() -> None:
    verdict = failed_verdict(id="x" * 5000, text="y" * 5000)
    many: Any = {"checks": verdict.checks * 50, "lost_cases": verdict.lost_cases * 50}
    page = page_of(replace(verdict, baseline=None, **many))
    assert len(page) < 65_536
    assert "... and 290 more." in page
    assert "... and 480 more." in page


def story(text: str = "text", *, cases: int = 7) -> list[str]:
    scores = {"recall@5": Cell.measured(1.0)}
    before = [
        ScoredCase(
            id=f"{text}{n}",
            fingerprint="f",
            scores=scores,
            cause=Cause.RIGHT,
            stages={"generate": Status.MEASURED},
        )
        for n in range(cases)
    ]
    lost: Any = {"scores": {"recall@5": Cell.measured(0.0)}, "cause": Cause.NOT_RETRIEVED}
    now = [replace(case, **lost) for case in before]
    texts = CaseTexts(text, text, (text, "a")), CaseTexts(text, f"other {text}", ("b", "a"))
    runs = [
        with_texts(run_of(rows, column("recall@5")), {row.id: one for row in rows})
        for rows, one in zip((before, now), texts, strict=True)
    ]
    against = cases_beside(runs[1], runs[0])
    causes = [CauseCount(cause=Cause.DROPPED, cases=3, stages=((text, 3),))]
    return markdown(gate_document(failed_verdict(), causes, against)).splitlines()


def test_the_story_holds_the_waterfall_the_flow_and_the_first_cases() -> None:
    lines = story()
    page = "\n".join(lines)
    parts = ("| check |", "#### Where the answers were lost", "#### Cases that went")
    assert sorted(parts, key=page.index) == [*parts]
    assert "#### Cases with a lower score" not in page  # they stand there once
    assert "| dropped | 3 | 100% | text 3 |" in lines
    assert any(line.startswith("| right | not retrieved | 7 | run | text; text;") for line in lines)
    assert "7 lost, 0 won of 7; 7 with other retrieved ids; 7 with another " in page
    shown = lines.index("- text0")
    assert lines[shown + 1 : shown + 7] == [
        "  - text",
        r"  - fails: recall@5 1.000 -\> 0.000",
        r"  - cause: right -\> not retrieved",
        "  - ids: lost text (1); gained b (1)",
        '  - baseline: "text"',
        '  - run: "other text"',
    ]
    assert len([line for line in lines if re.match(r"- text\d", line)]) == 5
    assert "- ... and 2 more" in lines


def test_no_text_breaks_a_table_or_a_line() -> None:
    cell = re.compile(r"(?<!\\)\|")
    verdicts = (failed_verdict(), failed_verdict(id=NASTY, text=NASTY))
    plain, nasty = (page_of(one).splitlines() for one in verdicts)
    for first, second in ((plain, nasty), (story(), story(NASTY))):
        cells = [[len(cell.findall(line)) for line in lines] for lines in (first, second)]
        assert cells[0] == cells[1]
    assert len("\n".join(story("y" * 5000, cases=500))) < 20_000  # room for the rest


@given(texts)
def test_markdown_is_one_line_without_markup_or_mentions(text: str) -> None:
    line = markdown_text(text)
    assert len(line.splitlines()) <= 1
    line.encode()
    bare = line.replace("<!-- -->", "")
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`\[\]<>|~]", re.sub(r"\\.", "", bare))
    assert not re.search(r"(?<!\w)@\w|#\d", line)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("ask @me about #7", "ask @<!-- -->me about #<!-- -->7"),
        ("GH-12 and gh-3, not ugh-3", "GH-<!-- -->12 and gh-<!-- -->3, not ugh-3"),
        ("see www.evil.example", "see www<!-- -->.evil.example"),
        ("to me.too@mail.example or http://x", "to me.too@<!-- -->mail.example or http\\://x"),
        ("recall@5 down 0.1, wwww.", "recall@5 down 0.1, wwww."),
    ],
)
def test_nothing_links_by_itself(text: str, written: str) -> None:
    assert markdown_text(text) == written


# --- annotations


def test_annotations_are_a_line_each() -> None:
    plain = github_annotations(failed_verdict()).split("\n")
    heads = [
        *("error title=ragbench failed", "error title=ragbench m"),
        *("warning title=ragbench n", "warning title=ragbench measured%3A m"),
    ]
    assert [line.rpartition("::")[0] for line in plain[:-1]] == [f"::{head}" for head in heads]
    lines = github_annotations(failed_verdict(id=NASTY, text=NASTY, metric=NASTY)).split("\n")
    assert len(lines) == len(plain)
    assert all(re.match(r"::(error|warning|notice) title=[^:,]*::", line) for line in lines[:-1])


@given(texts)
def test_an_annotation_decodes_to_its_text(text: str) -> None:
    readable = text.encode("utf-8", "backslashreplace").decode()
    made = annotation("error", text, text)
    found = re.fullmatch(r"::error title=([^\r\n:,]*)::([^\r\n]*)\n", made)
    for encoded in found.groups() if found else [""]:
        decoded = re.sub("%(25|0D|0A|3A|2C)", lambda found: chr(int(found[1], 16)), encoded)
        assert decoded == readable and found


def test_the_page_draws_each_check_with_its_interval_and_its_limit() -> None:
    lower = column("brier", direction=Direction.LOWER)
    now, before = (run({"m": [m] * 10, "brier": [0.5] * 10}, lower) for m in (0.0, 1.0))
    wanted = config(m={"minimum": 0.5, "max_drop": 0.02}, brier={"max_drop": 0.1})
    document = gate_document(gate(now, before, wanted))
    page = "".join(document_page(document).body)
    drawn = re.findall(r'aria-label="(-?[\d.]+.*?; limit .*?)"', page)
    assert drawn[:3] == [
        "0.000, 0.000 to 0.308; limit 0.500",
        "-1.000, -1.000 to -0.383; limit -0.020",
        "0.000, -0.308 to 0.308; limit 0.100",
    ]
    # What is drawn, and stands in columns, is not told again.
    (told,) = re.findall(r"^\| m \| failed \| 1.000 \| 0.000 \| -1.000.*", markdown(document), re.M)
    assert "interval" not in told and "down" not in told
