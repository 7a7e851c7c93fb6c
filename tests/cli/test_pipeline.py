"""``--pipeline`` and what goes with it, called as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert ragbench(*RUN, "--rag", "baseline", "--out", "b").code == 0
    assert cases_of("a") == cases_of("b")
    assert report("a")["summaries"] == report("b")["summaries"]


def test_post_retrieval_of_a_pipeline_is_a_stage_of_the_run(ragbench: Ragbench) -> None:
    save("name: mine\npost_retrieval: [{action: filter, type: top_k, k: 1}]")
    ragbench("eval", "office", "--pipeline", "rag.yaml", "--out", "run").ok(
        "mine on office: 3 cases", "post_retrieve  3 done"
    )


ASKED = ("eval", "office", "--pipeline", "rag.yaml", "--out", "run", "-m", "token_f1")


@pytest.mark.extra("llm")
def test_what_a_pipelines_model_took_is_capped_reported_and_kept(ragbench: Ragbench) -> None:
    with FaultServer(say=lambda payload: "word " * 500) as server:
        priced = "max_tokens: 1000, price_input: 0, price_output: 1000"
        save(f"llm: {{model: m, base_url: '{server.url}', {priced}}}\ngeneration: chat")
        # One answer takes most of it.
        ragbench(*ASKED, "--max-cost", "0.6").refused("the cost is capped at 0.6")
        first = len(server.calls)
        ragbench(*ASKED, "--max-cost", "1000").ok()
        asked = len(server.calls)
        ragbench(*ASKED, "--fresh").ok()
        assert 0 < first < asked == len(server.calls)  # kept answers are not paid again
    receipts = map(json.loads, Path("run/receipts.jsonl").read_text("utf-8").splitlines())
    entries = [receipt["lines"][0] for receipt in receipts]
    assert {(one["purpose"], one["model"]) for one in entries} == {("generation", "m")}
    assert (entries[1]["calls"], entries[2]["cached"]) == (asked - first, asked)
    assert float(entries[1]["cost"]) > 0
    assert all(case["stages"]["generate"] == "measured" for case in cases_of())


def test_the_model_of_ragbench_yaml_serves_a_pipeline(ragbench: Ragbench) -> None:
    save("generation: chat")
    doctor = ("doctor", "--pipeline", "rag.yaml")
    assert "chat needs a language model" in ragbench(*doctor).refused().flat
    save("llm: {model: m, base_url: 'http://localhost:1/v1'}", "ragbench.yaml")
    assert "not asked: it names no corpus" in ragbench(*doctor).ok("rag.yaml is in order").flat


def test_doctor_asks_a_pipeline_that_names_its_corpus(ragbench: Ragbench) -> None:
    (corpus,) = Path("office").glob("corpus.*")
    save(f"indexing: {{corpus: {corpus}}}")
    arguments = ("--pipeline", "rag.yaml", "--question", "How many days of paid leave are there?")
    assert "rag generates 27" in ragbench("doctor", *arguments).ok().flat
    save("indexing: {corpus: nothing}\nname: [x]")
    done = ragbench("doctor", "--pipeline", "rag.yaml", "--json").refused()
    failed = [check["detail"] for check in done.json if check["state"] == "failed"]
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
    names = "normalise hyde bm25 hybrid chat sequential corpus"
    assert all(f"  {name} " in done.out for name in names.split())
    validator = Draft202012Validator(ragbench("show", "pipeline", "--json").json)
    assert not list(validator.iter_errors({"retrieval": {"type": "bm25", "top_k": 3}}))
    for wrong in ({"retreival": "bm25"}, {"retrieval": {"type": "bm25", "top_k": "many"}}):
        assert list(validator.iter_errors(wrong)), wrong
    ragbench("init", "project", "--with", "pipeline")
    written = yaml.safe_load(Path("project/pipeline.yaml").read_text("utf-8"))
    assert not list(validator.iter_errors(written))


def test_a_report_says_where_the_gold_was_and_asks_once(ragbench: Ragbench) -> None:
    save("indexing: {embedder: 'hashing:64', chunker: whole}\nretrieval: {type: sparse, top_k: 1}")
    assert ragbench(*RUN, "--pipeline", "rag.yaml", "--out", "run").code == 0
    first = report("run")
    assert sum(first["gold"].values()) == sum("gold" in case for case in cases_of())
    assert first["gold"]["retrieved"] > 0
    Draft202012Validator(schema("report")).validate(first)
    assert "## Where the gold was" in Path("run/report.md").read_text("utf-8")
    ragbench(*RUN[:-1], "--pipeline", "rag.yaml", "--out", "run").ok()
    assert report("run")["gold"] == first["gold"]
    (located,) = [stage for stage in report("run")["stages"] if stage["stage"] == "locate"]
    assert located["reused"] == located["measured"] > 0


# --- --post-retrieval and ablate

STAGE = "operators:\n  - {action: filter, type: top_k, k: 1}\n"
VARIANTS = """variants:
  - name: as retrieved
    operators: [{action: filter, type: top_k, k: 3}]
  - name: first [bold]one[/nothing]
    operators: [{action: rerank, type: lexical, top_k: 1}]
"""
STORED = (
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
    ragbench(*STORED, "--post-retrieval", "stage.yaml").ok("post_retrieve  3 done")
    manifest = json.loads(Path("run/manifest.json").read_text("utf-8"))
    assert manifest["settings"]["post_retrieve"]["operators"][0]["k"] == 1
    assert "post_retrieve" in manifest["rag"]["stages"]
    assert r"- post\_retrieve: 3 done" in Path("run/report.md").read_text("utf-8")


def test_the_default_folder_is_one_of_its_own(ragbench: Ragbench) -> None:
    save(STAGE, "stage.yaml")
    for arguments in ((), ("--post-retrieval", "stage.yaml"), ("--post-retrieval", "stage.yaml")):
        assert ragbench("eval", "office", "--rag", "baseline", "-q", *arguments).code == 0
    assert len([path for path in Path("reports").iterdir() if path.is_dir()]) == 2


def test_an_ablation_prints_each_metric_and_what_it_costs(ragbench: Ragbench) -> None:
    save(VARIANTS, "variants.yaml")
    assert ragbench(*STORED).code == 0
    wanted = ("ablate", "run", "--variants", "variants.yaml")
    shown = ("recall@3", "precision@3", "as retrieved", "first [bold]one[/nothing]")
    ragbench(*wanted).ok(*shown, "cost per case", "tokens p95", "office: 3 of 3 cases replayed")
    found = ragbench(*wanted, "-m", "recall@3", "--json").json
    assert found["compared_with"] == "as retrieved"
    first, second = (variant["metrics"]["recall@3"] for variant in found["variants"])
    assert (first["score"], second["score"], second["difference"]) == (1.0, 1.0, 0.0)
    assert found["variants"][1]["chunks"] <= 1


READER = """from ragbench import GenerationResult, RAGInterface


class Reader(RAGInterface, families=("generation",)):
    def generate_with_metadata(self, query, contexts):
        usage = {"prompt_tokens": 1000 * len(contexts), "completion_tokens": 0}
        return GenerationResult(contexts[0], metadata={"usage": usage})


class Dead(Reader):
    def generate_with_metadata(self, query, contexts):
        raise ValueError("dead")
"""


def test_an_ablation_with_somebody_who_answers(ragbench: Ragbench) -> None:
    save(VARIANTS, "variants.yaml")
    save(READER, "reader.py")
    save("generation: extractive\n", "rag.yaml")
    assert ragbench(*STORED).code == 0
    asked = ("ablate", "run", "--variants", "variants.yaml")
    priced = ("--rag", "reader.py:Reader", "--price", "2,0", "--md", "ablation.md")
    ragbench(*asked, *priced).ok("end_to_end_f1", "answers of Reader", "USD / 1,000")
    assert "## answers of Reader" in Path("ablation.md").read_text("utf-8")
    assert ragbench(*asked, "--pipeline", "rag.yaml", "--json").json["generator"] == "rag"
    for wrong, said in (
        (("--rag", "reader.py:Dead"), "nothing was measured"),
        (("-m", "token_f1"), "needs an answer, and no RAG is called"),
        (("--counter", "words"), "unknown token counter 'words'"),
        (("--price", "1"), "--price needs --rag or --pipeline"),
        (("--rag", "reader.py:Reader", "--pipeline", "rag.yaml"), "give one of them"),
        (("--rag", "reader.py:Reader", "--price", "dear"), "--price must be a number"),
        (("--json", "--md", "-"), "both want standard output"),
    ):
        ragbench(*asked, *wrong).refused(said)
    ragbench("ablate", "nowhere", *asked[2:]).refused("not a run folder")
