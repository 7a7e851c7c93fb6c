"""``ragbench init``: what it writes runs as it is, and nothing is ever overwritten unasked."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from ragbench_cli.commands.init import FILES
from tests.cli.runs import Ragbench

EVAL = ("eval", "data", "--rag", "my_rag.py:MyRAG", "--out", "reports/ragbench", "-q")


def test_its_gate_fails_when_the_rag_is_broken(
    ragbench: Ragbench, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ragbench("init")
    path = workplace / "my_rag.py"
    path.write_text(path.read_text("utf-8").replace("(-scores[id_], id_)", "scores[id_]"), "utf-8")
    assert ragbench(*EVAL, "--top-k", "1").code == 0
    ragbench("gate", "reports/ragbench").ends(1, "recall@5")


def test_the_baseline_that_it_explains_works(ragbench: Ragbench, workplace: Path) -> None:
    ragbench("init")
    assert ragbench(*EVAL).code == 0
    assert ragbench("baseline", "set", "reports/ragbench").code == 0
    path = workplace / "ragbench.yaml"
    text = path.read_text("utf-8")
    assert "recall@5: {min: 0.25, max_drop: 0.05}" in text
    text = text.replace("recall@5: {min: 0.25}\n", "recall@5: {min: 0.25, max_drop: 0.05}\n")
    path.write_text(text.replace("# baseline:", "baseline:"), "utf-8")
    checks = ragbench("gate", "reports/ragbench", "--json").ok().json["checks"]
    held = [one for one in checks if one["kind"] == "drop" and one["outcome"] != "not judged"]
    assert [(one["subject"], one["limit"]) for one in held] == [
        ("recall@5", 0.05),
        ("right", 0.02),
        ("answered", 0.02),
    ]


def test_its_floors_lie_below_the_interval_that_the_example_measures(
    ragbench: Ragbench, workplace: Path
) -> None:
    ragbench("init")
    assert ragbench(*EVAL).code == 0
    checks = ragbench("gate", "reports/ragbench", "--json").ok().json["checks"]
    floors = [one for one in checks if one["kind"] == "floor"]
    assert [one["subject"] for one in floors] == ["recall@5", "answer_correct"]
    recall, correct = floors
    assert 0.0 < recall["limit"] < recall["interval"]["low"]
    assert 0.0 < correct["limit"] < correct["observed"]


def test_what_is_there_is_left_as_it_is_and_listed(ragbench: Ragbench, workplace: Path) -> None:
    (workplace / "ragbench.yaml").write_text("mine", "utf-8")
    done = ragbench("init").ok()
    assert (workplace / "ragbench.yaml").read_text("utf-8") == "mine"
    assert "exists, left as it is: ragbench.yaml" in done.err
    assert "ragbench.yaml" not in done.out.splitlines()
    files = [*FILES, "schemas/ragbench.schema.json"]
    assert ragbench("init", "--json").json == {"folder": ".", "written": [], "left": files}
    assert ragbench("init", "--force").out.splitlines() == files
    assert (workplace / "ragbench.yaml").read_text("utf-8") != "mine"


# --- post-retrieval, and schemas for editors


def test_post_retrieval_writes_a_file_and_its_schema_alone(
    ragbench: Ragbench, workplace: Path
) -> None:
    done = ragbench("init", "--post-retrieval").ok()

    assert done.out.splitlines() == ["post_retrieval.yaml", "schemas/post_retrieval.schema.json"]
    assert not (workplace / "ragbench.yaml").exists()


def test_the_post_retrieval_file_works_as_it_is(ragbench: Ragbench) -> None:
    ragbench("init", "--with", "post-retrieval")

    done = ragbench(*EVAL, "--post-retrieval", "post_retrieval.yaml")

    report = json.loads(Path("reports/ragbench/report.json").read_text("utf-8"))
    assert done.code == 0
    operators = report["post_retrieval"]["operators"]
    assert [operator["operator"] for operator in operators] == [
        "rerank.lexical",
        "filter.dedup_near",
        "filter.top_k",
    ]


@pytest.mark.parametrize("name", ["post_retrieval", "pipeline", "ragbench"])
def test_each_yaml_file_names_a_schema_that_accepts_it(ragbench: Ragbench, name: str) -> None:
    ragbench("init", "--with", "pipeline", "--with", "post-retrieval")

    text = Path(f"{name}.yaml").read_text("utf-8")
    first_line = text.splitlines()[0]
    schema_file = first_line.removeprefix("# yaml-language-server: $schema=")
    schema = json.loads(Path(schema_file).read_text("utf-8"))

    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(yaml.safe_load(text))
    assert ragbench("show", "schema", name).json == schema


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("post_retrieval", "operators: [{action: filter, type: topk}]"),
        ("post_retrieval", "operators: [{action: filter, type: top_k, k: 0}]"),
        ("post_retrieval", "operator: []"),
        ("ragbench", "gate: {metrics: {recall@5: {minimum: 0.5}}}"),
        ("ragbench", "gate: {max_error_rate: 2}"),
    ],
)
def test_a_schema_refuses_a_mistake(ragbench: Ragbench, name: str, text: str) -> None:
    schema = ragbench("show", "schema", name).json

    assert not Draft202012Validator(schema).is_valid(yaml.safe_load(text))


def test_a_schema_accepts_variants(ragbench: Ragbench) -> None:
    schema = ragbench("show", "schema", "post-retrieval").json
    text = "variants: [{name: a, operators: [{action: rerank, type: lexical, top_k: 5}]}]"

    assert Draft202012Validator(schema).is_valid(yaml.safe_load(text))


def test_an_unknown_schema_is_refused_with_those_that_exist(ragbench: Ragbench) -> None:
    ragbench("show", "schema", "pipelin").refused("Did you mean 'pipeline'?")


def test_post_retrieval_goes_with_no_other_template(ragbench: Ragbench) -> None:
    ragbench("init", "--post-retrieval", "--with", "pipeline").refused("leave out --with")
