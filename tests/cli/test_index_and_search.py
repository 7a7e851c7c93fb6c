"""``ragbench index`` and ``ragbench search``: from documents to answers, and what goes wrong."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench.io.converted import CONVERTED
from ragbench.search.embedders.local import HashingEmbedder
from tests.cli.conftest import DOCUMENTS
from tests.cli.runs import Ragbench, lines
from tests.unit.search.pipeline.builders import fill_qdrant

STORE = ("--store", "memory:store")
HASHING = ("--embedder", "hashing:256")


@pytest.fixture
def indexed(ragbench: Ragbench) -> Ragbench:
    """The command line, with the office's documents indexed."""
    assert ragbench("index", "office", *STORE, *HASHING, "-q").code == 0
    return ragbench


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_index_shows_what_it_did_and_does_nothing_twice(ragbench: Ragbench) -> None:
    first = ragbench("index", "office", *STORE, *HASHING, "-q")
    said = "office: 3 documents, 3 chunks: 3 written, 0 unchanged, 0 removed\n"
    assert first == (0, said, "")
    again = ragbench("index", "office", *STORE, *HASHING, "--json").json
    assert (again["collection"], again["store"]) == ("office", "memory:store")
    counts = {"documents": 3, "chunks": 3, "written": 0, "unchanged": 3, "removed": 0}
    assert {name: again[name] for name in counts} == counts


def test_files_that_are_not_read_are_named(
    ragbench: Ragbench, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As without the extra: only what its packages read stays unread.
    monkeypatch.setattr("ragbench.io.converted.CONVERTED", dict.fromkeys(CONVERTED, ("none", 0)))
    folder = workplace / "mixed"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.md", "sub/b.txt", "c.pdf", "sub/d.html", "e.py", ".hidden"):
        (folder / name).write_text("Rent is due in May.", "utf-8")
    done = ragbench("index", "mixed", *STORE, *HASHING, "-q").ok("mixed: 2 documents")
    assert "Warning: 3 files are skipped, only text, Markdown, PDF, HTML and Word" in done.err
    assert "sub/d.html" in done.err
    assert "pip install 'ragbench[documents]' reads 2 of them" in done.err
    shown = ragbench("index", "mixed", *STORE, *HASHING, "-q", "--json").json
    assert shown["skipped"] == ["c.pdf", "e.py", "sub/d.html"]


def test_a_file_whose_name_is_no_text_is_read_under_an_escaped_one(ragbench: Ragbench) -> None:
    Path("mixed").mkdir()
    Path(os.fsdecode(b"mixed/caf\xe9.md")).write_text("The help desk opens at 8.", "utf-8")
    ragbench("index", "mixed", *STORE, *HASHING, "-q").ok("1 document, 1 chunk: 1 written")
    assert "caf\\udce9.md" in ragbench("search", *STORE, "help desk").ok().out
    cases = Path("office/cases.jsonl").rename(os.fsdecode(b"office/ca\xe9.jsonl"))
    for out, rag, *place in (("a", "baseline", "--corpus", "mixed"), ("b", "rags.py:Plain")):
        done = ragbench("eval", str(cases), "--rag", rag, *place, "-o", out).ok()
        assert "ca\\udce9" in done.out


def test_collections_are_listed_and_dropped(indexed: Ragbench) -> None:
    shown = indexed("index", "--list", *STORE).out
    assert shown == "office  3 chunks  hashing:256 (256 dimensions)\n"
    known = {"collection": "office", "chunks": 3, "embedder": "hashing:256", "dimension": 256}
    (as_json,) = rows(indexed("index", "--list", *STORE, "--json").out)
    assert as_json == known | {"complete": True, "words": "here"}
    assert indexed("index", "office", "--drop", "office", *STORE).code == 2
    assert indexed("index", *STORE).code == 2
    assert indexed("index", "--drop", "office", *STORE).code == 0
    assert indexed("index", "--list", *STORE).out == ""


def test_a_filter_that_nothing_passes_is_reported(indexed: Ragbench) -> None:
    done = indexed("search", *STORE, "paid leave", "--filter", "document_id=x")
    assert (done.code, done.out) == (0, "Nothing found.\n")
    assert "Warning: the filter lets no chunk pass: its fields are there" in done.err
    misspelt = indexed("search", *STORE, "paid leave", "--filter", "document_ids=desk")
    assert (misspelt.code, misspelt.out) == (2, "")
    assert "looked at has a field 'document_ids'. Did you mean 'document_id'?" in misspelt.err


def test_a_pipeline_whose_filter_nothing_passes_is_refused(indexed: Ragbench) -> None:
    """All figures would be 0."""
    for wanted, why in (
        ("yaer: 3", "no chunk that was looked at has a field 'yaer'"),
        ("document_id: x", "its values are not. Nothing could be retrieved"),
    ):
        text = "indexing: {corpus: office}\nretrieval: {type: sparse, filters: {" + wanted + "}}"
        Path("filtered.yaml").write_text(text, "utf-8")
        Path("cases.jsonl").write_text('{"query": "When is the desk open?"}\n', "utf-8")
        indexed("eval", "cases.jsonl", "--pipeline", "filtered.yaml", "--out", "run").refused(why)


def test_a_collection_without_vectors_is_searched_by_words(indexed: Ragbench) -> None:
    assert indexed("index", "office", "--store", "memory:bare", "--embedder", "none").code == 0
    done = indexed("search", "--store", "memory:bare", "When is the desk open?", "-k", "1")
    assert done.code == 0 and done.out.startswith("1. ")
    assert "searched by words (sparse): the collection was indexed with no embedder" in done.err
    asked = ("search", "--store", "memory:bare", "desk", "--strategy", "hybrid")
    assert "search it by words (--strategy sparse" in indexed(*asked).err


def test_search_shows_rank_score_id_and_text(indexed: Ragbench) -> None:
    done = indexed(
        "search", *STORE, "When is the desk open?", "--strategy", "sparse", "-k", "1"
    ).ok()
    assert re.match(r"1\. 0\.\d+  desk\n   The help desk is open from 8 to 17\.\n", done.out)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--strategy", "sparse"], "no chunk shares a word with the question."),
        (["--strategy", "dense", "--score-threshold", "1.5"], "no chunk scored at least 1.5."),
        ([], "--score-threshold -9 shows the nearest anyway."),
    ],
)
def test_that_a_question_finds_nothing_is_explained(
    indexed: Ragbench, arguments: list[str], why: str
) -> None:
    done = indexed("search", *STORE, "Who won the cup?", *arguments)
    assert (done.code, done.out) == (0, "Nothing found.\n")
    assert done.err.startswith("No results: ")
    assert done.err.endswith(f"{why}\n")


def test_search_takes_filters_and_a_threshold(ragbench: Ragbench) -> None:
    years = (2021, 2022, 2023)
    rents = ({"id": f"d{year}", "text": f"Rent in {year}", "year": year} for year in years)
    ragbench("index", lines("rent.jsonl", rents), *STORE, *HASHING, "-q")
    since = '{"year": {"gte": 2022}}'
    for arguments, wanted in (
        (["--filter", "year=2023"], ["d2023"]),
        (["--filter", since], ["d2022", "d2023"]),
        (["--filter", since, "--filter", "year=2022"], ["d2022"]),
        (["--filter", "year=text"], []),
        (["--score-threshold", "0.99"], []),
        (["-k", "2"], ["d2021", "d2022"]),
    ):
        done = ragbench("search", *STORE, "rent", "--strategy", "sparse", "--json", *arguments)
        assert [chunk["id"] for chunk in rows(done.out)[0]["chunks"]] == wanted


def test_a_batch_is_dumped_a_line_a_question_and_can_be_validated(
    indexed: Ragbench, workplace: Path
) -> None:
    done = indexed("search", *STORE, "--questions", "office/cases.jsonl", "--dump", "out.jsonl")
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("\nout.jsonl: 3 questions\n")
    assert done.err.count("No results: ") == 1
    dumped = rows((workplace / "out.jsonl").read_text("utf-8"))
    assert [row["query_id"] for row in dumped] == ["c1", "c2", "c3"]
    assert dumped[1]["query"] == "When is the help desk open?"
    fields = "id text score metadata document_id start end"
    assert set(dumped[1]["chunks"][0]) == {*fields.split()}
    as_json = indexed("search", *STORE, "--questions", "office/cases.jsonl", "--json")
    assert rows(as_json.out) == dumped
    judged = indexed("validate", "out.jsonl", "--json", "-q")
    assert [row["query_id"] for row in rows(judged.out)] == ["c1", "c2", "c3"]


def test_questions_come_from_lines_too(
    indexed: Ragbench, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'paid leave\n\n{"id": "q2", "query": "lost badge"}\n'
    (workplace / "questions.txt").write_text(text, "utf-8")
    asked = indexed("search", *STORE, "--questions", "questions.txt", "--json")
    queries = {row["query_id"]: row["query"] for row in rows(asked.out)}
    assert queries == {"1": "paid leave", "q2": "lost badge"}
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert indexed("search", *STORE, "--questions", "-", "--json").out == asked.out
    (workplace / "questions.txt").write_text('good\n{"quer": 1}\n{bad\n', "utf-8")
    wrong = indexed("search", *STORE, "--questions", "questions.txt")
    wrong.refused("questions.txt:2", "questions.txt:3")


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
    assert done.out.startswith("1. 0.0328  leave  (dense 1. ")
    assert done.err == "Type a question; an empty line ends.\n"


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
        (["index", "office", *STORE, "--embedder", "hashing:64"], "another embedder"),
        (["index", "-", *STORE], "standard input"),
        (["index", "nothing", *STORE, *HASHING], "nothing"),
        (["index", "office", *STORE, "--embedder", "hashin"], "Did you mean 'hashing'"),
        (["index", "office", *STORE, *HASHING, "--embedder-setting", "x"], "NAME=VALUE"),
        (["index", "office", *STORE, *HASHING, "--words", "store"], "does not rank by BM25 itself"),
        (["index", "office", *STORE, *HASHING, "--words", "there"], "one of here, store, not 'th"),
        (["index", "--drop", "ofice", *STORE], "no collection 'ofice'; there are: office"),
    ],
)
def test_mistakes_are_reported_in_one_go(
    indexed: Ragbench, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    done = indexed(*arguments).refused(message)
    assert done.out == "" and "Traceback" not in done.err


def test_ctrl_c_keeps_what_is_done_and_the_same_command_continues(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = lines("many.jsonl", ({"id": f"d{at}", "text": f"text {at}"} for at in range(500)))
    command = ["index", many, *STORE, *HASHING, "-q"]
    embed = HashingEmbedder.embed_passages
    calls = itertools.count()

    def interrupted(self: HashingEmbedder, texts: Sequence[str]) -> Any:
        if next(calls) == 3:  # after one for the sample and two batches
            os.kill(os.getpid(), signal.SIGINT)
        return embed(self, texts)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # test runners ignore it
    with monkeypatch.context() as patch:
        patch.setattr(HashingEmbedder, "embed_passages", interrupted)
        stopped = ragbench(*command)
    signal.signal(signal.SIGINT, before)
    assert stopped.code == 130
    assert "the same command continues" in stopped.err
    ragbench("search", *STORE, "text 7").refused("is not complete")
    assert ragbench("search", *STORE, "text 7", "--allow-incomplete", "--json").code == 0
    result = ragbench(*command, "--json").json
    assert (result["continued"], result["chunks"], result["unchanged"]) == (True, 500, 2 * 128)
    assert ragbench("search", *STORE, "text 7").code == 0


def test_tune_names_a_setting_and_what_it_is_worth(ragbench: Ragbench) -> None:
    words = ["rent", "dogs", "keys", "garden", "stairs", "boiler", "lift", "roof", "bins", "post"]
    corpus = ({"id": word, "text": f"what the house says of the {word}"} for word in words)
    assert ragbench("index", lines("docs.jsonl", corpus), *STORE, *HASHING, "-q").code == 0
    lines("cases.jsonl", ({"query": f"{word}?", "reference_context_ids": [word]} for word in words))
    asked = ("tune", "memory:store", "--questions", "cases.jsonl", "-q")
    best = "Take 'sparse': it scores best, and nothing cheaper surely loses less than 0.01"
    assert ragbench(*asked).ok("nDCG@10 over 10 questions", best).err == ""
    assert ragbench(*asked, "--json").json["chosen"] == "sparse"
    ragbench(*asked, "--measure", "f1").refused("must be one of ndcg, recall, mrr")


# --- a collection that another program has filled

MINE = ("--store", "qdrant:mine")
DOCS = (*MINE, "--collection", "docs")
SMALL = ("--embedder", "hashing:64")


@pytest.fixture
def filled(ragbench: Ragbench, workplace: Path) -> Ragbench:
    """The command line, beside a folder that a program with Qdrant's client has written."""
    from qdrant_client import QdrantClient, models

    held = [{"page_content": one["text"], "key": one["id"]} for one in DOCUMENTS]
    fill_qdrant(["leave", "desk", "badge", "desk"], [*held, {"key": 5}], dimension=64)
    client = QdrantClient(path="mine")
    size = models.VectorParams(size=64, distance=models.Distance.COSINE)
    client.create_collection("named", vectors_config={"dense": size, "title": size})
    rows = [models.PointStruct(id=0, vector={"dense": [1.0] * 64}, payload={"body": "Leave."})]
    client.upsert("named", rows)
    client.close()
    return ragbench


@pytest.mark.extra("qdrant")
@pytest.mark.parametrize(
    ("arguments", "message"),
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
)
def test_mistakes_about_a_foreign_collection_are_reported_in_one_line(
    filled: Ragbench, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    done = filled("search", *arguments, "paid leave").refused(message)
    assert done.out == "" and "Traceback" not in done.err
