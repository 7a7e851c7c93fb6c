"""A package that a run needs is imported before the RAG, or a model, is asked anything.

Each test hides a package, or breaks it, and counts what was asked: nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.cli.runs import Ragbench
from tests.llm_server import FaultServer

READER = Path(__file__).parents[2] / "ragbench" / "validators" / "reader"
PLAIN = ("--rag", "rags.py:Plain")
OPERATORS = (*PLAIN, "--post-retrieval", "operators.yaml")


class Kind(NamedTuple):
    """Something that a run needs a package for."""

    package: str
    extra: str
    options: tuple[str, ...]
    file: tuple[str, str] = ("", "")
    """A file that the options name, and its text."""


def operators(text: str) -> tuple[str, str]:
    return ("operators.yaml", f"operators:\n  - {text}\n")


def pipeline(**sections: str) -> tuple[str, str]:
    lines = [f"{name}: {text}" for name, text in sections.items()]
    return ("rag.yaml", "\n".join(lines))


KINDS: Mapping[str, Kind] = {
    "rouge": Kind("rouge_score", "text", (*PLAIN, "-m", "rouge")),
    "bleu": Kind("sacrebleu", "text", (*PLAIN, "-m", "token_f1,bleu")),
    "ragas": Kind("ragas", "ragas", (*PLAIN, "-m", "ragas:exact_match")),
    "ragas with bleu": Kind("sacrebleu", "text", (*PLAIN, "-m", "ragas:bleu")),
    "ragas judge": Kind("ragas", "ragas", (*PLAIN, "-m", "ragas:faithfulness")),
    "ragas judge's client": Kind("openai", "llm", (*PLAIN, "-m", "ragas:faithfulness")),
    "judge": Kind("openai", "llm", (*PLAIN, "-m", "support")),
    "judge's transport": Kind("httpx", "llm", (*PLAIN, "-m", "support")),
    "judge's schemas": Kind("pydantic", "llm", (*PLAIN, "-m", "support")),
    "local validator": Kind("onnxruntime", "onnx", (*PLAIN, "--validate", "local")),
    "its tokenizer": Kind("tokenizers", "onnx", (*PLAIN, "--validate", "local")),
    "validator's model": Kind("openai", "llm", (*PLAIN, "--validate", "llm")),
    "cascade's model": Kind("httpx", "llm", (*PLAIN, "--validate", "cascade")),
    "cross-encoder": Kind(
        "onnxruntime",
        "onnx",
        OPERATORS,
        operators(f"{{action: rerank, type: cross_encoder, model: '{READER}'}}"),
    ),
    "reranker in a fusion": Kind(
        "onnxruntime",
        "onnx",
        OPERATORS,
        operators(
            "{action: rerank, type: rrf, rerankers: [lexical, "
            f"{{name: cross_encoder, model: '{READER}'}}]}}"
        ),
    ),
    "reranking service": Kind(
        "httpx",
        "http",
        OPERATORS,
        operators("{action: rerank, type: http, url: 'http://127.0.0.1:9/rerank'}"),
    ),
    "reranker's model": Kind(
        "openai", "llm", OPERATORS, operators("{action: rerank, type: llm_pointwise}")
    ),
    "filter's model": Kind("openai", "llm", OPERATORS, operators("{action: filter, type: llm}")),
    "token counter": Kind(
        "tokenizers",
        "tokens",
        OPERATORS,
        operators(
            "{action: filter, type: token_budget, budget: 9, "
            f"counter: 'tokenizers:{READER / 'tokenizer.json'}'}}"
        ),
    ),
    "pipeline's generation": Kind(
        "httpx",
        "llm",
        ("--pipeline", "rag.yaml"),
        pipeline(generation="chat", pre_retrieval="[rewrite]"),
    ),
    "pipeline's embedder": Kind(
        "safetensors",
        "embeddings",
        ("--pipeline", "rag.yaml"),
        pipeline(
            indexing="{embedder: english}",
            retrieval="{type: dense}",
            generation="chat",
            pre_retrieval="[rewrite]",
        ),
    ),
    "pipeline's reranker": Kind(
        "onnxruntime",
        "onnx",
        ("--pipeline", "rag.yaml"),
        pipeline(
            generation="chat",
            post_retrieval=f"[{{action: rerank, type: cross_encoder, model: '{READER}'}}]",
        ),
    ),
    "metric of a pipeline": Kind(
        "rouge_score",
        "text",
        ("--pipeline", "rag.yaml", "-m", "rouge"),
        pipeline(generation="chat", pre_retrieval="[rewrite]"),
    ),
    "cluster": Kind("ray", "ray", (*PLAIN, "--engine", "ray")),
    "RAG behind an address": Kind("httpx", "http", ("--rag", "http://127.0.0.1:9")),
}


class Broken(MetaPathFinder):
    """Finds a package, and raises what a build for another NumPy raises."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self.package:
            raise ImportError("numpy.core.multiarray failed to import")
        return None


def forget(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a package and all of its modules out of those that are loaded."""
    for name in [*sys.modules]:
        if name == package or name.startswith(f"{package}."):
            monkeypatch.delitem(sys.modules, name)


def hide(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(package, monkeypatch)
    monkeypatch.setitem(sys.modules, package, None)


def break_(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(package, monkeypatch)
    monkeypatch.setattr(sys, "meta_path", [Broken(package), *sys.meta_path])


@pytest.mark.extra("all")
@pytest.mark.parametrize("spoil", [hide, break_])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_nothing_is_asked_where_a_package_is_missing_or_broken(
    kind: Kind, spoil: object, ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, text = kind.file
    if name:
        Path(name).write_text(text, "utf-8")

    with FaultServer() as server:
        monkeypatch.setenv("RAGBENCH_LLM_MODEL", "m")
        monkeypatch.setenv("RAGBENCH_LLM_BASE_URL", server.url)
        if spoil is hide:
            hide(kind.package, monkeypatch)
        else:
            break_(kind.package, monkeypatch)
        done = ragbench("eval", "office", *kind.options, "--out", "run")

    assert done.code == 2, done.err
    assert f"the extra '{kind.extra}'" in done.err
    assert f"'ragbench[{kind.extra}]'" in done.err
    assert ("numpy.core.multiarray failed to import" in done.err) is (spoil is break_)
    assert not Path("calls.log").exists()
    assert server.calls == []
    assert not Path("run").exists()


@pytest.mark.extra("all")
def test_variants_are_complete_before_the_first_is_tried(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ragbench("eval", "office", *PLAIN, "--out", "run").ok()
    Path("calls.log").unlink()
    variants = (
        "variants:\n"
        "  - {name: plain, operators: []}\n"
        "  - name: reranked\n"
        "    operators:\n"
        f"      - {{action: rerank, type: cross_encoder, model: '{READER}'}}\n"
    )
    Path("variants.yaml").write_text(variants, "utf-8")
    hide("onnxruntime", monkeypatch)
    trials: list[str] = []
    monkeypatch.setattr(
        "ragbench.stages.trial.Trial.take", lambda *_: trials.append("a window of cases")
    )

    done = ragbench("ablate", "run", "--variants", "variants.yaml")

    assert done.code == 2
    assert "pip install 'ragbench[onnx]'" in done.err
    assert trials == []
