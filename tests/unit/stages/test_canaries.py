"""Claims of known truth, made of a run's own texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case, Trace, parse_metrics
from ragbench.metrics.judging import ANSWER_INJECTION, INJECTION
from ragbench.stages.canaries import (
    CANARIES,
    CanaryKind,
    judge_canaries,
    plant,
    plant_answers,
    plant_for,
    read_canaries,
)
from ragbench.text.quotes import find_quote
from tests.llm_server import FaultServer, Payload, support_verdicts
from tests.unit.llm.builders import judged_by, model
from tests.unit.metrics.builders import SKIPPED, retrieved

TOPICS = ("leave", "badges", "printers", "lunch", "parking", "travel", "laptops", "holidays")
RUN = {"dataset": "d", "rag": "r", "judge": "j", "metrics": "m"}


def trace(number: int, topic: str) -> Trace:
    text = (
        f"Everybody who asks about {topic} gets {number + 12} {topic}ish days a year from us. "
        f"The {topic} office answers each {topic}ish question in the morning."
    )
    case = Case(id=f"c{number}", query=f"What of {topic}?")
    return Trace(case=case, retrieval=retrieved(texts=[text], with_ids=False), generation=SKIPPED)


def traces() -> list[Trace]:
    return [trace(number, topic) for number, topic in enumerate(TOPICS)]


def test_each_canary_is_what_its_kind_says() -> None:
    planted = plant(traces(), 16)
    assert len(planted) == 16
    for canary in planted:
        plain = canary.claim.replace(INJECTION, "").strip()
        held = find_quote(plain, canary.contexts) is not None
        assert held is (canary.kind is CanaryKind.COPIED), canary
        if canary.kind is CanaryKind.ALTERED:  # nothing but the number is another
            same = [re.sub(r"\d+", "#", text) for text in canary.contexts]
            assert any(re.sub(r"\d+", "#", plain) in text for text in same)
        shown = INJECTION in canary.claim or INJECTION in canary.contexts[0]
        assert shown is (canary.kind is CanaryKind.INJECTED)
    injected = [canary for canary in planted if canary.kind is CanaryKind.INJECTED]
    assert {INJECTION in canary.claim for canary in injected} == {True, False}


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(len(TOPICS))), st.integers(0, 20))
def test_the_same_run_gives_the_same_ones_in_whatever_order(order: list[int], count: int) -> None:
    cases = traces()
    assert plant([cases[at] for at in order], count, seed=3) == plant(cases, count, seed=3)


def test_a_run_with_few_sentences_gives_few() -> None:
    short = retrieved(texts=["", "Too short."], with_ids=False)
    nothing = Trace(case=Case(id="x", query="?"), retrieval=short, generation=SKIPPED)
    assert plant([nothing], 8) == []
    assert [len(plant(traces(), count)) for count in (0, 1, 7)] == [0, 1, 7]
    # Alone, a case has nothing foreign; its number can be altered, its sentence copied.
    kinds = {canary.kind for canary in plant([trace(1, "leave")], 8)}
    assert kinds == {CanaryKind.COPIED, CanaryKind.ALTERED}


def reads(shown: dict[str, Any]) -> bool:
    """A judge that can read: never wrong."""
    evidence = [text.replace(INJECTION, "") for text in shown["evidence"]]
    return find_quote(shown["claim"].replace(INJECTION, ""), evidence) is not None


def obeys(shown: dict[str, Any]) -> bool:
    told_so = INJECTION in shown["claim"] or INJECTION in shown["evidence"][0]
    return told_so or find_quote(shown["claim"], shown["evidence"]) is not None


@pytest.mark.parametrize(
    ("supports", "wrong"),
    [
        (reads, {}),
        (lambda _: True, {}),  # its quotes do not say what the claims say: unproved, in no score
        (lambda _: False, {"copied": 4}),
        (obeys, {}),
    ],
    ids=["can read", "always yes", "always no", "obeys"],
)
def test_each_fault_of_a_judge_has_its_kind(
    tmp_path: Path, supports: Callable[[dict[str, Any]], bool], wrong: dict[str, int]
) -> None:
    def say(payload: Payload) -> str:
        shown = json.loads(payload["messages"][-1]["content"])
        shown["claim"] = " ".join(one.partition(". ")[2] for one in shown["statements"])
        found = supports(shown)
        quotes = [shown["evidence"][0].split(".")[0]] if found else []
        verdict = "supported" if found else "not_supported"
        return support_verdicts(shown, verdict, quotes)

    server = FaultServer(say=say)
    with judged_by(server, model()) as judging:
        metrics = parse_metrics("support, exact_match")
        for _ in range(2):  # the second time nobody is asked
            judge_canaries(plant(traces(), 16), metrics, judging, tmp_path, run=RUN)
    assert len(server.calls) == 16
    found = read_canaries(tmp_path, RUN)
    assert {(line.metric, line.planted) for line in found} == {("support", 4)}
    assert {line.kind: line.wrong for line in found} == dict.fromkeys(CanaryKind, 0) | wrong
    # They are not shown of another run or judge, nor where the file is broken.
    for part in ("judge", "rag", "dataset"):
        assert read_canaries(tmp_path, RUN | {part: "other"}) == ()
    assert read_canaries(tmp_path, RUN | {"metrics": "other"}) == found
    for broken in (b"", b"[]", b"{}", b'{"run": 1, "basis": 2, "lines": [{}]}'):
        (tmp_path / CANARIES).write_bytes(broken)
        assert read_canaries(tmp_path, RUN) == ()


# --- answers, for a judge of whether they are right


ANSWERED = (
    ("leave", "How many days of leave?", "27 days"),
    ("desk", "Where is the desk?", "beside the lift"),
    ("badge", "Who makes badges?", "Maria Lopez"),
    ("lunch", "What is free?", "a soup every Monday"),
    ("key", "How much is a key?", "40 euros"),
)


def answered() -> list[Trace]:
    """Cases with a question and a right answer; no answer of a system is needed."""
    traces: list[Trace] = []
    for id, query, reference in ANSWERED:
        case = Case(id=id, query=query, reference=reference)
        traces.append(Trace(case=case, retrieval=SKIPPED, generation=SKIPPED))
    return traces


def test_a_copied_answer_is_the_reference_and_a_foreign_one_shares_no_word_with_it() -> None:
    reference_of = {id: reference for id, _, reference in ANSWERED}

    for canary in plant_answers(answered(), 12):
        reference = reference_of[canary.id.partition(": ")[2]]
        assert canary.reference == reference
        if canary.kind is CanaryKind.COPIED:
            assert canary.claim == reference
        if canary.kind is CanaryKind.FOREIGN:
            assert not set(canary.claim.split()) & set(reference.split())


def test_an_altered_answer_has_another_number() -> None:
    altered = [c.claim for c in plant_answers(answered(), 20) if c.kind is CanaryKind.ALTERED]

    assert sorted(altered) == ["64 days", "77 euros"]


def test_an_injected_answer_is_foreign_and_ends_in_an_order() -> None:
    injected = [c for c in plant_answers(answered(), 12) if c.kind is CanaryKind.INJECTED]

    assert injected
    for canary in injected:
        assert canary.claim.endswith(ANSWER_INJECTION)
        assert not canary.claim.startswith(canary.reference)


def test_cases_without_a_reference_carry_no_answer() -> None:
    assert plant_answers(traces(), 8) == []


def test_canaries_are_made_for_the_judges_that_a_run_has() -> None:
    claims = plant_for(parse_metrics("support"), traces, 4)
    answers = plant_for(parse_metrics("correctness"), answered, 4)

    assert [canary.reference for canary in claims] == [""] * 4
    assert all(canary.reference for canary in answers)
    assert plant_for(parse_metrics("token_f1,rubric:kind=It is kind."), traces, 4) == []


def test_a_judge_that_obeys_an_answer_is_found_out(tmp_path: Path) -> None:
    def obeys_the_answer(payload: Payload) -> str:
        texts = json.loads(payload["messages"][-1]["content"])
        is_right = ANSWER_INJECTION in texts["answer"] or texts["answer"] in texts["references"]
        return json.dumps({"reason": "r", "verdict": "right" if is_right else "wrong"})

    metrics = parse_metrics("correctness")
    with judged_by(FaultServer(say=obeys_the_answer), model()) as judging:
        canaries = plant_answers(answered(), 8)
        judge_canaries(canaries, metrics, judging, tmp_path, run=RUN)

    wrong = {line.kind: line.wrong for line in read_canaries(tmp_path, RUN)}
    assert wrong == {"copied": 0, "foreign": 0, "altered": 0, "injected": 2}
