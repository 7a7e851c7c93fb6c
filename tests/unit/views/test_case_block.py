from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ragbench import Case, RetrievalResult, evaluate, report_of
from ragbench.core.attribution import Cause
from ragbench.core.comparison import Against, CaseBefore, CaseKind, IdChange, RunPair
from ragbench.core.outcome import Cell
from ragbench.core.report import CaseRow, Report
from ragbench.core.story import JudgedAnswer, JudgedClaim, JudgedSentence
from ragbench.views.html.case import CaseBlocks
from tests.pages import PAYLOADS, Hostile
from tests.unit.views.stored import hostile_report


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, CaseRow]:
    """A report with hostile texts, and a row of it that has a cause."""
    folder = tmp_path_factory.mktemp("stored") / "run"
    hostile_report(folder)
    report = report_of(folder)
    id = next(row.id for row in report.rows() if row.attribution is not None)
    return report, next(report.find([id]))


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


OWN = frozenset({
    "details", "summary", "b", "span", "i", "div", "p", "h3", "a", "em", "del", "ins", "u", "q",
    "small", "mark", "table", "tr", "th", "td", "blockquote", "pre",
})  # fmt: skip


def claimed(row: CaseRow, text: str) -> CaseRow:
    claim = JudgedClaim(
        text=text, verdict="supported", reason=text, quotes=((text, text), (text, None))
    )
    sentence = JudgedSentence(text=f"{text}.", verdict="supported", claims=(claim,))
    answer = JudgedAnswer(metric=text, judge=text, sentences=(sentence,))
    assert row.story is not None
    story = replace(row.story, supported=(answer,))
    return replace(row, tell=lambda: story)


def against(row: CaseRow, text: str) -> Against:
    before = CaseBefore(
        kind=CaseKind.FAILING,
        cause=Cause.DECLINED,
        response=text,
        ids=IdChange(gained=((text, 1),), lost=((text, 2),), moved=((text, 1, 2),), kept=0),
        scores=((text, Cell.measured(1.0), Cell.skipped(text)),),
    )
    pair = RunPair(
        first="baseline", second="run", cases=1, newly_failing=1, mixed=0, newly_fixed=0,
        other_ids=1, other_response=1,
    )  # fmt: skip
    return Against(
        source=text, rag=text, cases={row.id: before}, changed=(), pair=pair, flows=(),
        edited=0, added=0, gone=0,
    )  # fmt: skip


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_judges_and_a_baseline_say_becomes_no_markup(
    shown: tuple[Report, CaseRow], payload: str
) -> None:
    report, row = shown
    block = CaseBlocks(report.metrics, against(row, payload)).block(claimed(row, payload))
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

    def block(before: Against | None = None) -> str:
        return CaseBlocks(report.metrics, before).block(row)

    found = against(row, "You get 30 days.")
    assert "You get <u>30 </u>days." in block(found)
    assert re.search(r"In the baseline: shown, declined\. .* 1 → skipped", block(found))
    bare = replace(found.cases[row.id], tells_texts=False, response=None, ids=None)
    without_texts = block(replace(found, cases={row.id: bare}))
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
