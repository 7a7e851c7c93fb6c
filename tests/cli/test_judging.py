"""Metrics that ask a model, from the command line."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, lines, schema
from tests.llm_server import FaultServer, Payload, said_by_default, support_verdicts

RUN = ("eval", "office", "--rag", "rags.py:Plain", "--out", "run", "-m", "token_f1,support")


def priced(dollars: int) -> None:
    limits = f"price_input: {dollars}, price_output: {dollars}, max_tokens: 100"
    Path("ragbench.yaml").write_text(f"llm: {{{limits}}}", "utf-8")


def model(server: FaultServer, *more: str) -> tuple[str, ...]:
    return ("--llm-model", "m", "--llm-base-url", server.url, *more)


@pytest.mark.extra("llm")
def test_a_judged_run_shows_scores_tokens_and_what_was_said(ragbench: Ragbench) -> None:
    with FaultServer() as server:
        done = ragbench(*RUN, *model(server)).ok()
        again = ragbench(*RUN, *model(server))
    assert "support" in done.out
    assert "asked   4 calls (0 kept from before, 0 failed) in 4 requests" in done.err
    assert "cost not known" in done.err and "asked" not in again.err
    assert len(server.calls) == 4  # the preflight and three cases
    report = json.loads(Path("run/report.json").read_text("utf-8"))
    assert report["manifest"]["judge"]["chat"]["model"] == "m"
    assert report["manifest"]["fingerprints"]["judge"]
    line = report["judging"]["lines"][0]
    assert (line["metric"], line["answers"], line["cost"]) == ("support", 3, None)
    page = Path("run/report.html").read_text("utf-8")
    lines = list(map(json.loads, Path("run/judgements.jsonl").read_text("utf-8").splitlines()))
    assert [line["case"] for line in lines] == ["c1", "c2", "c3"]
    assert page.count("<div class=claims>") == 3
    for line in lines:
        step = line["judgements"][0]["steps"][0]
        for said in step["answer"]["verdicts"]:
            assert f"<small>{said.get('unproved', said['reason'])}</small>" in page
        assert all(f"<mark>{quote['text']}</mark>" in page for quote in step["quotes"])
    (receipt,) = Path("run/receipts.jsonl").read_text("utf-8").splitlines()
    purposes = [entry["purpose"] for entry in json.loads(receipt)["lines"]]
    assert purposes == ["preflight", "support"]


@pytest.mark.extra("llm")
def test_a_dry_run_shows_calls_and_price_and_judges_nothing(ragbench: Ragbench) -> None:
    priced(1)
    with FaultServer() as server:
        shown = ("3 judgements would be made", "all together: 0.00", "USD")
        ragbench(*RUN, *model(server, "--dry-run")).ok(*shown)
        reported = ragbench(*RUN, *model(server, "--dry-run", "--json")).json
        assert reported["least"]["lines"][0]["calls"] == 3
        low, high = (float(amount) for amount in reported["cost"])
        assert 0 < low < high
        assert server.calls == []
        assert ragbench(*RUN, *model(server)).code == 0
    calls = Path("calls.log").read_text("utf-8").splitlines()
    assert len(calls) == 3 + 2 * 3  # once a case by the dry run, then to compare what is reused


@pytest.mark.extra("llm")
def test_a_cap_ends_the_command_or_the_run_and_a_higher_one_goes_on(ragbench: Ragbench) -> None:
    ragbench(*RUN).refused("support: a language model is asked, and none is named.", "--llm-model")
    priced(10)
    with FaultServer() as server:
        asked = (*RUN, *model(server, "--no-preflight"))
        ragbench(*asked, "--max-cost", "0.001").refused("the cost is capped at 0.001")
        assert server.calls == []
        ragbench("report", "run").ok("not scored yet")
        ragbench(*asked, "--max-cost-run", "0.05").ok()
        assert len(server.calls) == 3
        receipt = json.loads(Path("run/receipts.jsonl").read_text("utf-8").splitlines()[-1])
        spent = float(receipt["cost"])
        assert 0 < spent < 0.05 and receipt["ended"] == "done"
        # Another judge has to ask anew; each command by itself would stay below the cap.
        twice = ("--judge-repeats", "2", "--max-cost-run")
        said = "the cost of all commands of this run is capped at"
        ragbench(*asked, "--max-cost", "0.05", *twice, f"{spent * 1.5:.6f}").refused(said)
        ragbench(*asked, *twice, "1").ok()
        receipts = Path("run/receipts.jsonl").read_text("utf-8").splitlines()
        assert spent < sum(float(json.loads(line)["cost"]) for line in receipts) < 1


def test_a_panel_and_canaries_stand_in_the_report(ragbench: Ragbench) -> None:
    import jsonschema

    with FaultServer() as server:
        more = model(server, "--panel", "m2", "--judge-controls", "8")
        dry = ragbench(*RUN, *more, "--dry-run")
        assert "support, m" in dry.out and "support, m2" in dry.out and server.calls == []
        done = ragbench(*RUN, *more).ok()
        asked = len(server.calls)
        assert ragbench(*RUN, *more).code == 0
        assert len(server.calls) == asked  # neither cells nor canaries are judged twice
    assert "support: m and m2 say the same of 100%" in done.out
    report = json.loads(Path("run/report.json").read_text("utf-8"))
    jsonschema.validate(report, schema("report"))
    [line] = report["judging"]["lines"]
    assert [juror["judge"] for juror in line["jurors"]] == ["m", "m2"]
    # The only sentence of the contexts can be copied, and its number altered.
    assert {c["kind"] for c in report["judging"]["canaries"]} == {"copied", "altered"}
    assert "the judge is wrong about" in Path("run/report.md").read_text("utf-8")
    assert "canaries: the run's contexts give 4 of 8" in done.err


@pytest.mark.extra("llm")
def test_what_does_not_hold_stands_at_its_sentence(ragbench: Ragbench) -> None:
    """A judge that calls everything supported, and an answer with wrong citations and numbers."""
    answer = "Staff get 27 days of leave [1]. The desk opens at 9:45 [2]. Dogs are banned [7]."
    chunks = ["Staff get 27 days of leave a year.", "The desk opens at 8:15. Dogs are not banned."]
    row = {"id": "c1", "query": "How?", "reference": "27", "response": answer, "contexts": chunks}
    lines("answers.jsonl", [row])

    def say(payload: Payload) -> str:
        asked = json.loads(payload["messages"][-1]["content"].partition("\n\n")[0])
        return support_verdicts(asked, "supported", [chunks[0], "The desk opens", "Dogs are not"])

    with FaultServer(say=say) as server:
        asked = ("eval", "answers.jsonl", "--out", "run", "-m", "+support", "--no-preflight")
        printed = " ".join(ragbench(*asked, *model(server)).ok().out.split())
    assert "of 3 sentences that the judge calls supported, 2 are unproved" in printed
    shown = ragbench("explain", "run", "c1", "--all").ok().flat
    page = Path("run/report.html").read_text("utf-8")
    for text in ("cites 7: not among 2 shown chunks", "no quote has 9, 45", "one of both denies"):
        assert text in shown and text in page
    assert "unproved by support" in shown and "<b>unproved</b>" in page
    report = ragbench("report", "run", "--json").ok().json
    scores = {one["metric"]: one for one in report["summaries"]}
    assert scores["support"]["score"] is None  # more unproved than measured
    assert scores["citation_validity"]["score"] == pytest.approx(2 / 3)


# --- what ends a run


@pytest.mark.extra("llm")
@pytest.mark.parametrize(
    "server",
    [
        FaultServer(faults={"hang": 1.0}),
        FaultServer(faults={"429": 1.0}, retry_after="500"),
        FaultServer(faults={"500": 1.0}),
    ],
    ids=["a request in flight", "a rate limit", "a repetition"],
)
def test_one_signal_ends_every_wait_and_the_same_command_continues(
    ragbench: Ragbench, server: FaultServer
) -> None:
    def send() -> None:
        while not server.calls:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    with server:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        stopped = ragbench(*RUN, *model(server))
        sender.join()
        assert stopped.code == 130
        assert "finished cases are stored in run. The same command continues" in stopped.err
        server.faults = {}
        assert "support" in ragbench(*RUN, *model(server)).ok().out


@pytest.mark.extra("llm")
def test_a_metric_that_failed_for_all_ends_with_2_and_the_line_that_continues(
    ragbench: Ragbench,
) -> None:
    with FaultServer(say=lambda _: "Sure.") as server:
        done = ragbench(*RUN, *model(server, "--no-preflight")).refused(
            "support failed for every case, so that there is no value. LLMReplyError, 3 times"
        )
        again = done.err.splitlines()[-1].partition("Once that is mended: ragbench ")[2].split()
        assert again[-1] == "--retry-failed" and "Nothing to compare" not in done.err
        server.say = said_by_default
        assert "support" in ragbench(*again).ok().out
