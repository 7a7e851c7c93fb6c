"""What judges said of an answer's claims, put beside the sentences that make them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragbench import Cell, parse_metrics
from ragbench.core.outcome import Judgement, JudgeStep, Quote
from ragbench.core.story import JudgedAnswer, JudgedSentence
from ragbench.stages.story import judged_answers

ANSWER = "You get 27 days of leave. The office in Porto closes at six. Dogs are welcome."


def judged(metric: str, *judgements: Judgement, response: str = ANSWER) -> list[JudgedAnswer]:
    """The verdicts of judges on an answer from the contexts "a" and "b"."""
    contexts = ["a", "b"]
    return list(judged_answers(response, contexts, parse_metrics([metric]), [judgements]))


# --- claims of Ragas, which are not sentences of the answer


def statements(*claims: tuple[str, int]) -> Judgement:
    """Claims with their verdict: 1 if the contexts support it."""
    rows: list[dict[str, object]] = []
    for claim, verdict in claims:
        rows.append({"statement": claim, "reason": "so", "verdict": verdict})
    step = JudgeStep(asked="NLIStatementOutput", answer={"statements": rows})
    return Judgement(cell=Cell.measured(0.5), steps=(step,))


SentenceWithClaims = tuple[str | None, str, list[str]]
"""A sentence, or None for claims of no sentence; its verdict; its claims."""


def sentences_of(answer: JudgedAnswer) -> list[SentenceWithClaims]:
    sentences: list[SentenceWithClaims] = []
    for sentence in answer.sentences:
        claims = [claim.text for claim in sentence.claims]
        sentences.append((sentence.text, sentence.verdict, claims))
    return sentences


def test_each_claim_stands_under_the_sentence_that_makes_it() -> None:
    judgement = statements(
        ("Employees get 27 days of leave.", 1),
        ("The office in Porto closes at six.", 0),
        ("There is an office in Porto.", 1),
    )

    (answer,) = judged("ragas:faithfulness", judgement)

    assert sentences_of(answer) == [
        ("You get 27 days of leave.", "supported", ["Employees get 27 days of leave."]),
        (
            "The office in Porto closes at six.",
            "partially supported",
            ["The office in Porto closes at six.", "There is an office in Porto."],
        ),
    ]


def test_a_claim_that_no_sentence_makes_stands_alone() -> None:
    judgement = statements(("The moon is made of cheese.", 0))

    (answer,) = judged("ragas:faithfulness", judgement)

    assert sentences_of(answer) == [(None, "not supported", ["The moon is made of cheese."])]


def test_a_claim_that_two_sentences_make_equally_stands_alone() -> None:
    judgement = statements(("dogs bark", 1))

    (answer,) = judged("ragas:faithfulness", judgement, response="Dogs bark. Cats and dogs bark.")

    assert sentences_of(answer) == [(None, "supported", ["dogs bark"])]


def test_a_claim_that_is_the_whole_answer_hides_no_other() -> None:
    judgement = statements(("Dogs bark.", 1), ("Cats sing.", 0))

    (answer,) = judged("ragas:faithfulness", judgement, response="Dogs bark.")

    assert sentences_of(answer) == [
        ("Dogs bark.", "supported", ["Dogs bark."]),
        (None, "not supported", ["Cats sing."]),
    ]


# --- verdicts on sentences, with their quotes


def verdict_on(
    number: int, sentence: str, verdict: str, *quotes: Quote, unproved: str | None = None
) -> dict[str, object]:
    row: dict[str, object] = {
        "number": number,
        "reason": "so",
        "verdict": verdict,
        "sentence": sentence,
        "quotes": [quote.text for quote in quotes],
    }
    if unproved is not None:
        row["unproved"] = unproved
    return row


def support(rows: list[dict[str, object]], *quotes: Quote, judge: str | None = None) -> Judgement:
    """A judgement of these verdicts, and where their quotes are."""
    step = JudgeStep(asked="SupportVerdicts", answer={"verdicts": rows}, quotes=quotes)
    judgement = Judgement(cell=Cell.measured(1.0), steps=(step,))
    return judgement if judge is None else replace(judgement, judge=judge)


LEAVE = "You get 27 days of leave."
OFFICE = "The office in Porto closes at six."
DOGS = "Dogs are welcome."
DAYS_27 = Quote(text="27 days", context=1, start=3, end=10)
DAYS_30 = Quote(text="30 days")  # which no context has
PORTO = Quote(text="Porto closes at six", context=0, start=0, end=19)


@pytest.fixture(name="sentences")
def sentences_that_were_judged() -> tuple[JudgedSentence, ...]:
    judgement = support(
        [
            verdict_on(1, LEAVE, "supported", DAYS_27, DAYS_30),
            verdict_on(2, OFFICE, "partially_supported", PORTO),
            verdict_on(3, DOGS, "no_claim"),
        ],
        DAYS_27,
        DAYS_30,
        PORTO,
    )
    (answer,) = judged("support", judgement)
    return answer.sentences


def test_each_sentence_that_claims_something_has_its_verdict(
    sentences: tuple[JudgedSentence, ...],
) -> None:
    verdicts = [(sentence.text, sentence.verdict) for sentence in sentences]
    assert verdicts == [(LEAVE, "supported"), (OFFICE, "partially supported")]


def test_each_quote_has_the_context_that_it_is_from(
    sentences: tuple[JudgedSentence, ...],
) -> None:
    leave, office = sentences

    assert leave.claims[0].quotes == (("27 days", "b"), ("30 days", None))
    assert office.claims[0].quotes == (("Porto closes at six", "a"),)


def test_a_sentence_that_no_quote_proves_says_what_is_missing() -> None:
    row = verdict_on(1, "27 days", "supported", unproved="no quote has 27")

    (answer,) = judged("support", support([row]), response="27 days")

    (sentence,) = answer.sentences
    assert sentence.verdict == "unproved"
    assert sentence.claims[0].reason == "no quote has 27"


# --- several judgements of an answer


SUPPORTED = [verdict_on(1, "27 days", "supported")]
NOT_SUPPORTED = [verdict_on(1, "27 days", "not_supported")]


def test_of_repeated_judgements_the_first_is_reported() -> None:
    (answer,) = judged("support", support(SUPPORTED), support(NOT_SUPPORTED), response="27 days")

    assert answer.sentences[0].verdict == "supported"


def test_of_a_panel_the_first_judgement_of_each_judge_is_reported() -> None:
    answers = judged(
        "support",
        support(SUPPORTED, judge="y"),
        support(NOT_SUPPORTED, judge="x"),
        support(NOT_SUPPORTED, judge="y"),
        response="27 days",
    )

    verdicts = {answer.judge: answer.sentences[0].verdict for answer in answers}
    assert verdicts == {"x": "not supported", "y": "supported"}


def test_a_metric_that_judges_no_claims_against_contexts_says_nothing() -> None:
    judgement = statements(("27 days.", 1))

    assert judged("ragas:factual_correctness", judgement) == []


def test_an_answer_that_was_not_judged_says_nothing() -> None:
    skipped = Judgement(cell=Cell.skipped("no contexts"))

    assert judged("support", skipped) == []
