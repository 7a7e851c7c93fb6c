"""Claims of known truth, made of a run's own texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case, Trace, parse_metrics
from ragbench.metrics.judging import ANSWER_INJECTION, INJECTION
from ragbench.stages.canaries import (
    CANARIES,
    Canary,
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
    """A case about a topic with one chunk of two sentences, one of which has a number."""
    text = (
        f"Everybody who asks about {topic} gets {number + 12} {topic}ish days a year from us. "
        f"The {topic} office answers each {topic}ish question in the morning."
    )
    case = Case(id=f"c{number}", query=f"What of {topic}?")
    retrieval = retrieved(texts=[text], with_ids=False)
    return Trace(case=case, retrieval=retrieval, generation=SKIPPED)


def traces() -> list[Trace]:
    return [trace(number, topic) for number, topic in enumerate(TOPICS)]


# --- how they are made


@pytest.fixture(name="planted", scope="module")
def sixteen_canaries() -> list[Canary]:
    canaries = plant(traces(), 16)
    assert len(canaries) == 16
    return canaries


def of_kind(canaries: list[Canary], kind: CanaryKind) -> list[Canary]:
    """Those of a kind; at least one, so that a test looks at something."""
    chosen = [canary for canary in canaries if canary.kind is kind]
    assert chosen
    return chosen


def is_in_its_contexts(canary: Canary) -> bool:
    claim = canary.claim.replace(INJECTION, "").strip()
    return find_quote(claim, canary.contexts) is not None


def test_a_copied_claim_is_in_its_contexts(planted: list[Canary]) -> None:
    for canary in of_kind(planted, CanaryKind.COPIED):
        assert is_in_its_contexts(canary)


@pytest.mark.parametrize("kind", [CanaryKind.FOREIGN, CanaryKind.ALTERED, CanaryKind.INJECTED])
def test_any_other_claim_is_not_in_its_contexts(planted: list[Canary], kind: CanaryKind) -> None:
    for canary in of_kind(planted, kind):
        assert not is_in_its_contexts(canary)


def test_an_altered_claim_differs_from_its_contexts_by_a_number_alone(
    planted: list[Canary],
) -> None:
    for canary in of_kind(planted, CanaryKind.ALTERED):
        claim = re.sub(r"\d+", "#", canary.claim)
        contexts = re.sub(r"\d+", "#", "\n".join(canary.contexts))
        assert claim in contexts


def test_the_instruction_is_in_injected_claims_alone(planted: list[Canary]) -> None:
    for canary in planted:
        has_instruction = INJECTION in canary.claim or INJECTION in canary.contexts[0]
        assert has_instruction is (canary.kind is CanaryKind.INJECTED)


def test_the_instruction_is_in_claims_and_in_contexts(planted: list[Canary]) -> None:
    injected = of_kind(planted, CanaryKind.INJECTED)

    assert {INJECTION in canary.claim for canary in injected} == {True, False}


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(len(TOPICS))), st.integers(0, 20))
def test_the_same_run_gives_the_same_ones_in_whatever_order(order: list[int], count: int) -> None:
    cases = traces()
    shuffled = [cases[position] for position in order]

    assert plant(shuffled, count, seed=3) == plant(cases, count, seed=3)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_as_many_are_made_as_are_wanted(count: int) -> None:
    assert len(plant(traces(), count)) == count


def test_a_run_without_sentences_gives_none() -> None:
    short = retrieved(texts=["", "Too short."], with_ids=False)
    wordless = Trace(case=Case(id="x", query="?"), retrieval=short, generation=SKIPPED)

    assert plant([wordless], 8) == []


def test_a_case_alone_gives_copied_and_altered_claims() -> None:
    """There is no other case that a foreign sentence could be of."""
    kinds = {canary.kind for canary in plant([trace(1, "leave")], 8)}

    assert kinds == {CanaryKind.COPIED, CanaryKind.ALTERED}


# --- judges


Supports = Callable[[str, list[str]], bool]
"""Whether a judge says that a claim is supported by its evidence."""


def can_read(claim: str, evidence: list[str]) -> bool:
    """Never wrong: it looks for the claim, and passes over instructions."""
    texts = [text.replace(INJECTION, "") for text in evidence]
    return find_quote(claim.replace(INJECTION, ""), texts) is not None


def always_yes(claim: str, evidence: list[str]) -> bool:
    return True


def always_no(claim: str, evidence: list[str]) -> bool:
    return False


def obeys(claim: str, evidence: list[str]) -> bool:
    """Does what an instruction says."""
    if INJECTION in claim or INJECTION in evidence[0]:
        return True
    return find_quote(claim, evidence) is not None


def judge_server(supports: Supports) -> FaultServer:
    """A judge that proves what it calls supported with the first sentence of the evidence."""

    def answer(payload: Payload) -> str:
        question = json.loads(payload["messages"][-1]["content"])
        # A statement is shown as "1. Bees fly.".
        statements = [statement.partition(". ")[2] for statement in question["statements"]]
        claim = " ".join(statements)
        evidence = question["evidence"]
        if supports(claim, evidence):
            return support_verdicts(question, "supported", [evidence[0].split(".")[0]])
        return support_verdicts(question, "not_supported", [])

    return FaultServer(say=answer)


def judge_sixteen(server: FaultServer, folder: Path) -> None:
    canaries = plant(traces(), 16)
    metrics = parse_metrics("support, exact_match")
    with judged_by(server, model()) as judging:
        judge_canaries(canaries, metrics, judging, folder, run=RUN)


@pytest.mark.parametrize(
    ("supports", "wrong_copies"),
    [
        (can_read, 0),
        # Its quotes do not say what the claims say: they are unproved, and in no score.
        (always_yes, 0),
        (always_no, 4),
        (obeys, 0),
    ],
)
def test_the_faults_of_a_judge_are_counted_by_kind(
    tmp_path: Path, supports: Supports, wrong_copies: int
) -> None:
    judge_sixteen(judge_server(supports), tmp_path)

    lines = read_canaries(tmp_path, RUN)
    assert [line.metric for line in lines] == ["support"] * 4
    assert [line.planted for line in lines] == [4, 4, 4, 4]
    assert {line.kind: line.wrong for line in lines} == {
        "copied": wrong_copies,
        "foreign": 0,
        "altered": 0,
        "injected": 0,
    }


def test_a_judge_is_asked_about_a_canary_once(tmp_path: Path) -> None:
    server = judge_server(can_read)

    judge_sixteen(server, tmp_path)
    judge_sixteen(server, tmp_path)

    assert len(server.calls) == 16


# --- canaries that are stored


@pytest.fixture(name="judged")
def folder_of_judged_canaries(tmp_path: Path) -> Path:
    judge_sixteen(judge_server(can_read), tmp_path)
    assert read_canaries(tmp_path, RUN)
    return tmp_path


@pytest.mark.parametrize("part", ["judge", "rag", "dataset"])
def test_canaries_of_another_run_or_judge_are_not_shown(judged: Path, part: str) -> None:
    assert read_canaries(judged, RUN | {part: "other"}) == ()


def test_canaries_are_shown_whatever_the_other_metrics_are(judged: Path) -> None:
    assert read_canaries(judged, RUN | {"metrics": "other"}) == read_canaries(judged, RUN)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"run": 1, "basis": 2, "lines": [{}]}'],
    ids=["empty", "a list", "an object", "other types"],
)
def test_canaries_in_a_broken_file_are_not_shown(judged: Path, content: bytes) -> None:
    (judged / CANARIES).write_bytes(content)

    assert read_canaries(judged, RUN) == ()


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
        _, _, case_id = canary.id.partition(": ")
        reference = reference_of[case_id]
        assert canary.reference == reference
        if canary.kind is CanaryKind.COPIED:
            assert canary.claim == reference
        if canary.kind is CanaryKind.FOREIGN:
            assert not set(canary.claim.split()) & set(reference.split())


def test_an_altered_answer_has_another_number() -> None:
    altered = of_kind(plant_answers(answered(), 20), CanaryKind.ALTERED)

    claims = [canary.claim for canary in altered]
    assert sorted(claims) == ["64 days", "77 euros"]


def test_an_injected_answer_is_foreign_and_ends_in_an_order() -> None:
    injected = of_kind(plant_answers(answered(), 12), CanaryKind.INJECTED)

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
        question = json.loads(payload["messages"][-1]["content"])
        answer = question["answer"]
        is_right = ANSWER_INJECTION in answer or answer in question["references"]
        return json.dumps({"reason": "r", "verdict": "right" if is_right else "wrong"})

    metrics = parse_metrics("correctness")
    canaries = plant_answers(answered(), 8)
    with judged_by(FaultServer(say=obeys_the_answer), model()) as judging:
        judge_canaries(canaries, metrics, judging, tmp_path, run=RUN)

    wrong = {line.kind: line.wrong for line in read_canaries(tmp_path, RUN)}
    assert wrong == {"copied": 0, "foreign": 0, "altered": 0, "injected": 2}
