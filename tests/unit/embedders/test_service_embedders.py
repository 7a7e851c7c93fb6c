"""Embedders of services, held to what the services document, and of packages, with real models.

The services are servers on this machine that refuse what the real ones document to refuse.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ragbench import Document, index, open_embedder, open_engine
from ragbench.embedders.http import HttpEmbedder
from ragbench.embedders.loaded import FastembedEmbedder
from ragbench.embedders.window import Windowed, too_long
from ragbench.errors import ConfigError, InterfaceError, MissingExtraError
from ragbench.io.http import HTTPRagError
from tests.unit.post.rerankers.models import model_folder
from tests.unit.post.rerankers.rerank_server import Answer, serving

KEYS = {"cohere": "COHERE_API_KEY", "voyage": "VOYAGE_API_KEY", "jina": "JINA_API_KEY"}
MODELS = {"cohere": "embed-v4.0", "voyage": "voyage-3.5", "jina": "jina-embeddings-v3"}
ROLES = {
    "cohere": ("input_type", "search_query", "search_document"),
    "voyage": ("input_type", "query", "document"),
    "jina": ("task", "retrieval.query", "retrieval.passage"),
}


CUT = {"cohere": ("truncate", "END"), "voyage": ("truncation", True), "jina": ("truncate", True)}
"""What has a service cut what is too long."""


def vector(text: str, dimension: int) -> list[float]:
    return [float(len(text)), *([1.0] * (dimension - 1))]


def cohere(payload: Mapping[str, Any]) -> Answer:
    """https://docs.cohere.com/reference/embed: v2."""
    if not {"model", "input_type", "texts", "embedding_types"} <= payload.keys():
        return 400, {"message": "invalid request: input_type, embedding_types must be set"}
    if len(payload["texts"]) > 96:
        return 400, {"message": "invalid request: at most 96 texts"}
    size = payload.get("output_dimension", 4)
    rows = [vector(text, size) for text in payload["texts"]]
    return 200, {"id": "1", "embeddings": {"float": rows}, "texts": payload["texts"]}


def listed(payload: Mapping[str, Any], size: str) -> Answer:
    """Voyage and Jina answer as OpenAI does; here last first, which ``index`` tells."""
    length = payload.get(size, 4)
    rows = [
        {"object": "embedding", "embedding": vector(text, length), "index": at}
        for at, text in enumerate(payload["input"])
    ]
    return 200, {"object": "list", "data": rows[::-1], "usage": {"total_tokens": 3}}


def voyage(payload: Mapping[str, Any]) -> Answer:
    """https://docs.voyageai.com/reference/embeddings-api."""
    if payload.get("input_type") not in ("query", "document", None) or len(payload["input"]) > 1000:
        return 400, {"detail": "Invalid value for input_type"}
    return listed(payload, "output_dimension")


def jina(payload: Mapping[str, Any]) -> Answer:
    """https://jina.ai/embeddings: v2 knows no tasks."""
    if "task" in payload and "-v2" in payload["model"]:
        return 422, {"detail": "task is not supported by this model"}
    return listed(payload, "dimensions")


SERVICES: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
    "cohere": cohere,
    "voyage": voyage,
    "jina": jina,
}


@pytest.mark.parametrize("shape", list(SERVICES))
def test_questions_and_passages_are_told_apart(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret-1234567890")
    field, question, passage = ROLES[shape]
    with serving(SERVICES[shape]) as served:
        embedder = open_embedder(
            f"{shape}:{MODELS[shape]}", url=served.url, api_key_env="A_KEY", dimensions=3
        )
        rows = embedder.embed_passages(["four", "seventh"])
        assert embedder.embed_queries(["a?"]).shape == (1, 3)
        embedder.close()
    # The texts' own order: 4 and 7 before the vectors were made as long as 1.
    assert (rows[:, 0] / rows[:, 1]).tolist() == pytest.approx([4, 7])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1])
    assert [one[field] for one in served.requests] == [passage, question]
    assert {one["authorization"] for one in served.headers} == {"Bearer secret-1234567890"}
    assert embedder.dimension == 3
    assert embedder.identity["query"] == question
    assert embedder.identity["passage"] == passage
    assert "secret" not in repr(embedder)


@pytest.mark.parametrize("shape", list(SERVICES))
def test_many_texts_go_in_requests_of_the_size_that_is_taken(shape: str) -> None:
    with serving(SERVICES[shape]) as served:
        embedder = open_embedder(f"{shape}:{MODELS[shape]}", url=served.url)
        rows = embedder.embed_passages([f"{'x' * at}." for at in range(200)])
        embedder.close()
    sizes = [len(one["texts" if shape == "cohere" else "input"]) for one in served.requests]
    assert sizes == ([96, 96, 8] if shape == "cohere" else [128, 72])
    assert (rows[:, 0] / rows[:, 1]).tolist() == pytest.approx(list(range(1, 201)))


def test_a_model_that_embeds_both_alike_is_told_no_task() -> None:
    with serving(jina) as served:
        embedder = open_embedder("jina:jina-embeddings-v2-base-en", url=served.url)
        assert embedder.embed_queries(["a?"]).shape == (1, 4)
    assert "task" not in served.requests[0]
    assert embedder.identity["query"] is None


@pytest.mark.parametrize("shape", list(SERVICES))
def test_the_key_is_the_services_own_and_goes_to_it_alone(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CO_API_KEY", raising=False)
    monkeypatch.delenv(KEYS[shape], raising=False)
    with pytest.raises(ConfigError, match=f"{KEYS[shape]} is not set"):
        open_embedder(f"{shape}:{MODELS[shape]}")
    monkeypatch.setenv(KEYS[shape], "secret-1234567890")
    open_embedder(f"{shape}:{MODELS[shape]}").close()
    with serving(SERVICES[shape]) as served:
        open_embedder(f"{shape}:{MODELS[shape]}", url=served.url).embed_queries(["a?"])
    assert "authorization" not in served.headers[0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}), "one vector for each of 2"),
        ((200, {"data": [{"index": 0, "embedding": [1.0]}] * 2}), "one vector for each of 2"),
        ((200, {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}),
         "one vector for each of 2"),
        ((200, {"data": [{"index": 0, "embedding": ["a"]}, {"index": 1, "embedding": ["b"]}]}),
         "one vector for each of 2"),
        ((200, {"embeddings": [[1.0], [2.0]]}), "one vector for each of 2"),
        ((200, []), "one vector for each of 2"),
        ((200, {"data": [{"index": at, "embedding": [0.0, 0.0]} for at in (0, 1)]}),
         "a vector of zeros for 'first'"),
        ((200, b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1]}]}'),
         "not finite"),
    ],
)  # fmt: skip
def test_what_is_no_vector_for_each_text_is_refused(answer: Answer, message: str) -> None:
    with serving(lambda _: answer) as served:
        embedder = HttpEmbedder(shape="voyage", model="voyage-3.5", url=served.url)
        with pytest.raises(InterfaceError, match=message):
            embedder.embed_passages(["first", "second"])


def test_another_length_than_asked_for_is_refused() -> None:
    with serving(lambda _: (200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]})) as served:
        embedder = HttpEmbedder(shape="voyage", model="voyage-3.5", url=served.url, dimensions=256)
        with pytest.raises(InterfaceError, match="2 dimensions, 256 were asked for"):
            embedder.embed_queries(["a?"])


def test_too_many_requests_are_waited_for_and_a_wrong_key_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_KEY", "secret-1234567890")
    waited: list[float] = []
    left = [429, 429]

    def limited(payload: Mapping[str, Any]) -> Answer:
        return (left.pop(), {"detail": "slow down"}) if left else voyage(payload)

    with serving(limited) as served:
        embedder = HttpEmbedder(
            shape="voyage", model="voyage-3.5", url=served.url, sleep=waited.append
        )
        assert embedder.embed_queries(["a?"]).shape == (1, 4)
    assert waited == [1.0, 2.0]
    refused = (401, {"detail": "the key secret-1234567890 is wrong"})
    with serving(lambda _: refused) as served:
        embedder = HttpEmbedder(
            shape="voyage", model="voyage-3.5", url=served.url, api_key_env="A_KEY"
        )
        with pytest.raises(HTTPRagError, match="answered 401") as raised:
            embedder.embed_queries(["a?"])
    assert "secret" not in str(raised.value)
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("voyage", {}, "needs a model: voyage:MODEL"),
        ("jina:m", {"colour": "red"}, "unknown setting 'colour'"),
        ("cohere:m", {"url": "http://x", "dimensions": 0}, "dimensions must be at least 1"),
        ("cohere:m", {"url": "http://x", "batch_size": 0}, "batch_size must be at least 1"),
        ("fastembed", {}, "needs a model: fastembed:owner/name"),
        ("sentence-transformers", {}, "needs a model: sentence-transformers:owner/name"),
    ],
)
def test_wrong_settings_are_named(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_embedder(name, **settings)


def test_a_collection_of_a_service_is_indexed_and_searched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Rent is due in May.", encoding="utf-8")
    with serving(voyage) as served:
        address = f"memory:{tmp_path}/store"
        settings = {"url": served.url}
        done = index(tmp_path / "a.txt", address, "kb", embedder="voyage:voyage-3.5",
                     embedder_settings=settings)  # fmt: skip
        assert done.written == 1
        with open_engine(address) as engine:
            assert [one.id for one in engine.search("kb", "rent", strategy="hybrid")] == ["a.txt"]
    roles = [one["input_type"] for one in served.requests]
    assert roles[-1] == "query"
    assert "document" in roles


@pytest.mark.parametrize("shape", list(SERVICES))
def test_that_a_service_cuts_texts_is_said_once(
    shape: str, recwarn: pytest.WarningsRecorder
) -> None:
    """Whole texts are asked for first: what refuses them for their length is asked to cut."""
    name, cut = CUT[shape]

    def strict(payload: Mapping[str, Any]) -> Answer:
        texts = payload.get("texts") or payload["input"]
        if payload[name] != cut and any(len(text) > 100 for text in texts):
            return 400, {"message": "too long"}
        return SERVICES[shape](payload)

    with serving(strict) as served:
        embedder = open_embedder(f"{shape}:{MODELS[shape]}", url=served.url)
        embedder.embed_passages(["short"])
        assert not [one for one in recwarn if "cuts them" in str(one.message)]
        rows = embedder.embed_passages(["short", "long " * 50])
        embedder.embed_passages(["long " * 50])
        embedder.close()
    assert rows.shape == (2, 4)
    assert [one[name] == cut for one in served.requests] == [False, False, True, True]
    said = [str(one.message) for one in recwarn if "cuts them" in str(one.message)]
    assert len(said) == 1
    assert said[0].startswith(f"'{MODELS[shape]}' reads less than some of the texts: {shape} cuts")


def test_a_refusal_that_is_not_for_the_length_is_told_as_it_was() -> None:
    def broken(payload: Mapping[str, Any]) -> Answer:
        return 400, {"message": f"no such model, {payload['truncate']}"}

    with serving(broken) as served:
        embedder = open_embedder("cohere:embed-v4.0", url=served.url)
        with pytest.raises(HTTPRagError, match="no such model, NONE"):
            embedder.embed_passages(["short"])
        embedder.close()


@pytest.mark.models
def test_chunks_that_fastembed_reads_only_in_part_are_counted(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Of "w " n times there are n tokens and two special ones: 510 fit into 512, 511 do not."""
    pytest.importorskip("fastembed")
    settings = {"path": str(fastembed_folder(tmp_path / "bge")), "passage_prefix": ""}
    embedder = open_embedder("fastembed:BAAI/bge-small-en-v1.5", **settings)
    assert isinstance(embedder, Windowed)
    texts = ["w " * count for count in (1, 510, 511, 2000)]
    assert (embedder.window, list(embedder.passage_tokens(texts))) == (512, [3, 512, 513, 2002])
    assert too_long(embedder, texts) == 2
    documents = [Document(id=str(at), text=text) for at, text in enumerate(texts)]
    done = index(
        documents, f"memory:{tmp_path}/store", "kb", chunker="whole",
        embedder="fastembed:BAAI/bge-small-en-v1.5", embedder_settings=settings,
    )  # fmt: skip
    assert (done.written, done.cut_short) == (4, 2)
    assert [str(one.message) for one in recwarn if "in no vector" in str(one.message)] == [
        "2 of the 4 chunks that were embedded are longer than the 512 tokens that "
        "fastembed:BAAI/bge-small-en-v1.5 reads: their ends are in no vector. Cut smaller chunks "
        "(--chunk-size), or search by words as well (hybrid): those read all of it"
    ]


def test_an_embedder_that_reads_everything_cuts_nothing() -> None:
    assert too_long(open_embedder("multilingual"), ["word " * 5000]) == 0


def fastembed_folder(folder: Path) -> Path:
    """The small model at hand, as fastembed keeps it."""
    source = model_folder("bge_small_en")
    shutil.copytree(source, folder)
    shutil.copy(source / "model.onnx", folder / "model_optimized.onnx")
    tokens = '{"cls_token":"[CLS]","mask_token":"[MASK]","pad_token":"[PAD]","sep_token":"[SEP]","unk_token":"[UNK]"}'  # noqa: E501
    (folder / "special_tokens_map.json").write_text(tokens, encoding="utf-8")
    return folder


@pytest.mark.models
def test_fastembed_ranks_as_the_same_model_by_onnx(tmp_path: Path) -> None:
    pytest.importorskip("fastembed")
    source, folder = model_folder("bge_small_en"), fastembed_folder(tmp_path / "bge")
    texts = ["Rent is due in May.", "Dogs bark at night.", "The gate decides what passes."]
    questions = ["When do I pay for the flat?", "Which animal is loud?"]
    ours = FastembedEmbedder(model="BAAI/bge-small-en-v1.5", path=str(folder), threads=1)
    theirs = open_embedder(
        f"onnx:{source}",
        pooling="cls",
        query_prefix="Represent this sentence for searching relevant passages: ",
        passage_prefix="",
    )
    assert ours.dimension == theirs.dimension == 384
    passages = ours.embed_passages(texts)
    asked = ours.embed_queries(questions)
    assert np.abs(passages - theirs.embed_passages(texts)).max() < 0.02
    assert np.abs(asked - theirs.embed_queries(questions)).max() < 0.02
    assert (asked @ passages.T).argmax(axis=1).tolist() == [0, 1]
    assert ours.embed_queries([]).shape == (0, 384)
    assert (
        ours.identity["query_prefix"] == "Represent this sentence for searching relevant passages: "
    )
    other = FastembedEmbedder(model="BAAI/bge-small-en-v1.5", path=str(folder), query_prefix="")
    assert other.identity != ours.identity


def test_a_model_that_fastembed_does_not_know_is_named() -> None:
    pytest.importorskip("fastembed")
    with pytest.raises(ConfigError, match="cannot load the model 'no/such'"):
        open_embedder("fastembed:no/such").embed_queries(["a?"])


class SentenceTransformer:
    """What `sentence_transformers.SentenceTransformer` documents of `encode` and `prompts`."""

    def __init__(
        self, name: str, *, device: str | None = None, revision: str | None = None
    ) -> None:
        if name == "no/such":
            raise OSError("no/such is not a\nlocal folder")
        self.prompts = {"query": "ask: ", "document": ""} if name == "own/prompts" else {}
        self.max_seq_length = float("inf") if name == "static/model" else 4

    def encode(self, sentences: list[str], *, prompt: str | None = None, **_: Any) -> Any:
        return np.array([[float(len(f"{prompt or ''}{text}")), 1.0] for text in sentences])

    def tokenizer(self, texts: list[str], *, truncation: bool, verbose: bool) -> Any:
        assert (truncation, verbose) == (False, False)
        return {"input_ids": [[101, *range(len(text.split())), 102] for text in texts]}


def test_what_sentence_transformers_reads_of_a_passage_is_counted_with_its_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of four tokens two are special: "passage: a" fits, "passage: a b" does not."""
    package = ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    texts = ["a", "a b", "a b c"]
    assert too_long(open_embedder("sentence-transformers:intfloat/e5-small"), texts) == 2
    assert too_long(open_embedder("sentence-transformers:plain/model"), texts) == 1
    assert too_long(open_embedder("sentence-transformers:static/model"), texts) == 0


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
    model: str,
    settings: dict[str, Any],
    lengths: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    embedder = open_embedder(f"sentence-transformers:{model}", **settings)
    rows = np.concatenate([embedder.embed_queries(["a?"]), embedder.embed_passages(["a."])])
    assert (rows[:, 0] / rows[:, 1]).tolist() == pytest.approx(list(lengths))
    assert embedder.dimension == 2
    prefixes = embedder.identity["query_prefix"], embedder.identity["passage_prefix"]
    assert tuple(len(str(prefix)) + 2 for prefix in prefixes) == lengths
    with pytest.raises(
        ConfigError, match="cannot load the model 'no/such': no/such is not a local"
    ):
        open_embedder("sentence-transformers:no/such").embed_queries(["a?"])


def test_without_sentence_transformers_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[sentence-transformers\]"):
        open_embedder("sentence-transformers:a/b").embed_queries(["a?"])
