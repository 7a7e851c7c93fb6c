"""docs/gate.md: its configuration is understood, its tables name what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from ragbench import GateConfig
from ragbench.gate.config import FIGURES, Undecided, read_gate_config

PAGE = (Path(__file__).parents[3] / "docs" / "gate.md").read_text("utf-8")


def test_the_configuration_in_the_page_is_understood(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(gate:.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "ragbench.yaml"
    path.write_text(block, "utf-8")
    config = read_gate_config(path)
    assert config.metrics["token_f1"].slices[0].value == "multi-hop"
    assert config.latency[0].seconds == 2.5


def test_the_table_of_keys_is_complete_and_its_defaults_are_true() -> None:
    table = PAGE.partition("| key | default | meaning |")[2].partition("\n\n")[0]
    keys = {
        key for row in table.splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    names = {field.name for field in fields(GateConfig)}
    assert keys == (names - {"latency", "alpha"}) | {"max_latency"}
    for name in ("max_drop", "max_error_rate", "min_cases", "undecided"):
        assert re.search(rf"\| `{name}` \| `?{getattr(GateConfig(), name)}`? \|", table)
    for name in (*FIGURES, *Undecided):
        assert f"`{name}`" in PAGE
