"""A pipeline over a collection that another program has filled."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import load_pipeline
from ragbench.errors import DataError, ForeignCollectionError
from ragbench_cli.main import main
from tests.unit.search.pipeline.builders import fill_qdrant, saved

pytestmark = pytest.mark.extra("qdrant")

QUESTION = "How many days of paid leave are there?"
FILE = """
indexing:
  store: qdrant:mine
  collection: docs
  embedder: hashing:64
  map: {text: body, document_id: from}
retrieval: {type: dense, top_k: 3}
"""


@pytest.fixture
def filled(place: Path) -> Path:
    """The folder with a collection of the documents and of one row without a text."""
    texts: list[str] = []
    payloads: list[dict[str, str]] = []
    for line in (place / "data" / "corpus.jsonl").read_text("utf-8").splitlines():
        document = json.loads(line)
        texts.append(document["text"])
        payloads.append({"body": document["text"], "from": document["id"]})
    fill_qdrant([*texts, texts[0]], [*payloads, {}], dimension=64, distance="Euclid")
    return place


def test_the_collection_is_read_as_it_is(filled: Path) -> None:
    with load_pipeline(saved(FILE)).open() as opened:
        result = opened.rag.retrieve_with_metadata(QUESTION)
        assert len(result.contexts) == 3
        # The negative of a distance is no reason to leave a chunk out.
        assert result.scores is not None
        for score in result.scores:
            assert score < 0
        assert result.metadata == {"retriever": "dense"}
        assert opened.rag.batch_retrieve([QUESTION])[0] == list(result.contexts)

        identity: Any = opened.rag.stage_identity("retrieve")
        read_as = "text=body  document_id=from  (euclid, 64 dimensions)"
        assert opened.retriever.notes[0] == f"read as: {read_as}"
        assert identity["retriever"]["read_as"] == read_as
        assert identity["retriever"]["embedder"]["embedder"] == "hashing"

        opened.rag.retrieve_with_metadata(QUESTION, top_k=50)
        (warning,) = opened.retriever.notes[1:]
        assert warning.startswith("Warning: 1 row has no text under 'body'")

    without_map = load_pipeline(saved(FILE.replace("  map:", "  # map:")))
    with pytest.raises(ForeignCollectionError, match="in a pipeline's file: 'map' and 'embedder'"):
        without_map.open().__enter__()


def test_rows_that_are_replaced_make_it_another_one(filled: Path) -> None:
    def identity() -> Any:
        with load_pipeline(saved(FILE)).open() as opened:
            opened.rag.retrieve(QUESTION)
            return opened.rag.stage_identity("retrieve")

    from qdrant_client import QdrantClient

    unchanged = identity()
    assert identity() == unchanged

    client = QdrantClient(path="mine")
    client.overwrite_payload("docs", {"body": "another text"}, points=[1])
    client.close()

    changed = identity()
    assert changed["retriever"]["rows"] == unchanged["retriever"]["rows"]
    assert changed != unchanged


def scores(retrieval: str) -> list[float]:
    """Of the question's chunks, with these settings of retrieval."""
    file = saved(FILE.replace("top_k: 3", retrieval))
    with load_pipeline(file).open() as opened:
        result = opened.rag.retrieve_with_metadata(QUESTION)
    return list(result.scores or ())


def test_a_threshold_that_is_named_holds(filled: Path) -> None:
    all_scores = scores("top_k: 9")

    passing_scores = scores("top_k: 9, score_threshold: -1.2")

    assert passing_scores == [score for score in all_scores if score >= -1.2]
    assert 0 < len(passing_scores) < len(all_scores)


def test_the_command_says_how_it_is_read(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(FILE.replace("map: {text: body, document_id: from}", "map: {}"))

    assert main(["eval", "data", "--pipeline", "rag.yaml", "-q", "-m", "token_f1"]) == 0
    assert "read as: text=body  (euclid, 64 dimensions)" in capsys.readouterr().err

    assert main(["doctor", "--pipeline", "rag.yaml"]) == 0
    assert "read as: text=body" in capsys.readouterr().out


WRONG = """
indexing:
  corpus: data/corpus.jsonl
  chunker: whole
  map:
    txt: body
    metric: hamming
retrieval: bm25
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            WRONG,
            [
                (3, "'corpus' is there to fill a collection"),
                (4, "'chunker' is there to fill a collection"),
                (5, "'map' needs the name of a collection"),
                (5, "'map' needs what the collection's vectors were made by"),
                (5, "'memory:': collections that ragbench did not fill are read from addresses"),
                (6, "unknown setting 'txt'. Did you mean 'text'?"),
                (7, "metric must be one of cosine, dot, euclid, manhattan"),
                (8, "this retrieval reads no collection that ragbench did not fill: take dense"),
            ],
        ),
        (
            FILE.replace("top_k: 3", "top_k: 3, filters: {a: 1}, embeddings: true"),
            [(7, "are not read: leave 'embeddings' out")],
        ),
        ("retrieval: {type: sparse, native_filter: 'year > 3'}", [(1, "use 'filters'")]),
        (FILE.replace("map: {text: body, document_id: from}", "map: body"), [(6, "'name: value'")]),
    ],
)
def test_what_cannot_go_together_comes_at_once_with_its_lines(
    place: Path, text: str, wanted: list[tuple[int, str]]
) -> None:
    with pytest.raises(DataError) as caught:
        load_pipeline(saved(text))

    problems = sorted((problem.line, problem.message) for problem in caught.value.problems)
    assert [line for line, _ in problems] == [line for line, _ in wanted]
    messages = "\n".join(message for _, message in problems)
    for _, part in wanted:
        assert part in messages


# --- vectors of another model


def item_text(number: int) -> str:
    room = number % 5
    return f"item {number} costs {number * 7} coins and lies in room {room} of hall {number}"


TEXTS = [item_text(number) for number in range(40)]


def foreign(texts: list[str]) -> list[str]:
    """Words that have nothing to do with those of the texts."""
    words: list[str] = []
    for text in texts:
        digest = hashlib.sha256(text.encode()).hexdigest()
        words.append(" ".join(digest[:24]))
    return words


MUCH_ELSE = [f"{text} and much else that nobody stored" for text in TEXTS]


@pytest.mark.parametrize(
    ("embedded", "kept", "warning"),
    [
        (TEXTS, TEXTS, ""),
        (foreign(TEXTS), TEXTS, "are among the first 3: 'hashing:128' hardly made the vectors of"),
        (MUCH_ELSE, TEXTS, "the vectors of 'docs' are not those that 'hashing:128'"),
        # Of a small collection nothing is said.
        (foreign(TEXTS[:7]), TEXTS[:7], ""),
        (foreign(TEXTS[:29]), TEXTS[:29], ""),
    ],
)
def test_a_pipeline_says_whether_its_embedder_made_the_vectors(
    place: Path, embedded: list[str], kept: list[str], warning: str
) -> None:
    fill_qdrant(embedded, [{"text": text} for text in kept], dimension=128)
    file = """
        indexing: {store: "qdrant:mine", collection: docs, embedder: "hashing:128", map: {}}
        retrieval: {type: dense, top_k: 3}
        """

    with load_pipeline(saved(file)).open() as opened:
        warnings = [line for line in opened.retriever.notes if line.startswith("Warning")]

    assert len(warnings) == bool(warning)
    assert warning in "".join(warnings)
