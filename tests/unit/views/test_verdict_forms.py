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
from ragbench.core.run_scores import RunScores
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
any_text = st.text(st.characters(), max_size=40)


def with_first_case(run: RunScores, **changes: Any) -> RunScores:
    """The run whose first case has these facts."""
    first_case, *later_cases = run.cases
    return with_cases(run, [replace(first_case, **changes), *later_cases])


def failed_verdict(*, id: str = "case", text: str = "text", metric: str = "m") -> GateResult:
    """A drop that is shown, one that is not, a floor that holds, and a failed case."""
    before = run({metric: [1.0] * 10, "n": [0, 1] * 5})
    before = with_first_case(before, id=id)

    now = run({metric: ["failed"] + [0.0] * 9, "n": [1, 0] * 5}, dataset=text, source=text)
    scores = now.cases[0].scores
    failed_cell = replace(scores[metric], reason=text)
    now = with_first_case(now, id=id, scores={**scores, metric: failed_cell})

    limits = {metric: {"max_drop": 0.02}, "n": {"max_drop": 0.02, "minimum": 0.5}}
    rules = config({"max_error_rate": 0.2}, **limits)
    verdict = gate(now, before, rules, notes=(text,))

    lost_cases = []
    for case in verdict.lost_cases:
        query = text if case.id == id else None
        lost_cases.append(replace(case, query=query))
    return replace(verdict, lost_cases=tuple(lost_cases))


def page_of(verdict: GateResult) -> str:
    return markdown(gate_document(verdict))


def refused_verdict() -> GateResult:
    """Of runs whose chunks were matched in two ways."""
    now = run({"m": [1]})
    before = run({"m": [1]}, matching="text")
    return gate(now, before, config(m={"max_drop": 0.02}))


@pytest.fixture(params=["plain", "nasty", "refused"])
def verdict(request: pytest.FixtureRequest) -> GateResult:
    if request.param == "refused":
        return refused_verdict()
    if request.param == "nasty":
        return failed_verdict(id=NASTY, text=NASTY)
    return failed_verdict()


# --- JSON


def test_the_object_fits_its_schema(verdict: GateResult) -> None:
    written = json.loads(json.dumps(verdict_object(verdict)))

    jsonschema.validate(written, SCHEMA)
    assert written.keys() >= {"schema_version", "exit_code", "outcome", "checks", "lost_cases"}


# --- JUnit

# What the JUnit schema of CI servers allows, as far as it is used here.
ATTRIBUTES_OF_TAG = {
    "testsuites": ["errors", "failures", "name", "tests", "time"],
    "testsuite": ["errors", "failures", "name", "skipped", "tests", "time"],
    "properties": [],
    "property": ["name", "value"],
    "testcase": ["classname", "name", "time"],
    "failure": ["message", "type"],
    "error": ["message", "type"],
    "skipped": ["message"],
    "system-out": [],
}


def test_the_junit_document_has_the_attributes_that_ci_servers_read(verdict: GateResult) -> None:
    root = Tree.fromstring(junit_report(verdict))

    for element in root.iter():
        assert sorted(element.attrib) == ATTRIBUTES_OF_TAG[element.tag]


def test_the_junit_suite_has_its_properties_and_then_a_result_per_test_case(
    verdict: GateResult,
) -> None:
    (suite,) = Tree.fromstring(junit_report(verdict))

    properties, *cases = suite
    assert properties.tag == "properties"
    assert {element.tag for element in properties} == {"property"}
    for case in cases:
        assert case.tag == "testcase"
        (result,) = case
        assert result.tag in ("failure", "error", "skipped", "system-out")


def test_the_junit_suite_counts_its_test_cases_by_result(verdict: GateResult) -> None:
    (suite,) = Tree.fromstring(junit_report(verdict))

    counted_elements = {
        "tests": "testcase",
        "failures": "testcase/failure",
        "errors": "testcase/error",
        "skipped": "testcase/skipped",
    }
    for attribute, path in counted_elements.items():
        assert int(suite.attrib[attribute]) == len(suite.findall(path)), attribute


def test_junit_has_a_test_case_per_check() -> None:
    root = Tree.fromstring(junit_report(failed_verdict()))

    results = []
    for case in root.findall("testsuite/testcase"):
        result = case[0]
        results.append((case.attrib["name"], result.tag))
    assert results[:3] == [
        ("m (max_drop)", "failure"),
        ("n (max_drop)", "skipped"),
        ("measured: m (max_drop)", "skipped"),
    ]
    assert sorted(results[3:]) == [
        ("cases in common (min)", "system-out"),
        ("error rate (max)", "system-out"),
        ("measured: n (max_drop)", "system-out"),
        ("n (min)", "system-out"),
    ]


def test_a_refusal_is_an_error_in_junit() -> None:
    root = Tree.fromstring(junit_report(refused_verdict()))

    (case,) = root.findall("testsuite/testcase[error]")
    assert case.attrib["name"] == "comparable: matching"


def test_a_refusal_has_an_exit_code_of_its_own_and_is_a_warning() -> None:
    verdict = refused_verdict()

    assert verdict_object(verdict)["exit_code"] == 3
    assert "::warning title=ragbench matching::" in github_annotations(verdict)


def test_the_page_of_a_refusal_says_what_to_do() -> None:
    page = page_of(refused_verdict())

    assert "inconclusive" in page
    assert "set a new one with: ragbench baseline set RUN" in page


@given(any_text)
def test_any_text_is_read_back_from_xml(text: str) -> None:
    element = Tree.Element("e", {"a": xml_text(text)})
    element.text = xml_text(text)

    read_back = Tree.fromstring(Tree.tostring(element, encoding="utf-8"))

    assert read_back.attrib["a"] == xml_text(text)
    # Every reader of XML takes a carriage return in a text for the end of a line.
    unix_lines = xml_text(text).replace("\r\n", "\n").replace("\r", "\n")
    assert (read_back.text or "") == unix_lines


# --- Markdown


def test_the_comment_starts_with_its_marker() -> None:
    assert comment_marker(failed_verdict()) == "<!-- ragbench-gate text/rag -->"


def test_the_marker_of_a_nasty_name_is_one_comment_of_html() -> None:
    marker = comment_marker(failed_verdict(text=NASTY))

    assert re.fullmatch(r"<!-- ragbench-gate [A-Za-z0-9./-]+ -->", marker)
    assert marker.count("--") == 2


def test_newly_failed_cases_stand_before_others() -> None:
    lines = page_of(failed_verdict()).splitlines()

    head = lines.index("| case | metric | before | now |")
    assert lines[head + 2] == "| case: text | m | 1.000 | failed: text |"
    assert lines[head + 3] == "| q10 | m | 1.000 | 0.000 |"


def test_a_long_comment_stays_below_the_limit_of_forges() -> None:
    verdict = failed_verdict(id="x" * 5000, text="y" * 5000)
    fifty_times = replace(
        verdict,
        baseline=None,
        checks=verdict.checks * 50,
        lost_cases=verdict.lost_cases * 50,
    )

    page = page_of(fifty_times)

    assert len(page) < 65_536
    assert "... and 290 more." in page
    assert "... and 480 more." in page


def story(text: str = "text", *, cases: int = 7) -> list[str]:
    """The lines of a comment on cases that went from right to not retrieved."""
    recall = column("recall@5")
    before: list[ScoredCase] = []
    for number in range(cases):
        case = ScoredCase(
            id=f"{text}{number}",
            fingerprint="f",
            scores={"recall@5": Cell.measured(1.0)},
            cause=Cause.RIGHT,
            stages={"generate": Status.MEASURED},
        )
        before.append(case)
    not_retrieved: dict[str, Any] = {
        "scores": {"recall@5": Cell.measured(0.0)},
        "cause": Cause.NOT_RETRIEVED,
    }
    now = [replace(case, **not_retrieved) for case in before]

    texts_before = CaseTexts(text, text, (text, "a"))
    texts_now = CaseTexts(text, f"other {text}", ("b", "a"))
    ids = [case.id for case in before]
    run_before = with_texts(run_of(before, recall), dict.fromkeys(ids, texts_before))
    run_now = with_texts(run_of(now, recall), dict.fromkeys(ids, texts_now))

    causes = [CauseCount(cause=Cause.DROPPED, cases=3, stages=((text, 3),))]
    document = gate_document(failed_verdict(), causes, cases_beside(run_now, run_before))
    return markdown(document).splitlines()


def test_the_story_goes_from_the_checks_over_the_causes_to_the_cases() -> None:
    page = "\n".join(story())

    checks = page.index("| check |")
    causes = page.index("#### Where the answers were lost")
    cases = page.index("#### Cases that went")
    assert checks < causes < cases
    # The cases are shown once.
    assert "#### Cases with a lower score" not in page


def test_the_story_counts_where_answers_were_lost_and_what_became_of_cases() -> None:
    lines = story()

    assert "| dropped | 3 | 100% | text 3 |" in lines
    (flow,) = [line for line in lines if line.startswith("| right | not retrieved |")]
    assert flow.startswith("| right | not retrieved | 7 | run | text; text;")
    page = "\n".join(lines)
    assert "7 lost, 0 won of 7; 7 with other retrieved ids; 7 with another " in page


def test_the_story_shows_five_cases_with_their_answers_beside_each_other() -> None:
    lines = story()

    head = lines.index("- text0")
    assert lines[head + 1 : head + 7] == [
        "  - text",
        r"  - fails: recall@5 1.000 -\> 0.000",
        r"  - cause: right -\> not retrieved",
        "  - ids: lost text (1); gained b (1)",
        '  - baseline: "text"',
        '  - run: "other text"',
    ]
    shown_cases = [line for line in lines if re.match(r"- text\d", line)]
    assert len(shown_cases) == 5
    assert "- ... and 2 more" in lines


def columns_of_lines(lines: list[str]) -> list[int]:
    """How many borders of table cells each line has."""
    return [len(re.findall(r"(?<!\\)\|", line)) for line in lines]


def test_no_text_breaks_a_table_of_the_verdict() -> None:
    plain = page_of(failed_verdict()).splitlines()
    nasty = page_of(failed_verdict(id=NASTY, text=NASTY)).splitlines()

    assert columns_of_lines(nasty) == columns_of_lines(plain)


def test_no_text_breaks_a_table_of_the_story() -> None:
    assert columns_of_lines(story(NASTY)) == columns_of_lines(story())


def test_long_cases_leave_room_for_the_verdict_in_a_comment() -> None:
    lines = story("y" * 5000, cases=500)

    assert len("\n".join(lines)) < 20_000


@given(any_text)
def test_markdown_is_one_line_without_markup_or_mentions(text: str) -> None:
    line = markdown_text(text)

    assert len(line.splitlines()) <= 1
    line.encode()  # no half of a surrogate pair is left
    without_comments = line.replace("<!-- -->", "")
    without_escapes = re.sub(r"\\.", "", without_comments)
    assert not re.search(r"[*_`\[\]<>|~]", without_escapes)
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
    lines = github_annotations(failed_verdict()).splitlines()

    beginnings = [line.rpartition("::")[0] for line in lines]
    assert beginnings == [
        "::error title=ragbench failed",
        "::error title=ragbench m",
        "::warning title=ragbench n",
        "::warning title=ragbench measured%3A m",
    ]


def test_no_text_breaks_an_annotation() -> None:
    nasty = failed_verdict(id=NASTY, text=NASTY, metric=NASTY)

    # A line of a log ends at \n alone.
    lines = github_annotations(nasty).removesuffix("\n").split("\n")

    assert len(lines) == 4
    for line in lines:
        assert re.match(r"::(error|warning|notice) title=[^:,]*::", line)


@given(any_text)
def test_an_annotation_decodes_to_its_text(text: str) -> None:
    printable = text.encode("utf-8", "backslashreplace").decode()

    line = annotation("error", text, text)

    parts = re.fullmatch(r"::error title=([^\r\n:,]*)::([^\r\n]*)\n", line)
    assert parts is not None
    title, message = parts.groups()
    assert decoded(title) == printable
    assert decoded(message) == printable


def decoded(encoded: str) -> str:
    """A part of an annotation as the forge shows it."""
    return re.sub("%(25|0D|0A|3A|2C)", lambda code: chr(int(code[1], 16)), encoded)


# --- HTML


def verdict_with_two_drops_and_a_floor() -> GateResult:
    """m fell from 1 to 0 below its floor of .5, brier stayed."""
    brier = column("brier", direction=Direction.LOWER)
    before = run({"m": [1.0] * 10, "brier": [0.5] * 10}, brier)
    now = run({"m": [0.0] * 10, "brier": [0.5] * 10}, brier)
    limits = config(m={"minimum": 0.5, "max_drop": 0.02}, brier={"max_drop": 0.1})
    return gate(now, before, limits)


def test_the_page_draws_each_check_with_its_interval_and_its_limit() -> None:
    document = gate_document(verdict_with_two_drops_and_a_floor())

    page = "".join(document_page(document).body)

    drawn = re.findall(r'aria-label="(-?[\d.]+.*?; limit .*?)"', page)
    assert drawn[:3] == [
        "0.000, 0.000 to 0.308; limit 0.500",
        "-1.000, -1.000 to -0.383; limit -0.020",
        "0.000, -0.308 to 0.308; limit 0.100",
    ]


def test_what_stands_in_columns_is_not_said_again_in_words() -> None:
    page = page_of(verdict_with_two_drops_and_a_floor())

    (row,) = re.findall(r"^\| m \| failed \| 1.000 \| 0.000 \| -1.000.*", page, re.MULTILINE)
    assert "interval" not in row
    assert "down" not in row
