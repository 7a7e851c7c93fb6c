"""``support``: a verdict of support counts only when a quote proves it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.outcome import Cell, JudgedCell, Judgement, Quote, Status
from ragbench.ledger.codec import decode_judgements, encode_judgements
from tests.unit.metrics import judges
from tests.unit.metrics.builders import generated, retrieved, trace
from tests.unit.metrics.judges import Judge

CONTEXTS = ("  ", "Bees have wings and fly.", "Cows eat 27 kg of grass a day.")


def saying(*verdicts: tuple[str, list[str]]) -> Judge:
    """Gives prepared verdicts in turn."""
    left = iter(verdicts)

    def say(*_: Any) -> dict[str, Any]:
        verdict, quotes = next(left)
        return {"reason": "r", "quotes": quotes, "verdict": verdict}

    return Judge(say)


def asked_about(contexts: Sequence[str], judge: Judge, repeats: int = 1) -> JudgedCell:
    one = trace(
        retrieval=retrieved(texts=contexts, with_ids=False), generation=generated("Bees fly.")
    )
    return judges.judged("support", one, judge, repeats=repeats)


def judged(*verdicts: tuple[str, list[str]]) -> tuple[Cell, tuple[Judgement, ...]]:
    found = asked_about(CONTEXTS, saying(*verdicts), len(verdicts))
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
    judge = saying(("not_supported", []))
    assert asked_about(CONTEXTS, judge).cell == Cell.measured(0.0)
    assert [json.loads(message) for message, _ in judge.asked] == [
        {"evidence": list(CONTEXTS[1:]), "claim": "Bees fly.", "question": "query"}
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
    assert decode_judgements(encode_judgements(judgements)) == judgements


@pytest.mark.parametrize(
    ("verdicts", "cell"),
    [
        # Two of three proved: their mean.
        ([("supported", ["Bees have wings"]), ("supported", []), ("not_supported", [])],
         Cell.measured(0.5)),
        # As many unproved as measured: the mean would be one of unfavourable verdicts alone.
        ([("supported", []), ("not_supported", [])],
         Cell.unproved("the judge says that it is supported and quotes nothing")),
    ],
)  # fmt: skip
def test_repetitions(verdicts: list[tuple[str, list[str]]], cell: Cell) -> None:
    assert judged(*verdicts)[0] == cell


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30), st.sampled_from(["supported", "partially_supported"]))
def test_what_stands_in_no_context_never_scores(quote: str, verdict: str) -> None:
    cell, judgements = judged((verdict, [f"{quote} zzqx {quote}"]))
    assert cell.status is Status.UNPROVED
    assert judgements[0].steps[0].quotes[0].is_fabricated
