"""Pools of chunks with known answers, after the three protocols, from labelled data given by path.

document-absent: the other chunks come from other documents than the gold chunk.
siblings: other chunks of the gold document stay in.
topical: human-written unanswerable questions, with their own passage in the pool.

Of each answerable question there are two pools: one with the gold chunk and one without it. Other
chunks that hold the gold answer string, and exact duplicates, are dropped beforehand. Nothing in a
pool tells whether the gold chunk was taken out: it holds as many chunks as the other one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench import Chunk
from ragbench.search.pipeline.baseline import Bm25Index

HELD_OUT = ("Normans", "Packet_switching", "Scottish_Parliament", "Imperialism")
"""Articles of squad2_dev_half that no weights are trained on: thresholds are chosen there."""
OVERLAP_FREE = "in_squad2_half"
PROTOCOLS = ("document-absent", "siblings", "topical")


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """A question and where its answer is."""

    id: str
    text: str
    gold: frozenset[str]
    """Chunks that hold the answer; for an unanswerable question, empty."""
    own: str
    """The passage that it was written or judged for."""
    answers: tuple[str, ...]
    spans: tuple[tuple[str, int, int], ...]
    """Chunk id, start, end of each labelled answer or evidence sentence."""
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """What a retriever would hand over."""

    protocol: str
    question: Labelled
    chunks: tuple[Chunk, ...]
    present: bool
    """Whether the gold chunk is among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """Chunks and questions of one data set."""

    name: str
    chunks: tuple[Chunk, ...]
    questions: tuple[Labelled, ...]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def squad_half(folder: Path, *, held_out: bool) -> Collection:
    """squad2_dev_half: either the articles for thresholds or those for training."""
    passages = rows(folder / "squad2_dev_half.passages.jsonl")
    questions = [
        _squad_question(row)
        for row in rows(folder / "squad2_dev_half.questions.jsonl")
        if (row["title"] in HELD_OUT) is held_out
    ]
    kept = [row for row in passages if held_out or row["title"] not in HELD_OUT]
    chunks = _unique(kept + rows(folder / "squad2_dev_otherhalf.passages.jsonl"), "title")
    name = "squad2_dev_half, held out" if held_out else "squad2_dev_half, training"
    return Collection(name=name, chunks=chunks, questions=tuple(questions))


def xquad(folder: Path) -> Collection:
    """xquad_en, the articles that squad2_dev_half does not hold."""
    questions = [
        _squad_question(row)
        for row in rows(folder / "xquad_en.questions.jsonl")
        if not row[OVERLAP_FREE]
    ]
    chunks = _unique(
        rows(folder / "xquad_en.passages.jsonl")
        + rows(folder / "squad2_dev_otherhalf.passages.jsonl"),
        "title",
    )
    return Collection(name="xquad_en", chunks=chunks, questions=tuple(questions))


def xquad_zh(folder: Path) -> Collection:
    """The same questions and paragraphs in Chinese."""
    articles = json.loads((folder / "xquad_zh.squad.json").read_text("utf-8"))["data"]
    kept = {question.id for question in xquad(folder).questions}
    passages: list[dict[str, Any]] = []
    questions: list[Labelled] = []
    for article in articles:
        for paragraph in article["paragraphs"]:
            id_ = f"zh{len(passages)}"
            passages.append({"pid": id_, "text": paragraph["context"], "title": article["title"]})
            for asked in paragraph["qas"]:
                answers = asked["answers"]
                row = {
                    "qid": asked["id"],
                    "question": asked["question"],
                    "pid": id_,
                    "answerable": True,
                    "answers": [one["text"] for one in answers],
                    "answer_starts": [[one["answer_start"], one["text"]] for one in answers],
                }
                if asked["id"] in kept:
                    questions.append(_squad_question(row))
    chunks = _unique(passages, "title")
    return Collection(name="xquad_zh", chunks=chunks, questions=tuple(questions))


def clapnq(folder: Path) -> Collection:
    passages = rows(folder / "clapnq_dev.passages.jsonl")
    texts = {row["pid"]: row["text"] for row in passages}
    questions: list[Labelled] = []
    for row in rows(folder / "clapnq_dev.questions.jsonl"):
        evidence = tuple(row.get("evidence") or ()) if row["answerable"] else ()
        text = texts[row["pid"]]
        spans = tuple(
            (row["pid"], text.index(one), text.index(one) + len(one))
            for one in evidence
            if one in text
        )
        questions.append(
            Labelled(
                id=row["qid"],
                text=row["question"],
                gold=frozenset([row["pid"]] if row["answerable"] else []),
                own=row["pid"],
                answers=evidence,
                spans=spans,
                reference=row.get("answer") or "",
            )
        )
    return Collection(name="clapnq", chunks=_unique(passages, "title"), questions=tuple(questions))


def covidqa(folder: Path) -> Collection:
    passages = rows(folder / "covidqa.passages.jsonl")
    texts = {row["pid"]: row["text"] for row in passages}
    questions: list[Labelled] = []
    for row in rows(folder / "covidqa.questions.jsonl"):
        answers = tuple(one.strip() for one in row["answers"])
        spans = tuple(
            (pid, texts[pid].index(one), texts[pid].index(one) + len(one))
            for pid in row["gold"]
            for one in answers
            if one in texts[pid]
        )
        questions.append(
            Labelled(
                id=row["qid"],
                text=row["question"],
                gold=frozenset(row["gold"]),
                own=row["gold"][0],
                answers=answers,
                spans=spans,
                reference=answers[0],
            )
        )
    return Collection(name="covidqa", chunks=_unique(passages, "doc"), questions=tuple(questions))


def policyqa(folder: Path) -> Collection:
    """Privacy policies. Many ask the same of each, so the site stands before the question."""
    passages = rows(folder / "policyqa_dev.passages.jsonl")
    texts = {row["pid"]: row["text"] for row in passages}
    questions: list[Labelled] = []
    for row in rows(folder / "policyqa_dev.questions.jsonl"):
        answers = tuple(one.strip() for one in row["answers"] if one.strip() in texts[row["pid"]])
        spans = tuple(
            (row["pid"], texts[row["pid"]].index(one), texts[row["pid"]].index(one) + len(one))
            for one in answers
        )
        if not spans:
            continue
        questions.append(
            Labelled(
                id=row["qid"],
                text=f"{row['title']}: {row['question']}",
                gold=frozenset([row["pid"]]),
                own=row["pid"],
                answers=answers,
                spans=spans,
                reference=answers[0],
            )
        )
    return Collection(
        name="policyqa", chunks=_unique(passages, "title"), questions=tuple(questions)
    )


PELLORIN = Path(__file__).parents[1] / "datasets" / "pellorin"
"""The set that comes with ragbench: look-alike policies, old and new versions, tables."""


def pellorin(folder: Path = PELLORIN) -> Collection:
    """Its English questions; documents are cut at blank lines, each piece below its title."""
    chunks: list[Chunk] = []
    for row in rows(folder / "corpus.jsonl"):
        for at, part in enumerate(row["text"].split("\n\n")):
            text = f"{row['title']}\n{part}"
            chunks.append(Chunk(id=f"{row['id']}/{at}", text=text, document_id=row["id"]))
    index = Bm25Index(chunks, title_weight=0)
    questions: list[Labelled] = []
    for row in rows(folder / "cases.jsonl"):
        if row["language"] != "en":
            continue
        spans = tuple(
            (one.id, one.text.index(said["text"]), one.text.index(said["text"]) + len(said["text"]))
            for said in row["evidence"]
            for one in chunks
            if one.document_id == said["document_id"] and said["text"] in one.text
        )
        if row["answerable"] and len({id_ for id_, _, _ in spans}) != 1:
            continue  # of two passages, or across blank lines
        nearest = index.batch_search([row["query"]], 1)[0][0].id
        questions.append(
            Labelled(
                id=row["id"],
                text=row["query"],
                gold=frozenset(id_ for id_, _, _ in spans),
                own=spans[0][0] if spans else nearest,
                answers=tuple(one["text"] for one in row["evidence"]),
                spans=spans,
                reference=row["reference"] or "",
            )
        )
    return Collection(name="pellorin", chunks=tuple(chunks), questions=tuple(questions))


def build_pools(
    collection: Collection,
    protocols: Sequence[str],
    *,
    limit: int,
    size: int = 20,
    seed: int = 7,
) -> list[Pool]:
    """Pools of ``size`` chunks for at most ``limit`` answerable and as many other questions."""
    draw = random.Random(seed)
    index = Bm25Index(collection.chunks, title_weight=0)
    texts = {chunk.id: chunk for chunk in collection.chunks}
    usable = [one for one in collection.questions if one.own in texts]
    answerable = [one for one in usable if one.gold and one.gold <= texts.keys()]
    others = [one for one in usable if not one.gold]
    pools: list[Pool] = []
    for question in draw.sample(answerable, min(limit, len(answerable))):
        [ranked] = index.batch_search([question.text], 12 * size)
        for protocol in protocols:
            pools.extend(_answerable_pools(question, protocol, ranked, texts, size))
    if "topical" in protocols:
        for question in draw.sample(others, min(limit, len(others))):
            [ranked] = index.batch_search([question.text], size)
            ranked = [one for one in ranked if one.id != question.own]
            chunks = [*ranked[: size - 1], texts[question.own]]
            draw.shuffle(chunks)
            pools.append(_pool("topical", question, chunks, present=False))
    return pools


def _answerable_pools(
    question: Labelled,
    protocol: str,
    ranked: Sequence[Chunk],
    texts: dict[str, Chunk],
    size: int,
) -> list[Pool]:
    documents = {texts[one].document_id for one in question.gold}
    wanted = [answer.lower() for answer in question.answers]
    others = [
        chunk
        for chunk in ranked
        if chunk.id not in question.gold
        and (protocol != "document-absent" or chunk.document_id not in documents)
        and not any(answer in chunk.text.lower() for answer in wanted)
    ]
    gold = texts[min(question.gold)]
    place = sum(chunk.id not in question.gold for chunk in ranked[: _rank(question, ranked)])
    with_gold = [*others[: size - 1]]
    with_gold.insert(min(place, len(with_gold)), gold)
    found = [_pool(protocol, question, with_gold, present=True)]
    if protocol != "topical":  # there the unanswerable questions are the other half
        found.append(_pool(protocol, question, others[:size], present=False))
    return found


def _rank(question: Labelled, ranked: Sequence[Chunk]) -> int:
    return next((at for at, one in enumerate(ranked) if one.id in question.gold), len(ranked))


def _pool(protocol: str, question: Labelled, chunks: Sequence[Chunk], *, present: bool) -> Pool:
    plain = tuple(Chunk(id=one.id, text=one.text, document_id=one.document_id) for one in chunks)
    return Pool(protocol=protocol, question=question, chunks=plain, present=present)


def _squad_question(row: dict[str, Any]) -> Labelled:
    spans = tuple(
        (row["pid"], start, start + len(text)) for start, text in row.get("answer_starts") or ()
    )
    return Labelled(
        id=row["qid"],
        text=row["question"],
        gold=frozenset([row["pid"]] if row["answerable"] else []),
        own=row["pid"],
        answers=tuple(row["answers"]),
        spans=spans,
        reference=row["answers"][0] if row["answers"] else "",
    )


def _unique(passages: Sequence[dict[str, Any]], document: str) -> tuple[Chunk, ...]:
    """The passages as chunks, the first of those with the same text."""
    seen: dict[str, Chunk] = {}
    for row in passages:
        key = " ".join(row["text"].lower().split())
        seen.setdefault(key, Chunk(id=row["pid"], text=row["text"], document_id=str(row[document])))
    return tuple(seen.values())
