"""What a reader learns from: questions with an answer in a passage, and near misses of it.

Beside squad2_dev_half, public sets in their authors' files, each where its file is given:
``new_wiki_v1.0.json``, ``amazon_reviews_v1.0.json``, ``reddit_v1.0.json`` (SQuADShifts, CC BY 4.0),
``qed-dev.jsonlines`` (QED: questions of Natural Questions, CC BY-SA 3.0) and
``selqa-ass-dev.json``, ``selqa-ass-test.json`` (SelQA, Apache-2.0). Articles that a test set holds
are left out by their titles.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.validation_pools import HELD_OUT, Collection, Labelled, rows, squad_half
from ragbench import Chunk
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.text.sentences import split_sentences

TESTED = ("xquad_en", "squad2_dev_otherhalf", "clapnq_dev")
"""Passages that validators are measured on, or that stand in those pools."""
REVIEWS_AND_COMMENTS = 1500
"""Questions of each of the two sets that are furthest from an encyclopaedia."""
SENTENCES = 6
"""Sentences of a passage that is made of a section."""


@dataclass(frozen=True, slots=True)
class Example:
    """A pair of texts; start and end are the answer's in the text, or -1."""

    query: str
    text: str
    label: float
    start: int = -1
    end: int = -1


@dataclass(frozen=True, slots=True)
class Source:
    """A question with what can be made of it."""

    question: Labelled
    positives: tuple[Example, ...]
    without_answer: tuple[Example, ...]
    near: tuple[str, ...]
    """Paragraphs that do not answer, the nearest first: of the article, then of others."""


def all_sources(data: Path, extra: Path | None) -> tuple[list[Source], list[Example]]:
    """Questions with answers; pairs of a question that has none and its passage."""
    sources, unanswerable = _sources(squad_half(data, held_out=False), siblings=3)
    if extra is None:
        return sources, unanswerable
    tested = _tested_titles(data)
    wiki = _squad_format(extra / "new_wiki_v1.0.json", tested)
    sources += _sources(wiki, siblings=3)[0]
    draw = random.Random(5)
    for name in ("amazon_reviews", "reddit"):
        found, _ = _sources(_squad_format(extra / f"{name}_v1.0.json", tested), siblings=0)
        sources += draw.sample(found, min(REVIEWS_AND_COMMENTS, len(found)))
    qed = _qed(extra / "qed-dev.jsonlines", tested)
    sources += _sources(_with_strangers(qed, wiki), siblings=3)[0]
    for part in ("dev", "test"):
        selqa = _selqa(extra / f"selqa-ass-{part}.json", tested)
        sources += _sources(selqa, siblings=3, pointed=False)[0]
    return sources, unanswerable


def _sources(
    collection: Collection, *, siblings: int, pointed: bool = True
) -> tuple[list[Source], list[Example]]:
    texts = {chunk.id: chunk for chunk in collection.chunks}
    index = Bm25Index(collection.chunks, title_weight=0)
    sources: list[Source] = []
    unanswerable: list[Example] = []
    for question in collection.questions:
        own = texts.get(question.own)
        if own is None:
            continue
        if not question.gold:
            unanswerable.append(Example(question.text, own.text, 0.0))
            continue
        wanted = [answer.lower() for answer in question.answers]
        others = [
            chunk
            for chunk in index.batch_search([question.text], 60)[0]
            if chunk.id not in question.gold
            and not any(one in chunk.text.lower() for one in wanted)
        ]
        near = [one.text for one in others if one.document_id == own.document_id][:siblings]
        near += [one.text for one in others if one.document_id != own.document_id][:1]
        sources.append(_source(question, own.text, tuple(near), pointed=pointed))
    return sources, unanswerable


def _source(question: Labelled, text: str, near: tuple[str, ...], *, pointed: bool) -> Source:
    _, start, end = question.spans[0]
    sentences = split_sentences(text)
    held = [at for at, one in enumerate(sentences) if one.start < end and one.end > start]
    positives = [_positive(question.text, text, start, end, pointed=pointed)]
    without: list[Example] = []
    if held:
        first, last = sentences[max(0, held[0] - 1)], sentences[held[-1]]
        short = text[first.start : last.end]
        shift = first.start
        positives.append(
            _positive(question.text, short, start - shift, end - shift, pointed=pointed)
        )
        rest = text[: sentences[held[0]].start] + text[last.end :].lstrip()
        if len(rest.split()) > 30 and not any(a.lower() in rest.lower() for a in question.answers):
            without.append(Example(question.text, rest, 0.0))
    return Source(question, tuple(positives), tuple(without), near)


def _positive(query: str, text: str, start: int, end: int, *, pointed: bool) -> Example:
    """An answering pair; where only the sentence is known, no place is learned."""
    return Example(query, text, 1.0, start, end) if pointed else Example(query, text, 1.0)


def _tested_titles(data: Path) -> frozenset[str]:
    titles = {row["title"] for name in TESTED for row in rows(data / f"{name}.passages.jsonl")}
    return frozenset(_plain(title) for title in (*titles, *HELD_OUT))


def _plain(title: str) -> str:
    return title.replace("_", " ").lower()


def _squad_format(path: Path, tested: frozenset[str]) -> Collection:
    """SQuADShifts; comments have no articles, so that each paragraph is one."""
    articles = json.loads(path.read_text("utf-8"))["data"]
    chunks: list[Chunk] = []
    questions: list[Labelled] = []
    for article in articles:
        if _plain(article["title"]) in tested:
            continue
        for paragraph in article["paragraphs"]:
            id_ = f"{path.stem}-{len(chunks)}"
            document = article["title"] if len(articles) > 1 else id_
            chunks.append(Chunk(id=id_, text=paragraph["context"], document_id=document))
            questions += [
                _labelled(asked["id"], asked["question"], id_, asked["answers"])
                for asked in paragraph["qas"]
                if asked["answers"]
            ]
    return Collection(name=path.stem, chunks=tuple(chunks), questions=tuple(questions))


def _labelled(id_: str, text: str, own: str, answers: Sequence[dict[str, Any]]) -> Labelled:
    spans = [(own, one["answer_start"], one["answer_start"] + len(one["text"])) for one in answers]
    return Labelled(
        id=id_,
        text=text,
        gold=frozenset([own]),
        own=own,
        answers=tuple(one["text"] for one in answers),
        spans=tuple(spans),
        reference=answers[0]["text"],
    )


def _qed(path: Path, tested: frozenset[str]) -> Collection:
    chunks: list[Chunk] = []
    questions: list[Labelled] = []
    for row in rows(path):
        answers = [part for given in row["original_nq_answers"] for part in given]
        if _plain(row["title_text"]) in tested or not answers:
            continue
        id_ = f"qed-{len(chunks)}"
        text = row["paragraph_text"]
        chunks.append(Chunk(id=id_, text=text, document_id=row["title_text"]))
        stored = [{"answer_start": one["start"], "text": one["string"]} for one in answers]
        questions.append(_labelled(str(row["example_id"]), row["question_text"], id_, stored))
    return Collection(name="qed", chunks=tuple(chunks), questions=tuple(questions))


def _with_strangers(few: Collection, many: Collection) -> Collection:
    return Collection(name=few.name, chunks=(*few.chunks, *many.chunks), questions=few.questions)


def _selqa(path: Path, tested: frozenset[str]) -> Collection:
    """Sections cut into passages; the sentences that answer are known, the answers are not."""
    chunks: dict[str, Chunk] = {}
    questions: list[Labelled] = []
    for number, row in enumerate(json.loads(path.read_text("utf-8"))):
        if _plain(row["article"]) in tested or not row["answers"]:
            continue
        gold: list[str] = []
        start = end = 0
        for id_, first, sentences in _passages(row):
            chunks.setdefault(
                id_, Chunk(id=id_, text=" ".join(sentences), document_id=row["article"])
            )
            inside = [at - first for at in row["answers"] if first <= at < first + len(sentences)]
            if inside:
                if not gold:
                    start = sum(len(one) + 1 for one in sentences[: inside[0]])
                    end = start + len(sentences[inside[0]])
                gold.append(id_)
        questions.append(
            Labelled(
                id=f"{path.stem}-{number}",
                text=row["question"],
                gold=frozenset(gold),
                own=gold[0],
                answers=tuple(row["candidates"][at] for at in row["answers"]),
                spans=((gold[0], start, end),),
                reference=row["candidates"][row["answers"][0]],
            )
        )
    return Collection(name=path.stem, chunks=tuple(chunks.values()), questions=tuple(questions))


def _passages(row: dict[str, Any]) -> Iterator[tuple[str, int, list[str]]]:
    sentences = row["candidates"]
    for first in range(0, len(sentences), SENTENCES):
        part = sentences[first : first + SENTENCES]
        yield f"{row['article']}: {part[0]}", first, part
