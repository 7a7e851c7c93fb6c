"""What answers cite, the numbers that they name, and ``support``, which counts by its quotes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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

# --- citations

LEAVE = "Everyone gets 27 days of paid leave a year, and 3.5 million euros are set aside for that."
OFFICE = "The office in Porto closes at 6 pm on 12 March 2024."
DOGS = "Dogs are welcome in the office on Fridays."
CHUNKS = (LEAVE, OFFICE, DOGS)
IDS = ("leave", "office", "dogs")


def results(
    response: str,
    *,
    ids: Sequence[str] | None = None,
    chunks: Sequence[str] = CHUNKS,
    metadata: Any = None,
) -> tuple[GenerationResult[Any], RetrievalResult[Any]]:
    """An answer and the chunks that it may cite."""
    context_ids = None if ids is None else list(ids)
    retrieval: RetrievalResult[Any] = RetrievalResult(list(chunks), context_ids=context_ids)
    return GenerationResult(response, metadata=metadata), retrieval


def cited_chunks(*answer: Any) -> list[tuple[int | None, ...]]:
    """Of each sentence that cites, the places of its chunks: None for one that does not exist."""
    sentences = cited(*answer)
    assert not isinstance(sentences, Skip)
    return [sentence.chunks for sentence in sentences if sentence.markers]


@pytest.mark.parametrize(
    ("response", "chunks"),
    [
        ("You get 27 days [1].", [(0,)]),
        ("You get 27 days. [1] Dogs are welcome. [3]", [(0,), (2,)]),
        ("You get 27 days [1, 2] and more [9].", [(0, 1, None)]),
        ("You get 27 days [1-3].", [(0, 1, 2)]),
        ("You get 27 days 【2】【3†source】.", [(1, 2)]),
        ("You get 27 days (doc 3).", [(2,)]),
        ("You get 27 days (Sources 1, 2).", [(0, 1)]),
        ("You get 27 days [^2].\n\n[^2]: The office handbook", [(1,)]),
        ("You get 27 days [1].\n\nSources:\n[1] dogs", [(2,)]),  # the list says which
        ("You get 27 days [leave; dogs].", [(0, 2)]),
        ("You get 27 days [0] or [2].", [(0, 2)]),  # counted from 0
    ],
)
def test_every_form_of_a_citation_is_read(
    response: str, chunks: list[tuple[int | None, ...]]
) -> None:
    assert cited_chunks(*results(response, ids=IDS)) == chunks


def test_an_id_comes_before_a_rank() -> None:
    answer = results("A fact [3].", ids=["3", "1", "2"])

    assert cited_chunks(*answer) == [(0,)]


@pytest.mark.parametrize(("response", "chunk"), [("A fact [8].", 1), ("A fact [1].", None)])
def test_a_label_that_the_chunks_show_comes_before_a_rank(response: str, chunk: int | None) -> None:
    labelled = [f"[7] {LEAVE}", f"[8] {OFFICE}", f"[9] {DOGS}"]

    assert cited_chunks(*results(response, chunks=labelled)) == [(chunk,)]


def test_citations_in_metadata_are_of_the_whole_answer() -> None:
    metadata = {"citations": [{"id": "dogs"}, "leave", 9]}

    answer = results("Dogs are welcome.", ids=IDS, metadata=metadata)

    assert cited_chunks(*answer) == [(2, 0, None)]


HANDBOOK_ANSWER = (
    "Here is what I found: You get 27 days of paid leave [1]. Dogs are welcome on Fridays [2]. "
    "The office closes at 6 pm [8]. Bring your passport. Anything else?\n\n# Sources\n- a.md 7"
)


def test_the_figures_by_hand() -> None:
    answer = results(HANDBOOK_ANSWER)

    citations = cited(*answer)

    assert not isinstance(citations, Skip)
    assert citation_validity(citations) == pytest.approx(2 / 3)  # chunk 8 does not exist
    assert citation_coverage(citations) == pytest.approx(3 / 4)  # the question states nothing
    assert citation_attribution(citations, CHUNKS) == pytest.approx(1 / 2)  # dogs are in chunk 3


def test_a_citation_of_the_wrong_chunk_and_one_of_no_chunk_are_noted() -> None:
    notes = notes_of(Case(id="q", query="q"), *results(HANDBOOK_ANSWER))

    assert [note.problem for note in notes] == [
        "cites 2: chunk 3 shares more of it than the cited ones",
        "cites 8: not among 3 shown chunks",
    ]


@pytest.mark.parametrize(
    "response",
    ["You get 27 days. An array is written x[i].", "27 [sic] days, see [2019]."],
)
def test_brackets_that_name_no_chunk_are_no_citations(response: str) -> None:
    assert cited(*results(response)) == Skip("the answer cites nothing")


def test_of_chunks_that_do_not_exist_no_attribution_is_measured() -> None:
    citations = cited(*results("You get 27 days [8]."))
    assert not isinstance(citations, Skip)

    attribution = citation_attribution(citations, CHUNKS)

    assert isinstance(attribution, Skip)
    assert "can be compared" in attribution.reason


# --- numbers


@pytest.mark.parametrize(
    ("response", "share"),
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
    ],
)
def test_numbers_stand_in_a_chunk_or_in_the_question(response: str, share: float) -> None:
    case = Case(id="q", query="What of case 77?")

    assert numbers_supported(case, response, CHUNKS) == share


@pytest.mark.parametrize("response", ["There are two reasons.", "Dogs are welcome."])
def test_an_answer_without_a_number_has_no_score_of_numbers(response: str) -> None:
    case = Case(id="q", query="What of case 77?")

    assert numbers_supported(case, response, CHUNKS) == Skip("the answer names no number")


def test_a_number_that_stands_nowhere_is_named_with_its_sentence_and_the_place_looked_at() -> None:
    answer = results("Dogs are welcome. It has 12,500 seats since May 1999.")

    [note] = notes_of(Case(id="q", query="q"), *answer)

    assert note.sentence == "It has 12,500 seats since May 1999."
    assert note.problem == "12,500, May 1999: not in 3 shown chunks, nor in the question"


ANSWERS = st.text("ab .[]【】()^†1923,-–\n?:#", max_size=60)


@settings(max_examples=80, deadline=None)
@given(ANSWERS, st.integers(0, 3))
def test_no_answer_breaks_it_and_shares_are_shares(response: str, count: int) -> None:
    chunks = CHUNKS[:count]
    citations = cited(*results(response, chunks=chunks))
    shares = [numbers_supported(Case(id="q", query=""), response, chunks)]
    if not isinstance(citations, Skip):
        shares.append(citation_validity(citations))
        shares.append(citation_coverage(citations))
        shares.append(citation_attribution(citations, chunks))

    for share in shares:
        assert isinstance(share, Skip) or 0 <= share <= 1


@settings(max_examples=80, deadline=None)
@given(ANSWERS, st.integers(0, 3))
def test_a_citation_is_of_a_chunk_that_exists_or_of_none(response: str, count: int) -> None:
    citations = cited(*results(response, chunks=CHUNKS[:count]))

    places: set[int | None] = set()
    if not isinstance(citations, Skip):
        for citation in citations:
            places.update(citation.chunks)

    assert places <= {None, *range(count)}


# --- support: what a judge says of a claim

NATURE = ("  ", "Bees have wings and fly.", "Cows eat 27 kg of grass a day.")

Verdict = tuple[str, list[str]]
"""What the judge says of a statement, and the quotes that prove it."""


def panel(*rounds: Sequence[Verdict]) -> Judge:
    """A judge that gives, at each call, the next prepared verdicts of all statements."""
    answers: Iterator[Sequence[Verdict]] = iter(rounds)

    def say(*_: Any) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for number, (verdict, quotes) in enumerate(next(answers), 1):
            row = {"number": number, "reason": "r", "quotes": quotes, "verdict": verdict}
            rows.append(row)
        return {"verdicts": rows}

    return Judge(say)


def support(
    contexts: Sequence[str], judge: Judge, repeats: int = 1, response: str = "Bees fly."
) -> JudgedCell:
    retrieval = retrieved(texts=contexts, with_ids=False)
    case = trace(retrieval=retrieval, generation=generated(response))
    return builders.judged("support", case, judge, repeats=repeats)


def support_of_bees(*verdicts: Verdict) -> tuple[Cell, tuple[Judgement, ...]]:
    """The judge is asked once for each verdict whether bees fly."""
    rounds = [[verdict] for verdict in verdicts]
    result = support(NATURE, panel(*rounds), repeats=len(verdicts))
    return result.cell, result.judgements


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
    cell, _ = support_of_bees((verdict, quotes))

    assert cell == Cell.unproved(reason)


@pytest.mark.parametrize(
    ("verdict", "score"), [("supported", 1.0), ("partially_supported", 0.5), ("not_supported", 0.0)]
)
def test_a_proved_verdict_is_measured(verdict: str, score: float) -> None:
    quotes = ["Bees swim.", "fly", "bees HAVE wings"]

    cell, _ = support_of_bees((verdict, quotes))

    assert cell == Cell.measured(score)


def test_the_judge_reads_question_answer_and_the_contexts_that_say_something() -> None:
    judge = panel([("not_supported", [])])

    result = support(NATURE, judge)

    assert result.cell == Cell.measured(0.0)
    [(prompt, _)] = judge.asked
    assert json.loads(prompt) == {
        "evidence": ["Bees have wings and fly.", "Cows eat 27 kg of grass a day."],
        "statements": ["1. Bees fly."],
        "question": "query",
    }


@pytest.mark.parametrize("contexts", [[], ["", " \n"]])
def test_without_contexts_no_judge_is_asked(contexts: list[str]) -> None:
    judge = panel()

    result = support(contexts, judge)

    assert result.cell == Cell.skipped("there are no contexts to judge the answer by")
    assert judge.asked == []


QUOTES_OF_NATURE = ["bees  have wings", "eat 27 kg ... a day", "Bees swim."]


def test_quotes_are_kept_with_their_offsets_in_the_contexts_as_they_were_given() -> None:
    _, judgements = support_of_bees(("supported", QUOTES_OF_NATURE))

    bees, cows, invented = judgements[0].steps[0].quotes
    assert bees == Quote(text="bees  have wings", context=1, start=0, end=15)
    assert (cows.context, cows.start, cows.end) == (2, 5, 29)
    assert NATURE[2][5:29] == "eat 27 kg of grass a day"
    assert invented.is_fabricated
    assert invented.start is None


def test_judgements_with_quotes_are_stored_and_read_again() -> None:
    _, judgements = support_of_bees(("supported", QUOTES_OF_NATURE))

    stored = encode_judgements(judgements)

    assert decoded(tuple[Judgement, ...], stored) == judgements


def test_of_repetitions_the_proved_ones_are_averaged() -> None:
    cell, _ = support_of_bees(
        ("supported", ["Bees have wings"]), ("supported", []), ("not_supported", [])
    )

    assert cell == Cell.measured(0.5)


def test_as_many_unproved_repetitions_as_measured_ones_are_no_score() -> None:
    """The mean would be one of unfavourable verdicts alone."""
    cell, _ = support_of_bees(("supported", []), ("not_supported", []))

    assert cell == Cell.unproved("the judge says that it is supported and quotes nothing")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30), st.sampled_from(["supported", "partially_supported"]))
def test_what_stands_in_no_context_never_scores(quote: str, verdict: str) -> None:
    cell, judgements = support_of_bees((verdict, [f"{quote} zzqx {quote}"]))

    assert cell.status is Status.UNPROVED
    assert judgements[0].steps[0].quotes[0].is_fabricated


# --- support: what a quote proves

FRANCE = "Paris is the capital of France. The Eiffel Tower was finished in 1889 and is 330 m high."
EVEREST = (
    "Mount Everest stands between Nepal and China. It is 8,849 metres high. It was first climbed "
    "in 1953 by Edmund Hillary and Tenzing Norgay. Nobody has climbed it without a permit."
)
RULES = "Employees get 27 days of leave. Leave may be carried over to March. Dogs are not allowed."


def support_of(response: str, *verdicts: Verdict) -> JudgedCell:
    """The judge gives each sentence of the response its verdict."""
    return support([FRANCE, EVEREST, RULES], panel(verdicts), response=response)


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
    cell = support_of(sentence, ("supported", [quote])).cell

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
    cell = support_of(sentence, ("supported", [quote])).cell

    assert cell == Cell.measured(1.0)


# --- support: answers of several sentences


def test_each_sentence_has_a_verdict_of_its_own() -> None:
    result = support_of(
        "Sure! Paris is the capital of France. It has 2 lakes. Dogs are allowed.",
        ("no_claim", []),
        ("supported", ["Paris is the capital of France"]),
        ("not_supported", []),
        ("supported", ["Dogs are not allowed."]),
    )

    assert result.cell == Cell.measured(0.5)  # one of two; the last one is unproved and no zero
    verdicts = result.judgements[0].steps[0].answer["verdicts"]
    assert [verdict["sentence"] for verdict in verdicts] == [
        "Sure!",
        "Paris is the capital of France.",
        "It has 2 lakes.",
        "Dogs are allowed.",
    ]
    assert [verdict.get("unproved") for verdict in verdicts] == [
        None,
        None,
        None,
        "the quote says it with another sign: one of both denies",
    ]


def test_an_answer_that_claims_nothing_is_skipped() -> None:
    result = support_of("Sure!", ("no_claim", []))

    assert result.cell == Cell.skipped("the judge found nothing to check")


def test_a_verdict_that_is_forgotten_fails_the_cell() -> None:
    cell = support_of("Bees fly. Cows eat.", ("not_supported", [])).cell

    assert cell.failure is not None
    assert "1 to 2 is wanted" in cell.failure.message


def test_a_long_answer_is_judged_in_parts() -> None:
    def say(prompt: str, *_: Any) -> Any:
        return json.loads(support_verdicts(json.loads(prompt), "not_supported"))

    judge = Judge(say)
    sentences = [f"Bees fly to place {'a' * length}." for length in range(2, 37)]

    result = support(NATURE, judge, response=" ".join(sentences))

    assert result.cell == Cell.measured(0.0)
    assert len(judge.asked) == 2
    numbers: list[int] = []
    for step in result.judgements[0].steps:
        numbers += [verdict["number"] for verdict in step.answer["verdicts"]]
    assert numbers == list(range(1, 36))
