"""``--pipeline`` and what goes with it, called as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.cli.runs import Ragbench, cases_of, read_lines, report, row_where, schema
from tests.llm_server import FaultServer

RUN = ("eval", "office", "-m", "recall@3,token_f1", "-q")


def save(text: str, name: str = "rag.yaml") -> None:
    Path(name).write_text(text, "utf-8")


def test_a_pipeline_over_the_datasets_own_corpus_is_the_baseline(ragbench: Ragbench) -> None:
    save("retrieval: bm25")

    ragbench(*RUN, "--pipeline", "rag.yaml", "--out", "by-pipeline").ok()
    ragbench(*RUN, "--rag", "baseline", "--out", "by-baseline").ok()

    assert cases_of("by-pipeline") == cases_of("by-baseline")
    assert report("by-pipeline")["summaries"] == report("by-baseline")["summaries"]


def test_post_retrieval_of_a_pipeline_is_a_stage_of_the_run(ragbench: Ragbench) -> None:
    save("name: mine\npost_retrieval: [{action: filter, type: top_k, k: 1}]")

    done = ragbench("eval", "office", "--pipeline", "rag.yaml", "--out", "run")

    done.ok("mine on office: 3 cases", "post_retrieve  3 done")


@pytest.mark.extra("llm")
def test_what_a_pipelines_model_took_is_capped_reported_and_stored(ragbench: Ragbench) -> None:
    """An answer of 500 words takes most of the cap of 0.6: of three cases not all are answered."""
    evaluate = ("eval", "office", "--pipeline", "rag.yaml", "--out", "run", "-m", "token_f1")
    with FaultServer(say=lambda payload: "word " * 500) as server:
        price = "max_tokens: 1000, price_input: 0, price_output: 1000"
        save(f"llm: {{model: m, base_url: '{server.url}', {price}}}\ngeneration: chat")

        ragbench(*evaluate, "--max-cost", "0.6").refused("the cost is capped at 0.6")
        calls_until_the_cap = len(server.calls)
        ragbench(*evaluate, "--max-cost", "1000").ok()
        calls_in_all = len(server.calls)
        ragbench(*evaluate, "--fresh").ok()
        calls_after_a_fresh_run = len(server.calls)

    assert 0 < calls_until_the_cap < calls_in_all
    # Stored answers are not paid again.
    assert calls_after_a_fresh_run == calls_in_all
    receipts = read_lines("run/receipts.jsonl")
    capped, continued, fresh = [receipt["lines"][0] for receipt in receipts]
    for line in (capped, continued, fresh):
        assert line["purpose"] == "generation"
        assert line["model"] == "m"
    assert continued["calls"] == calls_in_all - calls_until_the_cap
    assert float(continued["cost"]) > 0
    assert fresh["cached"] == calls_in_all
    assert [case["stages"]["generate"] for case in cases_of()] == ["measured"] * 3


# --- doctor, init and show


def test_a_pipeline_that_chats_needs_a_model(ragbench: Ragbench) -> None:
    save("generation: chat")

    done = ragbench("doctor", "--pipeline", "rag.yaml").refused()

    assert "chat needs a language model" in done.flat


def test_the_model_of_ragbench_yaml_serves_a_pipeline(ragbench: Ragbench) -> None:
    save("generation: chat")
    save("llm: {model: m, base_url: 'http://localhost:1/v1'}", "ragbench.yaml")

    done = ragbench("doctor", "--pipeline", "rag.yaml").ok("rag.yaml is in order")

    assert "not asked: it names no corpus" in done.flat


def test_doctor_asks_a_pipeline_that_names_its_corpus(ragbench: Ragbench) -> None:
    save("indexing: {corpus: office/corpus.jsonl}")
    question = "How many days of paid leave are there?"

    done = ragbench("doctor", "--pipeline", "rag.yaml", "--question", question).ok()

    assert "rag generates 27" in done.flat


def test_doctor_names_the_line_of_each_fault_of_a_pipeline(ragbench: Ragbench) -> None:
    save("indexing: {corpus: nothing}\nname: [x]")

    done = ragbench("doctor", "--pipeline", "rag.yaml", "--json").refused()

    fault_1, fault_2 = [check["detail"] for check in done.json if check["state"] == "failed"]
    assert fault_1.startswith("rag.yaml:1")
    assert fault_2.startswith("rag.yaml:2")


def test_init_writes_a_pipeline_that_runs(ragbench: Ragbench) -> None:
    done = ragbench("init", "project", "--with", "pipeline").ok("project/pipeline.yaml")
    done.told("ragbench eval data --pipeline pipeline.yaml")

    run = ragbench("eval", "project/data", "--pipeline", "project/pipeline.yaml", "--out", "run")

    run.ok("my pipeline on data")


def test_init_writes_no_project_with_an_unknown_part(ragbench: Ragbench) -> None:
    ragbench("init", "project", "--with", "nothing").refused()


@pytest.mark.parametrize(
    "name", ["normalise", "hyde", "bm25", "hybrid", "chat", "sequential", "corpus"]
)
def test_show_lists_the_stages_of_a_pipeline(ragbench: Ragbench, name: str) -> None:
    ragbench("show", "pipeline").ok(f"  {name} ")


@pytest.fixture
def validator(ragbench: Ragbench) -> Draft202012Validator:
    """By the schema of a pipeline that is printed."""
    return Draft202012Validator(ragbench("show", "pipeline", "--json").json)


@pytest.mark.parametrize(
    ("pipeline", "is_valid"),
    [
        ({"retrieval": {"type": "bm25", "top_k": 3}}, True),
        ({"retreival": "bm25"}, False),
        ({"retrieval": {"type": "bm25", "top_k": "many"}}, False),
    ],
    ids=["in order", "a key misspelt", "a word for a number"],
)
def test_the_printed_schema_tells_a_pipeline_from_what_is_none(
    validator: Draft202012Validator, pipeline: Any, is_valid: bool
) -> None:
    assert validator.is_valid(pipeline) is is_valid


def test_the_pipeline_that_init_writes_fits_the_printed_schema(
    ragbench: Ragbench, validator: Draft202012Validator
) -> None:
    ragbench("init", "project", "--with", "pipeline").ok()

    written = yaml.safe_load(Path("project/pipeline.yaml").read_text("utf-8"))
    assert list(validator.iter_errors(written)) == []


# --- where the gold was


def test_a_report_says_where_the_gold_was_and_looks_for_it_once(ragbench: Ragbench) -> None:
    save("indexing: {embedder: 'hashing:64', chunker: whole}\nretrieval: {type: sparse, top_k: 1}")
    evaluate = (*RUN, "--pipeline", "rag.yaml", "--out", "run")

    ragbench(*evaluate).ok()
    first_report = report("run")
    ragbench(*evaluate).ok()
    second_report = report("run")

    Draft202012Validator(schema("report")).validate(first_report)
    assert first_report["gold"]["retrieved"] > 0
    cases_with_gold = [case for case in cases_of() if "gold" in case]
    assert sum(first_report["gold"].values()) == len(cases_with_gold)
    assert "## Where the gold was" in Path("run/report.md").read_text("utf-8")
    assert second_report["gold"] == first_report["gold"]
    locating = row_where(second_report["stages"], stage="locate")
    assert locating["measured"] > 0
    assert locating["reused"] == locating["measured"]


# --- --post-retrieval

STAGE = "operators:\n  - {action: filter, type: top_k, k: 1}\n"
TOP_THREE = (
    "eval",
    "office",
    "--rag",
    "baseline",
    "--top-k",
    "3",
    "--out",
    "run",
    "-m",
    "recall@3,precision@3",
)


def test_a_run_with_a_stage_reports_it(ragbench: Ragbench) -> None:
    save(STAGE, "stage.yaml")

    ragbench(*TOP_THREE, "--post-retrieval", "stage.yaml").ok("post_retrieve  3 done")

    manifest = json.loads(Path("run/manifest.json").read_text("utf-8"))
    assert manifest["settings"]["post_retrieve"]["operators"][0]["k"] == 1
    assert "post_retrieve" in manifest["rag"]["stages"]
    assert r"- post\_retrieve: 3 done" in Path("run/report.md").read_text("utf-8")


def test_a_run_with_a_stage_has_a_folder_of_its_own_by_default(ragbench: Ragbench) -> None:
    save(STAGE, "stage.yaml")
    without_stage = ("eval", "office", "--rag", "baseline", "-q")
    with_stage = (*without_stage, "--post-retrieval", "stage.yaml")

    ragbench(*without_stage).ok()
    ragbench(*with_stage).ok()
    ragbench(*with_stage).ok()

    folders = [path for path in Path("reports").iterdir() if path.is_dir()]
    assert len(folders) == 2


# --- ablate

VARIANTS = """variants:
  - name: as retrieved
    operators: [{action: filter, type: top_k, k: 3}]
  - name: first [bold]one[/nothing]
    operators: [{action: rerank, type: lexical, top_k: 1}]
"""
READER = """from ragbench import GenerationResult, RAGInterface


class Reader(RAGInterface, families=("generation",)):
    def generate_with_metadata(self, query, contexts):
        usage = {"prompt_tokens": 1000 * len(contexts), "completion_tokens": 0}
        return GenerationResult(contexts[0], metadata={"usage": usage})


class Dead(Reader):
    def generate_with_metadata(self, query, contexts):
        raise ValueError("dead")
"""
ABLATE = ("ablate", "run", "--variants", "variants.yaml")


@pytest.fixture
def _run_with_variants(ragbench: Ragbench) -> None:
    """A run of three cases, two variants of what it retrieved, and somebody who can answer."""
    save(VARIANTS, "variants.yaml")
    save(READER, "reader.py")
    save("generation: extractive\n", "rag.yaml")
    ragbench(*TOP_THREE).ok()


@pytest.mark.usefixtures("_run_with_variants")
def test_an_ablation_prints_each_metric_and_what_it_costs(ragbench: Ragbench) -> None:
    done = ragbench(*ABLATE)

    done.ok("recall@3", "precision@3", "cost per case", "tokens p95")
    done.ok("as retrieved", "first [bold]one[/nothing]")
    done.ok("office: 3 of 3 cases replayed")


@pytest.mark.usefixtures("_run_with_variants")
def test_an_ablation_compares_each_variant_with_the_first(ragbench: Ragbench) -> None:
    ablation = ragbench(*ABLATE, "-m", "recall@3", "--json").json

    assert ablation["compared_with"] == "as retrieved"
    as_retrieved, best_chunk = ablation["variants"]
    assert as_retrieved["metrics"]["recall@3"]["score"] == 1.0
    assert best_chunk["metrics"]["recall@3"]["score"] == 1.0
    assert best_chunk["metrics"]["recall@3"]["difference"] == 0.0
    assert best_chunk["chunks"] <= 1


@pytest.mark.usefixtures("_run_with_variants")
def test_an_ablation_with_a_rag_that_answers_has_scores_and_costs_of_answers(
    ragbench: Ragbench,
) -> None:
    done = ragbench(*ABLATE, "--rag", "reader.py:Reader", "--price", "2,0", "--md", "ablation.md")

    done.ok("end_to_end_f1", "answers of Reader", "USD / 1,000")
    assert "## answers of Reader" in Path("ablation.md").read_text("utf-8")


@pytest.mark.usefixtures("_run_with_variants")
def test_a_pipeline_may_answer_in_an_ablation(ragbench: Ragbench) -> None:
    done = ragbench(*ABLATE, "--pipeline", "rag.yaml", "--json").ok()

    assert done.json["generator"] == "rag"


@pytest.mark.usefixtures("_run_with_variants")
def test_an_ablation_that_cannot_be_made_is_refused(ragbench: Ragbench) -> None:
    """In one test, as they all refuse the same run."""
    ragbench(*ABLATE, "--rag", "reader.py:Dead").refused("nothing was measured")
    ragbench(*ABLATE, "-m", "token_f1").refused("needs an answer, and no RAG is called")
    ragbench(*ABLATE, "--counter", "words").refused("unknown token counter 'words'")
    ragbench(*ABLATE, "--price", "1").refused("--price needs --rag or --pipeline")
    both_answer = ("--rag", "reader.py:Reader", "--pipeline", "rag.yaml")
    ragbench(*ABLATE, *both_answer).refused("give one of them")
    price = ("--price", "dear")
    ragbench(*ABLATE, "--rag", "reader.py:Reader", *price).refused("--price must be a number")
    ragbench(*ABLATE, "--json", "--md", "-").refused("both want standard output")


def test_an_ablation_of_no_run_is_refused(ragbench: Ragbench) -> None:
    save(VARIANTS, "variants.yaml")

    done = ragbench("ablate", "nowhere", "--variants", "variants.yaml")

    done.refused("not a run folder")
