"""docs/your_own_metric.md and docs/your_own_reranker.md: all that stands there runs."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from ragbench import build_operator, parse_metrics
from ragbench.core.metric import MetricDefinition
from ragbench.metrics.metric import ARGUMENTS, MetricOptions, definitions_in
from ragbench.post.operator import Operator
from tests.cli.runs import ROOT, Ragbench
from tests.unit.test_readme import blocks

DOCS = ROOT / "docs"
METRIC = (DOCS / "your_own_metric.md").read_text("utf-8")
RERANKER = (DOCS / "your_own_reranker.md").read_text("utf-8")


@pytest.fixture(autouse=True)
def _importable_folder(monkeypatch: pytest.MonkeyPatch, own_modules: Path) -> None:
    """The current folder is importable."""
    monkeypatch.setattr("sys.path", [str(own_modules), *sys.path])


Names = dict[str, Any]
"""What a module defines, by name."""


def carried_out(page: str, ragbench: Ragbench) -> dict[str, Names]:
    """Does everything that a page shows, in its order; the names of each block of Python."""
    names_of_block: dict[str, Names] = {}
    for number, block in enumerate(blocks(page)):
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            module = (block.file or f"block_{number}.py").removesuffix(".py")
            Path(f"{module}.py").write_text(block.text, encoding="utf-8")
            names_of_block[module] = vars(importlib.import_module(module))
        elif block.language == "console":
            check_console(block.text, ragbench)
    return names_of_block


def check_console(text: str, ragbench: Ragbench) -> None:
    """Runs the commands of a console: each prints the lines below it, wherever they are broken."""
    printed = ""
    for line in text.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line.removeprefix("$ "))
            assert program == "ragbench"
            printed = ragbench(*arguments).ok().flat
        else:
            assert " ".join(line.split()) in printed


class TableRow(NamedTuple):
    names: list[str]
    meaning: str


def rows_of_names(page: str) -> list[TableRow]:
    """The rows of the page's tables whose first cell holds names in code."""
    rows: list[TableRow] = []
    for first_cell, second_cell in re.findall(r"^\| (`.*?) \| (.*) \|$", page, re.MULTILINE):
        rows.append(TableRow(re.findall(r"`(\w+)`", first_cell), second_cell))
    return rows


# --- metrics


def test_the_page_on_metrics_does_what_it_says(ragbench: Ragbench) -> None:
    names_of_block = carried_out(METRIC, ragbench)

    metrics: list[MetricDefinition] = []
    for names in names_of_block.values():
        metrics += definitions_in(names)
    assert [metric.name for metric in metrics] == [
        "word_recall",
        "cites_a_source",
        "first_hit",
        "answer_length",
        "too_long",
    ]
    assert "" not in [metric.summary for metric in metrics]
    first_hit = metrics[2]
    assert [parameter.summary for parameter in first_hit.parameters] == [
        "smallest grade that counts as relevant",
        "1 - rank / k, or 1 / rank",
    ]


def test_the_page_on_metrics_lists_the_arguments_and_then_the_options() -> None:
    rows = rows_of_names(METRIC)
    rows_of_arguments = rows[: len(ARGUMENTS)]
    rows_of_options = rows[len(ARGUMENTS) :]

    assert [row.names[0] for row in rows_of_arguments if row.meaning] == [*ARGUMENTS]
    options: set[str] = set()
    for row in rows_of_options:
        options.update(row.names)
    assert options == set(MetricOptions.__annotations__)


# --- rerankers


def test_the_page_on_rerankers_does_what_it_says(ragbench: Ragbench) -> None:
    names_of_block = carried_out(RERANKER, ragbench)

    by_length = names_of_block["block_5"]["ByLength"]
    assert by_length(longest=3).name == "by_length"


def test_every_operators_document_on_the_page_on_rerankers_can_be_built(
    ragbench: Ragbench,
) -> None:
    carried_out(RERANKER, ragbench)

    yaml_blocks = [block for block in blocks(RERANKER) if block.language == "yaml"]
    assert len(yaml_blocks) == 3
    for block in yaml_blocks:
        file = yaml.safe_load(block.text)
        for stage in file.get("variants", [file]):
            for operator in stage["operators"]:
                assert isinstance(build_operator(operator), Operator)


# --- entry points


def entry_point_of(page: str) -> EntryPoint:
    """The one that the page's pyproject.toml declares."""
    (text,) = [block.text for block in blocks(page) if block.language == "toml"]
    groups = tomllib.loads(text)["project"]["entry-points"]
    ((group, points),) = groups.items()
    ((name, target),) = points.items()
    return EntryPoint(name=name, value=target, group=group)


@pytest.fixture
def installed_plugin(page: str, monkeypatch: pytest.MonkeyPatch) -> EntryPoint:
    """A package with the page's first file, as the entry point of the page names it."""
    entry_point = entry_point_of(page)
    first_file = next(
        block for block in blocks(page) if block.file is not None and block.language == "python"
    )
    package, _, module = entry_point.module.partition(".")
    Path(package).mkdir()
    Path(package, f"{module}.py").write_text(first_file.text, encoding="utf-8")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry_point])
    return entry_point


@pytest.mark.parametrize("page", [METRIC], ids=["metric"])
def test_the_entry_point_of_the_page_on_metrics_is_one(installed_plugin: EntryPoint) -> None:
    assert installed_plugin.group == "ragbench.metrics"

    (metric,) = parse_metrics([installed_plugin.name])

    assert metric.name == installed_plugin.name


@pytest.mark.parametrize("page", [RERANKER], ids=["reranker"])
def test_the_entry_point_of_the_page_on_rerankers_is_one(installed_plugin: EntryPoint) -> None:
    operator = build_operator({"action": "rerank", "type": installed_plugin.name})

    assert operator.name == f"rerank.{installed_plugin.name}"
