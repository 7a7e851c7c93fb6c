"""What every embedder does; the models among them with a model of five lines."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import open_embedder
from ragbench.errors import ConfigError
from ragbench.llm.settings import resolve
from ragbench.search.embedders.embedder import prefixes_of, unit_rows
from ragbench.search.embedders.loaded import OpenAIEmbedder
from ragbench.search.embedders.local import HashingEmbedder, OnnxEmbedder
from ragbench.text.letters import readable_text
from tests.llm_server import FaultServer
from tests.unit.llm.builders import InMemory
from tests.unit.post import tiny_onnx as onnx

BGE_PREFIX = "Represent this sentence for searching relevant passages: "


def test_hashing_counts_words_and_is_the_same_everywhere() -> None:
    embedder = HashingEmbedder(dimension=64)

    passages = embedder.embed_passages(["rent is due", "due is rent", "dogs", ""])
    (query,) = embedder.embed_queries(["rent is due"])

    rent, reordered_rent, dogs, _ = passages
    assert passages.dtype == np.float32
    assert np.linalg.norm(passages, axis=1) == pytest.approx([1, 1, 1, 0])
    assert rent == pytest.approx(reordered_rent)
    assert query == pytest.approx(rent)
    assert float(rent @ dogs) == pytest.approx(0, abs=0.6)

    # The column of a word is the same on every machine.
    (word,) = HashingEmbedder(dimension=16).embed_passages(["rent"])
    assert np.flatnonzero(word).tolist() == [2]


VECTORS_OF_THREE = st.lists(st.integers(-9, 9), min_size=3, max_size=3)


@given(st.lists(VECTORS_OF_THREE, min_size=1, max_size=5))
def test_rows_have_length_one_or_zero(rows: list[list[int]]) -> None:
    lengths = np.linalg.norm(unit_rows(rows), axis=1)

    assert lengths == pytest.approx([1.0 if any(row) else 0.0 for row in rows])


@given(st.text())
def test_readable_texts_can_be_encoded_and_keep_their_words(text: str) -> None:
    readable = readable_text(text)
    readable.encode()
    assert "\0" not in readable
    assert len(readable) == len(text)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nope", {}, "unknown name 'nope'"),
        ("hashing:many", {}, "whole number"),
        ("hashing:0", {}, "at least 1"),
        ("hashing", {"dimensions": 3}, "Did you mean 'dimension'"),
        ("onnx", {}, "needs a model"),
        ("onnx:x", {"pooling": "max"}, "pooling"),
        ("onnx:x", {"max_length": 2}, "max_length"),
        ("multilingual:large", {}, "takes no model"),
        ("multilingual", {"threads": 0}, "threads"),
        ("openai", {}, "needs a model"),
        ("openai:m", {"colour": "red"}, "no setting 'colour'"),
    ],
)
def test_wrong_names_and_settings_are_refused(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        open_embedder(name, **settings)


def endpoint_embedder(
    server: FaultServer, tmp_path: Path, model: str = "m", **prefixes: Any
) -> OpenAIEmbedder:
    options = {
        "model": model,
        "base_url": "http://judge.test/v1",
        "cache": str(tmp_path / "cache"),
    }
    return OpenAIEmbedder(resolve(options, {}), transport=InMemory(server), **prefixes)


def test_an_endpoint_gives_unit_vectors_and_is_asked_once_for_a_text(tmp_path: Path) -> None:
    server = FaultServer()
    embedder = endpoint_embedder(server, tmp_path, query_prefix="q: ")

    with closing(embedder):
        rows = embedder.embed_passages(["a", "bb", "a"])
        embedder.embed_passages(["bb"])
        embedder.embed_queries(["a"])

    assert rows == pytest.approx(unit_rows([[1.0, 0.0], [2.0, 2.0], [1.0, 0.0]]))
    assert embedder.dimension == 2
    # No secret is in the identity.
    assert embedder.identity == {
        "embedder": "openai",
        "model": "m",
        "extra": {},
        "query_prefix": "q: ",
        "passage_prefix": "",
    }
    requests = [call.payload["input"] for call in server.calls]
    assert requests == [["a", "bb"], ["q: a"], ["dimension"]]
    embedder.close()


def write_tiny_encoder(folder: Path, *, pooled: bool = False) -> Path:
    """The smallest text encoder: the vector of word wN (w0 to w9) is (1, N, 0).

    One Gather, written byte by byte in the protobuf format of ONNX
    (https://onnx.ai/onnx/repo-docs/IR.html); pooled, it gives the highest number of each column.
    """
    raw = b"".join(struct.pack("<fff", 1, number, 0) for number in range(10))
    shape = onnx._number(1, 10) + onnx._number(1, 3) + onnx._number(2, onnx.FLOAT)
    table = shape + onnx._text(8, "table") + onnx._bytes(9, raw)
    gather = onnx._node("Gather", ["table", "input_ids"], "tokens", [])
    if not pooled:
        outputs: dict[str, list[int | str]] = {"tokens": [1, "length", 3]}
        return onnx.write_model(folder, [gather], [table], ["input_ids"], outputs)

    over_tokens = [onnx._integers("axes", [1]), onnx._integer("keepdims", 0)]
    pool = onnx._node("ReduceMax", ["tokens"], "texts", over_tokens)
    return onnx.write_model(folder, [gather, pool], [table], ["input_ids"], {"texts": [1, 3]})


@pytest.mark.extra("onnx")
@pytest.mark.parametrize(
    ("texts", "settings", "rows"),
    [
        (["w1 w3", "w0"], {"threads": 2}, [[1, 2, 0], [1, 0, 0]]),
        (["w1 w3"], {"pooling": "cls"}, [[1, 1, 0]]),
        (["w1"], {"passage_prefix": "w9 "}, [[1, 5, 0]]),
        (["w1"], {"query_prefix": "w9 "}, [[1, 1, 0]]),
        (["w0 " * 20 + "w8 " * 20], {"max_length": 16}, [[1, 4, 0]]),  # longer than it reads
    ],
)
def test_onnx_takes_the_mean_or_the_first_of_all_tokens(
    tmp_path: Path, texts: list[str], settings: dict[str, Any], rows: list[list[int]]
) -> None:
    model = write_tiny_encoder(tmp_path / "m")
    # The prefix is the word w9, and 5 the mean of 9 and 1.
    row_of_query = [1, 5, 0] if "query_prefix" in settings else [1, 1, 0]

    with closing(OnnxEmbedder(model=str(model), **settings)) as embedder:
        assert embedder.embed_passages(texts) == pytest.approx(unit_rows(rows))
        assert embedder.dimension == 3
        assert embedder.embed_passages([]).shape == (0, 3)
        assert embedder.embed_queries(["w1"]) == pytest.approx(unit_rows([row_of_query]))


@pytest.mark.extra("onnx")
def test_onnx_pooling_is_said_done_by_the_model_or_read_from_the_folder(tmp_path: Path) -> None:
    folder = write_tiny_encoder(tmp_path / "m")
    by_setting = OnnxEmbedder(model=str(folder), pooling="cls")
    (folder / "1_Pooling").mkdir()
    config = folder / "1_Pooling" / "config.json"
    config.write_text('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}')
    assert OnnxEmbedder(model=str(folder)).identity == by_setting.identity

    pooling_model = write_tiny_encoder(tmp_path / "pooled", pooled=True)
    by_model = OnnxEmbedder(model=str(pooling_model))
    assert by_model.embed_passages(["w1 w3"]) == pytest.approx(unit_rows([[1, 3, 0]]))

    config.write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ConfigError, match="pooling_mode_max_tokens"):
        _ = OnnxEmbedder(model=str(folder)).identity


@pytest.mark.extra("onnx")
def test_onnx_files_that_are_not_there_or_no_encoder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a folder"):
        OnnxEmbedder(model=str(tmp_path / "no")).embed_queries(["a"])

    folder = onnx.write_tiny_cross_encoder(tmp_path / "cross")
    with pytest.raises(ConfigError, match="not a text encoder"):
        OnnxEmbedder(model=str(folder)).embed_queries(["w1"])


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("models/e5-base-v2/", "query: ", "passage: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("BAAI/bge-small-en-v1.5", BGE_PREFIX, ""),
        ("BAAI/bge-m3", "", ""),
        ("intfloat/multilingual-e5-large-instruct", "", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_prefixes_are_known_by_the_models_name(model: str, query: str, passage: str) -> None:
    assert prefixes_of(model) == (query, passage)


@pytest.mark.parametrize(("prefix", "used"), [(None, "query: "), ("", "")])
def test_known_prefixes_are_used_unless_they_are_turned_off(
    tmp_path: Path, prefix: str | None, used: str
) -> None:
    server = FaultServer()
    embedder = endpoint_embedder(server, tmp_path, "e5-base", query_prefix=prefix)

    with closing(embedder):
        embedder.embed_queries(["a"])

    assert server.calls[0].payload["input"] == [f"{used}a"]
    assert embedder.identity["query_prefix"] == used
