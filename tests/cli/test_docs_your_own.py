"""docs/your_own_metric.md and docs/your_own_reranker.md: all that stands there runs."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragbench import build_operator, parse_metrics
from ragbench.metrics.metric import ARGUMENTS, MetricOptions, definitions_in
from ragbench.post.operator import Operator
from tests.cli.runs import ROOT, Ragbench
from tests.unit.test_readme import blocks

DOCS = ROOT / "docs"
METRIC, RERANKER = (
    (DOCS / f"your_own_{name}.md").read_text("utf-8") for name in ("metric", "reranker")
)


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch, own_modules: Path) -> None:
    """The current folder is importable."""
    monkeypatch.setattr("sys.path", [str(own_modules), *sys.path])


def carried_out(page: str, ragbench: Ragbench) -> dict[str, dict[str, Any]]:
    """Does everything that a page shows, in its order; the names of each block of Python."""
    known: dict[str, dict[str, Any]] = {}
    for number, block in enumerate(blocks(page)):
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            name = (block.file or f"block_{number}.py").removesuffix(".py")
            Path(f"{name}.py").write_text(block.text, encoding="utf-8")
            known[name] = vars(importlib.import_module(name))
        elif block.language == "console":
            printed = ""
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    assert line.startswith("$ ragbench ")
                    printed = " ".join(ragbench(*shlex.split(line)[2:]).ok().out.split())
                else:
                    assert " ".join(line.split()) in printed
    return known


def rows(page: str) -> list[tuple[list[str], str]]:
    """The rows of the page's tables: the names in the first cell, and the second cell."""
    return [
        (re.findall(r"`(\w+)`", first), second)
        for first, second in re.findall(r"^\| (`.*?) \| (.*) \|$", page, re.M)
    ]


def test_the_page_on_metrics_does_what_it_says(ragbench: Ragbench) -> None:
    known = carried_out(METRIC, ragbench)
    made = [definition for names in known.values() for definition in definitions_in(names)]
    names = "word_recall cites_a_source first_hit answer_length too_long"
    assert [definition.name for definition in made] == names.split()
    assert all(definition.summary for definition in made)
    assert [parameter.summary for parameter in made[2].parameters] == [
        "smallest grade that counts as relevant",
        "1 - rank / k, or 1 / rank",
    ]


def test_its_tables_name_what_there_is() -> None:
    found = rows(METRIC)
    assert [names[0] for names, meaning in found[: len(ARGUMENTS)] if meaning] == [*ARGUMENTS]
    options = [name for names, _ in found[len(ARGUMENTS) :] for name in names]
    assert set(options) == set(MetricOptions.__annotations__)


def test_the_page_on_rerankers_does_what_it_says(ragbench: Ragbench) -> None:
    assert carried_out(RERANKER, ragbench)["block_5"]["ByLength"](longest=3).name == "by_length"
    files = [yaml.safe_load(block.text) for block in blocks(RERANKER) if block.language == "yaml"]
    assert len(files) == 3
    for file in files:
        for stage in file.get("variants", [file]):
            for operator in stage["operators"]:
                assert isinstance(build_operator(operator), Operator)


@pytest.mark.parametrize("page", [METRIC, RERANKER])
def test_its_entry_point_is_one(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (toml,) = [block.text for block in blocks(page) if block.language == "toml"]
    ((group, points),) = tomllib.loads(toml)["project"]["entry-points"].items()
    ((name, target),) = points.items()
    package = Path("my_package")
    package.mkdir()
    for block in blocks(page):
        if block.file is not None and block.language == "python":
            part = package / f"{target.partition(':')[0].partition('.')[2]}.py"
            if not part.exists():
                part.write_text(block.text, encoding="utf-8")
    found = EntryPoint(name=name, value=target, group=group)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [found])
    if group == "ragbench.metrics":
        assert parse_metrics([name])[0].name == name
    else:
        assert build_operator({"action": "rerank", "type": name}).name == f"rerank.{name}"
