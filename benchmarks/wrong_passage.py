"""How far the cause wrong_passage holds: ``python -m benchmarks.wrong_passage DATA``.

DATA is a folder with passages and questions of xquad_en, covidqa, clapnq_dev, policyqa_dev and
squad2_dev_half. For each question a system shows one chunk of the right document among chunks of
others, and declines: once the chunk with the labelled answer, and once another chunk of the same
document that does not quote it. The gold is the document. The cause is right if it is
``wrong_passage`` for the second alone.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ragbench import Case, GenerationResult, RetrievalResult
from ragbench.core.attribution import Cause
from ragbench.core.outcome import Outcome, Status
from ragbench.core.trace import Trace
from ragbench.metrics.matching import normalised
from ragbench.stages.attribution import attribute
from ragbench.stats.mean import proportion_interval

SETS = ("xquad_en", "covidqa", "clapnq_dev", "policyqa_dev", "squad2_dev_half")
MOST_QUESTIONS = 1_500
OTHERS = 4
"""Chunks of other documents that are shown beside."""


class Question(NamedTuple):
    text: str
    references: tuple[str, ...]
    document: str
    gold: str
    """The chunk with the answer."""
    sibling: str | None
    """Another chunk of its document; None where each quotes the answer."""


def questions(folder: Path, name: str) -> Iterator[Question]:
    """The answerable questions of a set, in random order."""
    documents: dict[str, dict[str, str]] = defaultdict(dict)
    document_of: dict[str, str] = {}
    for passage in read_lines(folder / f"{name}.passages.jsonl"):
        document = str(passage.get("doc", passage.get("title")))
        documents[document][passage["pid"]] = passage["text"]
        document_of[passage["pid"]] = document
    rows = [row for row in read_lines(folder / f"{name}.questions.jsonl") if is_answerable(row)]
    draw = random.Random(0)
    draw.shuffle(rows)
    for row in rows[:MOST_QUESTIONS]:
        references = tuple(row.get("answers") or [row["answer"]])
        golds = row.get("gold") or [row["pid"]]
        document = document_of[golds[0]]
        siblings: list[str] = []
        for id, text in documents[document].items():
            is_quoted = any(normalised(answer) in normalised(text) for answer in references)
            if id not in golds and not is_quoted:
                siblings.append(text)
        yield Question(
            text=row["question"],
            references=references,
            document=document,
            gold=documents[document][golds[0]],
            sibling=draw.choice(siblings) if siblings else None,
        )


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def is_answerable(row: dict[str, Any]) -> bool:
    return bool(row.get("answerable", True))


def cause_of(question: Question, chunk: str, others: list[str]) -> Cause:
    """The cause of a declined case that shows one chunk of the right document, and others."""
    documents = [question.document, *(f"other-{number}" for number in range(len(others)))]
    ids = [f"{document}#0" for document in documents]
    retrieval = RetrievalResult([chunk, *others], context_ids=ids)
    trace = Trace(
        case=Case(
            id="q",
            query=question.text,
            reference=question.references[0],
            alternative_references=question.references[1:],
            reference_context_ids=(question.document,),
        ),
        retrieval=Outcome(status=Status.MEASURED, value=retrieval),
        generation=Outcome(status=Status.ABSTAINED, value=GenerationResult("I do not know.")),
    )
    return attribute(trace).cause


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data
    for name in SETS:
        asked = list(questions(folder, name))
        draw = random.Random(1)
        blamed_golds = 0
        blamed_siblings = 0
        siblings = 0
        for question in asked:
            others: list[str] = []
            for other in draw.sample(asked, 5 * OTHERS):
                if other.document != question.document:
                    others.append(other.gold)
            del others[OTHERS:]
            cause = cause_of(question, question.gold, others)
            blamed_golds += cause is Cause.WRONG_PASSAGE
            if question.sibling is not None:
                siblings += 1
                cause = cause_of(question, question.sibling, others)
                blamed_siblings += cause is Cause.WRONG_PASSAGE
        blamed = blamed_golds + blamed_siblings
        true = blamed_siblings / max(blamed, 1)
        low, high = proportion_interval(blamed_siblings, blamed) if blamed else (0.0, 1.0)
        print(
            f"{name}: wrong_passage {blamed_siblings:,} of {siblings:,} siblings, "
            f"{blamed_golds:,} of {len(asked):,} chunks with the answer; true {true:.3f} "
            f"({low:.3f} .. {high:.3f})"
        )


if __name__ == "__main__":
    main()
