"""ragbench.yaml: what is understood, and every mistake with its line."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.errors import DataError
from ragbench.gate.config import (
    FIGURES,
    LatencyBudget,
    SliceGate,
    Undecided,
    demanded,
    read_gate_config,
)
from tests.unit.gate.builders import config

WHOLE = """\
eval:
  anything: [goes, here]
gate:
  baseline: baselines/main.json
  undecided: fail
  max_drop: 3e-2
  max_error_rate: 0.1
  min_cases: 20
  must_pass: ["tag:golden", q7]
  max_latency:
    generate: {p95: 2.5, mean: 1}
  metrics:
    recall@5: {max_drop: 0.02, min: 0.8, slices: [language, "tag:lang:de"]}
    P(rel=2)@5:
      max: 0.9
      slices:
        language:zh: {min: 0.5, max_drop: 0.1}
    42: {max: 0.5}
"""


def written(tmp_path: Path, text: str) -> Path:
    """The file with this text."""
    path = tmp_path / "ragbench.yaml"
    path.write_text(text, "utf-8")
    return path


def problems(tmp_path: Path, text: str) -> list[str]:
    """The mistakes in a file with this text, each from its line on."""
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_gate_config(path)
    return [str(problem).removeprefix(str(path)) for problem in caught.value.problems]


def test_everything_that_can_be_said_is_understood(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)

    gate_config = read_gate_config(path)

    of_chinese = FigureLimits(minimum=0.5, max_drop=0.1)
    assert gate_config == GateConfig(
        baseline=str(tmp_path / "baselines/main.json"),
        undecided=Undecided.FAIL,
        max_drop=0.03,
        max_error_rate=0.1,
        min_cases=20,
        must_pass=("tag:golden", "q7"),
        latency=(
            LatencyBudget(stage="generate", figure="mean", seconds=1),
            LatencyBudget(stage="generate", figure="p95", seconds=2.5),
        ),
        metrics={
            "recall@5": MetricGate(
                limits=FigureLimits(max_drop=0.02, minimum=0.8),
                slices=(SliceGate(by="language", value=None), SliceGate(by="tag", value="lang:de")),
            ),
            "P(rel=2)@5": MetricGate(
                limits=FigureLimits(maximum=0.9),
                slices=(SliceGate(by="language", value="zh", limits=of_chinese),),
            ),
            "42": MetricGate(limits=FigureLimits(maximum=0.5)),
        },
    )


def test_a_file_without_the_section_is_refused_unless_it_is_optional(tmp_path: Path) -> None:
    assert problems(tmp_path, "eval: {}\n") == [":1: there is no section 'gate', or nothing in it"]
    assert read_gate_config(tmp_path / "ragbench.yaml", optional=True) == GateConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty"),
        ("gate: [", ":1: is not YAML"),
        ("a: b: c", ":1: is not YAML: mapping values are not allowed here"),
        ("a: &x [*x]", ":1: an alias leads into itself"),
        ("[" * 2000, ": is nested too deep"),
        ("- gate", ":1: expected 'name: value' entries, found a list"),
        ("gate:\n  max_dorp: 0.1", "Did you mean 'max_drop'?"),
        ("gate:\n  min_cases: 1\n  min_cases: 2", ":3: the key 'min_cases' is given twice"),
        ("gate:\n  [a]: 2", ":2: is not YAML: found unhashable key"),
        ("gate:\n  max_drop: 1", ":2: field 'gate.max_drop': it must be a number < 1.0"),
        ("gate:\n  max_drop: many", ":2: field 'gate.max_drop': it must be a number, not 'many'"),
        ("gate:\n  max_drop: .nan", ":2: field 'gate.max_drop': it must be a number"),
        ("gate:\n  max_drop: -1", "it must be a number >= 0.0, not -1"),
        ("gate:\n  max_error_rate: 2", "it must be a number <= 1.0, not 2"),
        ("gate:\n  min_cases: 1.5", "it must be a whole number, not 1.5"),
        ("gate:\n  undecided: maybe", "must be one of pass, inconclusive, fail"),
        ("gate:\n  baseline: []", "field 'gate.baseline': it must be a text, not []"),
        ("gate:\n  metrics:\n    m: 0.5", ":3: field 'gate.metrics.m': expected 'name: value'"),
        ("gate:\n  metrics:\n    m:", ":3: field 'gate.metrics.m': no check: give"),
        ("gate:\n  metrics:\n    m: {min: 1, max: 0}", "min is 1 and max is 0: nothing lies"),
        ("gate:\n  metrics:\n    m: {max_drop: -0.1}", "'gate.metrics.m.max_drop': it must be"),
        ("gate:\n  metrics:\n    m: {slices: [language]}", "needs the metric's max_drop"),
        ("gate:\n  metrics:\n    m: {max_drop: 0.1, slices: [topic]}", "'topic' names no slice"),
        ("gate:\n  metrics:\n    m: {slices: {tag: {}}}", "slices.tag': no check: give"),
        ("gate:\n  max_latency: {generate: 5}", "max_latency.generate': expected 'name: value'"),
        ("gate:\n  max_latency: {generate: {p99: 5}}", "p99': unknown key. Did you mean"),
        ("gate:\n  max_latency: {generate: {p95: 0}}", "it must be a number > 0.0, not 0"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert message in "\n".join(problems(tmp_path, text))


def test_all_mistakes_are_reported_at_once_in_order(tmp_path: Path) -> None:
    text = "gate:\n  metrics:\n    m: {min: x}\n  max_drop: 2\n  max_drpo: 1\n"

    mistakes = problems(tmp_path, text)

    lines = [mistake.split(":")[1] for mistake in mistakes]
    assert lines == ["3", "4", "5"]


@given(st.text(max_size=60))
def test_whatever_stands_in_the_file_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(f"gate:\n  {text}".encode("utf-8", "surrogatepass"))
    try:
        assert isinstance(read_gate_config(path, optional=True), GateConfig)
    except DataError as error:
        assert error.problems


# --- options


def test_options_go_before_the_file(tmp_path: Path) -> None:
    file = "gate:\n  max_latency: {generate: {p95: 1}}\n  metrics: {m: {min: 0.5, max_drop: 0.1}}\n"
    gate_config = demanded(
        written(tmp_path, file),
        baseline=None,
        strict=True,
        must_pass=["q7"],
        maximum=["n=1e1"],
        minimum=["m=.7", "P(rel=2)@5=0.1"],
        max_drop=["n=0"],
        max_latency=["generate:p95=2", "retrieve:mean=0.5"],
    )

    limits: dict[str, Any] = {
        "m": {"minimum": 0.7, "max_drop": 0.1},
        "P(rel=2)@5": {"minimum": 0.1},
        "n": {"maximum": 10, "max_drop": 0},
    }
    assert gate_config.metrics == config(**limits).metrics
    latency = [(budget.stage, budget.seconds) for budget in gate_config.latency]
    assert latency == [("generate", 2), ("retrieve", 0.5)]
    assert gate_config.undecided is Undecided.INCONCLUSIVE
    assert gate_config.must_pass == ("q7",)


def test_all_mistakes_in_options_and_in_the_file_are_reported_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, "gate:\n  metrics: {n: 5}\n")
    latency = ["generate=1", "generate:p99=1", "generate:p95=0", "x"]
    limits = {
        "minimum": ["m", "=1", "m=much", "m=nan"],
        "max_drop": ["m=-1"],
        "maximum": ["n=1"],
    }

    with pytest.raises(DataError) as caught:
        demanded(file, baseline=None, strict=False, max_latency=latency, **limits)

    mistakes = [str(problem) for problem in caught.value.problems]
    assert len(mistakes) == 10
    assert "--min: 'm' is not understood: expected NAME=NUMBER" in mistakes[0]
    assert mistakes[-1].startswith(f"{file}:2")


# --- docs/gate.md: its configuration is understood, its tables name what there is

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "gate.md").read_text("utf-8")


def test_the_configuration_in_the_page_is_understood(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(gate:.*?)```", PAGE, re.S)

    gate_config = read_gate_config(written(tmp_path, text))

    assert gate_config.metrics["token_f1"].slices[0].value == "multi-hop"
    assert gate_config.latency[0].seconds == 2.5


def test_the_table_of_keys_is_complete_and_its_defaults_are_true() -> None:
    table = PAGE.partition("| key | default | meaning |")[2].partition("\n\n")[0]
    rows = table.splitlines()[2:]
    keys: set[str] = set()
    for row in rows:
        keys.update(re.findall(r"`(\w+)`", row.split("|")[1]))

    names = {field.name for field in fields(GateConfig)}
    assert keys == (names - {"latency", "alpha"}) | {"max_latency"}
    for name in ("max_drop", "max_error_rate", "min_cases", "undecided"):
        default = getattr(GateConfig(), name)
        assert re.search(rf"\| `{name}` \| `?{default}`? \|", table)
    for name in (*FIGURES, *Undecided):
        assert f"`{name}`" in PAGE
