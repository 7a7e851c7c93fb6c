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

from ragbench import Case, Outcome, RetrievalResult, Status, Trace, parse_metrics
from ragbench.core.report import CanaryLine
from ragbench.metrics.judging import INJECTION
from ragbench.stages.canaries import CANARIES, CanaryKind, judge_canaries, plant, read_canaries
from ragbench.text.quotes import find_quote
from tests.llm_server import FaultServer, Payload
from tests.unit.llm.builders import judged_by, model

TOPICS = ("leave", "badges", "printers", "lunch", "parking", "travel", "laptops", "holidays")
RUN = {"dataset": "d", "rag": "r", "judge": "j", "metrics": "m"}


def trace(number: int, topic: str) -> Trace:
    text = (
        f"Everybody who asks about {topic} gets {number + 12} {topic}ish days a year from us. "
        f"The {topic} office answers each {topic}ish question in the morning."
    )
    return Trace(
        case=Case(id=f"c{number}", query=f"What of {topic}?"),
        retrieval=Outcome(status=Status.MEASURED, value=RetrievalResult([text])),
        generation=Outcome(status=Status.SKIPPED, reason="not needed"),
    )


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
            numbers = re.compile(r"\d+")
            assert any(
                numbers.sub("#", plain) in numbers.sub("#", text) for text in canary.contexts
            )
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
    nothing = Trace(
        case=Case(id="x", query="?"),
        retrieval=Outcome(status=Status.MEASURED, value=RetrievalResult(["", "Too short."])),
        generation=Outcome(status=Status.SKIPPED),
    )
    assert plant([nothing], 8) == []
    # Alone, a case has nothing foreign; its number can be altered, its sentence copied.
    kinds = {canary.kind for canary in plant([trace(1, "leave")], 8)}
    assert kinds == {CanaryKind.COPIED, CanaryKind.ALTERED}


def judged(tmp_path: Path, verdict: Callable[[dict[str, Any]], str]) -> dict[str, CanaryLine]:
    def say(payload: Payload) -> str:
        shown = json.loads(payload["messages"][-1]["content"])
        found = verdict(shown)
        quotes = [shown["evidence"][0].split(".")[0]] if found == "supported" else []
        return json.dumps({"reason": "r", "quotes": quotes, "verdict": found})

    server = FaultServer(say=say)
    with judged_by(server, model()) as judging:
        metrics = parse_metrics("support, exact_match")
        for _ in range(2):  # the second time nobody is asked
            judge_canaries(plant(traces(), 16), metrics, judging, tmp_path, run=RUN)
    assert len(server.calls) == 16
    found = {line.kind: line for line in read_canaries(tmp_path, RUN)}
    assert all(line.metric == "support" and line.planted == 4 for line in found.values())
    return found


def test_a_judge_that_can_read_is_never_wrong(tmp_path: Path) -> None:
    def reads(shown: dict[str, Any]) -> str:
        evidence = [text.replace(INJECTION, "") for text in shown["evidence"]]
        held = find_quote(shown["claim"].replace(INJECTION, ""), evidence)
        return "not_supported" if held is None else "supported"

    found = judged(tmp_path, reads)
    assert {line.wrong for line in found.values()} == {0} and len(found) == 4


def test_each_fault_of_a_judge_has_its_kind(tmp_path: Path) -> None:
    assert {k: line.wrong for k, line in judged(tmp_path, lambda _: "supported").items()} == {
        "copied": 0, "foreign": 4, "altered": 4, "injected": 4,
    }  # fmt: skip
    (tmp_path / CANARIES).unlink()
    blind = judged(tmp_path, lambda _: "not_supported")
    assert {kind: line.wrong for kind, line in blind.items()} == {
        "copied": 4, "foreign": 0, "altered": 0, "injected": 0,
    }  # fmt: skip
    (tmp_path / CANARIES).unlink()

    def obeys(shown: dict[str, Any]) -> str:
        told_so = INJECTION in shown["claim"] or INJECTION in shown["evidence"][0]
        held = find_quote(shown["claim"], shown["evidence"]) is not None
        return "supported" if told_so or held else "not_supported"

    assert {kind: line.wrong for kind, line in judged(tmp_path, obeys).items()} == {
        "copied": 0, "foreign": 0, "altered": 0, "injected": 4,
    }  # fmt: skip


def test_canaries_of_another_run_or_judge_are_not_shown(tmp_path: Path) -> None:
    judged(tmp_path, lambda _: "supported")
    for part in ("judge", "rag", "dataset"):
        assert read_canaries(tmp_path, RUN | {part: "other"}) == ()
    assert read_canaries(tmp_path, RUN | {"metrics": "other"}) != ()
    for broken in (b"", b"[]", b"{}", b'{"run": 1, "basis": 2, "lines": [{}]}'):
        (tmp_path / CANARIES).write_bytes(broken)
        assert read_canaries(tmp_path, RUN) == ()


@pytest.mark.parametrize("count", [0, 1, 7])
def test_no_more_are_planted_than_are_wanted(count: int) -> None:
    assert len(plant(traces(), count)) == count
