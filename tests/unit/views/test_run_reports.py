from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragbench import Case, report_of
from ragbench.core.attribution import Cause, CauseCount, RightShare
from ragbench.core.outcome import Failure, Status
from ragbench.core.report import CaseRow, FailureGroup, Report
from ragbench.errors import InterruptedRunError
from ragbench.metrics.matching import Matching
from ragbench.views.report import case_object
from ragbench.views.run_document import headline
from ragbench.views.write import write_reports
from tests.behaviour.rags import NotingRAG, cases, run
from tests.cli.runs import cases_of, schema
from tests.unit.views.stored import (
    HOSTILE,
    hostile_report,
    json_of,
    table_of,
    written,
)

TIMED = {"report.html", "timings.json"}
"""Files that hold durations."""
ALL = {"report.json", "report.md", "cases.csv", *TIMED}


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


def test_rendering_again_gives_the_same_bytes(hostile: Path) -> None:
    before = {name: (hostile / name).read_bytes() for name in ALL}
    assert written(hostile) == before


def test_the_same_run_elsewhere_gives_the_same_bytes_but_for_durations(
    tmp_path: Path, hostile: Path
) -> None:
    hostile_report(tmp_path / "other place")
    found = written(tmp_path / "other place")
    for name in ALL - TIMED:
        assert found[name] == (hostile / name).read_bytes(), name
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
        lines[0], "## Cases", "## Metrics", "## Not measured", "## Where the answers were lost",
        "## Slices", "## Failures", "## Origin", "## Notes",
    ]  # fmt: skip
    assert lines[0].startswith(r"# ragbench evaluation: R\|A\|G \<img\> on \<b\>data\|set\`\</b\>")


def test_every_row_of_a_table_has_as_many_cells_as_its_header(hostile: Path) -> None:
    width, seen = 0, 0
    for line in (hostile / "report.md").read_text(encoding="utf-8").splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if cells:
            width = width or cells
            assert cells == width, line
            seen += 1
        else:
            width = 0
    assert seen > 30


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
    manifest = {
        "dataset": {
            "name": "d", "source": "", "cases": len(rows), "limit": None, "sample": None,
            "seed": None, "fingerprint": "0" * 32,
        },
        "rag": {"name": "r"},
        "fingerprints": {"rag": "0" * 32, "dataset": "0" * 32},
        "git": None,
        "packages": {},
    }  # fmt: skip
    return Report(
        manifest=manifest, metrics=(), summaries=(), stages=(), failures=(), latencies=(),
        notes=(), rows=lambda: iter(rows),
    )  # fmt: skip


def row(**fields: Any) -> CaseRow:
    known: dict[str, Any] = {
        "id": "a", "query": "q", "reference": None,
        "reference_ids": None, "cluster": None, "tags": (), "language": None,
        "retrieved_ids": None, "response": None, "failures": (), "cells": (),
        "stages": {"retrieve": Status.MEASURED, "generate": Status.MEASURED},
    }  # fmt: skip
    return CaseRow(**known | fields)


def test_what_is_not_known_is_null_or_empty_and_no_ids_are_none(tmp_path: Path) -> None:
    case = case_object(row(), ())
    assert {name for name, value in case.items() if value is None} == {
        "language", "cluster", "reference", "reference_ids", "retrieved_ids", "response",
    }  # fmt: skip
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
    report = replace(report, failures=(group,))
    write_reports(report, tmp_path)
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


SHARE = RightShare(share=0.6, low=0.5, high=0.7, known=8, untold=5, by_words=6, total=10)


@pytest.mark.parametrize(
    ("right", "counts", "text"),
    [
        (None, {}, "No case."),
        (None, {Cause.SHOWN: (4, 0)}, "Of no case it is known whether it is right."),
        (
            replace(SHARE, low=None, by_words=0, untold=0),
            {Cause.RIGHT: (8, 0)},
            "Right: 60% of 8 cases.",
        ),
        (
            SHARE,
            {Cause.RIGHT: (3, 0), Cause.SHOWN: (5, 0), Cause.DECLINED: (2, 0)},
            "Right: 60% (50% to 70%) of 8 cases, estimated by words; 50% cannot be told. "
            "2 are lost, most as “shown, declined”: 2 (20%).",
        ),
        (
            replace(SHARE, by_words=0, untold=0),
            {Cause.NOT_RETRIEVED: (2, 2), Cause.DECLINED: (1, 0), Cause.NOT_USED: (1, 0)},
            "Right: 60% (50% to 70%) of 8 cases. 4 are lost, the largest group as “not "
            "retrieved”: 2 (50%, estimated).",
        ),
    ],
)
def test_the_headline_says_the_share_with_what_is_not_known(
    right: RightShare | None, counts: dict[Cause, tuple[int, int]], text: str
) -> None:
    causes = tuple(CauseCount(cause=c, cases=n, estimated=e) for c, (n, e) in counts.items())
    assert headline(replace(report_with([]), causes=causes, right=right)) == text
