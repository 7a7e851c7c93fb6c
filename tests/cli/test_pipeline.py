"""``--pipeline`` and what goes with it, called as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.cli.runs import Ragbench, cases_of, report, schema
from tests.llm_server import FaultServer

RUN = ("eval", "office", "-m", "recall@3,token_f1", "-q")


def save(text: str, name: str = "rag.yaml") -> None:
    Path(name).write_text(text, "utf-8")


def test_a_pipeline_over_the_datasets_own_corpus_is_the_baseline(ragbench: Ragbench) -> None:
    save("retrieval: bm25")
    assert ragbench(*RUN, "--pipeline", "rag.yaml", "--out", "a").code == 0
    assert ragbench(*RUN, "--out", "b").code == 0
    assert cases_of("a") == cases_of("b")
    assert report("a")["summaries"] == report("b")["summaries"]


def test_post_retrieval_of_a_pipeline_is_a_stage_of_the_run(ragbench: Ragbench) -> None:
    save("name: mine\npost_retrieval: [{action: filter, type: top_k, k: 1}]")
    ragbench("eval", "office", "--pipeline", "rag.yaml", "--out", "run").ok(
        "mine on office: 3 cases", "post_retrieve  3 done"
    )


def said(payload: dict[str, Any]) -> str:
    contexts = json.loads(payload["messages"][-1]["content"])["contexts"]
    return str(contexts[0]["text"])


@pytest.mark.extra("llm")
def test_a_cap_holds_for_a_pipelines_model_and_a_higher_one_goes_on(ragbench: Ragbench) -> None:
    arguments = ("eval", "office", "--pipeline", "rag.yaml", "--out", "run", "-m", "token_f1")
    with FaultServer(say=lambda payload: "word " * 500) as server:
        save(
            f"llm: {{model: m, base_url: '{server.url}', max_tokens: 1000, price_input: 0, "
            "price_output: 1000}\ngeneration: chat"
        )
        first = ragbench(*arguments, "--max-cost", "0.6")  # one answer takes most of it
        asked = len(server.calls)
        ragbench(*arguments, "--max-cost", "1000").ok()
    assert first.code == 2
    assert "the cost is capped at 0.6" in first.err
    assert 0 < asked < len(server.calls)
    assert all(case["stages"]["generate"] == "measured" for case in cases_of())


@pytest.mark.extra("llm")
def test_what_a_pipelines_model_took_is_reported_and_kept(ragbench: Ragbench) -> None:
    with FaultServer(say=said) as server:
        save(
            f"llm: {{model: m, base_url: '{server.url}', price_input: 1, price_output: 2}}\n"
            "generation: chat\norchestration: {concurrency: 2}"
        )
        arguments = ("eval", "office", "--pipeline", "rag.yaml", "--out", "run", "-m", "token_f1")
        ragbench(*arguments).ok()
        asked = len(server.calls)
        assert ragbench(*arguments, "--fresh").code == 0
        assert len(server.calls) == asked  # kept answers are not paid again
    first, second = Path("run/receipts.jsonl").read_text("utf-8").splitlines()
    (line,) = json.loads(first)["lines"]
    assert (line["purpose"], line["model"], line["calls"]) == ("generation", "m", asked)
    assert float(line["cost"]) > 0
    assert json.loads(second)["lines"][0]["cached"] == asked


def test_the_model_of_ragbench_yaml_serves_a_pipeline(ragbench: Ragbench) -> None:
    save("generation: chat")
    done = ragbench("doctor", "--pipeline", "rag.yaml").refused()
    assert "chat needs a language model" in " ".join(done.out.split())
    save("llm: {model: m, base_url: 'http://localhost:1/v1'}", "ragbench.yaml")
    done = ragbench("doctor", "--pipeline", "rag.yaml").ok("rag.yaml is in order")
    assert "not asked: it names no corpus" in " ".join(done.out.split())


def test_doctor_asks_a_pipeline_that_names_its_corpus(ragbench: Ragbench) -> None:
    (corpus,) = Path("office").glob("corpus.*")
    save(f"indexing: {{corpus: {corpus}}}")
    arguments = ("--pipeline", "rag.yaml", "--question", "How many days of paid leave are there?")
    assert "rag generates 27" in " ".join(ragbench("doctor", *arguments).ok().out.split())
    save("indexing: {corpus: nothing}\nname: [x]")
    done = ragbench("doctor", "--pipeline", "rag.yaml", "--json").refused()
    failed = [check["detail"] for check in json.loads(done.out) if check["state"] == "failed"]
    assert [detail.partition(":")[2][:1] for detail in failed] == ["1", "2"]


def test_init_writes_a_pipeline_that_runs(ragbench: Ragbench) -> None:
    assert ragbench("init", "project", "--with", "nothing").code == 2
    done = ragbench("init", "project", "--with", "pipeline").ok("project/pipeline.yaml")
    assert "ragbench eval data --pipeline pipeline.yaml" in done.err
    ragbench("eval", "project/data", "--pipeline", "project/pipeline.yaml", "--out", "run").ok(
        "my pipeline on data"
    )


def test_show_lists_the_stages_and_prints_the_schema(ragbench: Ragbench) -> None:
    done = ragbench("show", "pipeline").ok()
    for name in ("normalise", "hyde", "bm25", "hybrid", "chat", "sequential", "corpus"):
        assert f"  {name} " in done.out
    validator = Draft202012Validator(json.loads(ragbench("show", "pipeline", "--json").out))
    assert not list(validator.iter_errors({"retrieval": {"type": "bm25", "top_k": 3}}))
    for wrong in ({"retreival": "bm25"}, {"retrieval": {"type": "bm25", "top_k": "many"}}):
        assert list(validator.iter_errors(wrong)), wrong
    ragbench("init", "project", "--with", "pipeline")
    text = Path("project/pipeline.yaml").read_text("utf-8")
    assert not list(validator.iter_errors(yaml.safe_load(text)))


def test_a_report_says_where_the_gold_was_and_asks_once(ragbench: Ragbench) -> None:
    save("indexing: {embedder: 'hashing:64', chunker: whole}\nretrieval: {type: sparse, top_k: 1}")
    assert ragbench(*RUN, "--pipeline", "rag.yaml", "--out", "run").code == 0
    first = report("run")
    assert sum(first["gold"].values()) == sum("gold" in case for case in cases_of())
    assert first["gold"]["retrieved"] > 0
    Draft202012Validator(schema("report")).validate(first)
    assert "## Where the gold was" in Path("run/report.md").read_text("utf-8")
    ragbench(
        "eval", "office", "-m", "recall@3,token_f1", "--pipeline", "rag.yaml", "--out", "run"
    ).ok()
    assert report("run")["gold"] == first["gold"]
    (located,) = [stage for stage in report("run")["stages"] if stage["stage"] == "locate"]
    assert located["reused"] == located["measured"] > 0
