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
    named = [(word, year) for word in WORDS for year in (2020, 2021)]
    corpus = (
        {"id": f"{word}-{year}", "text": f"the {word} in {year}", "metadata": {"year": year}}
        for word, year in named
    )
    ragbench("index", lines("docs.jsonl", corpus), *STORE, *HASHING, "-q").ok()
    cases = ({"id": w, "query": w, "reference_context_ids": [f"{w}-2020"]} for w in WORDS)
    lines("cases.jsonl", cases)
    Path("post.yaml").write_text("operators: [{action: filter, type: top_k, k: 1}]\n", "utf-8")
    return ragbench


def asked(ragbench: Ragbench, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = ragbench("why", "memory:store", *arguments, "--json", "-q").ok().json
    return found


def gains(found: dict[str, Any]) -> dict[str, float]:
    return {one["name"]: one["gain"]["mean"] for one in found["changes"]}


def test_the_gain_of_each_change_is_that_of_its_questions() -> None:
    found = why(collection(), CASES, k=3, command="ragbench search --store S")
    # By words two of three questions find their chunk; by vectors every one does.
    assert (found.questions, found.skipped) == (30, 0)
    assert found.recall.mean == pytest.approx(1.0)
    sparse = collection()
    present = [one for one in found.changes if one.gain.mean]
    assert present == [] and found.lost == {} and found.together is None
    words = replace(sparse, present=SearchSetting(strategy="sparse"))
    by_words = why(words, CASES, k=3, command="ragbench search --store S")
    assert by_words.recall.mean == pytest.approx(2 / 3)
    best = by_words.changes[0]
    assert best.gain.mean == pytest.approx(1 / 3)
    assert (best.is_sure, best.is_estimate) == (True, False)
    assert best.name == "search by dense ef=16"  # of equal gains the cheapest
    assert best.how == "RAGBENCH_EF=16 ragbench search --store S --strategy dense"
    with pytest.raises(DataError, match="3 of 3 questions say what should be found: one, or at"):
        why(sparse, CASES[:3], k=3)


def test_what_one_question_lost_and_the_cheapest_change(indexed: Ragbench) -> None:
    one = ("rent", "--gold", "rent-2020")
    found = asked(indexed, *one, "--filter", "year=2021", "-k", "2")
    assert found["golds"]["golds"][0]["cause"] == "lost_by_filter"
    ranks = {rank["way"]: rank["ranks"] for rank in found["ranks"]}
    assert (ranks["by words"], ranks["by vectors"]) == ([None], [None])
    assert ranks["without the filter"] == [1]  # of equal scores the lower id comes first
    assert list(gains(found)) == ["without the filter"]
    # What an operator drops is found without it.
    dropped = asked(indexed, "rent", "--gold", "rent-2021", "--post-retrieval", "post.yaml")
    ranks = {rank["way"]: rank["ranks"] for rank in dropped["ranks"]}
    assert (ranks["by words"], ranks["after filter.top_k"]) == ([2], [None])
    assert "without the operator filter.top_k" in gains(dropped)
    shown = indexed("why", "memory:store", *one, "-k", "2").ok("The context (2 chunks) has it")
    assert "rent-2020: retrieved, rank 1" in shown.out
    address = "qdrant+http://:s3cret@localhost:1"
    refused = indexed("why", address, "rent", "--gold", "x", "--embedder", "hashing:8")
    assert refused.code == 2 and "s3cret" not in refused.err
    deeper = asked(indexed, "rent", "--gold", "rent-2021", "-k", "1")
    assert gains(deeper)["the first 2 chunks"] == 1.0


def test_a_run_gives_ranked_changes_that_add_up(indexed: Ragbench) -> None:
    run = ("--run", "cases.jsonl", "--filter", "year=2021", "-k", "1")
    found = asked(indexed, *run)
    assert (found["recall"]["mean"], found["lost"]) == (0.0, {"lost_by_filter": 10})
    assert gains(found)["without the filter"] == 1.0
    assert [one["is_sure"] for one in found["changes"] if "filter" in one["name"]] == [True]
    text = indexed("why", "memory:store", *run, "-q").ok("recall@1 0.000 over 10 questions").out
    assert "10 lost by filter" in text and "leave out --filter" in text
    case = asked(indexed, "--run", "cases.jsonl", "--case", "rent", "-k", "1")
    assert case["golds"]["golds"][0]["cause"] == "retrieved"


def test_another_chunk_size_is_estimated_from_the_stores_own_chunks(ragbench: Ragbench) -> None:
    # Each document says two things far from each other: chunks of half the size hold both in the
    # same length of context, and a chunk of the present size holds one.
    text = f"The {{0}} is {{0}}ly. {FILLER * 18}The {{0}} ends."
    rows = ({"id": word, "text": text.format(word)} for word in WORDS)
    ragbench("index", lines("docs.jsonl", rows), *STORE, *HASHING, "-q").ok()
    cases = [
        {
            "id": w,
            "query": f"{w} {w}ly ends",
            "evidence": [
                {"document_id": w, "text": f"The {w} is {w}ly."},
                {"document_id": w, "text": f"The {w} ends."},
            ],
        }
        for w in WORDS
    ]
    found = asked(ragbench, "--run", str(lines("cases.jsonl", cases)), "-k", "1")
    sized = {one["name"]: one for one in found["changes"] if one["name"].startswith("chunks of")}
    half, _ = sorted(sized.values(), key=lambda one: -one["gain"]["mean"])
    assert half["is_estimate"] and half["gain"]["mean"] == pytest.approx(0.5)
    assert half["how"].startswith("ragbench index CORPUS --store memory:size --chunk-size ")


def test_documents_are_put_together_again_before_they_are_cut_anew() -> None:
    document = Document(id="d", text=" ".join(f"Word{n} stands here." for n in range(200)))
    chunks = document_chunks(document, make_chunker("tokens"))
    assert len(chunks) > 2
    assert [(one.text, one.document_id) for one in resized(chunks, 4000)] == [(document.text, "d")]
    # A chunk that does not say where it stands is a text of its own.
    alone = [Chunk(id="a", text="One."), Chunk(id="b", text="Two.", document_id="x")]
    assert [one.document_id for one in resized(alone, 100)] == ["a", "b"]


@pytest.mark.extra("qdrant")
@pytest.mark.extra("embeddings")
def test_bm25_and_static_vectors_are_estimated_beside_a_foreign_store(
    ragbench: Ragbench, workplace: Path
) -> None:
    texts = [f"How the {word} of this house is kept in the winter" for word in WORDS]
    held = [{"text": text, "document_id": word} for text, word in zip(texts, WORDS, strict=True)]
    fill_qdrant(["all are the same"] * len(held), held, dimension=8)
    cases = ({"query": f"the {w}", "reference_context_ids": [w]} for w in WORDS)
    store = ("why", "qdrant:mine", "--collection", "docs", "--embedder", "hashing:8")
    found = ragbench(*store, "--run", lines("c.jsonl", cases), "-k", "1", "-q", "--json").ok().json
    assert found["recall"]["mean"] <= 0.2  # all vectors are the same
    wanted = {"BM25 in place of the store's words", "the static embedder english beside words"}
    assert {one["name"] for one in found["changes"][:3] if one["is_estimate"]} >= wanted
    assert gains(found)["BM25 in place of the store's words"] >= 0.8
