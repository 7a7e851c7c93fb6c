"""``ragbench show``: complete, narrow enough, and the same as data."""

from __future__ import annotations

from typing import Any

import pytest

from ragbench.core.metric import MetricDefinition
from ragbench.io.detect import formats
from ragbench.io.export import EXPORTS
from ragbench.metrics.registry import definitions
from ragbench.post.build import OPERATORS, RERANKERS
from tests.cli.runs import Ragbench, row_where

GROUPS = ["retriever", "generator", "overall"]
METRICS = [definition.name for definition in definitions()]
LISTED = {
    "formats": [*formats()],
    "exports": [*EXPORTS.targets()],
    "operators": [*OPERATORS.targets()],
    "rerankers": [*RERANKERS.targets()],
}


def flat(text: str) -> str:
    """A text as one line, wherever it was broken."""
    return " ".join(text.split())


def names_at(margin: int, page: str) -> list[str]:
    """The first words of the lines that start at this column; their texts start further on."""
    names = []
    for line in page.splitlines():
        letter = line[margin : margin + 1].strip()
        if letter:
            names.append(line.split()[0])
    return names


# --- metrics


def test_every_metric_is_listed_once(ragbench: Ragbench) -> None:
    done = ragbench("show", "metrics").ok()

    spellings = [name for name in names_at(2, done.out) if name not in GROUPS]
    names = [spelling.partition("@")[0].rstrip("[") for spelling in spellings]
    assert sorted(names) == sorted(METRICS)
    assert done.err == ""


def test_metrics_are_listed_under_their_groups(ragbench: Ragbench) -> None:
    done = ragbench("show", "metrics").ok()

    assert [line for line in done.out.splitlines() if line in GROUPS] == GROUPS


def test_every_metric_is_listed_as_data(ragbench: Ragbench) -> None:
    rows = ragbench("show", "metrics", "--json").json

    assert sorted(row["name"] for row in rows) == sorted(METRICS)


def test_the_data_of_a_metric_say_how_it_is_spelled_and_read(ragbench: Ragbench) -> None:
    rows = ragbench("show", "metrics", "--json").json

    ndcg = row_where(rows, name="nDCG")
    rouge_l = row_where(rows, name="rougeL")
    assert ndcg["cutoff"] == "optional"
    assert ndcg["direction"] == "higher"
    assert [parameter["name"] for parameter in ndcg["parameters"]] == ["dcg", "judged_only"]
    assert rouge_l["extra"] == "text"


@pytest.mark.parametrize(
    ("spelling", "title"),
    [
        pytest.param("ndcg@10", "nDCG[@k]: ", id="in small letters and with a cutoff"),
        pytest.param("F1", "token_f1: ", id="by its alias"),
    ],
)
def test_a_metric_is_found_by_other_spellings(
    ragbench: Ragbench, spelling: str, title: str
) -> None:
    assert ragbench("show", "metric", spelling).ok().out.startswith(title)


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: definition.name)
def test_every_metric_is_explained(ragbench: Ragbench, definition: MetricDefinition) -> None:
    page = ragbench("show", "metric", definition.name).ok().out
    as_data = ragbench("show", "metric", definition.name, "--json").json

    assert page.startswith(definition.name)
    assert flat(definition.summary) in flat(page)
    assert flat(definition.citation) in flat(page)
    for parameter in definition.parameters:
        assert f"{parameter.name}=" in page
    assert as_data["name"] == definition.name


# --- lists


@pytest.mark.parametrize("kind", ["metrics", "formats", "exports"])
@pytest.mark.parametrize(
    ("columns", "widest"),
    [("60", 60), ("80", 80), ("200", 100)],  # a line over 100 letters is hard to read
)
def test_lists_fit_the_terminal(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, kind: str, columns: str, widest: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    lines = ragbench("show", kind).ok().out.splitlines()

    assert [line for line in lines if len(line) > widest] == []
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("kind", LISTED)
def test_every_name_is_listed_with_its_summary(ragbench: Ragbench, kind: str) -> None:
    rows = ragbench("show", kind, "--json").json
    page = ragbench("show", kind).ok().out

    margin = len(page) - len(page.lstrip())
    assert [row["name"] for row in rows] == LISTED[kind]
    assert names_at(margin, page) == LISTED[kind]
    for row in rows:
        summary = row["summary"].replace("`", "")
        assert summary
        assert flat(summary) in flat(page)


# --- operators and rerankers


def explained(ragbench: Ragbench, operator: str) -> str:
    return ragbench("show", "operator", operator).ok().flat


def assert_is_explained(row: dict[str, Any], page: str) -> None:
    """The summary is a sentence, and each setting is on the page and has a description."""
    assert row["summary"].endswith(".")
    for name, setting in row["settings"].get("properties", {}).items():
        assert f" {name} " in page
        assert setting["description"]


@pytest.mark.parametrize("name", LISTED["operators"])
def test_an_operator_is_explained_with_every_setting(ragbench: Ragbench, name: str) -> None:
    row = ragbench("show", "operator", name, "--json").ok().json
    page = explained(ragbench, name)

    assert page.startswith(name)
    assert_is_explained(row, page)


@pytest.mark.parametrize("name", LISTED["rerankers"])
def test_a_reranker_is_explained_with_every_setting(ragbench: Ragbench, name: str) -> None:
    row = ragbench("show", "operator", name, "--json").ok().json
    page = explained(ragbench, name)

    assert page.startswith(f"rerank.{name}")  # as a pipeline names it
    assert_is_explained(row, page)


@pytest.mark.parametrize(
    ("kind", "name"), [("operators", "filter.top_k"), ("rerankers", "cross_encoder")]
)
def test_the_list_and_the_explanation_hold_the_same_data(
    ragbench: Ragbench, kind: str, name: str
) -> None:
    rows = ragbench("show", kind, "--json").json
    explained_as_data = ragbench("show", "operator", name, "--json").json

    assert explained_as_data == row_where(rows, name=name)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("rerank.feedback", "query_weight number (default 0.5)."),
        ("cross_encoder", "needs extra onnx"),
        ("http", "url text (required)."),
    ],
)
def test_a_setting_is_listed_with_its_type_and_default(
    ragbench: Ragbench, operator: str, words: str
) -> None:
    assert words in explained(ragbench, operator)


def test_a_misspelled_operator_is_refused_with_a_suggestion(ragbench: Ragbench) -> None:
    done = ragbench("show", "operator", "filter.topk")

    done.refused("Did you mean 'filter.top_k'? Known: ")
