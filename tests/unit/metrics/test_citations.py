"""What answers cite, the numbers that they name, and ``support``, which counts by its quotes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.case import Case
from ragbench.core.metric import Skip
from ragbench.core.outcome import Cell, JudgedCell, Judgement, Quote, Status
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.ledger.codec import decoded, encode_judgements
from ragbench.metrics.citations import (
    citation_attribution,
    citation_coverage,
    citation_validity,
    cited,
    notes_of,
    numbers_supported,
)
from tests.llm_server import support_verdicts
from tests.unit.metrics import builders
from tests.unit.metrics.builders import Judge, generated, retrieved, trace

LEAVE, OFFICE, DOGS = CHUNKS = (
    "Everyone gets 27 days of paid leave a year, and 3.5 million euros are set aside for that.",
    "The office in Porto closes at 6 pm on 12 March 2024.",
    "Dogs are welcome in the office on Fridays.",
)
IDS = ["leave", "office", "dogs"]


def both(
    response: str, *, ids: Sequence[str] | None = None, chunks: Sequence[str] = CHUNKS, **more: Any
) -> tuple[GenerationResult[Any], RetrievalResult[Any]]:
    found = RetrievalResult(list(chunks), context_ids=None if ids is None else [*ids])
    return GenerationResult(response, **more), found


Answer = tuple[GenerationResult[Any], RetrievalResult[Any]]


def scored(answer: Answer) -> list[float | Skip]:
    """Validity, coverage and attribution."""
    found = cited(*answer)
    if isinstance(found, Skip):
        return [found]
    attribution = citation_attribution(found, answer[1].contexts)
    return [citation_validity(found), citation_coverage(found), attribution]


@pytest.mark.parametrize(
    ("response", "places"),
    [
        ("You get 27 days [1].", [0]),
        ("You get 27 days. [1] Dogs are welcome. [3]", [0, 2]),
        ("You get 27 days [1, 2] and more [9].", [0, 1, None]),
        ("You get 27 days [1-3].", [0, 1, 2]),
        ("You get 27 days 【2】【3†source】.", [1, 2]),
        ("You get 27 days (doc 3).", [2]),
        ("You get 27 days (Sources 1, 2).", [0, 1]),
        ("You get 27 days [^2].\n\n[^2]: The office handbook", [1]),
        ("You get 27 days [1].\n\nSources:\n[1] dogs", [2]),  # the list says which
        ("You get 27 days [leave; dogs].", [0, 2]),
        ("You get 27 days [0] or [2].", [0, 2]),  # counted from 0
    ],
)
def test_every_form_of_a_citation_is_read(response: str, places: list[int | None]) -> None:
    found = cited(*both(response, ids=IDS))
    assert not isinstance(found, Skip)
    assert [place for one in found for place in one.chunks] == places


LABELLED = {"chunks": [f"[{n}] {text}" for n, text in zip((7, 8, 9), CHUNKS, strict=True)]}


@pytest.mark.parametrize(
    ("response", "facts", "chunks"),
    [
        # Ids and labels come before ranks; citations in metadata are of the whole answer.
        ("A fact [3].", {"ids": ["3", "1", "2"]}, (0,)),
        ("A fact [8].", LABELLED, (1,)),
        ("A fact [1].", LABELLED, (None,)),
        (
            "Dogs are welcome.",
            {"ids": IDS, "metadata": {"citations": [{"id": "dogs"}, "leave", 9]}},
            (2, 0, None),
        ),
    ],
)
def test_what_a_citation_means(
    response: str, facts: dict[str, Any], chunks: tuple[int | None, ...]
) -> None:
    found = cited(*both(response, **facts))
    assert not isinstance(found, Skip) and [one.chunks for one in found] == [chunks]


def test_the_figures_by_hand() -> None:
    answer = both(
        "Here is what I found: You get 27 days of paid leave [1]. Dogs are welcome on Fridays [2]. "
        "The office closes at 6 pm [8]. Bring your passport. Anything else?\n\n# Sources\n- a.md 7"
    )
    # Of coverage: the question states nothing; of attribution: dogs stand in chunk 3.
    assert scored(answer) == pytest.approx([2 / 3, 3 / 4, 1 / 2])
    assert [note.problem for note in notes_of(Case(id="q", query="q"), *answer)] == [
        "cites 2: chunk 3 shares more of it than the cited ones",
        "cites 8: not among 3 shown chunks",
    ]


def test_what_cites_nothing_has_no_score() -> None:
    for text in ("You get 27 days. An array is written x[i].", "27 [sic] days, see [2019]."):
        assert scored(both(text)) == [Skip("the answer cites nothing")]
    found = scored(both("You get 27 days [8]."))[-1]
    assert isinstance(found, Skip) and "can be compared" in found.reason


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("You get 27 days.", 1.0),
        ("You get twenty-seven days.", 1.0),
        ("You get 28 days.", 0.0),
        ("You get 27 weeks.", 0.0),
        ("You get 27 days and 450 euros.", 0.5),
        ("About €3,500,000 is set aside.", 1.0),
        ("The office closes on 2024-03-12.", 1.0),
        ("The office closes on 13 March 2024.", 0.0),
        ("27 days [doc_8, p. 9].\nSources: p. 9", 1.0),
        ("It is case 77 that you asked about.", 1.0),  # in the question
        ("1. You get 27 days [9].\n2. Dogs are welcome.", 1.0),
        ("There are two reasons.", Skip("the answer names no number")),
        ("Dogs are welcome.", Skip("the answer names no number")),
    ],
)
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
    found = cited(*answer)
    for one in () if isinstance(found, Skip) else found:
        assert all(place is None or 0 <= place < chunks for place in one.chunks)
    supported = numbers_supported(Case(id="q", query=""), response, CHUNKS[:chunks])
    for value in (*scored(answer), supported):
        assert isinstance(value, Skip) or 0 <= value <= 1


CONTEXTS = ("  ", "Bees have wings and fly.", "Cows eat 27 kg of grass a day.")


def saying(*rounds: Sequence[tuple[str, list[str]]]) -> Judge:
    """Gives prepared verdicts of all statements in turn."""
    left = iter(rounds)

    def say(*_: Any) -> dict[str, Any]:
        return {
            "verdicts": [
                {"number": at, "reason": "r", "quotes": quotes, "verdict": verdict}
                for at, (verdict, quotes) in enumerate(next(left), 1)
            ]
        }

    return Judge(say)


def asked_about(
    contexts: Sequence[str], judge: Judge, repeats: int = 1, response: str = "Bees fly."
) -> JudgedCell:
    found = retrieved(texts=contexts, with_ids=False)
    one = trace(retrieval=found, generation=generated(response))
    return builders.judged("support", one, judge, repeats=repeats)


def judged(*verdicts: tuple[str, list[str]]) -> tuple[Cell, tuple[Judgement, ...]]:
    found = asked_about(CONTEXTS, saying(*([one] for one in verdicts)), len(verdicts))
    return found.cell, found.judgements


@pytest.mark.parametrize(
    ("quotes", "reason"),
    [
        ([], "the judge says that it is supported and quotes nothing"),
        (["Bees can swim well."], "no quote of the judge stands in the contexts"),
        (["fly", "27"], "the judge quotes single words, which prove nothing"),
    ],
)
@pytest.mark.parametrize("verdict", ["supported", "partially_supported"])
def test_support_without_proof_is_no_score(verdict: str, quotes: list[str], reason: str) -> None:
    cell, _ = judged((verdict, quotes))
    assert (cell.status, cell.value, cell.reason) == (Status.UNPROVED, None, reason)


@pytest.mark.parametrize(
    ("verdict", "value"), [("supported", 1.0), ("partially_supported", 0.5), ("not_supported", 0.0)]
)
def test_a_proved_verdict_is_measured(verdict: str, value: float) -> None:
    cell, _ = judged((verdict, ["Bees swim.", "fly", "bees HAVE wings"]))
    assert cell == Cell.measured(value)


def test_the_judge_reads_question_answer_and_the_contexts_that_say_something() -> None:
    judge = saying([("not_supported", [])])
    assert asked_about(CONTEXTS, judge).cell == Cell.measured(0.0)
    assert [json.loads(message) for message, _ in judge.asked] == [
        {"evidence": list(CONTEXTS[1:]), "statements": ["1. Bees fly."], "question": "query"}
    ]


@pytest.mark.parametrize("contexts", [[], ["", " \n"]])
def test_without_contexts_no_judge_is_asked(contexts: list[str]) -> None:
    judge = saying()
    assert asked_about(contexts, judge).cell == Cell.skipped(
        "there are no contexts to judge the answer by"
    )
    assert judge.asked == []


def test_quotes_are_kept_with_their_offsets_in_the_contexts_as_they_were_given() -> None:
    quotes = ["bees  have wings", "eat 27 kg ... a day", "Bees swim."]
    _, judgements = judged(("supported", quotes))
    first, second, invented = judgements[0].steps[0].quotes
    assert first == Quote(text="bees  have wings", context=1, start=0, end=15)
    assert second.context == 2 and (second.start, second.end) == (5, 29)
    assert CONTEXTS[2][5:29] == "eat 27 kg of grass a day"
    assert invented.is_fabricated and invented.start is None
    assert decoded(tuple[Judgement, ...], encode_judgements(judgements)) == judgements


@pytest.mark.parametrize(
    ("verdicts", "cell"),
    [
        # Two of three proved: their mean.
        (
            [("supported", ["Bees have wings"]), ("supported", []), ("not_supported", [])],
            Cell.measured(0.5),
        ),
        # As many unproved as measured: the mean would be one of unfavourable verdicts alone.
        (
            [("supported", []), ("not_supported", [])],
            Cell.unproved("the judge says that it is supported and quotes nothing"),
        ),
    ],
)
def test_repetitions(verdicts: list[tuple[str, list[str]]], cell: Cell) -> None:
    assert judged(*verdicts)[0] == cell


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30), st.sampled_from(["supported", "partially_supported"]))
def test_what_stands_in_no_context_never_scores(quote: str, verdict: str) -> None:
    cell, judgements = judged((verdict, [f"{quote} zzqx {quote}"]))
    assert cell.status is Status.UNPROVED
    assert judgements[0].steps[0].quotes[0].is_fabricated


FRANCE = "Paris is the capital of France. The Eiffel Tower was finished in 1889 and is 330 m high."
EVEREST = (
    "Mount Everest stands between Nepal and China. It is 8,849 metres high. It was first climbed "
    "in 1953 by Edmund Hillary and Tenzing Norgay. Nobody has climbed it without a permit."
)
RULES = "Employees get 27 days of leave. Leave may be carried over to March. Dogs are not allowed."


def of_answer(response: str, *verdicts: tuple[str, list[str]]) -> JudgedCell:
    return asked_about([FRANCE, EVEREST, RULES], saying(verdicts), response=response)


@pytest.mark.parametrize(
    ("sentence", "quote"),
    [
        ("The capital of France is Lyon.", "The Eiffel Tower"),
        ("The capital of France is Lyon.", "the capital of France"),
        ("The capital of France is Lyon.", "Nepal and China"),
        ("The Eiffel Tower was finished in 1890.", "The Eiffel Tower was finished in 1889"),
        ("The Eiffel Tower is 33 m high.", "is 330 m high"),
        ("The Eiffel Tower is 330 km high.", "is 330 m high"),
        ("The Eiffel Tower stands in Berlin.", "The Eiffel Tower was finished"),
        ("The Eiffel Tower was never finished.", "The Eiffel Tower was finished in 1889"),
        ("Mount Everest is 5,000 metres high.", "It is 8,849 metres high."),
        ("Mount Everest is 5,000 metres high and stands in Peru.", "Mount Everest stands between"),
        ("Mount Everest stands between India and Peru.", "Mount Everest stands between Nepal"),
        ("It was first climbed in 1953 by Reinhold Messner.", "first climbed in 1953 by"),
        ("It was last climbed in 1953.", "It was first climbed in 1953"),
        ("Hillary climbed it in 1935.", "first climbed in 1953 by Edmund Hillary"),
        ("Employees get three weeks of leave.", "Employees get 27 days of leave."),
        ("Employees get 28 days of leave.", "Employees get 27 days of leave."),
        ("Dogs are allowed.", "Dogs are not allowed."),
        ("Leave may be carried over to June.", "Leave may be carried over to March."),
        ("Salaries are paid on Fridays by bank transfer.", "Employees get 27 days"),
        ("Cats sleep all afternoon.", "The Eiffel Tower was finished"),
    ],
)
def test_a_quote_that_does_not_say_the_same_proves_nothing(sentence: str, quote: str) -> None:
    cell = of_answer(sentence, ("supported", [quote])).cell
    assert cell.status is Status.UNPROVED, cell


@pytest.mark.parametrize(
    ("sentence", "quote"),
    [
        ("The capital of France is Paris.", "Paris is the capital of France"),
        ("The Eiffel Tower dates from 1889.", "The Eiffel Tower was finished in 1889"),
        ("It is about 8,850 metres high.", "It is 8,849 metres high."),  # rounded
        ("Hillary and Norgay climbed it in 1953.", "first climbed in 1953 by Edmund Hillary"),
        ("Dogs are not allowed [3].", "Dogs are not allowed."),
        ("You get twenty-seven days of leave.", "get 27 days of leave"),
        ("Mitarbeiter bekommen 27 Tage Urlaub, das ist nicht wenig.", "Employees get 27 days"),
        ("2. Leave may be carried over.", "Leave may be carried over to March."),
    ],
)
def test_a_quote_that_says_the_same_in_other_words_proves(sentence: str, quote: str) -> None:
    assert of_answer(sentence, ("supported", [quote])).cell == Cell.measured(1.0)


def test_each_sentence_has_a_verdict_of_its_own() -> None:
    sentences = ["Sure!", "Paris is the capital of France.", "It has 2 lakes.", "Dogs are allowed."]
    found = of_answer(
        " ".join(sentences),
        ("no_claim", []),
        ("supported", ["Paris is the capital of France"]),
        ("not_supported", []),
        ("supported", ["Dogs are not allowed."]),
    )
    assert found.cell == Cell.measured(0.5)  # one of two; the last one is unproved and no zero
    said = found.judgements[0].steps[0].answer["verdicts"]
    assert [one["sentence"] for one in said] == sentences
    another = "the quote says it with another sign: one of both denies"
    assert [one.get("unproved") for one in said] == [None, None, None, another]
    nothing = of_answer("Sure!", ("no_claim", []))
    assert nothing.cell == Cell.skipped("the judge found nothing to check")


def test_a_verdict_that_is_forgotten_fails_the_cell() -> None:
    cell = of_answer("Bees fly. Cows eat.", ("not_supported", [])).cell
    assert cell.failure is not None and "1 to 2 is wanted" in cell.failure.message


def test_a_long_answer_is_judged_in_parts() -> None:
    said = support_verdicts
    judge = Judge(lambda prompt, *_: json.loads(said(json.loads(prompt), "not_supported")))
    response = " ".join(f"Bees fly to place {'a' * n}." for n in range(2, 37))
    found = asked_about(CONTEXTS, judge, response=response)
    assert found.cell == Cell.measured(0.0) and len(judge.asked) == 2
    steps = found.judgements[0].steps
    assert [one["number"] for step in steps for one in step.answer["verdicts"]] == [*range(1, 36)]
