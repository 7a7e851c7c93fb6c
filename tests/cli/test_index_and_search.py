"""``ragbench index`` and ``ragbench search``: from documents to answers, and what goes wrong."""

from __future__ import annotations

import io
import itertools
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_engine
from ragbench.errors import ConfigError
from ragbench.io.converted import CONVERTED
from ragbench.search.embedders.local import HashingEmbedder
from tests.cli.conftest import DOCUMENTS
from tests.cli.runs import Done, Ragbench, lines, read_lines
from tests.unit.search.pipeline.builders import fill_qdrant

STORE = ("--store", "memory:store")
HASHING = ("--embedder", "hashing:256")


@pytest.fixture
def indexed(ragbench: Ragbench) -> Ragbench:
    """The command line, with the office's three documents indexed."""
    ragbench("index", "office", *STORE, *HASHING, "-q").ok()
    return ragbench


def counts_of(result: dict[str, Any]) -> dict[str, int]:
    """What an indexing counted, of all that it says as data."""
    names = ("documents", "chunks", "written", "unchanged", "removed")
    return {name: result[name] for name in names}


def search(ragbench: Ragbench, *options: str, question: str = "When is the desk open?") -> Done:
    return ragbench("search", *STORE, question, *options)


# --- index


def test_index_says_what_it_did(ragbench: Ragbench) -> None:
    done = ragbench("index", "office", *STORE, *HASHING, "-q").ok()

    assert done.out == "office: 3 documents, 3 chunks: 3 written, 0 unchanged, 0 removed\n"
    assert done.err == ""


def test_index_says_what_it_did_as_data(ragbench: Ragbench) -> None:
    result = ragbench("index", "office", *STORE, *HASHING, "--json").ok().json

    assert result["collection"] == "office"
    assert result["store"] == "memory:store"
    assert counts_of(result) == {
        "documents": 3,
        "chunks": 3,
        "written": 3,
        "unchanged": 0,
        "removed": 0,
    }


def test_documents_that_are_indexed_are_not_written_again(indexed: Ragbench) -> None:
    result = indexed("index", "office", *STORE, *HASHING, "--json").ok().json

    assert counts_of(result) == {
        "documents": 3,
        "chunks": 3,
        "written": 0,
        "unchanged": 3,
        "removed": 0,
    }


def test_a_document_that_is_gone_leaves_the_collection(indexed: Ragbench) -> None:
    lines("office/corpus.jsonl", DOCUMENTS[:2])

    result = indexed("index", "office", *STORE, *HASHING, "--json").ok().json

    assert counts_of(result) == {
        "documents": 2,
        "chunks": 2,
        "written": 0,
        "unchanged": 2,
        "removed": 1,
    }


@pytest.fixture
def mixed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder `mixed`: two files that are read without an extra, and four that are not."""
    # As where the extra is missing: no module called `none` can be imported.
    monkeypatch.setattr("ragbench.io.converted.CONVERTED", dict.fromkeys(CONVERTED, ("none", 0)))
    Path("mixed/sub").mkdir(parents=True)
    for name in ("a.md", "sub/b.txt", "c.pdf", "sub/d.html", "e.py", ".hidden"):
        Path("mixed", name).write_text("Rent is due in May.", "utf-8")


@pytest.mark.usefixtures("mixed_files")
def test_files_that_are_not_read_are_named(ragbench: Ragbench) -> None:
    done = ragbench("index", "mixed", *STORE, *HASHING, "-q").ok("mixed: 2 documents")

    assert "Warning: 3 files are skipped, only text, Markdown, PDF, HTML and Word" in done.err
    assert "sub/d.html" in done.err
    assert "pip install 'ragbench[documents]' reads 2 of them" in done.err


@pytest.mark.usefixtures("mixed_files")
def test_files_that_are_not_read_are_named_as_data(ragbench: Ragbench) -> None:
    result = ragbench("index", "mixed", *STORE, *HASHING, "-q", "--json").ok().json

    assert result["skipped"] == ["c.pdf", "e.py", "sub/d.html"]


LATIN_1 = os.fsdecode(b"caf\xe9")
"""A name that is no text in UTF-8; it is shown as caf\\udce9."""


def test_a_file_whose_name_is_no_text_is_found_under_an_escaped_one(ragbench: Ragbench) -> None:
    Path("mixed").mkdir()
    Path(f"mixed/{LATIN_1}.md").write_text("The help desk opens at 8.", "utf-8")

    ragbench("index", "mixed", *STORE, *HASHING, "-q").ok("1 document, 1 chunk: 1 written")

    search(ragbench).ok("caf\\udce9.md")


@pytest.mark.parametrize(
    "system",
    [("--rag", "baseline", "--corpus", "office"), ("--rag", "rags.py:Plain")],
    ids=["the baseline", "a system"],
)
def test_cases_whose_file_has_a_name_that_is_no_text_are_evaluated(
    ragbench: Ragbench, system: tuple[str, ...]
) -> None:
    cases = Path("office/cases.jsonl").rename(f"office/{LATIN_1}.jsonl")

    done = ragbench("eval", str(cases), *system, "-o", "run")

    done.ok("caf\\udce9")


def test_ctrl_c_keeps_what_is_done_and_the_same_command_continues(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 chunks are embedded in batches of 128; Ctrl-C comes after two of them."""
    documents = []
    for number in range(500):
        documents.append({"id": f"d{number}", "text": f"text {number}"})
    command = ("index", lines("many.jsonl", documents), *STORE, *HASHING, "-q")
    embed = HashingEmbedder.embed_passages
    numbers = itertools.count()

    def embed_or_interrupt(self: HashingEmbedder, texts: Sequence[str]) -> Any:
        if next(numbers) == 3:  # after one call for the sample and two batches
            os.kill(os.getpid(), signal.SIGINT)
        return embed(self, texts)

    # Test runners ignore the signal.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patch:
        patch.setattr(HashingEmbedder, "embed_passages", embed_or_interrupt)
        stopped = ragbench(*command)
    signal.signal(signal.SIGINT, handler)

    assert stopped.code == 130
    assert "the same command continues" in stopped.err
    search(ragbench, question="text 7").refused("is not complete")
    search(ragbench, "--allow-incomplete", "--json", question="text 7").ok()

    continued = ragbench(*command, "--json").ok().json

    assert continued["continued"] is True
    assert continued["chunks"] == 500
    assert continued["unchanged"] == 256
    search(ragbench, question="text 7").ok()


# --- collections


def test_collections_are_listed(indexed: Ragbench) -> None:
    done = indexed("index", "--list", *STORE)

    done.ok()
    assert done.out == "office  3 chunks  hashing:256 (256 dimensions)\n"


def test_collections_are_listed_as_data(indexed: Ragbench) -> None:
    done = indexed("index", "--list", *STORE, "--json").ok()

    assert done.json_lines == [
        {
            "collection": "office",
            "chunks": 3,
            "embedder": "hashing:256",
            "dimension": 256,
            "complete": True,
            "words": "here",
        }
    ]


def test_a_collection_is_dropped(indexed: Ragbench) -> None:
    indexed("index", "--drop", "office", *STORE).ok()

    assert indexed("index", "--list", *STORE).out == ""


def test_a_corpus_is_not_indexed_by_a_command_that_drops(indexed: Ragbench) -> None:
    indexed("index", "office", "--drop", "office", *STORE).refused()

    indexed("index", "--list", *STORE).ok("office  3 chunks")


def test_a_collection_without_vectors_is_searched_by_words(ragbench: Ragbench) -> None:
    ragbench("index", "office", *STORE, "--embedder", "none").ok()

    done = search(ragbench, "-k", "1").ok()

    assert "\n1. " in done.out
    assert "searched by words (sparse): the collection was indexed with no embedder" in done.err


def test_a_collection_without_vectors_is_not_searched_by_them(ragbench: Ragbench) -> None:
    ragbench("index", "office", *STORE, "--embedder", "none").ok()

    done = search(ragbench, "--strategy", "hybrid")

    done.refused("search it by words (--strategy sparse")


# --- search


def test_search_shows_rank_score_id_and_text(indexed: Ragbench) -> None:
    done = search(indexed, "--strategy", "sparse", "-k", "1").ok()

    heading, chunks = done.out.split("\n", 1)
    assert heading == "score: BM25 as a share of the question's words, below 1"
    assert re.match(r"1\. 0\.\d+  desk\n   The help desk is open from 8 to 17\.\n", chunks)


@pytest.mark.parametrize(
    ("strategy", "kind", "meaning"),
    [
        ("dense", "cosine", "cosine on the embedder's scale, 0 is unrelated and 1 the same"),
        ("sparse", "bm25", "BM25 as a share of the question's words, below 1"),
        ("hybrid", "fused_rank", "fused rank, the sum of weight / (60 + rank); it only orders"),
    ],
)
def test_a_score_is_shown_with_its_meaning(
    indexed: Ragbench, strategy: str, kind: str, meaning: str
) -> None:
    shown = search(indexed, "--strategy", strategy).ok()
    data = search(indexed, "--strategy", strategy, "--json").ok()

    assert shown.out.count(f"score: {meaning}\n") == 1
    assert data.json["score_kind"] == kind


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("DEFAULT_TOP_K", "0", "DEFAULT_TOP_K='0': top_k must be at least 1, not 0"),
        ("DEFAULT_TOP_K", "many", "DEFAULT_TOP_K must be a whole number, not 'many'"),
        ("DEFAULT_SCORE_THRESHOLD", "inf", "DEFAULT_SCORE_THRESHOLD must be a number, not 'inf'"),
        (
            "RETRIEVAL_STRATEGY",
            "both",
            "RETRIEVAL_STRATEGY must be one of dense, sparse, hybrid, not 'both'",
        ),
    ],
)
def test_a_variable_that_cannot_be_is_refused_by_the_command_as_in_python(
    indexed: Ragbench,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    allowed: str,
) -> None:
    monkeypatch.setenv(variable, value)

    search(indexed).refused(allowed)
    with pytest.raises(ConfigError, match=f"^{re.escape(allowed)}$"):
        open_engine("memory:store")


def test_a_filter_that_nothing_passes_is_reported(indexed: Ragbench) -> None:
    done = search(indexed, "--filter", "document_id=x").ok()

    assert done.out == "Nothing found.\n"
    assert "Warning: the filter lets no chunk pass: its fields are there" in done.err


def test_a_filter_on_a_misspelled_field_is_refused(indexed: Ragbench) -> None:
    done = search(indexed, "--filter", "document_ids=desk")

    done.refused("looked at has a field 'document_ids'. Did you mean 'document_id'?")
    assert done.out == ""


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        pytest.param(
            "yaer: 3",
            "no chunk that was looked at has a field 'yaer'",
            id="on a field that no chunk has",
        ),
        pytest.param(
            "document_id: x",
            "its values are not. Nothing could be retrieved",
            id="on a value that no chunk has",
        ),
    ],
)
def test_a_pipeline_whose_filter_nothing_passes_is_refused(
    indexed: Ragbench, condition: str, reason: str
) -> None:
    """All figures would be 0."""
    pipeline = "indexing: {corpus: office}\nretrieval: {type: sparse, filters: {" + condition + "}}"
    Path("filtered.yaml").write_text(pipeline, "utf-8")
    lines("cases.jsonl", [{"query": "When is the desk open?"}])

    done = indexed("eval", "cases.jsonl", "--pipeline", "filtered.yaml", "--out", "run")

    done.refused(reason)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--strategy", "sparse"), "no chunk shares a word with the question."),
        (("--strategy", "dense", "--score-threshold", "1.5"), "no chunk scored at least 1.5."),
        ((), "--score-threshold -9 shows the nearest anyway."),
    ],
    ids=["by words", "with a threshold", "by default"],
)
def test_that_a_question_finds_nothing_is_explained(
    indexed: Ragbench, options: tuple[str, ...], reason: str
) -> None:
    done = search(indexed, *options, question="Who won the cup?").ok()

    assert done.out == "Nothing found.\n"
    assert done.err.startswith("No results: ")
    assert done.err.endswith(f"{reason}\n")


SINCE_2022 = ("--filter", '{"year": {"gte": 2022}}')


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (("--filter", "year=2023"), ["d2023"]),
        (SINCE_2022, ["d2022", "d2023"]),
        ((*SINCE_2022, "--filter", "year=2022"), ["d2022"]),
        (("--filter", "year=text"), []),
        (("--score-threshold", "0.99"), []),
        (("-k", "2"), ["d2021", "d2022"]),
    ],
    ids=["a value", "a range", "two filters", "a value of another type", "a threshold", "top k"],
)
def test_search_takes_filters_a_threshold_and_a_number(
    ragbench: Ragbench, options: tuple[str, ...], ids: list[str]
) -> None:
    rents = [
        {"id": "d2021", "text": "Rent in 2021", "year": 2021},
        {"id": "d2022", "text": "Rent in 2022", "year": 2022},
        {"id": "d2023", "text": "Rent in 2023", "year": 2023},
    ]
    lines("rent.jsonl", rents)
    ragbench("index", "rent.jsonl", *STORE, *HASHING, "-q").ok()

    done = search(ragbench, "--strategy", "sparse", "--json", *options, question="rent").ok()

    (result,) = done.json_lines
    assert [chunk["id"] for chunk in result["chunks"]] == ids


# --- many questions

BATCH = ("search", *STORE, "--questions")


def test_a_batch_is_written_a_line_a_question(indexed: Ragbench) -> None:
    done = indexed(*BATCH, "office/cases.jsonl", "--dump", "out.jsonl").ok()

    assert done.out == ""
    assert done.err.endswith("\nout.jsonl: 3 questions\n")
    assert done.err.count("No results: ") == 1
    results = read_lines("out.jsonl")
    assert [row["query_id"] for row in results] == ["c1", "c2", "c3"]
    assert results[1]["query"] == "When is the help desk open?"
    fields = {"id", "text", "score", "metadata", "document_id", "start", "end"}
    assert set(results[1]["chunks"][0]) == fields


def test_a_batch_is_printed_as_it_is_written(indexed: Ragbench) -> None:
    indexed(*BATCH, "office/cases.jsonl", "--dump", "out.jsonl").ok()

    printed = indexed(*BATCH, "office/cases.jsonl", "--json").ok()

    assert printed.json_lines == read_lines("out.jsonl")


def test_what_a_batch_wrote_can_be_validated(indexed: Ragbench) -> None:
    indexed(*BATCH, "office/cases.jsonl", "--dump", "out.jsonl").ok()

    validated = indexed("validate", "out.jsonl", "--json", "-q")

    assert [row["query_id"] for row in validated.json_lines] == ["c1", "c2", "c3"]


TWO_QUESTIONS = 'paid leave\n\n{"id": "q2", "query": "lost badge"}\n'
"""A question as a line of text, which gets its number as its id, and one as an object."""


def test_questions_are_read_from_lines_of_text_and_json(indexed: Ragbench) -> None:
    Path("questions.txt").write_text(TWO_QUESTIONS, "utf-8")

    done = indexed(*BATCH, "questions.txt", "--json").ok()

    queries = {row["query_id"]: row["query"] for row in done.json_lines}
    assert queries == {"1": "paid leave", "q2": "lost badge"}


def test_questions_are_read_from_standard_input(
    indexed: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(TWO_QUESTIONS))

    done = indexed(*BATCH, "-", "--json").ok()

    assert [row["query_id"] for row in done.json_lines] == ["1", "q2"]


def test_every_wrong_line_of_the_questions_is_named(indexed: Ragbench) -> None:
    Path("questions.txt").write_text('good\n{"quer": 1}\n{bad\n', "utf-8")

    done = indexed(*BATCH, "questions.txt")

    done.refused("questions.txt:2", "questions.txt:3")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_question_a_terminal_is_asked(
    indexed: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter(["paid leave", ""])
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))

    done = indexed("search", *STORE).ok()

    assert "\n1. 0.0328  leave  (dense 1. " in done.out
    assert done.err == "Type a question; an empty line ends.\n"


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "x"], "--store"),
        (["search", *STORE], "there is no question"),
        (["search", *STORE, "x", "--questions", "y"], "not both"),
        (["search", *STORE, "x", "--collection", "other"], "other"),
        (["search", *STORE, "x", "--strategy", "both"], "dense, sparse, hybrid"),
        (["search", *STORE, "x", "--top-k", "0"], "top_k must be at least 1"),
        (["search", *STORE, "x", "--filter", "year"], "FIELD=VALUE"),
        (["search", *STORE, "x", "--filter", "year={"], "looks like JSON but is not valid"),
        (["search", *STORE, "x", "--filter", '{"year": {"near": 1}}'], "year"),
        (["search", *STORE, "x", "--embedder", "hashing:64"], "was built with"),
        (["search", *STORE, "x", "--embedder-setting", "a=b"], "needs --embedder"),
        (["search", "--store", "memory:empty", "x"], "Create one: ragbench index CORPUS"),
        (["index", *STORE], "there is nothing to index"),
        (["index", "office", *STORE, "--embedder", "hashing:64"], "another embedder"),
        (["index", "-", *STORE], "standard input"),
        (["index", "nothing", *STORE, *HASHING], "nothing"),
        (["index", "office", *STORE, "--embedder", "hashin"], "Did you mean 'hashing'"),
        (["index", "office", *STORE, *HASHING, "--embedder-setting", "x"], "NAME=VALUE"),
        (["index", "office", *STORE, *HASHING, "--words", "store"], "does not rank by BM25 itself"),
        (["index", "office", *STORE, *HASHING, "--words", "there"], "one of here, store, not 'th"),
        (["index", "--drop", "ofice", *STORE], "no collection 'ofice'; there are: office"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_refused_in_one_go(
    indexed: Ragbench, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    done = indexed(*arguments)

    done.refused(message)
    assert done.out == ""
    assert "Traceback" not in done.err


# --- tune


@pytest.fixture
def tune(ragbench: Ragbench) -> tuple[str, ...]:
    """The command that tunes a store of ten documents with a question about each of them."""
    words = ["rent", "dogs", "keys", "garden", "stairs", "boiler", "lift", "roof", "bins", "post"]
    corpus = []
    cases = []
    for word in words:
        corpus.append({"id": word, "text": f"what the house says of the {word}"})
        cases.append({"query": f"{word}?", "reference_context_ids": [word]})
    lines("cases.jsonl", cases)
    lines("docs.jsonl", corpus)
    ragbench("index", "docs.jsonl", *STORE, *HASHING, "-q").ok()
    return ("tune", "memory:store", "--questions", "cases.jsonl", "-q")


def test_tune_names_a_setting_and_what_it_is_worth(
    ragbench: Ragbench, tune: tuple[str, ...]
) -> None:
    done = ragbench(*tune)

    advice = "Take 'sparse': it scores best, and nothing cheaper surely loses less than 0.01"
    done.ok("nDCG@10 over 10 questions", advice)
    assert done.err == ""


def test_tune_names_its_setting_as_data(ragbench: Ragbench, tune: tuple[str, ...]) -> None:
    result = ragbench(*tune, "--json").ok().json

    assert result["chosen"] == "sparse"


def test_tune_refuses_a_measure_that_it_does_not_know(
    ragbench: Ragbench, tune: tuple[str, ...]
) -> None:
    ragbench(*tune, "--measure", "f1").refused("must be one of ndcg, recall, mrr")


# --- a collection that another program has filled

MINE = ("--store", "qdrant:mine")
DOCS = (*MINE, "--collection", "docs")
SMALL = ("--embedder", "hashing:64")


@pytest.fixture
def filled(ragbench: Ragbench) -> Ragbench:
    """The command line, beside a folder that a program with Qdrant's client has written.

    Its collection `docs` has one vector a chunk, `named` has two, so that one has to be chosen.
    """
    from qdrant_client import QdrantClient, models

    payloads: list[dict[str, Any]] = [
        {"page_content": document["text"], "key": document["id"]} for document in DOCUMENTS
    ]
    without_text = {"key": 5}
    fill_qdrant(["leave", "desk", "badge", "desk"], [*payloads, without_text], dimension=64)

    size = models.VectorParams(size=64, distance=models.Distance.COSINE)
    point = models.PointStruct(id=0, vector={"dense": [1.0] * 64}, payload={"body": "Leave."})
    client = QdrantClient(path="mine")
    client.create_collection("named", vectors_config={"dense": size, "title": size})
    client.upsert("named", [point])
    client.close()
    return ragbench


@pytest.mark.extra("qdrant")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*DOCS, "--field", "text=page_content"], "name the model of its vectors with --embedder"),
        ([*MINE, *SMALL, "--field", "text=body"], "with --collection: qdrant:mine has docs, na"),
        ([*MINE, "--collection", "named", *SMALL], "several vectors (dense, title): choose"),
        ([*DOCS, *SMALL, "--field", "text"], "expected TARGET=SOURCE"),
        ([*DOCS, "--embedder", "hashing:32"], "of 64 dimensions, the embedder 'hashing:32' makes"),
        ([*DOCS, "--strategy", "sparse"], "name one with --field words=FIELD"),
        ([*DOCS, *SMALL, "--native-filter", "key = 5"], "of Qdrant is a JSON object"),
        ([*DOCS, *SMALL, "--native-filter", '{"mst": []}'], "Extra inputs are not permitted"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_about_a_foreign_collection_are_reported_in_one_line(
    filled: Ragbench, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    done = filled("search", *options, "paid leave")

    done.refused(message)
    assert done.out == ""
    assert "Traceback" not in done.err


@pytest.mark.extra("qdrant")
def test_the_variables_hold_for_a_foreign_collection(
    filled: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "paid leave"
    result = filled("search", *DOCS, *SMALL, "--json", question).ok().json
    assert result["score_kind"] == "cosine"
    assert len(result["chunks"]) == 4

    monkeypatch.setenv("DEFAULT_SCORE_THRESHOLD", "0.99")
    nothing = filled("search", *DOCS, *SMALL, question).ok("Nothing found.")
    assert "No results: no chunk scored at least 0.99." in nothing.err

    monkeypatch.setenv("RETRIEVAL_STRATEGY", "sparse")
    filled("search", *DOCS, question).refused("name one with --field words=FIELD")
