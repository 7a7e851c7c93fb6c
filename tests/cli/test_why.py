"""why(): where the gold is, and what each change brings, by counts that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench import Chunk, Document
from ragbench.errors import DataError
from ragbench.search.pipeline.agreement import resized
from ragbench.search.pipeline.documents import document_chunks, make_chunker
from ragbench.verbs.tune import SearchSetting
from ragbench.verbs.why import why
from tests.cli.runs import Ragbench, lines
from tests.unit.search.pipeline.builders import fill_qdrant
from tests.unit.verbs.test_tune import CASES, WORDS, collection

STORE = ("--store", "memory:store")
HASHING = ("--embedder", "hashing:256")
FILLER = "It is as it was, and so it stays for all who live here. "


@pytest.fixture
def indexed(ragbench: Ragbench) -> Ragbench:
    """A store with one chunk about each word in 2020 and one in 2021; the gold is of 2020."""
    documents = []
    cases = []
    for word in WORDS:
        for year in (2020, 2021):
            document = {
                "id": f"{word}-{year}",
                "text": f"the {word} in {year}",
                "metadata": {"year": year},
            }
            documents.append(document)
        cases.append({"id": word, "query": word, "reference_context_ids": [f"{word}-2020"]})
    lines("docs.jsonl", documents)
    lines("cases.jsonl", cases)
    ragbench("index", "docs.jsonl", *STORE, *HASHING, "-q").ok()
    Path("post.yaml").write_text("operators: [{action: filter, type: top_k, k: 1}]\n", "utf-8")
    return ragbench


def why_of(ragbench: Ragbench, *arguments: str) -> dict[str, Any]:
    """What the command gives as data."""
    done = ragbench("why", "memory:store", *arguments, "--json", "-q").ok()
    document: dict[str, Any] = done.json
    return document


def cause_of_first_gold(document: dict[str, Any]) -> str:
    golds = document["golds"]["golds"]
    return str(golds[0]["cause"])


def gains(document: dict[str, Any]) -> dict[str, float]:
    """By name of each change: what it gains on average."""
    return {change["name"]: change["gain"]["mean"] for change in document["changes"]}


def ranks(document: dict[str, Any]) -> dict[str, list[int | None]]:
    """By way of searching: the ranks of the gold."""
    return {rank["way"]: rank["ranks"] for rank in document["ranks"]}


# --- the function, by hand: by words two of three questions find their chunk, by vectors every one


def test_where_nothing_is_lost_no_change_gains() -> None:
    report = why(collection(), CASES, k=3, command="ragbench search --store S")

    assert report.questions == 30
    assert report.skipped == 0
    assert report.recall.mean == pytest.approx(1.0)
    assert [change.name for change in report.changes if change.gain.mean] == []
    assert report.lost == {}
    assert report.together is None


def test_the_cheapest_of_equal_gains_comes_first_with_its_command() -> None:
    by_words = replace(collection(), present=SearchSetting(strategy="sparse"))

    report = why(by_words, CASES, k=3, command="ragbench search --store S")

    assert report.recall.mean == pytest.approx(2 / 3)
    best = report.changes[0]
    assert best.name == "search by dense ef=16"
    assert best.gain.mean == pytest.approx(1 / 3)
    assert best.is_sure
    assert not best.is_estimate
    assert best.how == "RAGBENCH_EF=16 ragbench search --store S --strategy dense"


def test_too_few_questions_are_refused() -> None:
    with pytest.raises(DataError, match="3 of 3 questions say what should be found: one, or at"):
        why(collection(), CASES[:3], k=3)


# --- one question


def test_gold_that_the_filter_takes_away_is_found_without_it(indexed: Ragbench) -> None:
    question = ("rent", "--gold", "rent-2020", "--filter", "year=2021", "-k", "2")

    document = why_of(indexed, *question)

    assert cause_of_first_gold(document) == "lost_by_filter"
    rank_of = ranks(document)
    assert rank_of["by words"] == [None]
    assert rank_of["by vectors"] == [None]
    assert rank_of["without the filter"] == [1]  # of equal scores the lower id first
    assert list(gains(document)) == ["without the filter"]


def test_gold_that_an_operator_drops_is_found_without_it(indexed: Ragbench) -> None:
    question = ("rent", "--gold", "rent-2021", "--post-retrieval", "post.yaml")

    document = why_of(indexed, *question)

    rank_of = ranks(document)
    assert rank_of["by words"] == [2]
    assert rank_of["after filter.top_k"] == [None]
    assert "without the operator filter.top_k" in gains(document)


def test_gold_behind_the_last_chunk_is_found_by_one_chunk_more(indexed: Ragbench) -> None:
    document = why_of(indexed, "rent", "--gold", "rent-2021", "-k", "1")

    assert gains(document)["the first 2 chunks"] == 1.0


def test_gold_that_is_in_the_context_is_shown_with_its_rank(indexed: Ragbench) -> None:
    done = indexed("why", "memory:store", "rent", "--gold", "rent-2020", "-k", "2")

    done.ok("The context (2 chunks) has it", "rent-2020: retrieved, rank 1")


def test_the_password_of_a_store_is_not_shown(indexed: Ragbench) -> None:
    address = "qdrant+http://:s3cret@localhost:1"

    done = indexed("why", address, "rent", "--gold", "x", "--embedder", "hashing:8").ends(2)

    assert "s3cret" not in done.err


# --- a run

RUN_OF_2021 = ("--run", "cases.jsonl", "--filter", "year=2021", "-k", "1")


def test_a_run_counts_what_is_lost_and_what_each_change_gains(indexed: Ragbench) -> None:
    document = why_of(indexed, *RUN_OF_2021)

    assert document["recall"]["mean"] == 0.0
    assert document["lost"] == {"lost_by_filter": 10}
    assert gains(document)["without the filter"] == 1.0
    sure_by_name = {change["name"]: change["is_sure"] for change in document["changes"]}
    assert sure_by_name["without the filter"] is True


def test_a_run_is_told_in_words(indexed: Ragbench) -> None:
    done = indexed("why", "memory:store", *RUN_OF_2021, "-q")

    done.ok("recall@1 0.000 over 10 questions", "10 lost by filter", "leave out --filter")


def test_one_case_of_a_run_is_looked_at_by_its_id(indexed: Ragbench) -> None:
    document = why_of(indexed, "--run", "cases.jsonl", "--case", "rent", "-k", "1")

    assert cause_of_first_gold(document) == "retrieved"


# --- what another index would bring


def test_another_chunk_size_is_estimated_from_the_stores_own_chunks(ragbench: Ragbench) -> None:
    """Each document says two things far from each other.

    Chunks of half the size hold both in the same length of context, and a chunk of the present
    size holds one.
    """
    documents = []
    cases = []
    for word in WORDS:
        beginning = f"The {word} is {word}ly."
        end = f"The {word} ends."
        text = f"{beginning} {FILLER * 18}{end}"
        documents.append({"id": word, "text": text})
        case = {
            "id": word,
            "query": f"{word} {word}ly ends",
            "evidence": [
                {"document_id": word, "text": beginning},
                {"document_id": word, "text": end},
            ],
        }
        cases.append(case)
    lines("docs.jsonl", documents)
    lines("cases.jsonl", cases)
    ragbench("index", "docs.jsonl", *STORE, *HASHING, "-q").ok()

    document = why_of(ragbench, "--run", "cases.jsonl", "-k", "1")

    changes = document["changes"]
    sizes = [change for change in changes if change["name"].startswith("chunks of")]
    assert len(sizes) == 2
    best = max(sizes, key=lambda change: float(change["gain"]["mean"]))
    assert best["is_estimate"]
    assert best["gain"]["mean"] == pytest.approx(0.5)
    assert best["how"].startswith("ragbench index CORPUS --store memory:size --chunk-size ")


def test_documents_are_put_together_again_before_they_are_cut_anew() -> None:
    sentences = [f"Word{number} stands here." for number in range(200)]
    document = Document(id="d", text=" ".join(sentences))
    chunks = document_chunks(document, make_chunker("tokens"))
    assert len(chunks) > 2

    (whole,) = resized(chunks, 4000)

    assert whole.text == document.text
    assert whole.document_id == "d"


def test_a_chunk_that_does_not_say_where_it_stands_is_a_text_of_its_own() -> None:
    without_document = Chunk(id="a", text="One.")
    without_position = Chunk(id="b", text="Two.", document_id="x")

    chunks = resized([without_document, without_position], 100)

    assert [chunk.document_id for chunk in chunks] == ["a", "b"]


@pytest.mark.extra("qdrant")
@pytest.mark.extra("embeddings")
@pytest.mark.usefixtures("workplace")
def test_bm25_and_static_vectors_are_estimated_beside_a_foreign_store(ragbench: Ragbench) -> None:
    """Of a store in which all vectors are the same."""
    payloads = []
    cases = []
    for word in WORDS:
        text = f"How the {word} of this house is kept in the winter"
        payloads.append({"text": text, "document_id": word})
        cases.append({"query": f"the {word}", "reference_context_ids": [word]})
    texts_of_vectors = ["all are the same"] * len(payloads)
    fill_qdrant(texts_of_vectors, payloads, dimension=8)
    lines("cases.jsonl", cases)
    store = ("qdrant:mine", "--collection", "docs", "--embedder", "hashing:8")

    done = ragbench("why", *store, "--run", "cases.jsonl", "-k", "1", "-q", "--json").ok()

    document = done.json
    assert document["recall"]["mean"] <= 0.2
    assert gains(document)["BM25 in place of the store's words"] >= 0.8
    best_changes = document["changes"][:3]
    best_estimates = [change["name"] for change in best_changes if change["is_estimate"]]
    assert "BM25 in place of the store's words" in best_estimates
    assert "the static embedder english beside words" in best_estimates
