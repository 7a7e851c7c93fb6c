"""``ragbench eval --post-retrieval`` and ``ragbench ablate``, called as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.runs import Ragbench

STAGE = "operators:\n  - {action: filter, type: top_k, k: 1}\n"
VARIANTS = """variants:
  - name: as retrieved
    operators: [{action: filter, type: top_k, k: 3}]
  - name: first [bold]one[/nothing]
    operators: [{action: rerank, type: lexical, top_k: 1}]
"""
RUN = ("eval", "office", "--top-k", "3", "--out", "run", "-m", "recall@3,precision@3")


def save(name: str, text: str) -> None:
    Path(name).write_text(text, "utf-8")


def test_a_run_with_a_stage_reports_it(ragbench: Ragbench) -> None:
    save("stage.yaml", STAGE)
    ragbench(*RUN, "--post-retrieval", "stage.yaml").ok("post_retrieve  3 done")
    manifest = json.loads(Path("run/manifest.json").read_text("utf-8"))
    assert manifest["settings"]["post_retrieve"]["operators"][0]["k"] == 1
    assert "post_retrieve" in manifest["rag"]["stages"]
    assert r"- post\_retrieve: 3 done" in Path("run/report.md").read_text("utf-8")


def test_the_default_folder_is_one_of_its_own(ragbench: Ragbench) -> None:
    save("stage.yaml", STAGE)
    for arguments in ((), ("--post-retrieval", "stage.yaml"), ("--post-retrieval", "stage.yaml")):
        assert ragbench("eval", "office", "-q", *arguments).code == 0
    assert len([path for path in Path("reports").iterdir() if path.is_dir()]) == 2


def test_an_ablation_prints_each_metric_and_what_it_costs(ragbench: Ragbench) -> None:
    save("variants.yaml", VARIANTS)
    assert ragbench(*RUN).code == 0
    done = ragbench("ablate", "run", "--variants", "variants.yaml").ok()
    for expected in ("recall@3", "precision@3", "as retrieved", "cost per case", "tokens p95"):
        assert expected in done.out
    assert "first [bold]one[/nothing]" in done.out
    assert "baseline on office: 3 of 3 cases replayed" in done.out
    done = ragbench("ablate", "run", "--variants", "variants.yaml", "-m", "recall@3", "--json")
    found = json.loads(done.out)
    assert found["compared_with"] == "as retrieved"
    first, second = (variant["metrics"]["recall@3"] for variant in found["variants"])
    assert (first["score"], second["score"], second["difference"]) == (1.0, 1.0, 0.0)
    assert found["variants"][1]["chunks"] <= 1


READER = """from ragbench import GenerationResult, RAGInterface


class Reader(RAGInterface, families=("generation",)):
    def generate_with_metadata(self, query, contexts):
        if "dead" in self.config_name():
            raise ValueError("dead")
        usage = {"prompt_tokens": 1000 * len(contexts), "completion_tokens": 0}
        return GenerationResult(contexts[0], metadata={"usage": usage})

    def config_name(self):
        return "alive"


class Dead(Reader):
    def config_name(self):
        return "dead"
"""


def test_an_ablation_with_somebody_who_answers(ragbench: Ragbench) -> None:
    save("variants.yaml", VARIANTS)
    save("reader.py", READER)
    save("rag.yaml", "generation: extractive\n")
    assert ragbench(*RUN).code == 0
    asked = ("ablate", "run", "--variants", "variants.yaml")
    done = ragbench(
        *asked, "--rag", "reader.py:Reader", "--price", "2,0", "--md", "ablation.md"
    ).ok()
    for expected in ("end_to_end_f1", "answers of Reader", "USD / 1,000"):
        assert expected in done.out
    assert "## answers of Reader" in Path("ablation.md").read_text("utf-8")
    done = ragbench(*asked, "--pipeline", "rag.yaml", "--json")
    assert json.loads(done.out)["generator"] == "rag"
    done = ragbench(*asked, "--rag", "reader.py:Dead").refused("nothing was measured")
    for wrong, said in (
        (("--price", "1"), "--price needs --rag or --pipeline"),
        (("--rag", "reader.py:Reader", "--pipeline", "rag.yaml"), "give one of them"),
        (("--rag", "reader.py:Reader", "--price", "dear"), "--price must be a number"),
        (("--json", "--md", "-"), "both want standard output"),
    ):
        ragbench(*asked, *wrong).refused(said)


def test_an_ablation_that_cannot_be_made_says_why(ragbench: Ragbench) -> None:
    save("variants.yaml", VARIANTS)
    assert "not a run folder" in ragbench("ablate", "nowhere", "--variants", "variants.yaml").err
    assert ragbench(*RUN).code == 0
    done = ragbench("ablate", "run", "--variants", "variants.yaml", "-m", "token_f1").refused(
        "needs an answer"
    )
    done = ragbench("ablate", "run", "--variants", "variants.yaml", "--counter", "words")
    assert "unknown token counter 'words'" in done.err
