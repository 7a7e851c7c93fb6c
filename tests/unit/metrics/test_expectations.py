"""What an answer must contain: each kind, each rule, and hostile patterns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.case import Case, Expectation, ExpectationKind
from ragbench.core.outcome import Cell, Outcome, Status
from ragbench.core.patterns import PatternProblem, checked_pattern
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.metrics.expectations import is_mentioned
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import parse_metrics

K = ExpectationKind


def expect(kind: ExpectationKind, *texts: str, negated: bool = False) -> Expectation:
    return Expectation(kind=kind, texts=texts, negated=negated)


def scored(
    answer: str | None,
    *expectations: Expectation,
    ids: Sequence[str] | None = None,
    sources: Sequence[str] = (),
    citations: Sequence[object] | None = None,
    is_retrieved: bool = True,
) -> Cell:
    count = len(ids or sources) or 1
    result = RetrievalResult(
        ["text"] * count,
        context_ids=ids,
        context_metadata=[{"source": source} for source in sources] or None,
    )
    generation: Outcome[GenerationResult] = Outcome(status=Status.SKIPPED, reason="not asked")
    if answer is not None:
        metadata = None if citations is None else {"citations": citations}
        value = GenerationResult(answer, metadata=metadata)
        generation = Outcome(status=Status.MEASURED, value=value)
    retrieval: Outcome[RetrievalResult] = Outcome(status=Status.SKIPPED, reason="not asked")
    if is_retrieved:
        retrieval = Outcome(status=Status.MEASURED, value=result)
    trace = Trace(
        case=Case(id="a", query="q", expectations=expectations),
        retrieval=retrieval,
        generation=generation,
    )
    return Plan(parse_metrics("expectations")).score([trace])[0][0]


@pytest.mark.parametrize(
    ("text", "answer", "is_there"),
    [
        ("30 days", "Within 30  DAYS.", True),
        ("10", "It costs 100.", False),
        ("10", "It costs 10.5.", False),
        ("10", "It costs 1,010.", False),
        ("10", "It costs 3.10 now", False),
        ("10", "It costs 10.", True),
        ("10", "It is 10km away", True),
        ("10", "100 or 10", True),
        ("art", "Please start", False),
        ("art", "Art is long", True),
        ("cafe", "the café", False),
        ("café", "the cafe\u0301", True),
        ("STRASSE", "Die Straße", True),
        ("北京", "我在北京工作", True),
        ("10", "共10元", True),
        ("$10", "cost: $10", True),
        ("C++", "We use C++.", True),
    ],
)
def test_a_text_is_mentioned_in_whole_words(text: str, answer: str, is_there: bool) -> None:
    assert is_mentioned(text, answer) is is_there


@pytest.mark.parametrize(
    ("expectation", "holding", "failing"),
    [
        (expect(K.MENTIONS, "refund"), "A Refund.", "Nothing."),
        (expect(K.MENTIONS, "a", "b"), "only b", "only c"),
        (expect(K.MENTIONS, "fee", negated=True), "Free.", "A fee."),
        (expect(K.SUBSTRING, "art"), "start", "START"),
        (expect(K.SUBSTRING_ANY_CASE, "art"), "START", "stop"),
        (expect(K.STARTS_WITH, "Yes"), "Yes, it is", "Oh Yes"),
        (expect(K.PATTERN, r"\d{2} days"), "after 30 days", "after 3 days"),
        (expect(K.PATTERN, "(?<year>19|20)", negated=True), "in 1850", "in 1999"),
        (expect(K.JSON), '{"a": [1]}', 'Here: {"a": 1}'),
        (expect(K.HOLDS_JSON), 'Here: {"a": 1}', "Here: {a}"),
    ],
    ids=str,
)
def test_each_kind_holds_or_does_not(expectation: Expectation, holding: str, failing: str) -> None:
    assert scored(holding, expectation).value == 1.0
    assert scored(failing, expectation).value == 0.0


def test_the_score_is_the_share_that_holds() -> None:
    expectations = [expect(K.MENTIONS, text) for text in ("red", "green", "blue", "grey")]
    assert scored("red, green and blue", *expectations).value == 0.75


def test_a_case_without_expectations_is_skipped() -> None:
    assert scored("red").status is Status.SKIPPED


def test_a_declined_answer_is_abstained_and_not_perfect() -> None:
    cell = scored("I don't know.", expect(K.MENTIONS, "fee", negated=True))
    assert cell.status is Status.ABSTAINED


@pytest.mark.parametrize(
    ("wanted", "value"),
    [("policy.pdf", 1.0), ("docs/Policy.pdf", 1.0), ("docs/policy.pdf#3", 1.0), ("policy", 0.0)],
)
def test_a_source_is_an_id_or_the_document_of_one(wanted: str, value: float) -> None:
    assert scored("x", expect(K.SOURCE, wanted), ids=["docs/policy.pdf#3"]).value == value


def test_a_source_is_found_in_the_metadata_of_a_chunk() -> None:
    assert scored("x", expect(K.SOURCE, "b.md"), ids=["1"], sources=["data/b.md"]).value == 1.0


def test_a_source_without_known_ids_is_skipped_and_does_not_fail() -> None:
    source = expect(K.SOURCE, "policy.pdf")
    assert scored("x", source).status is Status.SKIPPED
    assert scored("x", source, expect(K.MENTIONS, "x")).value == 1.0


def test_sources_are_looked_at_without_an_answer() -> None:
    both = (expect(K.SOURCE, "a.md"), expect(K.MENTIONS, "x"))
    assert scored(None, both[0], ids=["a.md"]).value == 1.0
    assert scored(None, *both, ids=["a.md"]).value == 1.0
    assert scored(None, both[1], ids=["a.md"]).status is Status.SKIPPED


@pytest.mark.parametrize(
    "answer",
    [
        "Ten [docs/b.md].",
        "Ten [B.md, p. 3].",
        "Ten (source: b.md).",
        "Ten (see b.md).",
        "Ten, see [the page](https://example.org/docs/b.md).",
        "Ten.\n\nSources:\n- a.md\n- b.md (page 2)",
        "Ten. Source: b.md",
        "Ten \u30104:0\u2020b.md\u3011.",
        "Ten [b.md#3].",
    ],
)
def test_an_answer_cites_what_it_names_in_brackets_and_in_its_sources(answer: str) -> None:
    for kind in (K.SOURCE, K.CITES):
        assert scored(answer, expect(kind, "b.md"), is_retrieved=False).value == 1.0
        assert scored(answer, expect(kind, "other-b.md"), ids=["x"]).value == 0.0


def test_a_name_in_the_text_of_an_answer_is_no_citation() -> None:
    assert scored("Look into b.md for it.", expect(K.CITES, "b.md"), ids=["b.md"]).value == 0.0


def test_a_mark_cites_the_document_of_its_chunk() -> None:
    cites = expect(K.CITES, "b.md")
    assert scored("Ten [2].", cites, sources=["a.md", "b.md"]).value == 1.0
    assert scored("Ten [1].", cites, sources=["a.md", "b.md"]).value == 0.0
    assert scored("Ten [1].", expect(K.CITES, "b.md", negated=True), sources=["a.md"]).value == 1.0


def test_marks_of_chunks_without_names_are_skipped_and_do_not_fail() -> None:
    assert scored("Ten [1].", expect(K.CITES, "b.md")).status is Status.SKIPPED


@pytest.mark.parametrize(
    "citation", ["b.md", "docs/b.md#4", {"source": "b.md"}, {"url": "x/b.md"}, 2, "2"]
)
def test_a_system_cites_names_ranks_and_objects(citation: object) -> None:
    cell = scored("Ten.", expect(K.CITES, "b.md"), sources=["a.md", "b.md"], citations=[citation])
    assert cell.value == 1.0


def test_without_names_of_chunks_a_remark_in_brackets_decides_nothing() -> None:
    source = expect(K.SOURCE, "b.md")
    assert scored("Ten [see below].", source).status is Status.SKIPPED
    assert scored("Ten. Source: a.md", source).value == 0.0


@given(st.from_regex(r"[a-z]{1,8}(-[a-z]{1,5})?\.(md|pdf|html)", fullmatch=True))
def test_any_file_that_is_named_in_brackets_is_cited(name: str) -> None:
    assert scored(f"It is ten [{name}].", expect(K.CITES, name)).value == 1.0
    assert scored(f"It is ten [{name}].", expect(K.CITES, f"x{name}")).value == 0.0


def test_a_hostile_pattern_fails_its_case_after_a_second() -> None:
    cell = scored("a" * 60 + "!?", expect(K.PATTERN, "(a|aa)+$"))
    assert cell.status is Status.FAILED
    assert cell.failure is not None
    assert "takes longer than 1 s" in cell.failure.message


@pytest.mark.parametrize("pattern", ["(a", "[z-a]", "((a{1000}){1000}){1000}", "a" * 3000])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(PatternProblem):
        checked_pattern(pattern)


WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=1, max_size=5, unique=True)


@given(WORDS)
def test_an_answer_that_has_all_texts_scores_1_and_a_forbidden_one_costs_its_share(
    words: list[str],
) -> None:
    answer = "zz " + " ".join(words)
    wanted = [expect(K.MENTIONS, word) for word in words]
    assert scored(answer, *wanted).value == 1.0
    forbidden = expect(K.MENTIONS, words[0], negated=True)
    count = len(words)
    assert scored(answer, *wanted, forbidden).value == pytest.approx(count / (count + 1))


@given(st.text(min_size=1).filter(lambda text: text.strip() and "\x00" not in text), st.text())
def test_any_text_is_mentioned_between_blanks(text: str, other: str) -> None:
    assert is_mentioned(text, f" {text} ")
    is_mentioned(text, other)  # raises nothing
