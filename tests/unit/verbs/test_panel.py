"""Several judges in one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, RAGInterface, evaluate
from ragbench.core.report import Report
from ragbench.errors import ConfigError
from ragbench.llm.settings import resolve_panel
from ragbench.views.run_words import judge_remarks
from tests.llm_server import FaultServer, Payload
from tests.unit.llm.builders import judged_by, model


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
    return json.dumps({"reason": "r", "quotes": quotes, "verdict": verdict})


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
        ("strict", 0.0, 4), ("kind", 1.0, 4), ("odd", 0.5, 4),
    ]  # fmt: skip
    assert [(pair.first, pair.second, pair.same, pair.difference) for pair in line.pairs] == [
        ("strict", "kind", 0.0, 1.0), ("strict", "odd", 0.5, 0.5), ("kind", "odd", 0.5, 0.5),
    ]  # fmt: skip
    # One always says 0: agreement with it is what chance gives.
    assert [pair.kappa for pair in line.pairs] == [0.0, 0.0, 0.0]
    # Each judge agrees with itself: what differs between them is no unsteadiness.
    assert line.steadiness is not None
    assert (line.steadiness.changed, line.steadiness.deviation, line.steadiness.cases) == (0, 0, 12)
    shown = judge_remarks(report.judging)
    assert "support by kind: 1.000 over 4 cases" in shown
    assert "support: strict and odd say the same of 50% of 4 cases, kappa 0.00" in shown
    judges = [judgement.judge for judgement in next(iter(report.rows())).judgements[0]]
    assert judges == ["strict", "strict", "kind", "kind", "odd", "odd"]
    twins, _ = run(tmp_path / "twins", "odd", "odd")
    assert twins.judging is not None
    assert [juror.judge for juror in twins.judging.lines[0].jurors] == ["odd #1", "odd #2"]


def test_a_panel_is_named_by_models_or_by_settings() -> None:
    section = {
        "model": "gpt-4o-mini", "api_key_env": "OURS", "temperature": 0.5, "price_input": 1,
        "price_output": 2,
        "panel": ["anthropic/claude-haiku-4-5", "gpt-4o", {"model": "m", "base_url": "http://h/v1"}],
    }  # fmt: skip
    environ = {"ANTHROPIC_API_KEY": "a", "OURS": "o"}
    other, same, own = resolve_panel(environ, section=section, file="f")
    assert other.endpoint.base_url == "https://api.anthropic.com/v1"
    assert (other.endpoint.model, other.endpoint.key.variable) == (
        "claude-haiku-4-5", "ANTHROPIC_API_KEY",
    )  # fmt: skip
    # A key and a price do not travel to a host that they are not for; how it is asked does.
    assert other.endpoint.price is None and other.endpoint.temperature == 0.5
    assert same.endpoint.key.variable == "OURS" and same.endpoint.price is not None
    assert own.endpoint.key.variable is None and own.endpoint.base_url == "http://h/v1"
    found = resolve_panel(environ, given="gpt-4o, gpt-4.1", section=section)
    assert [juror.endpoint.model for juror in found] == ["gpt-4o", "gpt-4.1"]
    bad: list[object] = [{"a": 1}, [3], [{"base_url": "http://h"}]]
    for panel in bad:
        with pytest.raises(ConfigError, match="panel must be"):
            resolve_panel({}, section={"panel": panel})
