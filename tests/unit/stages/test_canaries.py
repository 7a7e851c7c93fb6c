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
from ragbench.metrics.judging import INJECTION
from ragbench.stages.canaries import CANARIES, CanaryKind, judge_canaries, plant, read_canaries
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
