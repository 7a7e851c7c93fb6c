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
    """Gives back the question in every field; fails with it where its length is a multiple of 3."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult([query, "x"], context_ids=[query, f"{query} 2"])

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        if len(query) % 3 == 0:
            raise ValueError(query)
        return GenerationResult(query, multi_responses=[query], confidence=0.5)


def hostile_case(number: int, text: str) -> Case:
    """A case with this text in every field."""
    return Case(
        id=f"{number} {text}",
        query=text,
        reference=text,
        reference_context_ids=(text,),
        cluster=text,
        tags=(text, "shared"),
        language=text,
    )


def hostile_report(folder: Path) -> Report:
    cases = [hostile_case(number, text) for number, text in enumerate(HOSTILE)]
    name = "<b>data|set`</b>\x1b"
    names = {"name": name, "source": f"{name}.jsonl", "rag_name": "R|A|G <img>"}
    return run(cases, HostileRAG(), folder, metrics=None, **names)


def written_files(folder: Path) -> dict[str, bytes]:
    """The files of a run's report, which is written anew."""
    paths = write_reports(report_of(folder), folder)
    return {path.name: path.read_bytes() for path in paths}


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
    """Fails for a report.json that does not meet its schema."""
    jsonschema.Draft202012Validator(SCHEMA).validate(report)


# --- report.json and its schema


def test_a_report_of_anything_meets_the_schema(hostile: Path, tmp_path: Path) -> None:
    check(json_of(hostile))

    # The schema does refuse.
    broken: list[dict[str, Any]] = [
        {"schema_version": 1},
        {"stages": None},
        {"causes": ["lost"]},
    ]
    for change in broken:
        with pytest.raises(jsonschema.ValidationError):
            check(json_of(hostile) | change)

    # An interrupted run.
    rag = NotingRAG()
    interrupted = tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        run(cases("a", "b"), rag, interrupted, stopped=lambda: len(rag.retrieved) > 0)
    check(json.loads(written_files(interrupted)["report.json"]))

    # A case without labels, a right one, one that retrieval fails on, one that generation fails on.
    data = [Case(id="a", query="a"), *cases("b", "lost c", "mute d")]
    for matching in ("auto", "id", "text", "document_id"):
        folder = tmp_path / matching
        run(data, NotingRAG(), folder, metrics=None, matching=Matching(matching))
        check(json.loads(written_files(folder)["report.json"]))


def test_every_text_comes_back_exactly(hostile: Path) -> None:
    for case, text in zip(cases_of(hostile), HOSTILE, strict=True):
        assert case["query"] == text
        assert case["reference_ids"] == [text]
        if case["stages"]["generate"] != "failed":
            assert case["response"] == text

    for row, text in zip(table_of(hostile), HOSTILE, strict=True):
        assert json.loads(row["reference_ids"]) == [text]

    for summary in json_of(hostile)["summaries"]:
        counts = [summary[status] for status in ("measured", "abstained", "skipped", "failed")]
        assert sum(counts) == summary["total"] == len(HOSTILE)


# --- the same bytes


def test_the_same_run_gives_the_same_bytes_but_for_durations(tmp_path: Path, hostile: Path) -> None:
    files = {name: (hostile / name).read_bytes() for name in ALL}
    assert written_files(hostile) == files

    hostile_report(tmp_path / "other place")
    same_files = written_files(tmp_path / "other place")

    for name in ALL - TIMED:
        assert same_files[name] == files[name], name
        assert not re.search(rb"latenc|seconds|duration|\bp95\b", same_files[name]), name
    timings = json.loads(same_files["timings.json"])
    assert [latency["stage"] for latency in timings["latencies"]] == ["retrieve", "generate"]


def test_metrics_of_time_are_in_timings_and_the_page_only(tmp_path: Path) -> None:
    metrics = "retrieval_latency, exact_match"
    run(cases("a"), NotingRAG(), tmp_path / "run", metrics=metrics)

    files = written_files(tmp_path / "run")

    for name in ALL - TIMED:
        text = files[name].decode()
        assert "exact_match" in text.replace("\\_", "_")
        if name == "report.json":
            # The manifest names every metric of the run, without a value.
            text = json.dumps(json.loads(text) | {"manifest": None})
        assert "retrieval_latency" not in text, name
    timings = json.loads(files["timings.json"])
    assert [summary["metric"] for summary in timings["summaries"]] == ["retrieval_latency"]


# --- report.md


def test_hostile_names_do_not_leave_their_place(hostile: Path) -> None:
    text = (hostile / "report.md").read_text(encoding="utf-8")

    start_of_a_tag = r"(?<!\\)<(?!!-- -->)"
    assert not re.search(start_of_a_tag, text)
    control_character = r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]"
    assert not re.search(control_character, text)
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
    lines_of_tables = 0
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = table.splitlines()
        borders = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
        assert len(set(borders)) == 1, table
        lines_of_tables += len(rows)
    assert lines_of_tables > 30


def test_long_tables_are_cut(tmp_path: Path) -> None:
    data = []
    for number in range(80):
        case = Case(id=str(number), query="q", reference="A q", tags=(f"t{number}",))
        data.append(case)
    run(data, NotingRAG(), tmp_path / "run")

    text = written_files(tmp_path / "run")["report.md"].decode()

    assert text.count("| tag: ") == 50
    assert "... and 30 more." in text


# --- cases.csv


def test_a_spreadsheet_runs_nothing_and_what_was_not_measured_is_a_word(hostile: Path) -> None:
    assert b"\x00" not in (hostile / "cases.csv").read_bytes()
    for row in table_of(hostile):
        for column, cell in row.items():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝")), column
        if row["generate"] == "failed":
            assert row["exact_match"] == "failed"
            assert row["failures"]
        else:
            score = row["exact_match"]
            assert score == "abstained" or float(score) in (0, 1)
            assert not row["failures"]


# --- writing


def report_with(rows: list[CaseRow]) -> Report:
    """A report of a finished run with these cases and no metric."""
    dataset = {
        "name": "d",
        "source": "",
        "cases": len(rows),
        "fingerprint": "0" * 32,
        "limit": None,
        "sample": None,
        "seed": None,
    }
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


def row(**changes: Any) -> CaseRow:
    """A case of which next to nothing is known, with these changes."""
    attribution = Attribution(
        cause=Cause.SHOWN, basis=Basis.LABEL, answer=Answer.UNCHECKED, detail=""
    )
    fields: dict[str, Any] = {
        "id": "a",
        "query": "q",
        "tags": (),
        "failures": (),
        "cells": (),
        "stages": {"retrieve": Status.MEASURED, "generate": Status.MEASURED},
        "attribution": attribution,
        **dict.fromkeys(UNKNOWN),
    }
    return CaseRow(**fields | changes)


def test_what_is_not_known_is_null_or_empty_and_no_ids_are_none(tmp_path: Path) -> None:
    case = case_object(row(), ())
    null_fields = {name for name, value in case.items() if value is None}
    assert null_fields == set(UNKNOWN)

    write_reports(report_with([row(), row(reference_ids=())]), tmp_path)
    unknown, without_ids = table_of(tmp_path)
    assert unknown["reference_ids"] == ""
    assert unknown["response"] == ""
    assert without_ids["reference_ids"] == "[]"

    write_reports(report_with([]), tmp_path)
    assert table_of(tmp_path) == []
    assert files_in(tmp_path).keys() == ALL


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    write_reports(report_with([row()]), tmp_path)
    files_before = files_in(tmp_path)

    def broken_rows() -> Iterator[CaseRow]:
        yield row(id="new")
        raise OSError("the journal went away")

    report = replace(report_with([]), rows=broken_rows)
    with pytest.raises(OSError, match="went away"):
        write_reports(report, tmp_path)

    assert files_in(tmp_path) == files_before


def test_a_huge_response_and_a_huge_failure(tmp_path: Path) -> None:
    message = "m" * 10**6
    failure = Failure(type="E", message=message, stage="score")
    group = FailureGroup(stage="score", type="E", message=message, count=1, examples=("a",))
    huge_row = row(response="r" * 10**7, failures=(failure,))
    report = replace(report_with([huge_row]), failures=(group,))

    write_reports(report, tmp_path)

    assert (tmp_path / "report.md").stat().st_size < 2000


def test_cells_that_were_not_measured_say_why(tmp_path: Path) -> None:
    data = [Case(id="a", query="a"), *cases("mute b")]
    folder = tmp_path / "run"
    run(data, NotingRAG(), folder, metrics="exact_match")

    skipped, failed = cases_of(folder)

    assert skipped["scores"]["exact_match"] == {
        "status": "skipped",
        "value": None,
        "reason": "no reference answer",
    }
    reason = failed["scores"]["exact_match"]["reason"]
    assert reason == "generate: ValueError: no words for mute b"
    assert report_of(folder).summaries[0].measured == 0


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
    causes = []
    for cause, (count, estimated) in counts.items():
        causes.append(CauseCount(cause=cause, cases=count, estimated=estimated))
    report = replace(report_with([]), causes=tuple(causes), answers=answers)

    assert headline(report) == text


# --- a case of the page


@pytest.fixture(scope="module")
def shown(hostile: Path) -> tuple[Report, CaseRow]:
    """A report with hostile texts, and its first row."""
    report = report_of(hostile)
    id = next(report.rows()).id
    (row,) = report.find([id])
    return report, row


class Markup(HTMLParser):
    """The tags and the names of the attributes of a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


OWN_ATTRIBUTES = {"class", "id", "href", "data-c", "data-g", "data-a", "data-k", "data-l", "data-m"}
OWN_TAGS = frozenset(
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


def judged_with_text(row: CaseRow, text: str) -> CaseRow:
    """The case after a judge that gives this text in every field."""
    quotes = ((text, text), (text, None))
    claim = JudgedClaim(text=text, verdict="supported", reason=text, quotes=quotes)
    sentence = JudgedSentence(text=f"{text}.", verdict="supported", claims=(claim,))
    answer = JudgedAnswer(metric=text, judge=text, sentences=(sentence,))
    assert row.story is not None
    story = replace(row.story, supported=(answer,))
    return replace(row, tell=lambda: story)


def before_with_text(text: str) -> CaseBefore:
    """The case in a baseline that has this text in every field."""
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

    block = blocks.block(judged_with_text(row, payload))

    markup = Markup()
    markup.feed(block)
    assert markup.tags <= OWN_TAGS
    assert markup.attributes <= OWN_ATTRIBUTES
    assert "newly failing" in block
    assert "<div class=claims>" in block


def test_a_case_is_shown_with_what_the_baseline_knows_of_it(shown: tuple[Report, CaseRow]) -> None:
    report, row = shown
    row = replace(row, response="You get 27 days.")

    def block(before: CaseBefore | None = None) -> str:
        cases_before = {} if before is None else {row.id: before}
        return CaseBlocks(report.metrics, cases_before).block(row)

    before = before_with_text("You get 30 days.")
    with_texts = block(before)
    assert "You get <u>30 </u>days." in with_texts
    assert re.search(r"In the baseline: declined\. .* 1 → skipped", with_texts)

    without_texts = block(replace(before, tells_texts=False, response=None, ids=None))
    assert "<h3>In the baseline</h3>" not in without_texts
    assert "You get 30 days. 1 → skipped" in without_texts

    alone = block()
    assert not re.search("baseline|class=claims", alone)


def test_a_question_without_a_space_is_drawn_in_part(shown: tuple[Report, CaseRow]) -> None:
    report, row = shown

    block = CaseBlocks(report.metrics).block(replace(row, query="A" * 1_000_000))

    longest = max(re.findall("A+", block), key=len)
    assert len(longest) == 2000
    assert "998,000 more letters" in block


def test_a_chunk_links_to_its_source_on_the_web_and_nowhere_else(tmp_path: Path) -> None:
    address = "https://docs.example/a?b=1&c"
    urls = (address, "javascript:alert(1)", 'http://x/" onclick="x', 7)

    class Linked(Hostile):
        def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
            texts = [str(url) for url in urls]
            return RetrievalResult(texts, context_metadata=[{"url": url} for url in urls])

    case = Case(id="a", query="Which?", reference="that", tags=("t",))
    report = evaluate([case], Linked(), out=tmp_path / "run", metrics=["recall@5"])

    (row,) = report.find(["a"])
    assert row.story is not None
    assert [chunk.address for chunk in row.story.chunks] == [address, None, None, None]
    block = CaseBlocks(report.metrics).block(row)
    assert re.findall('href="(?!#)([^"]*)"', block) == ["https://docs.example/a?b=1&amp;c"]
