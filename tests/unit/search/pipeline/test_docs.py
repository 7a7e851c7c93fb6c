"""The pages on pipelines, post-retrieval, rerankers and retrieval: files load, code and commands
run, tables name what there is."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import ragbench
from ragbench import Chunk, PipelineRAG, load_pipeline
from ragbench.io.dumps.read import dump_row
from ragbench.io.settings import setting_fields
from ragbench.post.build import OPERATORS, RERANKERS, load_post_retrieval, load_variants
from ragbench.search.embedders.embedder import EMBEDDERS
from ragbench.search.pipeline.documents import CHUNKERS
from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS
from ragbench.search.pipeline.schema import pipeline_schema
from ragbench.search.pipeline.stages import GENERATIONS, RETRIEVALS
from ragbench.search.pipeline.strategies import RetrievalSettings
from ragbench.views.write import write_reports
from ragbench_cli.main import main
from tests.llm_server import FaultServer
from tests.unit.test_readme import blocks as blocks_in

ROOT = Path(__file__).parents[4]
PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("pipeline", "post_retrieval", "rerankers", "retrieval", "embedders")
}
PIPELINE = PAGES["pipeline"]
FILES = {found.file: found.text for found in blocks_in(PIPELINE) if found.file}


def blocks(page: str, language: str, *, named: bool = False) -> list[str]:
    found = [one for one in blocks_in(PAGES[page]) if one.language == language]
    return [one.text for one in found if named or one.file is None]


def ran(page: str, *, count: int, more: Any = lambda command: command) -> None:
    lines = "".join(blocks(page, "console")).replace("\\\n", "").splitlines()
    # Other lines are what the commands print.
    commands = [line for line in lines if line.removeprefix("$ ").startswith("ragbench ")]
    assert len(commands) == count
    for line in commands:
        program, *command = shlex.split(line.removeprefix("$ "))
        assert program == "ragbench"
        assert main(more(command)) == 0


@pytest.fixture
def pages(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workplace with the files that the page on pipelines names."""
    monkeypatch.syspath_prepend(str(place))
    for name, text in FILES.items():
        (place / name).write_text(text, "utf-8")
    return place


# --- post-retrieval and rerankers


@pytest.mark.usefixtures("pages")
def test_code_files_and_commands_of_post_retrieval() -> None:
    known: dict[str, Any] = {}
    codes = blocks("post_retrieval", "python")
    assert len(codes) == 5
    for code in codes:
        exec(compile(code, "docs/post_retrieval.md", "exec"), known)
    (model,) = [code for code in codes if code.startswith("class Model:")]
    Path("my_model.py").write_text(model, "utf-8")
    found = [one for one in blocks_in(PAGES["post_retrieval"]) if one.language == "yaml"]
    assert len(found) == 4
    for one in found:
        path = Path(one.file or "file.yaml")
        path.write_text(one.text, "utf-8")
        if path.name == "variants.yaml":
            assert len(load_variants(path)) == 3
        elif path.name == "rag.yaml":
            assert load_pipeline(path).name == "rag"
        else:
            assert load_post_retrieval(path).operators

    def more(command: list[str]) -> list[str]:
        dataset = str(ROOT / "datasets" / "pellorin")
        given = [dataset if each == "datasets/pellorin" else each for each in command]
        return [*given, *(("--limit", "8") if command[0] == "eval" else ())]

    ran("post_retrieval", count=4, more=more)


def test_the_table_names_every_operator() -> None:
    named: list[str] = []
    action = ""
    for line in PAGES["post_retrieval"].splitlines():
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if len(cells) != 4 or cells[0] in ("action", "---"):
            continue
        action = cells[0] or action
        named.append(action if action in ("none", "rerank") else f"{action}.{cells[1]}")
    assert sorted(named) == sorted(OPERATORS.builtin)


def test_rerankers_print_what_the_page_says_and_are_all_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = PAGES["rerankers"]
    (code,) = blocks("rerankers", "python")
    exec(compile(code, "docs/rerankers.md", "exec"), {})
    assert capsys.readouterr().out.split() == code.rpartition("# ")[2].split()
    assert set(re.findall(r"^\| `(\w+)` \| \D", page, re.M)) == set(RERANKERS.builtin)
    for text in blocks("rerankers", "yaml", named=True):
        # Models and corpora of the page are the reader's own.
        text = re.sub(r"\n *(model|corpus|passages|words|first): .*", "", text)
        settings = yaml.safe_load(text.replace("cross_encoder", "lexical"))
        assert ragbench.build_reranker(settings).name == settings["name"]


# --- retrieval


@pytest.mark.extra("embeddings")
def test_the_code_of_retrieval_runs() -> None:
    [code] = blocks("retrieval", "python")
    exec(compile(code, "docs/retrieval.md", "exec"), {})


def test_the_commands_of_retrieval_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "gate.md").write_text((ROOT / "docs" / "gate.md").read_text("utf-8"))
    (tmp_path / "questions.txt").write_text("What does the gate decide?\nopen runs\n")

    def more(command: list[str]) -> list[str]:
        if "--embedder" in command:  # would be downloaded
            command = command[: command.index("--embedder")]
        if command[0] == "index":  # without loading a model
            command += ["--embedder", "hashing", "--quiet"]
        return command

    ran("retrieval", count=5, more=more)
    ran("embedders", count=1, more=more)
    rows = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    shown = json.loads("".join(blocks("retrieval", "json")))
    assert [row["query"] for row in rows] == ["What does the gate decide?", "open runs"]
    assert set(rows[0]) == set(shown)
    assert set(rows[0]["chunks"][0]) == set(shown["chunks"][0])
    chunks = [Chunk(**chunk) for chunk in shown["chunks"]]
    assert dump_row(shown["query_id"], shown["query"], chunks, score_kind="fused_rank") == shown


def test_tables_name_every_chunker_embedder_and_setting() -> None:
    page = PAGES["retrieval"] + PAGES["embedders"]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name.partition(":")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert set(CHUNKERS.builtin) | set(EMBEDDERS.builtin) <= named
    for setting in RetrievalSettings.__dataclass_fields__:
        spelled = (f"--{setting.replace('_', '-')}", f"RAGBENCH_{setting.upper()}")
        assert any(name in page for name in spelled), setting


# --- pipelines


def test_the_commands_and_the_code_of_pipelines_run(
    pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran("pipeline", count=2)
    assert "pipeline         rag.yaml is in order" in capsys.readouterr().out
    (code,) = blocks("pipeline", "python")
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
                how: Any = {"post_retrieval": stage, "settings": ragbench.EvalSettings(top_k=None)}
                report = ragbench.evaluate(ragbench.read_cases("data"), rag, out=Path("run"), **how)
                failed = {stage.stage: stage.failed for stage in report.stages}
                assert failed == dict.fromkeys(("retrieve", "post_retrieve", "generate"), 0)
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


def test_the_schema_knows_every_file() -> None:
    schema = pipeline_schema()
    Draft202012Validator.check_schema(schema)
    texts = [text for name, text in FILES.items() if name.endswith(".yaml")]
    assert len(texts) == 3
    for text in texts:
        Draft202012Validator(schema).validate(yaml.safe_load(text))


def test_the_tables_name_every_setting_and_default() -> None:
    reported: dict[str, str] = {}  # first cell to the second of every row; of one name together
    for name, cell in re.findall(r"^\| `([^|]*?)` \| (.*?) \|", PIPELINE, re.M):
        reported[name] = reported.get(name, "") + cell
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
        assert f"`{field.name}`" in row, f"{target.__name__}.{field.name} is not in the page"
        if isinstance(default := field.default, (bool, int, float)):
            whether = isinstance(default, bool)
            spelled = str(default).lower() if whether else f"`{field.name}` ({default:g})"
            assert spelled in row, f"{target.__name__}.{field.name} is {default}"
