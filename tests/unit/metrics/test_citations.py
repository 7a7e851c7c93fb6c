"""What answers cite and the numbers that they name, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.case import Case
from ragbench.core.metric import Skip
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.metrics import citations
from ragbench.metrics.citations import cited, notes_of, numbers_supported

LEAVE, OFFICE, DOGS = CHUNKS = (
    "Everyone gets 27 days of paid leave a year, and 3.5 million euros are set aside for that.",
    "The office in Porto closes at 6 pm on 12 March 2024.",
    "Dogs are welcome in the office on Fridays.",
)
IDS = ["leave", "office", "dogs"]
METRICS = (
    citations.citation_validity, citations.citation_coverage, citations.citation_attribution
)  # fmt: skip


def both(
    response: str, *, ids: Sequence[str] | None = None, chunks: Sequence[str] = CHUNKS, **more: Any
) -> tuple[GenerationResult[Any], RetrievalResult[Any]]:
    found = RetrievalResult(list(chunks), context_ids=None if ids is None else [*ids])
    return GenerationResult(response, **more), found


@pytest.mark.parametrize(("response", "places"), [
    ("You get 27 days [1].", [0]),
    ("You get 27 days. [1] Dogs are welcome. [3]", [0, 2]),
    ("You get 27 days [1, 2] and more [9].", [0, 1, None]),
    ("You get 27 days [1-3].", [0, 1, 2]), ("You get 27 days 【2】【3†source】.", [1, 2]),
    ("You get 27 days (doc 3).", [2]), ("You get 27 days (Sources 1, 2).", [0, 1]),
    ("You get 27 days [^2].\n\n[^2]: The office handbook", [1]),
    ("You get 27 days [1].\n\nSources:\n[1] dogs", [2]),  # the list says which
    ("You get 27 days [leave; dogs].", [0, 2]),
    ("You get 27 days [0] or [2].", [0, 2]),  # counted from 0
    ("You get 27 [sic] days, see [2019].", []),
])  # fmt: skip
def test_every_form_of_a_citation_is_read(response: str, places: list[int | None]) -> None:
    found = cited(*both(response, ids=IDS))
    assert [place for one in found for place in one.chunks] == places


LABELLED = {"chunks": [f"[{n}] {text}" for n, text in zip((7, 8, 9), CHUNKS, strict=True)]}


@pytest.mark.parametrize(("response", "facts", "chunks"), [
    # Ids and labels come before ranks; citations in metadata are of the whole answer.
    ("A fact [3].", {"ids": ["3", "1", "2"]}, (0,)),
    ("A fact [8].", LABELLED, (1,)), ("A fact [1].", LABELLED, (None,)),
    ("Dogs are welcome.", {"ids": IDS, "metadata": {"citations": [{"id": "dogs"}, "leave", 9]}},
     (2, 0, None)),
])  # fmt: skip
def test_what_a_citation_means(
    response: str, facts: dict[str, Any], chunks: tuple[int | None, ...]
) -> None:
    assert [one.chunks for one in cited(*both(response, **facts))] == [chunks]


def test_the_figures_by_hand() -> None:
    answer = both(
        "Here is what I found: You get 27 days of paid leave [1]. Dogs are welcome on Fridays [2]. "
        "The office closes at 6 pm [8]. Bring your passport. Anything else?"
    )
    # Of coverage: the question states nothing; of attribution: dogs stand in chunk 3.
    assert [metric(*answer) for metric in METRICS] == pytest.approx([2 / 3, 3 / 4, 1 / 2])
    assert [note.problem for note in notes_of(Case(id="q", query="q"), *answer)] == [
        "cites 2: chunk 3 shares more of it than what it cites",
        "cites 8: not among 3 shown chunks",
    ]


def test_what_cites_nothing_has_no_score() -> None:
    nothing = both("You get 27 days. An array is written x[i] or [x].")
    assert [metric(*nothing) for metric in METRICS] == [Skip("the answer cites nothing")] * 3
    found = citations.citation_attribution(*both("You get 27 days [8]."))
    assert isinstance(found, Skip) and "can be compared" in found.reason


@pytest.mark.parametrize(("response", "value"), [
    ("You get 27 days.", 1.0), ("You get twenty-seven days.", 1.0), ("You get 28 days.", 0.0),
    ("You get 27 weeks.", 0.0), ("You get 27 days and 450 euros.", 0.5),
    ("About €3,500,000 is set aside.", 1.0), ("The office closes on 2024-03-12.", 1.0),
    ("The office closes on 13 March 2024.", 0.0),
    ("It is case 77 that you asked about.", 1.0),  # in the question
    ("1. You get 27 days [9].\n2. Dogs are welcome.", 1.0),
    ("There are two reasons.", Skip("the answer names no number")),
    ("Dogs are welcome.", Skip("the answer names no number")),
])  # fmt: skip
def test_numbers_stand_in_a_chunk_or_in_the_question(response: str, value: float | Skip) -> None:
    assert numbers_supported(Case(id="q", query="What of case 77?"), response, CHUNKS) == value


def test_a_number_that_stands_nowhere_is_named_with_its_sentence_and_the_place_looked_at() -> None:
    answer = both("Dogs are welcome. It has 12,500 seats since May 1999.")
    [note] = notes_of(Case(id="q", query="q"), *answer)
    assert note.sentence == "It has 12,500 seats since May 1999."
    assert note.problem == "12,500, May 1999: not in 3 shown chunks, nor in the question"


@settings(max_examples=80, deadline=None)
@given(st.text("ab .[]【】()^†1923,-–\n?:#", max_size=60), st.integers(0, 3))
def test_no_answer_breaks_it_and_shares_are_shares(response: str, chunks: int) -> None:
    answer = both(response, chunks=CHUNKS[:chunks])
    for metric in METRICS:
        value = metric(*answer)
        assert isinstance(value, Skip) or 0 <= value <= 1
    for one in cited(*answer):
        assert all(place is None or 0 <= place < chunks for place in one.chunks)
    value = numbers_supported(Case(id="q", query=""), response, CHUNKS[:chunks])
    assert isinstance(value, Skip) or 0 <= value <= 1
