"""Readers side by side: ``python -m benchmarks.reader_near_misses DATA --readers DIR...``.

Of raw logits, so that no threshold takes part: near misses made by rule (the suite of ``validate
--stress-test``), by kind: the share that a threshold keeps out which 90 % of the answers pass;
unanswerable questions that people wrote, with their own passage: the area under the curve; pools of
``validation_pools.py``: that area, recall at 98 % and at 90 % precision, the best chunk F1; and of
what is held out of the questions of daily work (`train_validator/everyday.py`) that area, by kind.
A DIR whose model has no spans is taken for a plain cross-encoder. ``squad2`` is what choices are
made on; the other sets check them. ``--cache FILE`` keeps what was read.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from benchmarks.score_cache import ScoreCache
from benchmarks.train_validator.everyday import items
from benchmarks.train_validator.near_misses import NEAR_MISS_KINDS, NearMissRules
from benchmarks.validation_pools import Collection, Pool, build_pools
from benchmarks.validation_quality import DATA
from ragbench.text.pair_reader import ReaderFiles, find_reader_files
from ragbench.validators.self_test import AnsweredQuestion, QuestionAndText, answering_sentence

PASSED = 0.9
"""Share of the answers that the threshold of the suite lets pass."""
SUITE = ("squad2", "xquad_en", "pellorin")
"""Sets whose questions have short answers, so that the rules apply."""
WRITTEN = ("squad2", "clapnq", "pellorin")
"""Sets with questions that people wrote or judged to have no answer."""

Logits = Callable[[str, Sequence[str]], list[float]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and a text, and what is known of them."""

    kind: str
    query: str
    text: str
    answers: bool


def main() -> None:
    given = _arguments()
    cache = ScoreCache(given.cache, only_known=False)
    for folder in given.readers:
        logits = _logits(cache, find_reader_files(str(folder)))
        print(json.dumps({"reader": str(folder), "data": "everyday", **_everyday(logits)}))
        for name in given.only or DATA:
            read, protocols = DATA[name]
            data = read(given.data)
            row: dict[str, object] = {"reader": str(folder), "data": name}
            if name in SUITE:
                row |= _suite(logits, list(_rule_made(data, given.per_kind)))
            if name in WRITTEN:
                row["written"] = _written(logits, data, given.limit)
            pools = build_pools(data, protocols, limit=given.limit, seed=23)
            row |= {one: _pools(logits, pools, one) for one in protocols}
            print(json.dumps(row), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--readers", type=Path, nargs="+", required=True)
    parser.add_argument("--only", nargs="+", help="data sets")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--per-kind", type=int, default=60)
    parser.add_argument("--cache", type=Path, default=Path("scores.jsonl"))
    return parser.parse_args()


def _logits(cache: ScoreCache, files: ReaderFiles) -> Logits:
    def read(query: str, texts: Sequence[str]) -> list[float]:
        found, _ = cache.readings_of(files, query, texts, max_length=512, threads=2)
        # Where a second tower speaks, the lower of both counts, as in the validator.
        return [one.logit if one.answers is None else min(one.logit, one.answers) for one in found]

    def plain(query: str, texts: Sequence[str]) -> list[float]:
        return cache.logits_of(files, query, texts)

    return read if cache.is_reader(files) else plain


def _everyday(logits: Logits) -> dict[str, float]:
    """The area under the curve of each kind, and of all of them."""
    held = [
        Pair(item.kind, item.query, text, answers=text in item.answers)
        for together in items(held_out=True)
        for item in together
        for text in (*item.answers, *item.others)
    ]
    values = np.array([logits(one.query, [one.text])[0] for one in held])
    answers = np.array([one.answers for one in held])
    of = {kind: np.array([one.kind == kind for one in held]) for kind in {x.kind for x in held}}
    found = {kind: _area(values[of[kind]], answers[of[kind]]) for kind in sorted(of)}
    return {kind: round(area, 3) for kind, area in {**found, "all": _area(values, answers)}.items()}


def answered_questions(data: Collection) -> list[AnsweredQuestion]:
    """The questions of a set with the passages that answer them."""
    texts = {chunk.id: chunk for chunk in data.chunks}
    return [
        AnsweredQuestion(
            question=one.text.strip(),
            text=texts[one.own].text,
            start=one.spans[0][1],
            end=one.spans[0][2],
            document=texts[one.own].document_id or "",
        )
        for one in data.questions
        if one.gold and one.own in texts
    ]


def _rule_made(data: Collection, per_kind: int) -> Iterator[Pair]:
    pairs = answered_questions(data)
    rules = NearMissRules(pairs)
    for kind in (*NEAR_MISS_KINDS, "answer: passage", "answer: sentence"):
        draw = random.Random(f"7:{kind}")
        made = 0
        for pair in draw.sample(pairs, len(pairs)):
            found = rules.make(kind, pair, draw) if kind in NEAR_MISS_KINDS else _answer(kind, pair)
            if found is not None:
                made += 1
                yield Pair(kind, *found, answers=kind not in NEAR_MISS_KINDS)
            if made == per_kind:
                break


def _answer(kind: str, pair: AnsweredQuestion) -> QuestionAndText:
    place = answering_sentence(pair) if kind.endswith("sentence") else None
    return QuestionAndText(pair.question, pair.text if place is None else pair.text[slice(*place)])


def _suite(logits: Logits, pairs: Sequence[Pair]) -> dict[str, object]:
    values = np.array([logits(one.query, [one.text])[0] for one in pairs])
    answers = np.array([one.answers for one in pairs])
    limit = np.quantile(values[answers], 1 - PASSED)
    kinds = list(dict.fromkeys(one.kind for one in pairs if not one.answers))
    kept_out = {
        kind: round(float((values[[one.kind == kind for one in pairs]] < limit).mean()), 2)
        for kind in kinds
    }
    return {
        "kept_out": kept_out,
        "kept_out_mean": round(float(np.mean(list(kept_out.values()))), 3),
        "suite_auc": round(_area(values, answers), 3),
    }


def _written(logits: Logits, data: Collection, limit: int) -> list[float]:
    """The area under the curve of questions with and without an answer, each with its passage."""
    texts = {chunk.id: chunk.text for chunk in data.chunks}
    usable = [one for one in data.questions if one.own in texts]
    draw = random.Random(29)
    with_answer = [one for one in usable if one.gold]
    without = [one for one in usable if not one.gold]
    chosen = [
        one
        for part in (with_answer, without)
        for one in draw.sample(part, min(2 * limit, len(part)))
    ]
    values = np.array([logits(one.text, [texts[one.own]])[0] for one in chosen])
    return [round(_area(values, np.array([bool(one.gold) for one in chosen])), 3), len(chosen)]


def _pools(logits: Logits, pools: Sequence[Pool], protocol: str) -> dict[str, float]:
    best: list[float] = []
    chunks: list[float] = []
    gold: list[bool] = []
    kept = [one for one in pools if one.protocol == protocol and one.chunks]
    for pool in kept:
        found = logits(pool.question.text, [chunk.text for chunk in pool.chunks])
        best.append(max(found))
        chunks += found
        gold += [pool.present and chunk.id in pool.question.gold for chunk in pool.chunks]
    present = np.array([one.present for one in kept])
    return {
        "pools": len(kept),
        "auc": round(_area(np.array(best), present), 3),
        "recall_at_98": _recall_at(np.array(best), present, 0.98),
        "recall_at_90": _recall_at(np.array(best), present, 0.90),
        "chunk_f1": _best_f1(np.array(chunks), np.array(gold)),
    }


def _area(values: np.ndarray, positive: np.ndarray) -> float:
    """Under the ROC curve, by ranks (Mann and Whitney 1947)."""
    ranks = rankdata(values)
    many, others = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - many * (many + 1) / 2) / (many * others))


def _recall_at(values: np.ndarray, positive: np.ndarray, precision: float) -> float:
    hits, named = _curve(values, positive)
    return round(float(hits[hits >= precision * named].max(initial=0) / positive.sum()), 3)


def _best_f1(values: np.ndarray, positive: np.ndarray) -> float:
    hits, named = _curve(values, positive)
    return round(float((2 * hits / (named + positive.sum())).max()), 3)


def _curve(values: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positives and all above each distinct value, the highest first."""
    order = np.argsort(-values, kind="stable")
    last = np.append(np.diff(values[order]) != 0, True)
    return np.cumsum(positive[order])[last], np.arange(1, len(values) + 1)[last]


if __name__ == "__main__":
    main()
