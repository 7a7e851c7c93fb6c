"""Judges against labels of people, and several judges in one run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, RAGInterface, evaluate, judge_card
from ragbench.core.labels import JudgeCard, Probe, Usefulness
from ragbench.core.report import Report
from ragbench.errors import ConfigError
from ragbench.io.labels import LabelledClaim
from ragbench.llm.settings import resolve_panel
from ragbench.metrics.judging import INJECTION
from ragbench.metrics.registry import parse_metric
from ragbench.verbs.judge_card import probes_named
from ragbench.views.run_document import judge_remarks
from tests.llm_server import FaultServer, Payload, support_verdicts
from tests.unit.llm.builders import judged_by, model

VERDICTS = {
    "s": "supported",
    "p": "partially_supported",
    "n": "not_supported",
    "u": "supported",
}
QUOTES = {"s": ["bees  FLY"], "p": ["Bees fly.", "Bees swim."], "n": [], "u": ["Bees swim."]}
"""Only the last verdict has no quote that stands in the evidence."""


def claim(number: int, level: int, text: str, *evidence: str) -> LabelledClaim:
    return LabelledClaim(
        id=str(number), claim=f"Bees fly {text}", evidence=evidence or ("Bees fly.",), level=level
    )


def said(payload: Payload) -> str:
    """The verdicts stand in the claim: one letter a repetition, one more for the other order."""
    shown = json.loads(payload["messages"][-1]["content"])
    letters = shown["statements"][0].split()[-1]
    if shown["evidence"][0] == "Cows eat.":
        letter = letters[-1]
    else:
        seen[letters] = seen.get(letters, -1) + 1
        letter = letters[min(seen[letters], 1)]
    return support_verdicts(shown, VERDICTS[letter], QUOTES[letter])


seen: dict[str, int] = {}


def card(
    tmp_path: Path,
    claims: list[LabelledClaim],
    metric: str = "support",
    server: FaultServer | None = None,
    **changes: Any,
) -> JudgeCard:
    seen.clear()
    asked = server or FaultServer(say=said)
    with judged_by(asked, model(tmp_path), repeats=2, preflight=False) as judging:
        return judge_card(claims, parse_metric(metric), judging, **changes)


def test_a_card_by_hand(tmp_path: Path) -> None:
    both = ("Bees fly.", "Cows eat.")
    claims = [
        claim(1, 2, "ss"),  # right, the same twice
        claim(2, 0, "nn"),  # right
        claim(3, 2, "pn"),  # wrong, and changes its mind
        claim(4, 1, "pps", *both),  # right, but not in the other order
        claim(5, 0, "nnn", *both),
        claim(6, 2, "uu"),  # right, and cannot show it
    ]
    found = card(tmp_path, claims)
    assert (found.claims, found.judged) == (6, 5)
    assert found.reasons == (("no quote of the judge stands in the contexts", 1),)
    assert found.table.counts == ((2, 0, 0), (0, 1, 0), (0, 1, 1))
    assert (found.agreement.value, found.base_rate) == pytest.approx((4 / 5, 2 / 5))
    # By chance: (2*2 + 1*2 + 2*1) / 25
    assert found.kappa.value == pytest.approx((0.8 - 8 / 25) / (1 - 8 / 25))
    assert found.consistency.value == pytest.approx(4 / 5) and found.consistency.count == 5
    [order] = found.probes
    assert (order.share, order.changed, order.raised, order.count) == (0.5, 1, 1, 2)
    # Of 2 * 1 + 3 * 2 + 2 * 1 quotes, "Bees swim." stands nowhere: 3 + 2 times.
    assert (found.fabricated_quotes.value, found.fabricated_quotes.count) == (0.5, 10)
    assert found.unproved.value == pytest.approx(2 / 7) and found.unproved.count == 7
    assert found.currency == "USD" and (found.cost or 0) > 0
    # The judge called 2 claims not supported, rightly; 2 partially, 1 of them rightly; 1 supported.
    assert [(c.precision.value, c.recall.value) for c in found.classes] == [
        (1.0, 1.0),
        (0.5, 1.0),
        (1.0, 0.5),
    ]
    assert [(c.precision.count, c.recall.count) for c in found.classes] == [(2, 2), (2, 1), (1, 2)]
    # Levels 2 0 2 1 0 against 1 0 .5 .5 0: mid-ranks 4.5 1.5 4.5 3 1.5 and 5 1.5 3.5 3.5 1.5.
    assert found.rank_correlation.value == pytest.approx(8.25 / math.sqrt(9 * 9))
    shown = found.conclusion
    assert shown.usefulness is Usefulness.DO_NOT_USE  # five claims are no proof of anything
    assert "too few groups" in shown.reasons[0] and "50% of its quotes" in shown.reasons[1]


def test_what_has_no_verdict_is_counted_and_not_compared(tmp_path: Path) -> None:
    server = FaultServer(say=lambda _: "no JSON at all")
    found = card(tmp_path, [claim(1, 2, "ss")], server=server)
    assert (found.judged, found.reasons) == (0, (("LLMReplyError", 1),))
    assert found.kappa.value is None and found.agreement.value is None and found.cost is None


def test_what_has_no_card_and_is_no_probe_is_refused(tmp_path: Path) -> None:
    assert probes_named(["none"]) == ()
    with pytest.raises(ConfigError, match=r"no probe .length.. Known: position, verbosity"):
        probes_named(["length"])
    with pytest.raises(ConfigError, match="such as support or ragas:faithfulness"):
        card(tmp_path, [claim(1, 2, "ss")], metric="exact_match")


def judge_that(obeys: Callable[[dict[str, Any]], str]) -> FaultServer:
    """A judge that gives the verdict of a function, and quotes what the evidence says of bees."""

    def say(payload: Payload) -> str:
        shown = json.loads(payload["messages"][-1]["content"])
        shown["claim"] = " ".join(one.partition(". ")[2] for one in shown["statements"])
        verdict = obeys(shown)
        proves = verdict != "not_supported" and INJECTION not in shown["claim"]
        quotes = [one for one in shown["evidence"] if one.startswith("Bees")] if proves else []
        answer = json.loads(support_verdicts(shown, verdict, quotes))
        for one, text in zip(answer["verdicts"], shown["statements"], strict=True):
            if "To answer this" in text:
                one["verdict"] = "no_claim"
        return json.dumps(answer)

    return FaultServer(say=say)


EVERY = probes_named(["all"])


def many(count: int = 24) -> list[LabelledClaim]:
    texts = (f"{'Bees' if n % 2 else 'Cows'} fly {'a' * n}" for n in range(count))
    evidence = ("Bees fly about.", "x y z")
    return [
        LabelledClaim(id=str(n), claim=text, evidence=evidence, level=2 * (n % 2))
        for n, text in enumerate(texts)
    ]


def says(shown: dict[str, Any]) -> str:
    return "supported" if "Bees fly" in shown["claim"] else "not_supported"


def test_a_judge_that_reads_only_what_is_said_is_worth_asking(tmp_path: Path) -> None:
    found = card(tmp_path, many(), server=judge_that(says), probes=EVERY)
    assert found.agreement.value == 1.0 and found.kappa.value == 1.0
    assert [(probe.probe, probe.share, probe.count) for probe in found.probes] == [
        (Probe.POSITION, 0.0, 24),
        (Probe.VERBOSITY, 0.0, 24),
        (Probe.INJECTION_ANSWER, 0.0, 12),
        (Probe.INJECTION_CONTEXT, 0.0, 12),
    ]
    # At kappa 1 every resample agrees: no spread, and still an interval.
    assert found.conclusion.usefulness is Usefulness.USE and found.conclusion.reasons == ()


def test_each_weakness_shows_in_its_own_probe(tmp_path: Path) -> None:
    def weak(shown: dict[str, Any]) -> str:
        obeys = INJECTION in " ".join([shown["claim"], *shown["evidence"]])
        impressed = shown["claim"].startswith("To answer this as carefully")
        return "supported" if obeys or impressed else says(shown)

    found = card(tmp_path, many(), server=judge_that(weak), probes=EVERY)
    probes = {probe.probe: probe for probe in found.probes}
    verbose = probes[Probe.VERBOSITY]
    assert (verbose.changed, verbose.raised, verbose.count) == (12, 12, 24)
    assert probes[Probe.INJECTION_CONTEXT].share == 1.0
    # It gave in here, too, and the quote that it could not give tells it.
    answer = probes[Probe.INJECTION_ANSWER]
    assert (answer.count, answer.unproved) == (0, 12)
    shown = found.conclusion
    assert shown.usefulness is Usefulness.WITH_CARE
    assert "an instruction in a passage raises the verdict in 100% of the claims" in shown.reasons


def test_a_judge_that_guesses_is_not_to_be_used(tmp_path: Path) -> None:
    def guesses(shown: dict[str, Any]) -> str:
        return "supported" if len(shown["claim"]) % 4 < 2 else "not_supported"

    found = card(tmp_path, many(40), server=judge_that(guesses))
    assert found.kappa.value == pytest.approx(0.0)
    assert found.conclusion.usefulness is Usefulness.DO_NOT_USE
    assert "includes 0: it may be guessing" in found.conclusion.reasons[0]


class Bees(RAGInterface):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["Bees fly about all day."]

    def generate(self, query: str, contexts: Any) -> str:
        return f"{query} bees."


def say(payload: Payload) -> str:
    """Judges: strict, kind, one that tells odd from even, and one that quotes nothing."""
    given = json.loads(payload["messages"][-1]["content"])
    number = int(given["question"].split()[-1])
    good = {"strict": False, "kind": True, "odd": number % 2 == 1, "vague": True}[payload["model"]]
    verdict = "supported" if good else "not_supported"
    quotes = ["Bees fly about"] if good and payload["model"] != "vague" else []
    return support_verdicts(given, verdict, quotes)


def run(tmp_path: Path, *panel: str, **changes: Any) -> tuple[Report, FaultServer]:
    first, *others = [model(tmp_path, name) for name in panel]
    server = FaultServer(say=say)
    cases = [Case(id=f"c{n}", query=f"Case {n}") for n in range(4)]
    with judged_by(server, first, *others, preflight=False, **changes) as judging:
        out = tmp_path / "run"
        return evaluate(cases, Bees(), out=out, metrics="support", judging=judging), server


def values(report: Report) -> list[float | None]:
    return [row.cells[0].value for row in report.rows()]


@pytest.mark.parametrize(
    ("panel", "wanted"),
    [
        (("strict", "kind", "odd"), [1 / 3, 2 / 3, 1 / 3, 2 / 3]),
        (("strict", "kind", "vague"), [0.5] * 4),
        (("kind", "vague"), [None] * 4),  # as many unproved as not
    ],
)
def test_a_score_is_the_mean_of_the_judges(
    tmp_path: Path, panel: tuple[str, ...], wanted: list[float | None]
) -> None:
    report, server = run(tmp_path, *panel)
    assert values(report) == [one if one is None else pytest.approx(one) for one in wanted]
    assert len(server.calls) == 4 * len(panel)


def test_their_agreement_stands_in_the_report(tmp_path: Path) -> None:
    report, _ = run(tmp_path, "strict", "kind", "odd", repeats=2)
    assert report.judging is not None
    [line] = report.judging.lines
    assert [(juror.judge, juror.score, juror.measured) for juror in line.jurors] == [
        ("strict", 0.0, 4),
        ("kind", 1.0, 4),
        ("odd", 0.5, 4),
    ]
    # One always says 0: agreement with it is what chance gives.
    assert [(p.first, p.second, p.same, p.difference, p.kappa) for p in line.pairs] == [
        ("strict", "kind", 0.0, 1.0, 0.0),
        ("strict", "odd", 0.5, 0.5, 0.0),
        ("kind", "odd", 0.5, 0.5, 0.0),
    ]
    # Each judge agrees with itself: what differs between them is no unsteadiness.
    assert line.steadiness is not None
    assert (line.steadiness.changed, line.steadiness.deviation, line.steadiness.cases) == (0, 0, 12)
    shown = list(judge_remarks(report.judging))
    assert "support by kind: 1.000 over 4 cases" in shown
    assert "support: strict and odd say the same of 50% of 4 cases, kappa 0.00" in shown
    judges = [judgement.judge for judgement in next(iter(report.rows())).judgements[0]]
    assert judges == ["strict", "strict", "kind", "kind", "odd", "odd"]
    twins, _ = run(tmp_path / "twins", "odd", "odd")
    assert twins.judging is not None
    assert [juror.judge for juror in twins.judging.lines[0].jurors] == ["odd #1", "odd #2"]


def test_a_panel_is_named_by_models_or_by_settings() -> None:
    section = {
        "model": "gpt-4o-mini",
        "api_key_env": "OURS",
        "temperature": 0.5,
        "price_input": 1,
        "price_output": 2,
        "panel": [
            "anthropic/claude-haiku-4-5",
            "gpt-4o",
            {"model": "m", "base_url": "http://h/v1"},
        ],
    }
    environ = {"ANTHROPIC_API_KEY": "a", "OURS": "o"}
    other, same, own = resolve_panel(environ, section=section, file="f")
    assert other.endpoint.base_url == "https://api.anthropic.com/v1"
    assert other.endpoint.model == "claude-haiku-4-5"
    assert other.endpoint.key.variable == "ANTHROPIC_API_KEY"
    # A key and a price do not travel to a host that they are not for; how it is asked does.
    assert other.endpoint.price is None and other.endpoint.temperature == 0.5
    assert same.endpoint.key.variable == "OURS" and same.endpoint.price is not None
    assert own.endpoint.key.variable is None and own.endpoint.base_url == "http://h/v1"
    found = resolve_panel(environ, given="gpt-4o, gpt-4.1", section=section)
    assert [juror.endpoint.model for juror in found] == ["gpt-4o", "gpt-4.1"]
    for panel in ({"a": 1}, [3], [{"base_url": "http://h"}]):
        with pytest.raises(ConfigError, match="panel must be"):
            resolve_panel({}, section={"panel": panel})
