"""docs/pipeline.md: its files are in order, its code runs, its tables say what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ragbench import EvalSettings, PipelineRAG, evaluate, load_pipeline, read_cases
from ragbench.io.settings import setting_fields
from ragbench.pipeline.pre_retrieval import QUERY_TRANSFORMS
from ragbench.pipeline.schema import pipeline_schema
from ragbench.pipeline.stages import GENERATIONS, RETRIEVALS
from ragbench.views.write import write_reports
from ragbench_cli.main import main
from tests.llm_server import FaultServer

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "pipeline.md").read_text("utf-8")
BLOCK = re.compile(
    r"(?:^`(?P<file>[\w.]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
FILES: dict[str, str] = {
    found["file"]: found["text"] for found in BLOCK.finditer(PAGE) if found["file"]
}


def blocks(language: str) -> list[str]:
    return [
        found["text"]
        for found in BLOCK.finditer(PAGE)
        if found["language"] == language and found["file"] is None
    ]


@pytest.fixture
def pages(place: Path) -> Path:
    for name, text in FILES.items():
        (place / name).write_text(text, "utf-8")
    return place


def test_the_commands_run(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for text in blocks("console") for line in text.splitlines()]
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("$ ragbench ")
        assert main(shlex.split(line)[2:]) == 0
    assert "pipeline         rag.yaml is in order" in capsys.readouterr().out


def test_the_python_code_runs(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "docs/pipeline.md", "exec"), {})
    assert capsys.readouterr().out == "27\n"


def test_every_stage_can_be_a_class_of_the_users(pages: Path) -> None:
    with load_pipeline("own.yaml").open() as opened:
        rag = opened.rag
        assert isinstance(rag, PipelineRAG)
        assert type(rag).__name__ == "Polite"
        assert opened.staged() == (rag, None)
        found = rag.retrieve_with_metadata("Please: How much PTO is there?")
        assert rag.batch_retrieve(["Please: How much PTO is there?"]) == [list(found.contexts)]
        assert found.metadata is not None
        asked = found.metadata["pre_retrieve"]["queries"]
        assert asked == [{"text": "How much vacation is there?", "kind": "query", "weight": 1.0}]
        assert found.metadata["post_retrieve"]["steps"][0]["operator"] == "shortest"
        assert rag.generate("?", ["27 days."]) == ">> 27 days."
        # A user's source is part of what results depend on.
        retrieval: Any = rag.stage_identity("retrieve")
        assert "Polite" in json.dumps(retrieval["class"])
        generation: Any = rag.stage_identity("generate")
        assert len(generation["generator"]["adapts"][0]["sources"]["stages:Quote"]) == 16
        assert rag.post_retrieval is not None
        operator = rag.post_retrieval.identity["operators"][0]
        assert len(operator["sources"]["stages:Shortest"]) == 16
        assert len(retrieval["pre_retrieve"]["transforms"][0]["sources"]["stages:Glossary"]) == 16


def said(payload: dict[str, Any]) -> str:
    """What a language model may answer to the prompts of pre-retrieval and generation."""
    task, data = (message["content"] for message in payload["messages"])
    if '"queries"' in task:
        return json.dumps({"queries": ["days of leave", "vacation per year"]})
    contexts = json.loads(data)["contexts"]
    assert len(contexts) <= 5
    return str(contexts[0]["text"])


@pytest.mark.extra("llm")
def test_the_full_example_works_against_a_server(pages: Path) -> None:
    with FaultServer(say=said) as server:
        text = FILES["full.yaml"].replace("http://localhost:8000/v1", server.url)
        (pages / "full.yaml").write_text(text, "utf-8")
        pipeline = load_pipeline("full.yaml")
        assert pipeline.orchestration.concurrency == 4
        reports: list[bytes] = []
        for _ in range(2):
            with pipeline.open() as opened:
                rag, stage = opened.staged()
                report = evaluate(
                    read_cases("data"),
                    rag,
                    out=Path("run"),
                    post_retrieval=stage,
                    settings=EvalSettings(top_k=None),
                )
                assert {stage.stage: stage.failed for stage in report.stages} == {
                    "retrieve": 0,
                    "post_retrieve": 0,
                    "generate": 0,
                }
                write_reports(report, Path("run"))
                reports.append(Path("run/cases.csv").read_bytes())
        calls = len(server.calls)
        embedded = [text for call in server.calls for text in call.payload.get("input", ())]
    assert reports[0] == reports[1]
    # The second run asked for nothing again, and a stored index is not embedded again.
    assert calls > 0
    lines = Path("data/corpus.jsonl").read_text("utf-8").splitlines()
    assert [embedded.count(json.loads(line)["text"]) for line in lines] == [1] * len(lines)
    assert Path("index").is_dir()


def test_the_schema_knows_every_file(pages: Path) -> None:
    schema = pipeline_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    texts = [text for name, text in FILES.items() if name.endswith(".yaml")]
    assert len(texts) == 3
    for text in texts:
        assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


def rows() -> dict[str, str]:
    """First cell to the second, of every row of every table; rows of one name together."""
    reported: dict[str, str] = {}
    for name, cell in re.findall(r"^\| `([^|]*?)` \| (.*?) \|", PAGE, re.M):
        reported[name] = reported.get(name, "") + cell
    return reported


def test_the_tables_name_every_setting_and_default() -> None:
    reported = rows()
    for name in QUERY_TRANSFORMS.builtin:
        named(QUERY_TRANSFORMS.load(name), reported[name])
    for name in GENERATIONS.builtin:
        named(GENERATIONS.load(name), reported[name])
    for name in RETRIEVALS.builtin:
        row = "".join(cell for names, cell in reported.items() if name in names) + "`top_k` (5)"
        named(RETRIEVALS.load(name), row)


def named(target: Any, row: str) -> None:
    for field in setting_fields(target).values():
        if field.metadata.get("given"):
            continue
        assert f"`{field.name}`" in row, (
            f"{target.__name__}.{field.name} is not in docs/pipeline.md"
        )
        if isinstance(field.default, (bool, int, float)):
            shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
            spelled = f"`{field.name}` ({shown:g})" if not isinstance(shown, str) else shown
            assert spelled in row, f"{target.__name__}.{field.name} is {field.default}"
