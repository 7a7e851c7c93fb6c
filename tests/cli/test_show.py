"""``ragbench show``: complete, narrow enough, and the same as data."""

from __future__ import annotations

from typing import Any

import pytest

from ragbench.io.detect import formats
from ragbench.io.export import EXPORTS
from ragbench.metrics.registry import definitions
from ragbench.post.build import OPERATORS, RERANKERS
from tests.cli.runs import Ragbench

GROUPS = ["retriever", "generator", "overall"]
LISTED = {
    "formats": [*formats()],
    "exports": [*EXPORTS.targets()],
    "operators": [*OPERATORS.targets()],
    "rerankers": [*RERANKERS.targets()],
}


def test_every_metric_is_listed_once_under_its_group(ragbench: Ragbench) -> None:
    done = ragbench("show", "metrics")
    lines = done.out.splitlines()
    names = [line.split()[0].partition("@")[0].rstrip("[") for line in lines if line[2:3].strip()]
    metrics = [name for name in names if name not in GROUPS]
    assert (done.code, done.err) == (0, "")
    assert sorted(metrics) == sorted(definition.name for definition in definitions())
    assert [line for line in lines if line in GROUPS] == GROUPS


@pytest.mark.parametrize("what", ["metrics", "formats", "exports"])
@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_lists_fit_the_terminal(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, what: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = ragbench("show", what).out.splitlines()
    assert max(len(line) for line in lines) <= min(int(columns), 100)
    assert all(line == line.rstrip() for line in lines)


def test_metrics_as_data(ragbench: Ragbench) -> None:
    found = {item["name"]: item for item in ragbench("show", "metrics", "--json").json}
    assert set(found) == {definition.name for definition in definitions()}
    ndcg = found["nDCG"]
    assert (ndcg["cutoff"], ndcg["direction"]) == ("optional", "higher")
    assert [parameter["name"] for parameter in ndcg["parameters"]] == ["dcg", "judged_only"]
    assert found["rouge"]["extra"] == "text"
    for name, known in (("ndcg@10", "nDCG[@k]: "), ("F1", "token_f1: ")):  # by cutoff, by alias
        assert ragbench("show", "metric", name).out.startswith(known)


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: definition.name)
def test_every_metric_is_explained(ragbench: Ragbench, definition: Any) -> None:
    out = ragbench("show", "metric", definition.name).out
    flat = " ".join(out.split())
    assert out.startswith(definition.name)
    assert " ".join(definition.summary.split()) in flat
    assert " ".join(definition.citation.split()) in flat
    assert all(f"{parameter.name}=" in out for parameter in definition.parameters)
    assert ragbench("show", "metric", definition.name, "--json").json["name"] == definition.name


@pytest.mark.parametrize("kind", LISTED)
def test_every_name_is_listed_with_its_summary_and_settings(ragbench: Ragbench, kind: str) -> None:
    data = ragbench("show", kind, "--json").json
    assert [one["name"] for one in data] == LISTED[kind]
    assert all(one["summary"] for one in data)
    out = ragbench("show", kind).out
    flat = " ".join(out.split())
    margin = len(out) - len(out.lstrip())
    names = [line.split()[0] for line in out.splitlines() if line[margin : margin + 1].strip()]
    assert names == LISTED[kind]
    assert all(" ".join(one["summary"].replace("`", "").split()) in flat for one in data)


@pytest.mark.parametrize("kind", ["operators", "rerankers"])
def test_an_operator_is_explained_with_every_setting(ragbench: Ragbench, kind: str) -> None:
    for one in ragbench("show", kind, "--json").json:
        name = one["name"]
        flat = " ".join(ragbench("show", "operator", name).out.split())
        assert flat.startswith(name if kind == "operators" else f"rerank.{name}")
        settings = one["settings"].get("properties", {})
        assert one["summary"].endswith(".") and all(f" {setting} " in flat for setting in settings)
        assert [each for each, setting in settings.items() if not setting["description"]] == []
        assert ragbench("show", "operator", name, "--json").json == one


def test_a_setting_is_listed_with_its_type_and_default(ragbench: Ragbench) -> None:
    def explained(name: str) -> str:
        return " ".join(ragbench("show", "operator", name).out.split())

    assert "query_weight number (default 0.5)." in explained("rerank.feedback")
    assert "needs extra onnx" in explained("cross_encoder")
    assert "url text (required)." in explained("http")
    ragbench("show", "operator", "filter.topk").refused("Did you mean 'filter.top_k'? Known: ")
