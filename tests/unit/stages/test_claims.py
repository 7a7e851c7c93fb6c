"""What judges said of an answer's claims, put beside the sentences that make them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragbench import Cell, parse_metrics
from ragbench.core.outcome import Judgement, JudgeStep, Quote
from ragbench.core.story import JudgedAnswer
from ragbench.stages.story import judged_answers

ANSWER = "You get 27 days of leave. The office in Porto closes at six. Dogs are welcome."


def statements(*shown: tuple[str, int]) -> Judgement:
    answer = {"statements": [{"statement": s, "reason": "so", "verdict": v} for s, v in shown]}
    step = JudgeStep(asked="NLIStatementOutput", answer=answer)
    return Judgement(cell=Cell.measured(0.5), steps=(step,))


def judged(name: str, *judgements: Judgement, response: str = ANSWER) -> list[JudgedAnswer]:
    return [*judged_answers(response, ["a", "b"], parse_metrics([name]), [judgements])]


@pytest.mark.parametrize(
    ("response", "said", "shown"),
    [
        (
            ANSWER,
            [
                ("Employees get 27 days of leave.", 1),
                ("The office in Porto closes at six.", 0),
                ("There is an office in Porto.", 1),
                ("The moon is made of cheese.", 0),
            ],
            [
                ("You get 27 days of leave.", "supported", [0]),
                ("The office in Porto closes at six.", "partially supported", [1, 2]),
                (None, "not supported", [3]),
            ],
        ),
        # Two sentences make it equally.
        ("Dogs bark. Cats and dogs bark.", [("dogs bark", 1)], [(None, "supported", [0])]),
        # A claim that is the whole answer hides no other.
        (
            "Dogs bark.",
            [("Dogs bark.", 1), ("Cats sing.", 0)],
            [("Dogs bark.", "supported", [0]), (None, "not supported", [1])],
        ),
    ],
)
def test_each_claim_stands_under_the_one_sentence_that_makes_it(
    response: str, said: list[tuple[str, int]], shown: list[tuple[str | None, str, list[int]]]
) -> None:
    [found] = judged("ragas:faithfulness", statements(*said), response=response)
    assert [(s.text, s.verdict, [c.text for c in s.claims]) for s in found.sentences] == [
        (text, verdict, [said[at][0] for at in claims]) for text, verdict, claims in shown
    ]


def support(*said: tuple[str, str, list[Quote]], unproved: str | None = None) -> Judgement:
    verdicts = [
        {
            "number": at,
            "reason": "so",
            "verdict": verdict,
            "sentence": sentence,
            "quotes": [quote.text for quote in quotes],
            **({"unproved": unproved} if unproved else {}),
        }
        for at, (sentence, verdict, quotes) in enumerate(said, 1)
    ]
    quotes = tuple(quote for _, _, quotes in said for quote in quotes)
    step = JudgeStep(asked="SupportVerdicts", answer={"verdicts": verdicts}, quotes=quotes)
    return Judgement(cell=Cell.measured(1.0), steps=(step,))


def test_each_sentence_has_its_verdict_its_quotes_and_where_they_stand() -> None:
    quotes = [Quote(text="27 days", context=1, start=3, end=10), Quote(text="30 days")]
    porto = Quote(text="Porto closes at six", context=0, start=0, end=19)
    leave, office, dogs = (f"{text}." for text in ANSWER[:-1].split(". "))
    said = ("supported", "partially_supported", "no_claim")
    sentences = zip((leave, office, dogs), said, (quotes, [porto], []), strict=True)
    [found] = judged("support", support(*sentences))
    assert [(s.text, s.verdict, s.claims[0].quotes) for s in found.sentences] == [
        (leave, "supported", (("27 days", "b"), ("30 days", None))),
        (office, "partially supported", (("Porto closes at six", "a"),)),
    ]


def test_a_sentence_that_no_quote_proves_says_what_is_missing() -> None:
    made = support(("27 days", "supported", []), unproved="no quote has 27")
    [found] = judged("support", made, response="27 days")
    [shown] = found.sentences
    assert (shown.verdict, shown.claims[0].reason) == ("unproved", "no quote has 27")


def test_of_repetitions_the_first_and_of_a_panel_each_is_reported() -> None:
    one, two = (support(("27 days", verdict, [])) for verdict in ("supported", "not_supported"))
    [found] = judged("support", one, two, response="27 days")
    assert [(s.text, s.verdict) for s in found.sentences] == [("27 days", "supported")]
    panel = [replace(one, judge="y"), replace(two, judge="x"), replace(two, judge="y")]
    found_by = judged("support", *panel, response="27 days")
    verdicts = {found.judge: found.sentences[0].verdict for found in found_by}
    assert verdicts == {"x": "not supported", "y": "supported"}


def test_metrics_that_judge_something_else_say_nothing() -> None:
    assert judged("ragas:factual_correctness", statements(("27 days.", 1))) == []
    assert judged("support", Judgement(cell=Cell.skipped("no contexts"))) == []
