"""Judged metrics in a run: one bad reply costs one cell, nothing is paid twice."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from itertools import cycle
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
    cases = []
    for number in range(count):
        query = f"Leaf {number}"
        cases.append(Case(id=f"c{number}", query=query, reference=f"{query} is green."))
    return cases


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
    failures = [cell.failure for cell in cells if cell.failure is not None]
    assert failures  # else nothing was tried
    assert {failure.type for failure in failures} <= {"LLMRefusedError", "LLMReplyError"}
    # Those that cannot be made good: a refusal, or a wrong answer that was wrong again.
    refused = sum(call.fault == "refusal" for call in server.calls)
    mended = sum("Reply again" in json.dumps(call.payload) for call in server.calls)
    assert refused <= len(failures) <= refused + mended
    # Each fault happened, and so did calls without one.
    assert {call.fault for call in server.calls} >= {*shares, None}


def test_a_dead_endpoint_judges_nothing_and_keeps_what_was_free(tmp_path: Path) -> None:
    dead = Script([NoAnswerError("connection", "refused")], latency=0.0)

    with pytest.raises(errors.LLMUnavailableError, match="nothing was"):
        judged(tmp_path, dead)
    with pytest.raises(errors.LLMUnreachableError):
        judged(tmp_path, dead, preflight=False)

    report = judged(tmp_path, FaultServer())
    assert report.summaries[1].measured == 4


def test_the_report_and_what_was_said_are_the_same_after_an_interruption(tmp_path: Path) -> None:
    def written_files(folder: Path, *stops: int) -> dict[str, bytes]:
        """The files of a run that is stopped after so many calls, each time, and continued."""
        folder.mkdir()
        server = FaultServer(faults={"429": 0.2, "500": 0.2}, seed=5)
        for stop in stops:
            with (
                judged_by(InMemory(server, latency=0.01), model(folder)) as judge,
                suppress(errors.InterruptedRunError),
            ):
                run(folder, judge, stopped=lambda limit=stop: len(server.calls) >= limit)
        report = judged(folder, InMemory(server, latency=0.01))
        write_reports(report, folder / "run")
        good_calls = [json.dumps(call.payload) for call in server.good]
        assert len(good_calls) == len(set(good_calls)) == 21  # no finished call was repeated
        names = ("report.json", "report.md", "cases.csv", "judgements.jsonl", "manifest.json")
        return {name: (folder / "run" / name).read_bytes() for name in names}

    whole = written_files(tmp_path / "whole")
    in_parts = written_files(tmp_path / "parts", 3, 9, 17)

    assert whole == in_parts


def test_repetitions_show_how_far_the_judge_agrees_with_itself(tmp_path: Path) -> None:
    ratings = cycle((4, 4, 2, 4))

    def say(payload: Payload) -> str:
        return json.dumps({"rating": next(ratings)})

    server = FaultServer(say=say)

    report = judged(tmp_path, server, 2, "ragas:answer_accuracy", repeats=3, preflight=False)

    # Two cases, three repetitions, and the metric asks twice in each.
    assert len(server.calls) == 2 * 3 * 2
    rows = list(report.rows())
    repetitions = []
    for row in rows:
        values = [judgement.cell.value or 0.0 for judgement in row.judgements[0]]
        repetitions.append(values)
    means = [mean(values) for values in repetitions]
    scores = [row.cells[0].value for row in rows]
    assert scores == pytest.approx(means)
    assert report.judging is not None
    steadiness = report.judging.lines[0].steadiness
    assert steadiness is not None
    assert steadiness.cases == 2
    sum_of_variances = sum(variance(values) for values in repetitions)
    assert steadiness.deviation == pytest.approx((sum_of_variances / 2) ** 0.5)
    assert steadiness.error == pytest.approx((sum_of_variances / 3) ** 0.5 / 2)


def test_the_judge_is_tried_before_anything_is_paid_for(tmp_path: Path) -> None:
    server = FaultServer(say=lambda _: "I would rather talk about bees.")

    with pytest.raises(errors.LLMReplyError, match="not in the structure that is needed"):
        judged(tmp_path, server)

    assert len(server.calls) == 5  # in four ways, and mended once


def test_a_dry_run_counts_the_calls_that_the_run_then_makes(tmp_path: Path) -> None:
    chat = model(tmp_path)
    metrics = f"{METRICS}, ragas:factual_correctness, ragas:noise_sensitivity"
    server = FaultServer()

    def dry_run(**changes: Any) -> DryRun:
        dry = DryRun(chat, None)
        with dry, judged_by(InMemory(server), chat, rehearsal=dry.all) as judge:
            run(tmp_path, judge, metrics=metrics, **changes)
        return dry

    # Nothing is asked and nothing is kept. Five judged metrics, four cases.
    dry = dry_run()
    assert server.calls == []
    assert dry.cases == 5 * 4
    assert not (tmp_path / "cache.sqlite").exists()

    # The run makes as many calls as were counted.
    with judged_by(server, chat, preflight=False) as judge:
        run(tmp_path, judge, metrics=metrics)
        receipt = judge.session.receipt()
    calls_made = {line.purpose: line.calls for line in receipt.lines}
    estimate = dry.estimate()
    least = {line.purpose: line for line in estimate.least.lines}
    most_tokens = {line.purpose: line for line in estimate.most.lines}
    assert {purpose: line.calls for purpose, line in least.items()} == calls_made
    assert {purpose: line.calls for purpose, line in most_tokens.items()} == calls_made

    # Prompts that contain assumed answers are a range.
    fewest_prompt_tokens = sum(line.prompt_tokens for line in estimate.least.lines)
    assert fewest_prompt_tokens < sum(line.prompt_tokens for line in estimate.most.lines)
    assert estimate.guessed > 0
    assert estimate.cost is not None
    assert 0 < estimate.cost[0] < estimate.cost[1]
    # A prompt without an assumed answer is exact.
    recall = "ragas:context_recall"
    assert least[recall].calls == 4
    assert least[recall].prompt_tokens == most_tokens[recall].prompt_tokens

    # After the run all is kept: a run in a new folder has nothing left to judge.
    after = dry_run(fresh=True).estimate()
    for line in after.least.lines:
        assert line.calls == line.cached > 0
    assert after.cost == (Decimal(0), Decimal(0))
