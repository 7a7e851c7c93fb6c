"""What people type first: paths as text, rows as dicts, classes and functions as systems."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ragbench import (
    Case,
    EvalSettings,
    GateConfig,
    RagbenchError,
    Report,
    as_rag,
    build_validator,
    compare,
    evaluate,
    export_run,
    gate_run,
    open_traces,
    read_cases,
    read_documents,
    read_run,
    report_of,
    validate_dump,
)
from ragbench.core.record import replace
from ragbench.errors import ConfigError
from ragbench.prepare import prepare

ROW = {"query": "How many days?", "reference": "27", "reference_context_ids": ["leave"]}
COLUMNS: Any = {name.title(): [value] for name, value in ROW.items()}
ARRAYS = ROW | {"reference_context_ids": np.array(["leave"], object)}  # as pandas reads Parquet
CHUNK = {"id": "leave", "text": "There are 27 days of leave.", "score": 0.9}


class Plain:
    """No base class, plain return values."""

    def retrieve(self, query: str, top_k: int = 5) -> list[dict[str, str]]:
        return [{"id": "leave", "text": "There are 27 days of leave."}]

    def generate(self, query: str, contexts: list[str]) -> str:
        return "27"


POLARS: Any = type("DataFrame", (list,), {"iter_rows": lambda self, *, named: [ROW]})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with two datasets, a dump and a system in it."""
    monkeypatch.chdir(tmp_path)
    dump = {"query": "q", "chunks": [CHUNK]}
    documents = {"ds.jsonl": ROW, "columns.json": COLUMNS, "dump.jsonl": dump}
    for name, document in documents.items():
        Path(name).write_text(json.dumps(document) + "\n", "utf-8")
    Path("plain_rag.py").write_text(inspect.getsource(Plain), "utf-8")
    return tmp_path


def scores(report: Report) -> dict[str, float | None]:
    """The scores of the report, by metric."""
    return {summary.metric.name: summary.score for summary in report.summaries}


@pytest.mark.parametrize(
    "cases",
    [
        "ds.jsonl",
        Path("ds.jsonl"),
        "columns.json",
        COLUMNS,
        [ROW],
        lambda: iter([ROW]),
        [Case(id="1", query="q", reference="27")],
        lambda: POLARS(ROW),
        lambda: pytest.importorskip("pandas").DataFrame([ARRAYS]),
        lambda: pytest.importorskip("pandas").DataFrame([ROW]).to_dict(),
        lambda: pytest.importorskip("datasets").Dataset.from_list([ROW]),
    ],
)
def test_cases_of_any_kind_are_evaluated(cases: Any) -> None:
    if callable(cases):
        cases = cases()

    report = evaluate(cases, Plain, out="run", metrics="exact_match")

    assert scores(report) == {"exact_match": 1.0}


@pytest.mark.parametrize(
    "rag",
    [
        Plain(),
        Plain,
        "plain_rag.py:Plain",
        lambda query: {"answer": "27", "contexts": ["There are 27 days of leave."]},
        as_rag(generate=lambda query, contexts: "27", retrieve=lambda query: ["27 days"]),
    ],
    ids=["object", "class", "name", "function", "functions"],
)
def test_systems_of_any_kind_are_evaluated(rag: object) -> None:
    report = evaluate([ROW], rag, out="run", metrics="exact_match")

    assert scores(report) == {"exact_match": 1.0}
    assert repr(report).splitlines()[1] == "exact_match  1.000  1 of 1"


def test_a_path_names_the_dataset_and_the_settings_overrule_it() -> None:
    settings = EvalSettings(name="leave", top_k=1)

    unnamed = evaluate("ds.jsonl", Plain, out="a")
    named_by_settings = evaluate("ds.jsonl", Plain, out="b", settings=settings)

    assert unnamed.manifest["dataset"]["name"] == "ds"
    dataset = named_by_settings.manifest["dataset"]
    assert dataset["name"] == "leave"
    assert dataset["source"] == "ds.jsonl"


def test_stored_runs_are_named_by_their_folder_as_text() -> None:
    report = evaluate("ds.jsonl", Plain, out="run", metrics="recall@5")

    assert scores(report) == {"recall@5": 1.0}
    assert scores(report_of("run")) == {"recall@5": 1.0}

    (case,) = read_cases("ds.jsonl")
    assert read_run("run").values("recall@5") == {case.id: 1.0}

    (sample,) = prepare(open_traces("run"))
    assert sample.user_input == "How many days?"

    comparison = compare(["run", "run"])
    assert repr(comparison).endswith("on 1 case\nrecall@5  a 1.000  b 1.000")

    export = export_run("run", "ragas", "samples.jsonl")
    assert export.written == 1

    rescored = evaluate("run", out="again", metrics="exact_match")
    assert scores(rescored) == {"exact_match": 1.0}


def test_runs_are_compared_in_a_list_or_one_after_the_other() -> None:
    evaluate("ds.jsonl", Plain, out="a", metrics="recall@5")
    evaluate("ds.jsonl", Plain, out="b", metrics="recall@5")

    in_a_list = compare(["a", read_run("b"), "a"])
    one_after_the_other = compare("a", read_run("b"), "a")

    assert one_after_the_other == in_a_list
    assert [run.source for run in one_after_the_other.runs] == ["a", "b", "a"]


def test_the_reports_of_two_runs_are_compared() -> None:
    before = evaluate("ds.jsonl", Plain, out="before", metrics="recall@5")
    after = evaluate("ds.jsonl", Plain, out="after", metrics="recall@5")

    comparison = compare(before, after)

    assert comparison == compare("before", "after")
    assert [run.source for run in comparison.runs] == ["before", "after"]


def test_a_report_without_a_folder_cannot_be_compared() -> None:
    report = replace(evaluate("ds.jsonl", Plain, out="run"), folder=None)

    with pytest.raises(ConfigError, match="give the path of its run"):
        compare(report, "run")


def test_a_path_alone_is_one_run() -> None:
    with pytest.raises(ConfigError, match="2 to 16 runs, got 1 run"):
        compare("ab")


@pytest.mark.parametrize("validator", ["lexical", {"name": "lexical"}, build_validator("lexical")])
def test_a_dump_is_validated_by_its_path_and_a_name(validator: object) -> None:
    assert validate_dump("dump.jsonl", validator).queries == 1


UNTYPED = Case(id="a", query="q", tags=cast("Any", "no tuple"))
WRONG: dict[str, tuple[Any, ...]] = {
    "cases": (None, 3, [], [3], {"query": "x"}, "nowhere", [{"querry": "x"}], b"x", [UNTYPED]),
    "rag": (3, "gone.py:Rag", object(), []),
    "out": (None, 3, b"x", ""),
    "metrics": (3, "nope", [3], [None]),
    "validator": (3, "nope", []),
    **dict.fromkeys(("settings", "post_retrieval", "judging", "workers", "version"), (5,)),
}


@pytest.mark.parametrize(
    ("name", "wrong"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_argument_of_evaluate_is_named(name: str, wrong: Any) -> None:
    arguments: dict[str, Any] = {"cases": "ds.jsonl", "rag": Plain(), "out": "run"}
    arguments[name] = wrong

    with pytest.raises(RagbenchError):
        evaluate(**arguments)

    assert not Path("run").exists()


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(RagbenchError, match=r"columns of different lengths .*'tags' 0"):
        evaluate(COLUMNS | {"tags": []}, Plain, out="run")


READERS: dict[str, Callable[[Any], object]] = {
    "report_of": report_of,
    "read_run": read_run,
    "open_traces": lambda path: list(open_traces(path)),
    "export_run": lambda path: export_run(path, "ragas"),
    "compare": lambda path: compare([path, path]),
    "compare of runs by themselves": lambda path: compare(path, path),
    "gate_run": lambda path: gate_run(path, GateConfig()),
    "validate_dump": lambda path: validate_dump(path, "lexical"),
    "read_cases": lambda path: list(read_cases(path)),
    "read_documents": lambda path: list(read_documents(path)),
    # Of None, of an empty list and of 3 some are allowed there: then another wrong value.
    "limits": lambda value: EvalSettings(limits=cast("Any", value or 3)),
    "matching": lambda value: EvalSettings(matching=cast("Any", value or "id")),
    "top_k": lambda value: EvalSettings(top_k=cast("Any", 0 if value == 3 else value or "3")),
    "gate": lambda value: GateConfig(metrics={"exact_match": value}),
}


@pytest.mark.parametrize("wrong", [3, None, "nowhere", []], ids=repr)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_path_of_what_is_read_is_named(
    read: Callable[[Any], object], wrong: Any
) -> None:
    with pytest.raises(RagbenchError):
        read(wrong)


SCRIPT = """
import json
from pathlib import Path
from ragbench import Workers, evaluate, metric, validate_dump

class MyRAG:
    def retrieve(self, query):
        return ["Paris is the capital of France."]
    def generate(self, query, contexts):
        return "Paris"

@metric
def own(response: str) -> float:
    return 1.0

lines = [{"query": f"What is {n}?", "chunks": [{"id": "1", "text": str(n)}]} for n in range(40)]
Path("dump.jsonl").write_text("".join(json.dumps(line) + chr(10) for line in lines))
print(validate_dump("dump.jsonl", "lexical", workers=2).queries)
cases = [{"query": f"q{n}", "reference": "Paris"} for n in range(40)]
workers = Workers(engine="processes", count=2)
report = evaluate(cases, MyRAG(), out="run", metrics="exact_match", workers=workers)
print(report.summaries[0].score)
evaluate(cases, MyRAG(), out="own", metrics=[own], workers=workers)
"""


def test_a_plain_script_has_workers_but_not_for_what_is_defined_in_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)

    process = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert process.stdout.split() == ["40", "1.0"]
    error = process.stderr.splitlines()[-1]
    assert error.startswith(
        "ragbench.errors.ConfigError: workers cannot import a class or function"
    )
