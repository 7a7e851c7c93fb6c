"""A report and a comparison as a notebook shows them: what is in them, and that no text acts."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from ragbench import Case, RAGInterface, compare, evaluate, read_run, report_of
from ragbench.core.comparison import Comparison
from tests.pages import Changed, hostile_run

TABLE_TAGS = {"table", "thead", "tbody", "tr", "th", "td"}
ALLOWED_TAGS = {"div", "style", "p", "h4", "details", "summary"} | TABLE_TAGS


class Parts(HTMLParser):
    """The tags, the attributes and the visible text of a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str | None) -> Parts:
    parts = Parts()
    parts.feed(html or "")
    return parts


class Desk(RAGInterface):
    """Knows one text, and answers every question alike."""

    answer = "27 days"

    def stage_identity(self, stage: str) -> object:
        return self.answer

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        if query == "broken":
            raise LookupError("no such drawer")
        return ["Everyone has 27 days of leave."]

    def generate(self, query: str, contexts: list[str]) -> str:
        return self.answer


class LaterDesk(Desk):
    answer = "3 weeks"


def case(id: str, query: str, reference: str) -> Case:
    return Case(id=id, query=query, reference=reference)


def comparison_of(folder: Path) -> Comparison:
    """The comparison of the runs a and b in a folder."""
    return compare([read_run(folder / "a"), read_run(folder / "b")])


def test_a_report_shows_headline_causes_metrics_and_lost_cases(tmp_path: Path) -> None:
    cases = [
        case("leave", "How long is the leave?", "27 days"),
        case("notice", "How long is the notice?", "3 months"),
        case("drawer", "broken", "none"),
    ]
    report = evaluate(cases, Desk(), out=tmp_path, metrics="exact_match")

    text = parsed(report._repr_html_()).text

    assert "Desk on dataset" in text
    assert "Of 3 cases:" in text
    for title in ("Where the answers were lost", "Metrics", "Worst cases"):
        assert title in text
    assert "How long is the notice?" in text
    assert "How long is the leave?" not in text
    assert "LookupError: no such drawer" in text


def test_it_shows_ten_lost_cases_and_says_how_many_there_are(tmp_path: Path) -> None:
    cases = [case(f"c{number}", f"Question {number}", "3 weeks") for number in range(12)]
    report = evaluate(cases, Desk(), out=tmp_path, metrics="exact_match")

    text = parsed(report._repr_html_()).text

    assert "10 of 12 lost cases: to_pandas() has all." in text


def test_no_text_of_a_report_acts_in_a_notebook(tmp_path: Path) -> None:
    hostile_run(tmp_path)

    parts = parsed(report_of(tmp_path)._repr_html_())

    assert parts.tags <= ALLOWED_TAGS
    assert parts.attributes == {"class", "scope"}


def test_no_text_of_a_comparison_acts_in_a_notebook(tmp_path: Path) -> None:
    hostile_run(tmp_path / "a")
    hostile_run(tmp_path / "b", Changed())

    parts = parsed(comparison_of(tmp_path)._repr_html_())

    assert parts.tags <= ALLOWED_TAGS
    assert parts.attributes == {"class", "scope"}


def test_its_styles_apply_to_nothing_else_on_the_page(tmp_path: Path) -> None:
    cases = [case("leave", "How long is the leave?", "27 days")]
    report = evaluate(cases, Desk(), out=tmp_path, metrics="exact_match")

    html = report._repr_html_()

    _, _, html_after_tag = html.partition("<style>")
    style, _, _ = html_after_tag.partition("</style>")
    rules = [rule for rule in style.splitlines() if rule]
    assert rules
    for rule in rules:
        selectors, _, _ = rule.partition("{")
        for selector in selectors.split(","):
            assert selector.strip().startswith(".ragbench-view")


def test_a_comparison_shows_the_cases_that_went_another_way(tmp_path: Path) -> None:
    cases = [case("leave", "How long is the leave?", "27 days")]
    evaluate(cases, Desk(), out=tmp_path / "a", metrics="exact_match")
    evaluate(cases, LaterDesk(), out=tmp_path / "b", metrics="exact_match")

    text = parsed(comparison_of(tmp_path)._repr_html_()).text

    assert "Newly failing: 1 (b against a)" in text
    assert "27 days" in text
    assert "3 weeks" in text
