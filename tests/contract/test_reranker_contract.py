"""What every reranker promises, asked of all of them."""

from __future__ import annotations

import copy
import math
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench import Chunk, Query, build_reranker, rerank
from ragbench.core.chat import Message
from ragbench.errors import ConfigError, InterfaceError
from ragbench.post.build import RERANKERS
from ragbench.post.operator import ranked
from ragbench.post.rerank import Reranker
from tests.unit.post.rerank_server import serving
from tests.unit.post.tiny_onnx import write_tiny_cross_encoder


class LengthChat:
    """A language model that likes long passages."""

    name = "length"

    def complete(self, messages: Sequence[Message]) -> str:
        asked = messages[-1].content
        shown = re.findall(r"\[(\d+)\]\n(.*)\n", asked)
        if shown:
            best = sorted(shown, key=lambda pair: -len(pair[1]))
            return " > ".join(f"[{number}]" for number, _ in best)
        return str(min(10, len(asked) % 11))


SETTINGS: dict[str, dict[str, object]] = {
    "feedback": {},
    "lexical": {},
    "linear": {"rerankers": ["semantic", "lexical"], "given_weight": 1},
    "llm_listwise": {"window": 4, "step": 2},
    "llm_pointwise": {},
    "mmr": {},
    "ppr": {},
    "rrf": {"rerankers": ["semantic", "time_weighted", "mmr"], "given_weight": 1},
    "semantic": {},
    "time_weighted": {},
    "weighted": {"factors": [{}, {"field": "recency"}, {"field": "likes"}]},
}
OUTSIDE = {"cross_encoder", "http"}
"""Those that need a file or a server."""

Build = Callable[[], Reranker]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Build]]:
    model = str(tmp_path_factory.mktemp("models") / "tiny")
    with serving() as served:

        def maker(name: str, more: dict[str, object]) -> Build:
            return lambda: build_reranker({"name": name, **more}, chat=LengthChat())

        def cross_encoder() -> Reranker:
            pytest.importorskip("onnxruntime", reason="pip install 'ragbench[onnx]'")
            write_tiny_cross_encoder(Path(model))
            return build_reranker({"name": "cross_encoder", "model": model})

        def http() -> Reranker:
            pytest.importorskip("httpx", reason="pip install 'ragbench[http]'")
            return build_reranker({"name": "http", "url": served.url})

        makers = {name: maker(name, more) for name, more in SETTINGS.items()}
        yield {**makers, "cross_encoder": cross_encoder, "http": http}


@pytest.fixture(params=sorted({*SETTINGS, *OUTSIDE}))
def reranker(request: pytest.FixtureRequest, built: dict[str, Build]) -> Reranker:
    return built[request.param]()


def test_the_suite_knows_every_reranker() -> None:
    assert {*SETTINGS, *OUTSIDE} == set(RERANKERS.builtin)


def full(id_: str, text: str, score: float, *embedding: float, **more: Any) -> Chunk:
    metadata = {"embedding": list(embedding), "timestamp": 1000, "likes": 1, **more}
    return Chunk(id=id_, text=text, score=score, document_id="doc", metadata=metadata)


FULL = [
    full("a", "w1 red house", 0.9, 1, 0, title="Houses", links=["c"]),
    full("b", "w2 blue sea and a long rest", 0.7, 0.6, 0.8, timestamp="2024-05-01"),
    full("c", "w3 red roof", 0.7, 0, 1, likes=0.2),
    full("d", "w1 red house", 0.7, 1, 0),
    full("e", "", 0.1, 0, 0, timestamp=datetime(2023, 1, 1, tzinfo=UTC)),
]
BARE = [Chunk(id=str(at), text=f"bare {at}") for at in range(6)]
ASKED = Query(text="red house w1", embedding=[1, 0.1], now=datetime(2024, 6, 1, tzinfo=UTC))
PLAIN = Query(text="red house")


@pytest.mark.parametrize("chunks", [FULL, BARE, FULL[:1], BARE[:1]], ids=len)
@pytest.mark.parametrize("query", [ASKED, PLAIN], ids=["embedded", "plain"])
def test_one_finite_number_a_chunk_and_the_same_again(
    reranker: Reranker, query: Query, chunks: list[Chunk]
) -> None:
    scores = list(reranker.score(query, chunks))
    assert len(scores) == len(chunks)
    assert all(map(math.isfinite, scores))
    assert all(type(score) is float for score in scores)
    assert list(reranker.score(query, chunks)) == scores


def test_nothing_that_is_given_is_changed(reranker: Reranker) -> None:
    before = copy.deepcopy(FULL)
    done = rerank(ASKED, ranked(FULL), reranker, on_error="raise")
    assert before == FULL
    for one in done.chunks:
        (original,) = [chunk for chunk in FULL if chunk is one.chunk]
        assert one.chunk.metadata is original.metadata
        assert one.chunk.text is original.text


@pytest.mark.parametrize("top_k", [1, 3, 5, 50, None])
def test_top_k_of_a_permutation(reranker: Reranker, top_k: int | None) -> None:
    whole = rerank(ASKED, ranked(FULL), reranker, on_error="raise").chunks
    assert sorted(one.chunk.id for one in whole) == ["a", "b", "c", "d", "e"]
    cut = rerank(ASKED, ranked(FULL), reranker, on_error="raise", top_k=top_k).chunks
    assert cut == whole[:top_k]
    assert [one.rank for one in cut] == list(range(1, len(cut) + 1))


def test_nothing_in_nothing_out(reranker: Reranker) -> None:
    assert rerank(ASKED, [], reranker, on_error="raise").chunks == ()


def test_it_travels_to_another_process(reranker: Reranker) -> None:
    again = pickle.loads(pickle.dumps(reranker))
    assert list(again.score(ASKED, FULL)) == list(reranker.score(ASKED, FULL))


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("cross_encoder", {"words": 0}, "words"),
    ("cross_encoder", {"first": 0}, "first"),
    ("cross_encoder", {"windows": 0}, "windows"),
    ("cross_encoder", {"threads": 0}, "threads"),
    ("cross_encoder", {"max_length": 8}, "max_length"),
    ("cross_encoder", {"overlap": 200}, "overlap"),
    ("feedback", {"examples": 0}, "examples"),
    ("feedback", {"terms": 0}, "terms"),
    ("feedback", {"query_weight": 1.5}, "query_weight"),
    ("feedback", {"query_weight": -0.5}, "query_weight"),
    ("feedback", {"corpus": "nowhere"}, "corpus 'nowhere' does not exist"),
    ("http", {"url": "localhost/rerank"}, "http:// or https://"),
    ("http", {"timeout": 0.0}, "timeout"),
    ("http", {"shape": "voyage"}, "the shape 'voyage' needs one"),
    ("http", {"shape": "bing"}, "shape must be one of cohere, jina"),
    ("http", {"batch_size": 0}, "batch_size"),
    ("http", {"max_characters": 0}, "max_characters"),
    ("lexical", {"k1": -1.0}, "k1 must be at least 0"),
    ("lexical", {"b": 1.5}, "b must lie between 0 and 1"),
    ("lexical", {"title_weight": -1}, "title_weight"),
    ("lexical", {"corpus": "nowhere"}, "corpus 'nowhere' does not exist"),
    *(
        (name, {"rerankers": given, **more}, message)
        for name in ("linear", "rrf")
        for given, more, message in (
            ([], {}, "rerankers must not be empty"),
            (["lexical"], {"weights": [1.0, 2.0]}, "2 numbers for 1 rerankers"),
            (["lexical"], {"weights": [-1.0]}, "weights must be at least 0"),
            (["lexical"], {"weights": [0.0]}, "a number above 0"),
        )
    ),
    ("rrf", {"rerankers": ["lexical"], "k": -1.0}, "k must be at least 0"),
    ("llm_listwise", {"window": 1}, "window"),
    ("llm_listwise", {"step": 0}, "step"),
    ("llm_listwise", {"window": 4, "step": 5}, "step"),
    ("llm_listwise", {"max_characters": 0}, "max_characters"),
    ("llm_pointwise", {"highest": 0}, "highest"),
    ("llm_pointwise", {"max_characters": 0}, "max_characters"),
    ("mmr", {"balance": 1.1}, "balance"),
    ("ppr", {"damping": 1.0}, "damping must be below 1"),
    ("ppr", {"damping": -0.1}, "damping"),
    ("ppr", {"neighbours": -1}, "neighbours"),
    ("ppr", {"sharpness": -1.0}, "sharpness"),
    ("time_weighted", {"rate": -1.0}, "rate"),
    ("time_weighted", {"undated": 1.5}, "undated"),
    ("weighted", {"factors": [{"weight": -1.0}]}, "factors have a weight"),
    ("weighted", {"factors": []}, "weights whose sum must be above 0"),
    ("weighted", {"recency_rate": -1.0}, "recency_rate"),
]


@pytest.mark.parametrize(("name", "wrong", "message"), REFUSED)
def test_settings_out_of_range_are_refused_by_name(
    name: str, wrong: dict[str, object], message: str
) -> None:
    needed = {"http": {"url": "http://localhost/rerank"}, "cross_encoder": {"model": "a/b"}}
    given = {"name": name, **needed.get(name, {}), **wrong}
    with pytest.raises(ConfigError, match=message):
        build_reranker(given, chat=LengthChat())


@pytest.mark.parametrize(
    "wrong", [{"top_k": 0}, {"top_k": -1}, {"timeout": 0.0}, {"on_error": "x"}]
)
def test_rerank_refuses_bad_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        rerank(PLAIN, [], build_reranker("lexical"), **wrong)


@pytest.mark.parametrize(
    "given",
    [
        {"name": "semantic"},
        {"name": "feedback"},
        {"name": "mmr"},
        {"name": "ppr", "seeds": "similarity"},
    ],
)
def test_embeddings_of_two_models_are_refused(given: dict[str, object]) -> None:
    chunks = [Chunk(id="a", text="a", score=1.0, metadata={"embedding": [1, 0]})]
    with pytest.raises(InterfaceError, match="both must come from one model"):
        build_reranker(given).score(Query(text="q", embedding=[1, 0, 0]), chunks)


texts = st.text("ab w19.\n", max_size=20)
scores = st.one_of(st.none(), st.floats(-1e6, 1e6))
embeddings = st.one_of(st.none(), st.lists(st.floats(-5, 5), min_size=2, max_size=2))
times = st.one_of(st.none(), st.integers(0, 2 * 10**9), st.just("2024-05-01"), st.just("never"))


@st.composite
def candidates(draw: st.DrawFn) -> list[Chunk]:
    found: list[Chunk] = []
    for at in range(draw(st.integers(1, 8))):
        known = {"embedding": draw(embeddings), "timestamp": draw(times)}
        metadata = {key: value for key, value in known.items() if value is not None}
        found.append(Chunk(id=str(at), text=draw(texts), score=draw(scores), metadata=metadata))
    return found


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(chunks=candidates(), text=texts, embedding=embeddings)
def test_any_candidates_give_a_permutation(
    reranker: Reranker, chunks: list[Chunk], text: str, embedding: list[float] | None
) -> None:
    query = Query(text=text, embedding=embedding)
    done = rerank(query, ranked(chunks), reranker, on_error="raise")
    assert sorted(one.chunk.id for one in done.chunks) == [chunk.id for chunk in chunks]
    keys = [(-(one.score or 0.0), one.initial_rank) for one in done.chunks]
    assert keys == sorted(keys)
    assert all(one.score is not None and math.isfinite(one.score) for one in done.chunks)
