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
from tests.unit.metrics.builders import SKIPPED, cell

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
    """How an answer, and the ids or sources of the retrieved chunks, meet what is expected."""
    retrieval: Outcome[RetrievalResult] = SKIPPED
    if is_retrieved:
        result = RetrievalResult(
            ["text"] * max(1, len(ids or sources)),
            context_ids=ids,
            context_metadata=[{"source": source} for source in sources] or None,
        )
        retrieval = Outcome(status=Status.MEASURED, value=result)
    generation: Outcome[GenerationResult] = SKIPPED
    if answer is not None:
        metadata = None if citations is None else {"citations": citations}
        value = GenerationResult(answer, metadata=metadata)
        generation = Outcome(status=Status.MEASURED, value=value)
    case = Case(id="a", query="q", expectations=expectations)
    return cell("expectations", Trace(case=case, retrieval=retrieval, generation=generation))


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
    """The first answer meets the expectation, the second one does not."""
    assert scored(holding, expectation).value == 1.0
    assert scored(failing, expectation).value == 0.0


def test_the_score_is_the_share_that_holds() -> None:
    score = scored(
        "red, green and blue",
        expect(K.MENTIONS, "red"),
        expect(K.MENTIONS, "green"),
        expect(K.MENTIONS, "blue"),
        expect(K.MENTIONS, "grey"),
    )

    assert score.value == 0.75


def test_a_case_without_expectations_is_skipped() -> None:
    assert scored("red").status is Status.SKIPPED


def test_a_declined_answer_is_abstained_and_not_perfect() -> None:
    score = scored("I don't know.", expect(K.MENTIONS, "fee", negated=True))

    assert score.status is Status.ABSTAINED


@pytest.mark.parametrize(
    ("source", "value"),
    [("policy.pdf", 1.0), ("docs/Policy.pdf", 1.0), ("docs/policy.pdf#3", 1.0), ("policy", 0.0)],
)
def test_a_source_is_an_id_or_the_document_of_one(source: str, value: float) -> None:
    score = scored("x", expect(K.SOURCE, source), ids=["docs/policy.pdf#3"])

    assert score.value == value


def test_a_source_is_found_in_the_metadata_of_a_chunk() -> None:
    score = scored("x", expect(K.SOURCE, "b.md"), ids=["1"], sources=["data/b.md"])

    assert score.value == 1.0


def test_a_source_without_known_ids_is_skipped() -> None:
    assert scored("x", expect(K.SOURCE, "policy.pdf")).status is Status.SKIPPED


def test_a_source_without_known_ids_does_not_lower_the_score_of_what_is_known() -> None:
    score = scored("x", expect(K.SOURCE, "policy.pdf"), expect(K.MENTIONS, "x"))

    assert score.value == 1.0


def test_sources_are_looked_at_without_an_answer() -> None:
    assert scored(None, expect(K.SOURCE, "a.md"), ids=["a.md"]).value == 1.0


def test_without_an_answer_sources_alone_make_the_score() -> None:
    score = scored(None, expect(K.SOURCE, "a.md"), expect(K.MENTIONS, "x"), ids=["a.md"])

    assert score.value == 1.0


def test_without_an_answer_what_it_must_mention_is_skipped() -> None:
    assert scored(None, expect(K.MENTIONS, "x"), ids=["a.md"]).status is Status.SKIPPED


CITES_B = [
    "Ten [docs/b.md].",
    "Ten [B.md, p. 3].",
    "Ten (source: b.md).",
    "Ten (see b.md).",
    "Ten, see [the page](https://example.org/docs/b.md).",
    "Ten.\n\nSources:\n- a.md\n- b.md (page 2)",
    "Ten. Source: b.md",
    "Ten \u30104:0\u2020b.md\u3011.",
    "Ten [b.md#3].",
]


@pytest.mark.parametrize("answer", CITES_B)
@pytest.mark.parametrize("kind", [K.SOURCE, K.CITES])
def test_an_answer_cites_what_it_names_in_brackets_and_in_its_sources(
    answer: str, kind: ExpectationKind
) -> None:
    assert scored(answer, expect(kind, "b.md"), is_retrieved=False).value == 1.0


@pytest.mark.parametrize("answer", CITES_B)
@pytest.mark.parametrize("kind", [K.SOURCE, K.CITES])
def test_a_name_that_ends_alike_is_not_cited(answer: str, kind: ExpectationKind) -> None:
    assert scored(answer, expect(kind, "other-b.md"), ids=["x"]).value == 0.0


def test_a_name_in_the_text_of_an_answer_is_no_citation() -> None:
    assert scored("Look into b.md for it.", expect(K.CITES, "b.md"), ids=["b.md"]).value == 0.0


@pytest.mark.parametrize(("answer", "value"), [("Ten [2].", 1.0), ("Ten [1].", 0.0)])
def test_a_mark_cites_the_document_of_its_chunk(answer: str, value: float) -> None:
    score = scored(answer, expect(K.CITES, "b.md"), sources=["a.md", "b.md"])

    assert score.value == value


def test_a_mark_of_another_document_meets_a_forbidden_citation() -> None:
    forbidden = expect(K.CITES, "b.md", negated=True)

    assert scored("Ten [1].", forbidden, sources=["a.md"]).value == 1.0


def test_marks_of_chunks_without_names_are_skipped_and_do_not_fail() -> None:
    assert scored("Ten [1].", expect(K.CITES, "b.md")).status is Status.SKIPPED


@pytest.mark.parametrize(
    "citation", ["b.md", "docs/b.md#4", {"source": "b.md"}, {"url": "x/b.md"}, 2, "2"]
)
def test_a_system_cites_names_ranks_and_objects(citation: object) -> None:
    score = scored("Ten.", expect(K.CITES, "b.md"), sources=["a.md", "b.md"], citations=[citation])

    assert score.value == 1.0


def test_without_names_of_chunks_a_remark_in_brackets_decides_nothing() -> None:
    assert scored("Ten [see below].", expect(K.SOURCE, "b.md")).status is Status.SKIPPED


def test_without_names_of_chunks_a_named_source_decides() -> None:
    assert scored("Ten. Source: a.md", expect(K.SOURCE, "b.md")).value == 0.0


@given(st.from_regex(r"[a-z]{1,8}(-[a-z]{1,5})?\.(md|pdf|html)", fullmatch=True))
def test_any_file_that_is_named_in_brackets_is_cited_and_no_longer_name(name: str) -> None:
    answer = f"It is ten [{name}]."

    assert scored(answer, expect(K.CITES, name)).value == 1.0
    assert scored(answer, expect(K.CITES, f"x{name}")).value == 0.0


def test_a_hostile_pattern_fails_its_case_after_a_second() -> None:
    score = scored("a" * 60 + "!?", expect(K.PATTERN, "(a|aa)+$"))

    assert score.status is Status.FAILED
    assert score.failure is not None
    assert "takes longer than 1 s" in score.failure.message


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
    expected = [expect(K.MENTIONS, word) for word in words]
    forbidden = expect(K.MENTIONS, words[0], negated=True)
    count = len(words)

    assert scored(answer, *expected).value == 1.0
    assert scored(answer, *expected, forbidden).value == pytest.approx(count / (count + 1))


TEXTS = st.text(min_size=1).filter(lambda text: text.strip() and "\x00" not in text)


@given(TEXTS, st.text())
def test_any_text_is_mentioned_between_blanks_at_the_end_of_any_answer(
    text: str, answer: str
) -> None:
    assert is_mentioned(text, f"{answer} {text} ")
