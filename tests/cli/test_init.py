"""``ragbench init``: what it writes runs as it is, and nothing is ever overwritten unasked."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ragbench_cli.commands.init import FILES
from tests.cli.runs import Ragbench

EVAL = ("eval", "data", "--rag", "my_rag.py:MyRAG", "--out", "reports/ragbench", "-q")


def replace_in(path: Path, text: str, replacement: str) -> None:
    content = path.read_text("utf-8")
    assert text in content
    path.write_text(content.replace(text, replacement), "utf-8")


def gate_checks(ragbench: Ragbench, kind: str) -> list[dict[str, Any]]:
    """The checks of this kind in the verdict on a run that passes."""
    verdict = ragbench("gate", "reports/ragbench", "--json").ok().json
    return [check for check in verdict["checks"] if check["kind"] == kind]


def test_its_gate_fails_when_the_rag_is_broken(ragbench: Ragbench, workplace: Path) -> None:
    ragbench("init")
    # The worst document comes first.
    replace_in(workplace / "my_rag.py", "(-scores[id_], id_)", "scores[id_]")
    ragbench(*EVAL, "--top-k", "1").ok()

    ragbench("gate", "reports/ragbench").ends(1, "recall@5")


def test_the_baseline_that_it_explains_works(ragbench: Ragbench, workplace: Path) -> None:
    ragbench("init")
    ragbench(*EVAL).ok()
    ragbench("baseline", "set", "reports/ragbench").ok()
    path = workplace / "ragbench.yaml"
    # As the comments of the file say.
    with_limit = "recall@5: {min: 0.25, max_drop: 0.05}"
    assert with_limit in path.read_text("utf-8")
    replace_in(path, "recall@5: {min: 0.25}\n", f"{with_limit}\n")
    replace_in(path, "# baseline:", "baseline:")

    drops = gate_checks(ragbench, "drop")

    judged = [check for check in drops if check["outcome"] != "not judged"]
    assert [(check["subject"], check["limit"]) for check in judged] == [
        ("recall@5", 0.05),
        ("right", 0.02),
        ("answered", 0.02),
    ]


def test_its_floors_lie_below_the_interval_that_the_example_measures(ragbench: Ragbench) -> None:
    ragbench("init")
    ragbench(*EVAL).ok()

    recall, correct = gate_checks(ragbench, "floor")

    assert recall["subject"] == "recall@5"
    assert 0.0 < recall["limit"] < recall["interval"]["low"]
    assert correct["subject"] == "answer_correct"
    assert 0.0 < correct["limit"] < correct["observed"]


def test_a_file_that_exists_is_left_as_it_is_and_listed(
    ragbench: Ragbench, workplace: Path
) -> None:
    (workplace / "ragbench.yaml").write_text("mine", "utf-8")

    done = ragbench("init").ok()

    assert (workplace / "ragbench.yaml").read_text("utf-8") == "mine"
    done.told("exists, left as it is: ragbench.yaml")
    assert "ragbench.yaml" not in done.out.splitlines()


ALL_FILES = [*FILES, "schemas/ragbench.schema.json"]


def test_a_second_time_nothing_is_written(ragbench: Ragbench) -> None:
    ragbench("init").ok()

    done = ragbench("init", "--json").ok()

    assert done.json == {"folder": ".", "written": [], "left": ALL_FILES}


def test_files_are_overwritten_when_it_is_forced(ragbench: Ragbench, workplace: Path) -> None:
    (workplace / "ragbench.yaml").write_text("mine", "utf-8")

    done = ragbench("init", "--force").ok()

    assert done.out.splitlines() == ALL_FILES
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
