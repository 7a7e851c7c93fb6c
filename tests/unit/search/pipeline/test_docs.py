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
from ragbench.search.pipeline.pipeline import Pipeline
from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS
from ragbench.search.pipeline.schema import pipeline_schema
from ragbench.search.pipeline.stages import GENERATIONS, RETRIEVALS
from ragbench.search.pipeline.strategies import RetrievalSettings
from ragbench.views.write import write_reports
from ragbench_cli.main import main
from tests.llm_server import FaultServer
from tests.unit.test_readme import Block
from tests.unit.test_readme import blocks as blocks_in

ROOT = Path(__file__).parents[4]
PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("pipeline", "post_retrieval", "rerankers", "retrieval", "embedders")
}
PIPELINE = PAGES["pipeline"]
FILES = {block.file: block.text for block in blocks_in(PIPELINE) if block.file}


def blocks_of_language(page: str, language: str) -> list[Block]:
    return [block for block in blocks_in(PAGES[page]) if block.language == language]


def blocks(page: str, language: str) -> list[str]:
    """The texts of the blocks in this language that are no file."""
    return [block.text for block in blocks_of_language(page, language) if block.file is None]


def run_code(page: str, *codes: str) -> None:
    """Runs blocks of code one after the other, each with the names that those before it made."""
    names: dict[str, Any] = {}
    for code in codes:
        exec(compile(code, f"docs/{page}.md", "exec"), names)


def run_commands(page: str, *, count: int, adapted: Any = lambda command: command) -> None:
    """Runs the commands of a page, so many, each as it is adapted to the test."""
    lines = "".join(blocks(page, "console")).replace("\\\n", "").splitlines()
    shown = [line.removeprefix("$ ") for line in lines]
    # Other lines are what the commands print.
    commands = [line for line in shown if line.startswith("ragbench ")]

    assert len(commands) == count
    for line in commands:
        program, *command = shlex.split(line)
        assert program == "ragbench"
        assert main(adapted(command)) == 0


def first_cells(page: str) -> list[str]:
    """Of each row of a table that begins with code."""
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    return [row.split("|")[1] for row in rows]


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
    codes = blocks("post_retrieval", "python")
    assert len(codes) == 5
    run_code("post_retrieval", *codes)
    (model,) = [code for code in codes if code.startswith("class Model:")]
    Path("my_model.py").write_text(model, "utf-8")

    files = blocks_of_language("post_retrieval", "yaml")
    assert len(files) == 4
    for block in files:
        path = Path(block.file or "file.yaml")
        path.write_text(block.text, "utf-8")
        if path.name == "variants.yaml":
            assert len(load_variants(path)) == 3
        elif path.name == "rag.yaml":
            assert load_pipeline(path).name == "rag"
        else:
            assert load_post_retrieval(path).operators

    def of_a_few_cases(command: list[str]) -> list[str]:
        dataset = str(ROOT / "datasets" / "pellorin")
        arguments = [dataset if word == "datasets/pellorin" else word for word in command]
        if command[0] == "eval":
            arguments += ["--limit", "8"]
        return arguments

    run_commands("post_retrieval", count=4, adapted=of_a_few_cases)


def test_the_table_names_every_operator() -> None:
    operators: list[str] = []
    action = ""
    for line in PAGES["post_retrieval"].splitlines():
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if len(cells) != 4 or cells[0] in ("action", "---"):
            continue
        # An empty cell repeats the action of the row above.
        action = cells[0] or action
        if action in ("none", "rerank"):
            operators.append(action)
        else:
            operators.append(f"{action}.{cells[1]}")

    assert sorted(operators) == sorted(OPERATORS.builtin)


def test_rerankers_print_what_the_page_says_and_are_all_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (code,) = blocks("rerankers", "python")
    run_code("rerankers", code)
    shown = code.rpartition("# ")[2]
    assert capsys.readouterr().out.split() == shown.split()

    names_of_rows = re.findall(r"^\| `(\w+)` \| \D", PAGES["rerankers"], re.M)
    assert set(names_of_rows) == set(RERANKERS.builtin)

    for block in blocks_of_language("rerankers", "yaml"):
        # Models and corpora of the page are the reader's own.
        text = re.sub(r"\n *(model|corpus|passages|words|first): .*", "", block.text)
        settings = yaml.safe_load(text.replace("cross_encoder", "lexical"))
        assert ragbench.build_reranker(settings).name == settings["name"]


# --- retrieval


@pytest.mark.extra("embeddings")
def test_the_code_of_retrieval_runs() -> None:
    [code] = blocks("retrieval", "python")
    run_code("retrieval", code)


def test_the_commands_of_retrieval_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    (tmp_path / "docs").mkdir()
    page_on_the_gate = (ROOT / "docs" / "gate.md").read_text("utf-8")
    (tmp_path / "docs" / "gate.md").write_text(page_on_the_gate)
    (tmp_path / "questions.txt").write_text("What does the gate decide?\nopen runs\n")

    def by_hashing(command: list[str]) -> list[str]:
        if "--embedder" in command:  # would be downloaded
            command = command[: command.index("--embedder")]
        if command[0] == "index":  # without loading a model
            command += ["--embedder", "hashing", "--quiet"]
        return command

    run_commands("retrieval", count=5, adapted=by_hashing)
    run_commands("embedders", count=1, adapted=by_hashing)

    rows = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [row["query"] for row in rows] == ["What does the gate decide?", "open runs"]
    shown = json.loads("".join(blocks("retrieval", "json")))
    assert rows[0].keys() == shown.keys()
    assert rows[0]["chunks"][0].keys() == shown["chunks"][0].keys()
    chunks = [Chunk(**chunk) for chunk in shown["chunks"]]
    assert dump_row(shown["query_id"], shown["query"], chunks, score_kind="fused_rank") == shown


def test_tables_name_every_chunker_embedder_and_setting() -> None:
    page = PAGES["retrieval"] + PAGES["embedders"]

    names: set[str] = set()
    for cell in first_cells(page):
        for code in re.findall(r"`([^`]+)`", cell):
            name, _, _ = code.partition(":")
            names.add(name)
    assert set(CHUNKERS.builtin) | set(EMBEDDERS.builtin) <= names

    for setting in RetrievalSettings.__dataclass_fields__:
        option = f"--{setting.replace('_', '-')}"
        variable = f"RAGBENCH_{setting.upper()}"
        assert option in page or variable in page, setting


# --- pipelines


def test_the_commands_and_the_code_of_pipelines_run(
    pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_commands("pipeline", count=2)
    assert "pipeline         rag.yaml is in order" in capsys.readouterr().out

    (code,) = blocks("pipeline", "python")
    run_code("pipeline", code)
    assert capsys.readouterr().out == "27\n"


def test_every_stage_can_be_a_class_of_the_users(pages: Path) -> None:
    with load_pipeline("own.yaml").open() as opened:
        rag = opened.rag
        assert isinstance(rag, PipelineRAG)
        assert type(rag).__name__ == "Polite"
        assert opened.staged() == (rag, None)

        retrieval = rag.retrieve_with_metadata("Please: How much PTO is there?")
        batch = rag.batch_retrieve(["Please: How much PTO is there?"])
        assert batch == [list(retrieval.contexts)]
        metadata = retrieval.metadata
        assert metadata is not None
        query = {"text": "How much vacation is there?", "kind": "query", "weight": 1.0}
        assert metadata["pre_retrieve"]["queries"] == [query]
        assert metadata["post_retrieve"]["steps"][0]["operator"] == "shortest"
        assert rag.generate("?", ["27 days."]) == ">> 27 days."

        # A user's source is part of what results depend on, by a digest of 16 letters.
        identity: Any = rag.stage_identity("retrieve")
        assert "Polite" in json.dumps(identity["class"])
        transform = identity["pre_retrieve"]["transforms"][0]
        assert len(transform["sources"]["stages:Glossary"]) == 16
        assert rag.post_retrieval is not None
        operator = rag.post_retrieval.identity["operators"][0]
        assert len(operator["sources"]["stages:Shortest"]) == 16
        generation: Any = rag.stage_identity("generate")
        generator = generation["generator"]["adapts"][0]
        assert len(generator["sources"]["stages:Quote"]) == 16


def model_answer(payload: dict[str, Any]) -> str:
    """What a language model may answer to the prompts of pre-retrieval and generation."""
    task, data = (message["content"] for message in payload["messages"])
    if '"queries"' in task:
        return json.dumps({"queries": ["days of leave", "vacation per year"]})
    contexts = json.loads(data)["contexts"]
    assert len(contexts) <= 5
    return str(contexts[0]["text"])


def table_of_cases(pipeline: Pipeline) -> bytes:
    """What the pipeline's evaluation writes of each case, none of whose stages has failed."""
    with pipeline.open() as opened:
        rag, stage = opened.staged()
        report = ragbench.evaluate(
            ragbench.read_cases("data"),
            rag,
            post_retrieval=stage,
            settings=ragbench.EvalSettings(top_k=None),
            out=Path("run"),
        )
        failures = {stage.stage: stage.failed for stage in report.stages}
        assert failures == {"retrieve": 0, "post_retrieve": 0, "generate": 0}
        write_reports(report, Path("run"))
        return Path("run/cases.csv").read_bytes()


@pytest.mark.extra("llm")
def test_the_full_example_works_against_a_server(pages: Path) -> None:
    with FaultServer(say=model_answer) as server:
        text = FILES["full.yaml"].replace("http://localhost:8000/v1", server.url)
        (pages / "full.yaml").write_text(text, "utf-8")
        pipeline = load_pipeline("full.yaml")
        assert pipeline.orchestration.concurrency == 4

        table = table_of_cases(pipeline)
        assert table_of_cases(pipeline) == table
        calls = list(server.calls)

    embedded: list[str] = []
    for call in calls:
        embedded.extend(call.payload.get("input", ()))
    # The second run asked for nothing again, and a stored index is not embedded again.
    assert len(calls) > 0
    for line in Path("data/corpus.jsonl").read_text("utf-8").splitlines():
        assert embedded.count(json.loads(line)["text"]) == 1
    assert Path("index").is_dir()


def test_the_schema_knows_every_file() -> None:
    schema = pipeline_schema()
    Draft202012Validator.check_schema(schema)

    texts = [text for name, text in FILES.items() if name.endswith(".yaml")]
    assert len(texts) == 3
    for text in texts:
        Draft202012Validator(schema).validate(yaml.safe_load(text))


def test_the_tables_name_every_setting_and_default() -> None:
    # The first cell of a row to its second; rows of one name together.
    rows: dict[str, str] = {}
    for name, cell in re.findall(r"^\| `([^|]*?)` \| (.*?) \|", PIPELINE, re.M):
        rows[name] = rows.get(name, "") + cell

    for name in QUERY_TRANSFORMS.builtin:
        check_row(QUERY_TRANSFORMS.load(name), rows[name])
    for name in GENERATIONS.builtin:
        check_row(GENERATIONS.load(name), rows[name])
    for name in RETRIEVALS.builtin:
        cells = [cell for names, cell in rows.items() if name in names]
        check_row(RETRIEVALS.load(name), "".join(cells) + "`top_k` (5)")


def check_row(target: Any, row: str) -> None:
    """A row names every setting of its stage, and each default that is a number or a choice."""
    for field in setting_fields(target).values():
        if field.metadata.get("given"):
            continue
        assert f"`{field.name}`" in row, f"{target.__name__}.{field.name} is not in the page"
        default = field.default
        if isinstance(default, bool):
            assert str(default).lower() in row, f"{target.__name__}.{field.name} is {default}"
        elif isinstance(default, (int, float)):
            spelled = f"`{field.name}` ({default:g})"
            assert spelled in row, f"{target.__name__}.{field.name} is {default}"
