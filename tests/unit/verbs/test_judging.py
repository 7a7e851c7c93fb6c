"""Judged metrics in a run: one bad reply costs one cell, nothing is paid twice."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from statistics import mean, variance
from typing import Any

import pytest

from ragbench import Case, RAGInterface, errors
from ragbench.core.report import Report
from ragbench.llm.transport import NoAnswerError
from ragbench.stages.dry_run import DryRun
from ragbench.stages.judge import Judging
from ragbench.views.write import write_reports
from tests.behaviour.rags import run as evaluated
from tests.llm_server import FaultServer, Payload
from tests.unit.llm.builders import HastyClock, InMemory, Script, judged_by, model

pytestmark = pytest.mark.extra("ragas")

METRICS = "exact_match, ragas:faithfulness, ragas:context_recall, ragas:answer_accuracy"


class Echo(RAGInterface):
    """Answers what it was asked."""

    def stage_identity(self, stage: str) -> object:
        return "version 1"

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return [f"{query} is green.", "Cows eat."]

    def generate(self, query: str, contexts: Any) -> str:
        return f"{query} is green."


def cases(count: int) -> list[Case]:
    return [
        Case(id=f"c{n}", query=f"Leaf {n}", reference=f"Leaf {n} is green.") for n in range(count)
    ]


def run(
    tmp_path: Path, judge: Judging, count: int = 4, metrics: str = METRICS, **changes: Any
) -> Report:
    out = tmp_path / "run"
    return evaluated(cases(count), Echo(), out, metrics=metrics, judging=judge, **changes)


def judged(
    tmp_path: Path, transport: Any, count: int = 4, metrics: str = METRICS, **changes: Any
) -> Report:
    with judged_by(transport, model(tmp_path), **changes) as judge:
        return run(tmp_path, judge, count, metrics)


def test_with_faults_every_recoverable_cell_is_measured_and_the_others_say_why(
    tmp_path: Path,
) -> None:
    """A smaller form of benchmarks/judge_faults.py."""
    shares = {
        "429": 0.06,
        "500": 0.06,
        "hang": 0.02,
        "cut": 0.04,
        "bad_json": 0.03,
        "wrong_schema": 0.03,
        "refusal": 0.02,
        "empty_choices": 0.02,
        "garbage": 0.02,
    }
    server = FaultServer(faults=shares, seed=3, retry_after="60")
    report = judged(tmp_path, InMemory(server, latency=0.001), 30, clock=HastyClock())
    cells = [cell for row in report.rows() for cell in row.cells]
    assert {cell.status.value for cell in cells} <= {"measured", "failed"}
    lost = [cell.failure for cell in cells if cell.failure is not None]
    assert lost  # else nothing was tried
    assert {failure.type for failure in lost} <= {"LLMRefusedError", "LLMReplyError"}
    # Those that cannot be made good: a refusal, or a wrong answer that was wrong again.
    refused = sum(call.fault == "refusal" for call in server.calls)
    mended = sum("Reply again" in json.dumps(call.payload) for call in server.calls)
    assert refused <= len(lost) <= refused + mended
    assert {call.fault for call in server.calls} >= {*shares, None}


def test_a_dead_endpoint_judges_nothing_and_keeps_what_was_free(tmp_path: Path) -> None:
    dead = Script([NoAnswerError("connection", "refused")], latency=0.0)
    with pytest.raises(errors.LLMUnavailableError, match="nothing was"):
        judged(tmp_path, dead)
    with pytest.raises(errors.LLMUnreachableError):
        judged(tmp_path, dead, preflight=False)
    assert judged(tmp_path, FaultServer()).summaries[1].measured == 4


def test_the_report_and_what_was_said_are_the_same_after_an_interruption(tmp_path: Path) -> None:
    def report(folder: Path, *stops: int) -> dict[str, bytes]:
        folder.mkdir()
        server = FaultServer(faults={"429": 0.2, "500": 0.2}, seed=5)
        for stop in stops:
            with (
                judged_by(InMemory(server, latency=0.01), model(folder)) as judge,
                suppress(errors.InterruptedRunError),
            ):
                run(folder, judge, stopped=lambda at=stop: len(server.calls) >= at)
        write_reports(judged(folder, InMemory(server, latency=0.01)), folder / "run")
        good = [json.dumps(call.payload) for call in server.good]
        assert len(good) == len(set(good)) == 21  # no finished call was repeated
        names = ("report.json", "report.md", "cases.csv", "judgements.jsonl", "manifest.json")
        return {name: (folder / "run" / name).read_bytes() for name in names}

    assert report(tmp_path / "whole") == report(tmp_path / "parts", 3, 9, 17)


def test_repetitions_show_how_far_the_judge_agrees_with_itself(tmp_path: Path) -> None:
    def say(payload: Payload) -> str:
        counts.append(1)
        return json.dumps({"rating": (4, 4, 4, 2)[len(counts) % 4]})

    counts: list[int] = []
    server = FaultServer(say=say)
    report = judged(tmp_path, server, 2, "ragas:answer_accuracy", repeats=3, preflight=False)
    assert len(server.calls) == 2 * 3 * 2
    assert report.judging is not None
    steady = report.judging.lines[0].steadiness
    assert steady is not None
    rows = list(report.rows())
    values = [[each.cell.value or 0.0 for each in row.judgements[0]] for row in rows]
    variances = [variance(found) for found in values]
    assert steady.cases == 2
    assert steady.deviation == pytest.approx((sum(variances) / 2) ** 0.5)
    assert steady.error == pytest.approx((sum(v / 3 for v in variances)) ** 0.5 / 2)
    assert [row.cells[0].value for row in rows] == pytest.approx([*map(mean, values)])


def test_the_judge_is_tried_before_anything_is_paid_for(tmp_path: Path) -> None:
    server = FaultServer(say=lambda _: "I would rather talk about bees.")
    with pytest.raises(errors.LLMReplyError, match="not in the structure that is needed"):
        judged(tmp_path, server)
    assert len(server.calls) == 5  # in four ways, and mended once


def test_a_dry_run_counts_the_calls_that_the_run_then_makes(tmp_path: Path) -> None:
    chat = model(tmp_path)
    metrics = f"{METRICS}, ragas:factual_correctness, ragas:noise_sensitivity"
    server = FaultServer()

    def rehearse() -> DryRun:
        counted = DryRun(chat, None)
        with counted, judged_by(InMemory(server), chat, rehearsal=counted.all) as judge:
            run(tmp_path, judge, metrics=metrics)
        return counted

    before = rehearse()
    estimate = before.estimate()
    assert server.calls == [] and before.cases == 5 * 4
    assert not (tmp_path / "cache.sqlite").exists()
    with judged_by(server, chat, preflight=False) as judge:
        run(tmp_path, judge, metrics=metrics)
        receipt = judge.session.receipt()
    made = {line.purpose: line.calls for line in receipt.lines}
    ends = (estimate.least, estimate.most)
    for end in ends:
        assert {line.purpose: line.calls for line in end.lines} == made
    tokens = [sum(line.prompt_tokens for line in end.lines) for end in ends]
    assert tokens[0] < tokens[1] and estimate.guessed > 0
    assert estimate.cost is not None and 0 < estimate.cost[0] < estimate.cost[1]
    # What has no assumed answer in it is exact: the same prompts.
    recall = [line for end in ends for line in end.lines if line.purpose == "ragas:context_recall"]
    assert recall[0].calls == 4 and recall[0].prompt_tokens == recall[1].prompt_tokens
    # After the run all is kept; in a folder of its own nothing is left to judge.
    again = DryRun(chat, None)
    with again, judged_by(InMemory(server), chat, rehearsal=again.all) as judge:
        run(tmp_path, judge, metrics=metrics, fresh=True)
    after = again.estimate()
    assert all(line.calls == line.cached > 0 for line in after.least.lines)
    assert after.cost == (Decimal(0), Decimal(0))
