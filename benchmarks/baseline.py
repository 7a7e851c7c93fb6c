"""What the baseline RAG scores, how its threshold was chosen, and how fast it is.

    python benchmarks/baseline.py quality PATH...
    python benchmarks/baseline.py fit PATH
    python benchmarks/baseline.py speed [CHUNKS...]

A PATH is a folder with corpus.jsonl and cases.jsonl; a file in SQuAD format; or the common
beginning of the names of PREFIX.passages.jsonl (pid, title, text) and PREFIX.questions.jsonl
(question, pid or gold, answerable, answers).

``right`` means that the response holds a reference answer or an evidence string, or is part of
one; of an abstention, that the case is unanswerable. ECE is over all cases, ten bins.
"""

from __future__ import annotations

import json
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ragbench import BaselineRAG, Chunk, Document
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.search.pipeline.extractive import ExtractiveGenerator
from ragbench.text.tokens import multilingual_tokens

TOP_K = 5
ABSENT_SHARE = 0.15  # of the weight, in `fit`: most questions that people ask have an answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    text: str
    references: tuple[str, ...]
    evidence: tuple[str, ...]
    gold: frozenset[str]
    group: str

    @property
    def answerable(self) -> bool:
        return bool(self.gold)

    def is_right(self, response: str) -> bool:
        said = spelled(response)
        known = [spelled(one) for one in (*self.references, *self.evidence)]
        return any(one in said or said in one for one in known if one.strip())


def spelled(text: str) -> str:
    """Its words, each between two spaces: "5" is no part of "1985"."""
    return f" {' '.join(multilingual_tokens(text))} "


Loaded = tuple[list[Document], list[Question]]


def main(arguments: Sequence[str]) -> int:
    commands: dict[str, Callable[[Sequence[str]], None]] = {
        "quality": lambda paths: print("\n".join(map(quality, paths))),
        "fit": lambda paths: fit(paths[0]),
        "speed": lambda sizes: speed([int(size) for size in sizes] or [1_000, 10_000, 100_000]),
    }
    if not arguments or arguments[0] not in commands:
        print(__doc__)
        return 2
    commands[arguments[0]](arguments[1:])
    return 0


def quality(path: str) -> str:
    documents, questions = load(path)
    rag = BaselineRAG(documents, top_k=TOP_K)
    queries = [question.text for question in questions]
    found = rag.batch_retrieve_with_metadata(queries, 10)
    contexts = [list(result.contexts[:TOP_K]) for result in found]
    answers = rag.batch_generate_with_metadata(queries, contexts)
    recall: list[float] = []
    ranks: list[float] = []
    overlap: list[float] = []
    right: list[bool] = []
    sure: list[float] = []
    outcome: Counter[tuple[bool, bool]] = Counter()
    answered_right = 0
    for question, result, answer in zip(questions, found, answers, strict=True):
        ids = list(result.context_ids or ())
        abstained = bool(answer.abstained)
        if question.answerable:
            recall.append(len(question.gold & set(ids[:TOP_K])) / len(question.gold))
            at = next((at for at, id_ in enumerate(ids, 1) if id_ in question.gold), math.inf)
            ranks.append(1 / at)
            overlap.append(
                0.0
                if abstained
                else max((f1(answer.response, one) for one in question.references), default=0.0)
            )
        outcome[question.answerable, abstained] += 1
        correct = question.answerable != abstained
        if not abstained:
            correct = correct and question.is_right(answer.response)
            answered_right += correct
        right.append(correct)
        sure.append(answer.confidence or 0.0)
    answered = outcome[True, False] + outcome[False, False]
    abstentions = outcome[True, True] + outcome[False, True]
    unanswerable = outcome[False, True] + outcome[False, False]
    return (
        f"{Path(path).name}: {len(documents)} documents, {len(questions)} questions, "
        f"{unanswerable} unanswerable\n"
        f"  retrieval: recall@{TOP_K} {mean(recall):.4f}  MRR@10 {mean(ranks):.4f}\n"
        f"  answers: token F1 {mean(overlap):.4f} over the answerable; "
        f"answered {share(answered, len(questions))}, of these right "
        f"{share(answered_right, answered)}\n"
        f"  abstention: precision {share(outcome[False, True], abstentions)}  "
        f"recall {share(outcome[False, True], unanswerable)}  "
        f"answerable ones answered {share(outcome[True, False], len(recall))}\n"
        f"  confidence: mean {mean(sure):.3f}, right {mean(right):.3f}, "
        f"ECE {calibration_error(sure, right):.4f}"
    )


def fit(path: str) -> None:
    """Prints the threshold's table and the confidence curve's two coefficients."""
    documents, questions = load(path)
    groups = {document.id: document.title for document in documents}
    index = Bm25Index(
        Chunk(id=one.id, text=one.text, metadata={"title": one.title}) for one in documents
    )
    generator = ExtractiveGenerator(threshold=0, weight=index.idf)

    def best(question: Question, *, absent: bool) -> tuple[float, bool, bool]:
        chunks = index.batch_search([question.text], len(index) if absent else TOP_K)[0]
        if absent:
            chunks = [chunk for chunk in chunks if groups[chunk.id] != question.group]
        answer = generator.generate(question.text, [chunk.text for chunk in chunks[:TOP_K]])
        right = question.answerable and not absent and question.is_right(answer.response)
        metadata = answer.metadata or {}
        is_span = "sentence" in (metadata["evidence"] or {})
        return float(metadata["support"]), right, is_span

    present = [best(one, absent=False) for one in questions if one.answerable]
    topical = [best(one, absent=False) for one in questions if not one.answerable]
    without = [best(one, absent=True) for one in questions if one.answerable]
    print("threshold  answered|answerable  abstained|topical  abstained|document absent  right")
    for step in range(20, 71, 2):
        threshold = step / 100
        kept = mean([support >= threshold for support, _, _ in present])
        refused = [
            mean([support < threshold for support, _, _ in pool]) for pool in (topical, without)
        ]
        right = (1 - ABSENT_SHARE) * kept + ABSENT_SHARE * mean(refused)
        print(
            f"{threshold:9.2f}  {kept:19.3f}  {refused[0]:17.3f}  {refused[1]:25.3f}  {right:.4f}"
        )
    weights = [
        *[(1 - ABSENT_SHARE) / len(present)] * len(present),
        *[ABSENT_SHARE / 2 / len(topical)] * len(topical),
        *[ABSENT_SHARE / 2 / len(without)] * len(without),
    ]
    everything = [*present, *topical, *without]
    curves: dict[str, tuple[float, float]] = {}
    for name, wanted in (("right, sentences", False), ("right, spans", True)):
        chosen = [at for at, (_, _, is_span) in enumerate(everything) if is_span is wanted]
        points = [everything[at][:2] for at in chosen]
        curves[name] = logistic(points, [weights[at] for at in chosen])
    there = [(support, at < len(present)) for at, (support, _, _) in enumerate(everything)]
    curves["answerable"] = logistic(there, weights)
    print(f"best answer right when it is there: {mean([hit for _, hit, _ in present]):.4f}")
    for name, (offset, slope) in curves.items():
        print(f"{name}: offset {offset:.3f}, slope {slope:.3f}")


def logistic(points: Sequence[tuple[float, bool]], weights: Sequence[float]) -> tuple[float, float]:
    """Newton's method for a logistic curve of one variable; offset and slope."""
    slope = offset = 0.0
    for _ in range(50):
        g0 = g1 = h00 = h01 = h11 = 0.0
        for (x, y), weight in zip(points, weights, strict=True):
            p = 1 / (1 + math.exp(-(slope * x + offset)))
            g0 += weight * (y - p)
            g1 += weight * (y - p) * x
            curvature = weight * p * (1 - p)
            h00 += curvature
            h01 += curvature * x
            h11 += curvature * x * x
        determinant = h00 * h11 - h01 * h01
        offset += (h11 * g0 - h01 * g1) / determinant
        slope += (h00 * g1 - h01 * g0) / determinant
    return offset, slope


def speed(sizes: Iterable[int]) -> None:
    """Passages of 80 words from a Zipf-like vocabulary of 20,000, questions of 8, top 5."""
    draw = random.Random(7)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(draw.choices(letters, k=draw.randint(3, 10))) for _ in range(20_000)]
    odds = [1 / (rank + 3) for rank in range(len(words))]
    for size in sizes:
        drawn = draw.choices(words, odds, k=80 * size)
        texts = [" ".join(drawn[at : at + 80]) + "." for at in range(0, len(drawn), 80)]
        queries = [" ".join(draw.choices(words, odds, k=8)) + "?" for _ in range(500)]
        print(measure_speed(texts, queries), flush=True)


def measure_speed(texts: Sequence[str], queries: list[str]) -> str:
    documents = [Document(id=str(at), text=text) for at, text in enumerate(texts)]
    rag, built = timed(lambda: BaselineRAG(documents))
    found, batch = timed(lambda: rag.batch_retrieve(queries))
    _, single = timed(lambda: [rag.retrieve(query) for query in queries])
    _, answered = timed(lambda: rag.batch_generate(queries, found))
    return (
        f"{len(texts):7d} chunks: index {built:.2f} s, "
        f"queries/s {len(queries) / batch:,.0f} in a batch, {len(queries) / single:,.0f} one by "
        f"one; answers/s {len(queries) / answered:,.0f} (processor time)"
    )


T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """A result and the processor seconds that it took (nothing here runs in parallel)."""
    started = time.process_time()
    return action(), time.process_time() - started


def load(path: str) -> Loaded:
    place = Path(path)
    if place.is_dir():
        return from_folder(place)
    if place.is_file():
        return from_squad(place)
    return from_pair(path)


def from_folder(folder: Path) -> Loaded:
    documents = [
        Document(
            id=row["id"], text=row["text"], title=row.get("title"), metadata=row.get("metadata", {})
        )
        for row in rows(folder / "corpus.jsonl")
    ]
    questions = [
        Question(
            text=row["query"],
            references=(
                *([row["reference"]] if row["reference"] else []),
                *row.get("alternative_references", ()),
            ),
            evidence=tuple(one["text"] for one in row.get("evidence", ())),
            gold=frozenset(row["reference_context_ids"]),
            group=row.get("cluster", ""),
        )
        for row in rows(folder / "cases.jsonl")
    ]
    return documents, questions


def from_squad(file: Path) -> Loaded:
    documents: list[Document] = []
    questions: list[Question] = []
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            id_ = str(len(documents))
            title = article.get("title")
            documents.append(Document(id=id_, text=paragraph["context"], title=title))
            questions += [
                Question(
                    text=row["question"],
                    references=tuple(answer["text"] for answer in row["answers"]),
                    evidence=(),
                    gold=frozenset([] if row.get("is_impossible") else [id_]),
                    group=title or "",
                )
                for row in paragraph["qas"]
            ]
    return documents, questions


def from_pair(prefix: str) -> Loaded:
    documents = [
        Document(id=row["pid"], text=row["text"], title=readable(row.get("title")))
        for row in rows(Path(f"{prefix}.passages.jsonl"))
    ]
    questions = [
        Question(
            text=row["question"],
            references=tuple(row["answers"]),
            evidence=(),
            gold=frozenset(row.get("gold") or [row["pid"]] if row.get("answerable", True) else []),
            group=readable(row.get("title")) or "",
        )
        for row in rows(Path(f"{prefix}.questions.jsonl"))
    ]
    return documents, questions


def readable(title: str | None) -> str | None:
    return None if title is None else title.replace("_", " ")


def rows(file: Path) -> list[Any]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def f1(response: str, reference: str) -> float:
    """Overlap of words, articles left out; characters where words are not spaced."""
    said, known = Counter(answer_words(response)), Counter(answer_words(reference))
    common = sum((said & known).values())
    return 2 * common / (said.total() + known.total()) if common else 0.0


def answer_words(text: str) -> list[str]:
    words = re.findall(
        r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\u3040-\u30ff\u4e00-\u9fff]+", text.lower()
    )
    return [word for word in words if word not in {"a", "an", "the"}]


def calibration_error(sure: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error (Guo et al. 2017), bins of equal width."""
    found: dict[int, list[tuple[float, bool]]] = {}
    for confidence, hit in zip(sure, right, strict=True):
        found.setdefault(min(bins - 1, int(confidence * bins)), []).append((confidence, hit))
    gaps = (abs(sum(confidence - hit for confidence, hit in bin_)) for bin_ in found.values())
    return sum(gaps) / len(sure)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def share(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part}/{whole})" if whole else "none"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
