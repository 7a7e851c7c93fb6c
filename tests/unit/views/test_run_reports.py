"""Reports of stored runs, with data that means harm."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragbench import Case, GenerationResult, RetrievalResult, evaluate, report_of
from ragbench.core.attribution import (
    Answer,
    AnswerCounts,
    Attribution,
    Basis,
    Cause,
    CauseCount,
)
from ragbench.core.comparison import CaseBefore, CaseKind, IdChange
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.report import CaseRow, FailureGroup, Report
from ragbench.core.story import JudgedAnswer, JudgedClaim, JudgedSentence
from ragbench.errors import InterruptedRunError
from ragbench.metrics.matching import Matching
from ragbench.views.html.case import CaseBlocks
from ragbench.views.report import case_object
from ragbench.views.run_document import headline
from ragbench.views.write import write_reports
from tests.behaviour.rags import NotingRAG, cases, run
from tests.cli.runs import cases_of, schema
from tests.pages import PAYLOADS, Hostile

TIMED = {"report.html", "timings.json"}
"""Files that hold durations."""
ALL = {"report.json", "report.md", "cases.csv", *TIMED}
HOSTILE = [
    "plain",
    "",
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    "a | b | c",
    "# title\n\n- list\n| --- |",
    "名前 🜚 é",
    'quote " and \\" and \\',
    "`code` *bold* _under_ ~~gone~~ [link](http://x) ![i](x)",
    "<script>alert(1)</script> <!-- & -->",
    "nul \x00 and escape \x1b[31m and \u202eturned",
]


class HostileRAG(NotingRAG):
    """Gives back what it is asked, in every field; fails with it for every third question."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult([query, "x"], context_ids=[query, f"{query} 2"])

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        if len(query) % 3 == 0:
            raise ValueError(query)
        return GenerationResult(query, multi_responses=[query], confidence=0.5)


def hostile_cases() -> list[Case]:
    return [
        Case(
            id=f"{number} {text}",
            query=text,
            reference=text,
            reference_context_ids=(text,),
            cluster=text,
            tags=(text, "shared"),
            language=text,
        )
        for number, text in enumerate(HOSTILE)
    ]


def hostile_report(folder: Path) -> Report:
    name = "<b>data|set`</b>\x1b"
    named = {"name": name, "source": f"{name}.jsonl", "rag_name": "R|A|G <img>"}
    return run(hostile_cases(), HostileRAG(), folder, metrics=None, **named)


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in write_reports(report_of(folder), folder)}


def json_of(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_bytes())


def table_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "cases.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "run"
    write_reports(hostile_report(folder), folder)
    return folder


SCHEMA = schema("report")
jsonschema.Draft202012Validator.check_schema(SCHEMA)


def check(report: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(report)


# --- report.json and its schema


def test_a_report_of_anything_meets_the_schema(hostile: Path, tmp_path: Path) -> None:
    check(json_of(hostile))
    broken: list[dict[str, Any]] = [{"schema_version": 1}, {"stages": None}, {"causes": ["lost"]}]
    for change in broken:
        with pytest.raises(jsonschema.ValidationError):
            check(json_of(hostile) | change)
    rag = NotingRAG()
    with pytest.raises(InterruptedRunError):
        run(cases("a", "b"), rag, tmp_path / "run", stopped=lambda: len(rag.retrieved) > 0)
    check(json.loads(written(tmp_path / "run")["report.json"]))
    data = [Case(id="a", query="a"), *cases("b", "lost c", "mute d")]
    for matching in ("auto", "id", "text", "document_id"):
        folder = tmp_path / matching
        run(data, NotingRAG(), folder, metrics=None, matching=Matching(matching))
        check(json.loads(written(folder)["report.json"]))


def test_every_text_comes_back_exactly(hostile: Path) -> None:
    found = cases_of(hostile)
    assert [case["query"] for case in found] == HOSTILE
    assert [case["reference_ids"] for case in found] == [[text] for text in HOSTILE]
    answered = [case for case in found if case["stages"]["generate"] != "failed"]
    assert all(case["response"] == case["query"] for case in answered)
    listed = [json.loads(row["reference_ids"]) for row in table_of(hostile)]
    assert listed == [[text] for text in HOSTILE]
    for summary in json_of(hostile)["summaries"]:
        counts = [summary[status] for status in ("measured", "abstained", "skipped", "failed")]
        assert sum(counts) == summary["total"] == len(HOSTILE)


# --- the same bytes


def test_the_same_run_gives_the_same_bytes_but_for_durations(tmp_path: Path, hostile: Path) -> None:
    before = {name: (hostile / name).read_bytes() for name in ALL}
    assert written(hostile) == before
    hostile_report(tmp_path / "other place")
    found = written(tmp_path / "other place")
    for name in ALL - TIMED:
        assert found[name] == before[name], name
        assert not re.search(rb"latenc|seconds|duration|\bp95\b", found[name]), name
    timings = json.loads(found["timings.json"])
    assert [latency["stage"] for latency in timings["latencies"]] == ["retrieve", "generate"]


def test_metrics_of_time_are_in_timings_and_the_page_only(tmp_path: Path) -> None:
    metrics = "retrieval_latency, exact_match"
    run(cases("a"), NotingRAG(), tmp_path / "run", metrics=metrics)
    found = written(tmp_path / "run")
    for name in ALL - TIMED:
        assert b"exact_match" in found[name].replace(b"\\_", b"_")
        # The manifest names every metric of the run, without a value.
        report = json.loads(found[name]) if name == "report.json" else {}
        text = json.dumps(report | {"manifest": None}) if report else found[name].decode()
        assert "retrieval_latency" not in text, name
    timings = json.loads(found["timings.json"])
    assert [summary["metric"] for summary in timings["summaries"]] == ["retrieval_latency"]


# --- report.md


def test_hostile_names_do_not_leave_their_place(hostile: Path) -> None:
    text = (hostile / "report.md").read_text(encoding="utf-8")
    assert re.search(r"(?<!\\)<(?!!-- -->)", text) is None, "no tag begins"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        lines[0],
        "## Cases",
        "## Metrics",
        "## Not measured",
        "## Where the answers were lost",
        "## Slices",
        "## Failures",
        "## Origin",
        "## Notes",
    ]
    assert lines[0].startswith(r"# ragbench evaluation: R\|A\|G \<img\> on \<b\>data\|set\`\</b\>")


def test_every_row_of_a_table_has_as_many_cells_as_its_header(hostile: Path) -> None:
    text = (hostile / "report.md").read_text(encoding="utf-8")
    tables = [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1, table
    assert sum(map(len, tables)) > 30


def test_long_tables_are_cut(tmp_path: Path) -> None:
    data = [Case(id=str(n), query="q", reference="A q", tags=(f"t{n}",)) for n in range(80)]
    run(data, NotingRAG(), tmp_path / "run")
    text = written(tmp_path / "run")["report.md"].decode()
    assert text.count("| tag: ") == 50
    assert "... and 30 more." in text


# --- cases.csv


def test_a_spreadsheet_runs_nothing_and_what_was_not_measured_is_a_word(hostile: Path) -> None:
    assert b"\x00" not in (hostile / "cases.csv").read_bytes()
    for row in table_of(hostile):
        for column, cell in row.items():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝")), column
        failed = row["generate"] == "failed"
        assert (row["exact_match"] == "failed") == failed == bool(row["failures"])
        assert failed or row["exact_match"] == "abstained" or float(row["exact_match"]) in (0, 1)


# --- writing


def report_with(rows: list[CaseRow]) -> Report:
    dataset: dict[str, Any] = dict.fromkeys(("limit", "sample", "seed"))
    dataset |= {"name": "d", "source": "", "cases": len(rows), "fingerprint": "0" * 32}
    manifest = {
        "dataset": dataset,
        "rag": {"name": "r"},
        "git": None,
        "packages": {},
        "fingerprints": {"rag": "0" * 32, "dataset": "0" * 32},
    }
    return Report(
        manifest=manifest,
        metrics=(),
        summaries=(),
        stages=(),
        failures=(),
        latencies=(),
        notes=(),
        rows=lambda: iter(rows),
    )


UNKNOWN = ("reference", "reference_ids", "cluster", "language", "retrieved_ids", "response")


def row(**fields: Any) -> CaseRow:
    known: dict[str, Any] = {"id": "a", "query": "q", "tags": (), "failures": (), "cells": ()}
    known |= dict.fromkeys(UNKNOWN)
    known["stages"] = dict.fromkeys(("retrieve", "generate"), Status.MEASURED)
    known["attribution"] = Attribution(
        cause=Cause.SHOWN, basis=Basis.LABEL, answer=Answer.UNCHECKED, detail=""
    )
    return CaseRow(**known | fields)


def test_what_is_not_known_is_null_or_empty_and_no_ids_are_none(tmp_path: Path) -> None:
    case = case_object(row(), ())
    assert {name for name, value in case.items() if value is None} == {*UNKNOWN}
    write_reports(report_with([row(), row(reference_ids=())]), tmp_path)
    unknown, none = table_of(tmp_path)
    assert (unknown["reference_ids"], unknown["response"], none["reference_ids"]) == ("", "", "[]")
    write_reports(report_with([]), tmp_path)
    assert table_of(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == ALL


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    write_reports(report_with([row()]), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def broken() -> Iterator[CaseRow]:
        yield row(id="new")
        raise OSError("the journal went away")

    changed = replace(report_with([]), rows=broken)
    with pytest.raises(OSError, match="went away"):
        write_reports(changed, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_huge_response_and_a_huge_failure(tmp_path: Path) -> None:
    failure = Failure(type="E", message="m" * 10**6, stage="score")
    report = report_with([row(response="r" * 10**7, failures=(failure,))])
    group = FailureGroup(stage="score", type="E", message="m" * 10**6, count=1, examples=("a",))
    write_reports(replace(report, failures=(group,)), tmp_path)
    assert (tmp_path / "report.md").stat().st_size < 2000


def test_cells_that_were_not_measured_say_why(tmp_path: Path) -> None:
    data = [Case(id="a", query="a"), *cases("mute b")]
    run(data, NotingRAG(), tmp_path / "run", metrics="exact_match")
    skipped, failed = cases_of(tmp_path / "run")
    said = {"status": "skipped", "value": None, "reason": "no reference answer"}
    assert skipped["scores"]["exact_match"] == said
    reason = failed["scores"]["exact_match"]["reason"]
    assert reason == "generate: ValueError: no words for mute b"
    assert report_of(tmp_path / "run").summaries[0].measured == 0


@pytest.mark.parametrize(
    ("answers", "counts", "text"),
    [
        (None, {}, "No case."),
        (
            AnswerCounts(cases=4, no_answer=4),
            {Cause.SHOWN: (4, 0)},
            "No case was answered: 4 cases without generation.",
        ),
        (
            AnswerCounts(cases=4, failed=4),
            {Cause.FAILED: (4, 0)},
            "No case was answered: 4 cases failed. 4 (100%) are lost as “failed”.",
        ),
        (
            AnswerCounts(cases=10, right=3, declined=2, undecided=5, by_words=8),
            {Cause.RIGHT: (3, 0), Cause.SHOWN: (5, 0), Cause.DECLINED: (2, 0)},
            "Of 10 cases: 3 agree with the reference, 5 cannot be told by words, 2 declined. "
            "2 (20%) are lost as “declined”.",
        ),
        (
            AnswerCounts(cases=4, wrong=3, declined=1, by_words=3),
            {Cause.NOT_RETRIEVED: (2, 2), Cause.DECLINED: (1, 0), Cause.NOT_USED: (1, 0)},
            "Of 4 cases: 3 contradict the reference, 1 declined. 4 are lost, the largest group as "
            "“not retrieved”: 2 (50%, estimated).",
        ),
    ],
)
def test_the_headline_counts_the_answers(
    answers: AnswerCounts | None, counts: dict[Cause, tuple[int, int]], text: str
) -> None:
    causes = tuple(CauseCount(cause=c, cases=n, estimated=e) for c, (n, e) in counts.items())
    assert headline(replace(report_with([]), causes=causes, answers=answers)) == text


# --- a case of the page


@pytest.fixture(scope="module")
def shown(hostile: Path) -> tuple[Report, CaseRow]:
    """A report with hostile texts, and its first row."""
    report = report_of(hostile)
    return report, next(report.find([next(report.rows()).id]))


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


OWN = frozenset(
    {
        "details",
        "summary",
        "b",
        "span",
        "i",
        "div",
        "p",
        "h3",
        "a",
        "em",
        "del",
        "ins",
        "u",
        "q",
        "small",
        "mark",
        "table",
        "tr",
        "th",
        "td",
        "blockquote",
        "pre",
    }
)


def claimed(row: CaseRow, text: str) -> CaseRow:
    quotes, said = ((text, text), (text, None)), "supported"
    claim = JudgedClaim(text=text, verdict=said, reason=text, quotes=quotes)
    sentence = JudgedSentence(text=f"{text}.", verdict=said, claims=(claim,))
    answer = JudgedAnswer(metric=text, judge=text, sentences=(sentence,))
    assert row.story is not None
    story = replace(row.story, supported=(answer,))
    return replace(row, tell=lambda: story)


def before_with_text(text: str) -> CaseBefore:
    return CaseBefore(
        kind=CaseKind.FAILING,
        cause=Cause.DECLINED,
        response=text,
        ids=IdChange(gained=((text, 1),), lost=((text, 2),), moved=((text, 1, 2),), kept=0),
        scores=((text, Cell.measured(1.0), Cell.skipped(text)),),
    )


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_judges_and_a_baseline_say_becomes_no_markup(
    shown: tuple[Report, CaseRow], payload: str
) -> None:
    report, row = shown
    blocks = CaseBlocks(report.metrics, {row.id: before_with_text(payload)})
    block = blocks.block(claimed(row, payload))
    parser = _Elements()
    parser.feed(block)
    assert {tag for tag, _ in parser.found} <= OWN
    allowed = {"class", "id", "href", "data-c", "data-g", "data-a", "data-k", "data-l", "data-m"}
    assert {name for _, attributes in parser.found for name in attributes} <= allowed
    assert "newly failing" in block
    assert "<div class=claims>" in block


def test_a_case_is_shown_with_what_the_baseline_knows_of_it(shown: tuple[Report, CaseRow]) -> None:
    report, row = shown
    row = replace(row, response="You get 27 days.")

    def block(before: CaseBefore | None = None) -> str:
        cases_before = {} if before is None else {row.id: before}
        return CaseBlocks(report.metrics, cases_before).block(row)

    before = before_with_text("You get 30 days.")
    assert "You get <u>30 </u>days." in block(before)
    assert re.search(r"In the baseline: declined\. .* 1 → skipped", block(before))
    without_texts = block(replace(before, tells_texts=False, response=None, ids=None))
    assert "<h3>In the baseline</h3>" not in without_texts
    assert "You get 30 days. 1 → skipped" in without_texts
    assert not re.search("baseline|class=claims", block())


def test_a_question_without_a_space_is_drawn_in_part(shown: tuple[Report, CaseRow]) -> None:
    report, row = shown
    block = CaseBlocks(report.metrics).block(replace(row, query="A" * 1_000_000))
    assert max(map(len, re.findall("A+", block))) == 2000
    assert "998,000 more letters" in block


def test_a_chunk_links_to_its_source_on_the_web_and_nowhere_else(tmp_path: Path) -> None:
    given = ("https://docs.example/a?b=1&c", "javascript:alert(1)", 'http://x/" onclick="x', 7)

    class Linked(Hostile):
        def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
            found = [{"url": each} for each in given]
            return RetrievalResult([*map(str, given)], context_metadata=found)

    case = Case(id="a", query="Which?", reference="that", tags=("t",))
    report = evaluate([case], Linked(), out=tmp_path / "run", metrics=["recall@5"])
    (row,) = report.find(["a"])
    assert row.story is not None
    assert [chunk.address for chunk in row.story.chunks] == [given[0], None, None, None]
    block = CaseBlocks(report.metrics).block(row)
    assert re.findall('href="(?!#)([^"]*)"', block) == ["https://docs.example/a?b=1&amp;c"]
