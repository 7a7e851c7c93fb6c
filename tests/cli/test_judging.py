"""Metrics that ask a model, from the command line."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, calls, lines, read_lines, report, schema
from tests.llm_server import FaultServer, Payload, said_by_default, support_verdicts

RUN = ("eval", "office", "--rag", "rags.py:Plain", "--out", "run", "-m", "token_f1,support")
NO_PREFLIGHT = "--no-preflight"
"""Without it a judge is asked once before the run, to see whether it can be reached."""


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


def judge(server: FaultServer) -> tuple[str, ...]:
    """The options that name the model of a server as the judge."""
    return ("--llm-model", "m", "--llm-base-url", server.url)


def price(dollars: int) -> None:
    """Says in the configuration what a million tokens cost."""
    limits = f"price_input: {dollars}, price_output: {dollars}, max_tokens: 100"
    Path("ragbench.yaml").write_text(f"llm: {{{limits}}}", "utf-8")


# --- what a judged run says and writes


@pytest.mark.extra("llm")
def test_a_judged_run_shows_its_score_its_calls_and_that_their_price_is_not_known(
    ragbench: Ragbench, server: FaultServer
) -> None:
    done = ragbench(*RUN, *judge(server)).ok("support")

    assert "asked   4 calls (0 kept from before, 0 failed) in 4 requests" in done.err
    assert "cost not known" in done.err
    assert len(server.calls) == 4  # the preflight and three cases


@pytest.mark.extra("llm")
def test_a_judged_run_is_not_judged_again(ragbench: Ragbench, server: FaultServer) -> None:
    ragbench(*RUN, *judge(server)).ok()
    calls_before = len(server.calls)

    done = ragbench(*RUN, *judge(server)).ok()

    assert len(server.calls) == calls_before
    assert "asked" not in done.err


@pytest.mark.extra("llm")
def test_a_report_names_its_judge(ragbench: Ragbench, server: FaultServer) -> None:
    ragbench(*RUN, *judge(server)).ok()

    manifest = report()["manifest"]
    (line,) = report()["judging"]["lines"]
    assert manifest["judge"]["chat"]["model"] == "m"
    assert manifest["fingerprints"]["judge"]
    assert line["metric"] == "support"
    assert line["answers"] == 3
    assert line["cost"] is None


@pytest.mark.extra("llm")
def test_every_verdict_and_quote_of_a_judge_stands_on_the_page(
    ragbench: Ragbench, server: FaultServer
) -> None:
    ragbench(*RUN, *judge(server)).ok()

    page = Path("run/report.html").read_text("utf-8")
    judged_cases = read_lines("run/judgements.jsonl")
    assert [row["case"] for row in judged_cases] == ["c1", "c2", "c3"]
    assert page.count("<div class=claims>") == 3
    for row in judged_cases:
        step = row["judgements"][0]["steps"][0]
        for verdict in step["answer"]["verdicts"]:
            # Why a verdict does not hold stands in the place of the judge's own reason.
            reason = verdict.get("unproved", verdict["reason"])
            assert f"<small>{reason}</small>" in page
        for quote in step["quotes"]:
            assert f"<mark>{quote['text']}</mark>" in page


@pytest.mark.extra("llm")
def test_a_receipt_lists_what_the_judge_was_asked_for(
    ragbench: Ragbench, server: FaultServer
) -> None:
    ragbench(*RUN, *judge(server)).ok()

    (receipt,) = read_lines("run/receipts.jsonl")
    assert [line["purpose"] for line in receipt["lines"]] == ["preflight", "support"]


@pytest.mark.extra("llm")
def test_what_does_not_hold_stands_at_its_sentence(ragbench: Ragbench) -> None:
    """A judge that calls everything supported, and an answer with wrong citations and numbers."""
    answer = "Staff get 27 days of leave [1]. The desk opens at 9:45 [2]. Dogs are banned [7]."
    chunks = ["Staff get 27 days of leave a year.", "The desk opens at 8:15. Dogs are not banned."]
    row = {
        "id": "c1",
        "query": "How?",
        "reference": "27",
        "response": answer,
        "contexts": chunks,
    }
    lines("answers.jsonl", [row])

    def call_all_supported(payload: Payload) -> str:
        prompt = payload["messages"][-1]["content"]
        task, _, _ = prompt.partition("\n\n")
        quotes = [chunks[0], "The desk opens", "Dogs are not"]
        return support_verdicts(json.loads(task), "supported", quotes)

    with FaultServer(say=call_all_supported) as server:
        command = ("eval", "answers.jsonl", "--out", "run", "-m", "+support", NO_PREFLIGHT)
        printed = ragbench(*command, *judge(server)).ok().flat

    assert "of 3 sentences that the judge calls supported, 2 are unproved" in printed
    explained = ragbench("explain", "run", "c1", "--all").ok().flat
    page = Path("run/report.html").read_text("utf-8")
    for reason in ("cites 7: not among 2 shown chunks", "no quote has 9:45", "one of both denies"):
        assert reason in explained
        assert reason in page
    assert "unproved by support" in explained
    assert "<b>unproved</b>" in page
    score_of = {row["metric"]: row["score"] for row in report()["summaries"]}
    assert score_of["support"] is None  # more unproved than measured
    assert score_of["citation_validity"] == pytest.approx(2 / 3)


# --- a panel, and canaries: verdicts whose right answer is known


@pytest.mark.extra("llm")
def test_a_dry_run_lists_every_judge_of_a_panel(ragbench: Ragbench, server: FaultServer) -> None:
    panel = ("--panel", "m2", "--judge-controls", "8")

    done = ragbench(*RUN, *judge(server), *panel, "--dry-run")

    done.ok("support, m", "support, m2")
    assert server.calls == []


@pytest.mark.extra("llm")
def test_a_panel_and_canaries_stand_in_the_report(ragbench: Ragbench, server: FaultServer) -> None:
    import jsonschema

    panel = ("--panel", "m2", "--judge-controls", "8")

    done = ragbench(*RUN, *judge(server), *panel).ok()

    assert "support: m and m2 say the same of 100%" in done.out
    assert "canaries: the run's texts give 4 of 8" in done.err
    written = report()
    jsonschema.validate(written, schema("report"))
    judging = written["judging"]
    (line,) = judging["lines"]
    assert [juror["judge"] for juror in line["jurors"]] == ["m", "m2"]
    # The only sentence of the contexts can be copied, and its number altered.
    kinds = {canary["kind"] for canary in judging["canaries"]}
    assert kinds == {"copied", "altered"}
    assert "the judge is wrong about" in Path("run/report.md").read_text("utf-8")


@pytest.mark.extra("llm")
def test_neither_cells_nor_canaries_are_judged_twice(
    ragbench: Ragbench, server: FaultServer
) -> None:
    panel = ("--panel", "m2", "--judge-controls", "8")
    ragbench(*RUN, *judge(server), *panel).ok()
    calls_before = len(server.calls)

    ragbench(*RUN, *judge(server), *panel).ok()

    assert len(server.calls) == calls_before


# --- what it costs, before and while


@pytest.mark.extra("llm")
def test_a_judged_metric_without_a_model_is_refused(ragbench: Ragbench) -> None:
    done = ragbench(*RUN)

    done.refused("support: a language model is asked, and none is named.", "--llm-model")


@pytest.mark.extra("llm")
def test_a_dry_run_shows_calls_and_price_and_judges_nothing(
    ragbench: Ragbench, server: FaultServer
) -> None:
    price(1)

    done = ragbench(*RUN, *judge(server), "--dry-run")

    done.ok("3 judgements would be made", "all together: 0.00", "USD")
    assert server.calls == []


@pytest.mark.extra("llm")
def test_the_price_of_a_dry_run_is_a_range(ragbench: Ragbench, server: FaultServer) -> None:
    price(1)

    estimate = ragbench(*RUN, *judge(server), "--dry-run", "--json").ok().json

    assert estimate["least"]["lines"][0]["calls"] == 3
    low, high = (float(amount) for amount in estimate["cost"])
    assert 0 < low < high


@pytest.mark.extra("llm")
def test_a_run_after_a_dry_run_asks_the_system_nothing_again(
    ragbench: Ragbench, server: FaultServer
) -> None:
    ragbench(*RUN, *judge(server), "--dry-run").ok()
    assert calls() == 3

    ragbench(*RUN, *judge(server)).ok()

    assert calls() == 3


def cost_of_receipts() -> list[float]:
    return [float(receipt["cost"]) for receipt in read_lines("run/receipts.jsonl")]


@pytest.mark.extra("llm")
def test_a_cap_below_the_estimate_ends_the_command_before_a_judge_is_asked(
    ragbench: Ragbench, server: FaultServer
) -> None:
    price(10)

    done = ragbench(*RUN, *judge(server), NO_PREFLIGHT, "--max-cost", "0.001")

    done.refused("the cost is capped at 0.001")
    assert server.calls == []
    ragbench("report", "run").ok("not scored yet")  # what the system answered is stored


@pytest.mark.extra("llm")
def test_a_higher_cap_goes_on_with_the_run(ragbench: Ragbench, server: FaultServer) -> None:
    price(10)
    command = (*RUN, *judge(server), NO_PREFLIGHT)
    ragbench(*command, "--max-cost", "0.001").refused()

    ragbench(*command, "--max-cost-run", "0.05").ok()

    assert len(server.calls) == 3
    receipt = read_lines("run/receipts.jsonl")[-1]
    assert receipt["ended"] == "done"
    assert 0 < float(receipt["cost"]) < 0.05


@pytest.mark.extra("llm")
def test_a_cap_of_the_run_counts_what_its_earlier_commands_spent(
    ragbench: Ragbench, server: FaultServer
) -> None:
    price(10)
    command = (*RUN, *judge(server), NO_PREFLIGHT)
    ragbench(*command).ok()
    (spent,) = cost_of_receipts()
    # Two repeats are another judge, who is asked anew: twice the cost once more.
    repeated = (*command, "--judge-repeats", "2")

    # By itself the command would stay below its own cap of 0.05.
    cap_of_run = f"{spent * 1.5:.6f}"
    capped = ragbench(*repeated, "--max-cost", "0.05", "--max-cost-run", cap_of_run)
    ragbench(*repeated, "--max-cost-run", "1").ok()

    capped.refused("the cost of all commands of this run is capped at")
    assert spent < sum(cost_of_receipts()) < 1


# --- what ends a run


# A signal ends the loop with connections open, and the end of a process closes them; here the
# process goes on, and they are closed whenever they are collected.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.extra("llm")
@pytest.mark.parametrize(
    "server",
    [
        pytest.param(FaultServer(faults={"hang": 1.0}), id="a request in flight"),
        pytest.param(FaultServer(faults={"429": 1.0}, retry_after="500"), id="a rate limit"),
        pytest.param(FaultServer(faults={"500": 1.0}), id="a repetition"),
    ],
)
def test_one_signal_ends_every_wait_and_the_same_command_continues(
    ragbench: Ragbench, server: FaultServer
) -> None:
    def stop_at_the_first_call() -> None:
        while not server.calls:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    with server:
        sender = threading.Thread(target=stop_at_the_first_call, daemon=True)
        sender.start()
        stopped = ragbench(*RUN, *judge(server))
        sender.join()
        server.faults = {}
        continued = ragbench(*RUN, *judge(server))

    assert stopped.code == 130
    assert "finished cases are stored in run. The same command continues" in stopped.err
    continued.ok("support")


@pytest.mark.extra("llm")
def test_a_metric_that_failed_for_all_ends_with_2_and_the_line_that_continues(
    ragbench: Ragbench,
) -> None:
    with FaultServer(say=lambda _: "Sure.") as server:
        failed = ragbench(*RUN, *judge(server), NO_PREFLIGHT)

        failed.refused(
            "support failed for every case, so that there is no value. LLMReplyError, 3 times"
        )
        assert "Nothing to compare" not in failed.err
        last_line = failed.err.splitlines()[-1]
        command = last_line.partition("Once that is mended: ragbench ")[2].split()
        assert command[-1] == "--retry-failed"

        server.say = said_by_default
        ragbench(*command).ok("support")
