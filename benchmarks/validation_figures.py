"""What the verdicts on a list of pools come to: figures by name, with intervals where they help."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.adjudication import adjudicated
from benchmarks.validation_pools import Pool
from ragbench.core.validation import Verdict
from ragbench.search.pipeline.extractive import rank_sentences
from ragbench.stats.mean import proportion_interval
from ragbench.text.question import parse_question
from ragbench.text.tokens import tokenise
from ragbench.validators.calibrate import expected_calibration_error, reliability

RATING = {"Poor": 0.0, "Partial": 1.0, "Good": 2.0}


@dataclass(frozen=True, slots=True)
class Judged:
    pool: Pool
    verdict: Verdict
    seconds: float


def figures(judged: Sequence[Judged]) -> dict[str, object]:
    """All figures; those that begin with ``adjudicated`` take the labels of a second reading."""
    again = [
        replace(one, pool=pool)
        for one, pool in zip(judged, adjudicated([one.pool for one in judged]), strict=True)
        if pool is not None
    ]
    second = _presence_figures(again) | _chunk_figures(again)
    return {
        **_presence_figures(judged),
        **_chunk_figures(judged),
        **_evidence_figures(judged),
        **_answer_figures(judged),
        **{f"adjudicated_{key}": value for key, value in second.items()},
    }


def _presence_figures(judged: Sequence[Judged]) -> dict[str, object]:
    labels = [one.pool.present for one in judged]
    called = [one.verdict.answer_present for one in judged]
    probabilities = [one.verdict.answer_probability for one in judged]
    hits = sum(a and b for a, b in zip(labels, called, strict=True))
    return {
        "pools": len(judged),
        "present": sum(labels),
        "precision": _share(hits, sum(called)),
        "recall": _share(hits, sum(labels)),
        "recall_at_98": _recall_at(judged, 0.98),
        "ece": round(expected_calibration_error(probabilities, labels), 3),
        "escalated": round(_total(judged, "escalated") / len(judged), 3),
        "fabricated_quotes": round(
            _total(judged, "fabricated_quotes") / max(1.0, _total(judged, "quotes")), 3
        ),
        "reliability": [
            [round(told, 2), round(seen, 2), count]
            for told, seen, count in reliability(probabilities, labels)
        ],
    }


def _total(judged: Sequence[Judged], name: str) -> float:
    return sum(one.verdict.details.get(name, 0.0) for one in judged)


def _share(hits: int, count: int) -> list[float]:
    low, high = proportion_interval(hits, count)
    return [round(hits / count if count else 0.0, 3), round(low, 3), round(high, 3)]


def _recall_at(judged: Sequence[Judged], precision: float) -> list[float]:
    """The best threshold on the set itself, with a 95 % interval by bootstrap over questions."""
    questions = sorted({one.pool.question.id for one in judged})
    of: dict[str, list[Judged]] = {name: [] for name in questions}
    for one in judged:
        of[one.pool.question.id].append(one)
    draw = random.Random(7)
    drawn = [
        _best_recall(
            [one for name in draw.choices(questions, k=len(questions)) for one in of[name]],
            precision,
        )
        for _ in range(300)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return [round(_best_recall(judged, precision), 3), round(float(low), 3), round(float(high), 3)]


def _best_recall(judged: Sequence[Judged], precision: float) -> float:
    ranked = sorted(judged, key=lambda one: -one.verdict.answer_probability)
    positive = sum(one.pool.present for one in ranked)
    best, hits = 0, 0
    for count, one in enumerate(ranked, start=1):
        hits += one.pool.present
        last = count == len(ranked)
        tied = not last and (
            ranked[count].verdict.answer_probability == one.verdict.answer_probability
        )
        if not tied and hits >= precision * count:
            best = hits
    return best / positive if positive else 0.0


def _chunk_figures(judged: Sequence[Judged]) -> dict[str, object]:
    gold = called = hits = count = 0
    for one in judged:
        relevant = set(one.verdict.relevant_chunk_ids)
        true = {c.id for c in one.pool.chunks} & (
            one.pool.question.gold if one.pool.present else frozenset()
        )
        gold += len(true)
        called += len(relevant)
        hits += len(relevant & true)
        count += len(one.pool.chunks)
    negative = count - gold
    return {
        "chunk_precision": _share(hits, called),
        "chunk_recall": _share(hits, gold),
        "chunk_f1": round(2 * hits / max(1, called + gold), 3),
        "balanced_accuracy": round(
            (hits / max(1, gold) + (negative - called + hits) / max(1, negative)) / 2, 3
        ),
        "accuracy": round((hits + negative - called + hits) / count, 3),
        "base_rate": round(negative / count, 3),
    }


def _evidence_figures(judged: Sequence[Judged]) -> dict[str, object]:
    """Of the gold chunks that were called relevant, how many have evidence with a labelled span."""
    held = quoted = words = touching = pieces_of_right = 0
    for one in judged:
        texts = {chunk.id: chunk.text for chunk in one.pool.chunks}
        for piece in one.verdict.evidence:
            assert texts[piece.chunk_id][piece.start : piece.end] == piece.text
        if not one.pool.present:
            continue
        if one.verdict.answer_present:
            pieces_of_right += len(one.verdict.evidence)
            touching += sum(
                any(
                    piece.chunk_id == id_ and piece.start < end and start < piece.end
                    for id_, start, end in one.pool.question.spans
                )
                for piece in one.verdict.evidence
            )
        relevant = set(one.verdict.relevant_chunk_ids[:5]) & one.pool.question.gold
        spans = [span for span in one.pool.question.spans if span[0] in relevant]
        if not spans:
            continue
        quoted += 1
        pieces = [piece for piece in one.verdict.evidence if piece.chunk_id in relevant]
        words += sum(len(piece.text.split()) for piece in pieces)
        held += any(
            any(
                piece.chunk_id == id_ and piece.start <= start and end <= piece.end
                for piece in pieces
            )
            or all(
                any(piece.chunk_id == id_ and piece.start <= at < piece.end for piece in pieces)
                for at in (start, end - 1)
            )
            for id_, start, end in spans
        )
    return {
        "evidence_holds_span": _share(held, quoted),
        "quotes_that_touch_it": _share(touching, pieces_of_right),
        "evidence_words": round(words / max(1, quoted), 1),
    }


def _answer_figures(judged: Sequence[Judged]) -> dict[str, object]:
    """How rating and probability go with the token F1 of the baseline's extractive answer."""
    quality = np.array([_answer_quality(one.pool) for one in judged])
    rating = np.array([RATING[one.verdict.retrieval_quality.value] for one in judged])
    probability = np.array([one.verdict.answer_probability for one in judged])
    draw = random.Random(7)
    systems: list[tuple[float, float, float]] = []
    present = [at for at, one in enumerate(judged) if one.pool.present]
    absent = [at for at, one in enumerate(judged) if not one.pool.present]
    for step in range(21):  # systems that find the gold chunk for 0 %, 5 % ... 100 % of queries
        size = min(len(present), len(absent))
        found = round(size * step / 20)
        chosen = draw.sample(present, found) + draw.sample(absent, size - found)
        if chosen:
            systems.append(
                (
                    float(quality[chosen].mean()),
                    float(rating[chosen].mean()),
                    float(probability[chosen].mean()),
                )
            )
    per_system = np.array(systems)
    seconds = sorted(one.seconds for one in judged)
    return {
        "rating_answer_f1_per_query": _correlation(rating, quality),
        "probability_answer_f1_per_query": _correlation(probability, quality),
        "rating_present_per_query": _correlation(
            rating, np.array([float(one.pool.present) for one in judged])
        ),
        "rating_answer_f1_per_system": _correlation(per_system[:, 1], per_system[:, 0]),
        "p95_seconds": round(seconds[int(0.95 * (len(seconds) - 1))], 3),
    }


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    found: Any = spearmanr(one, other)
    return round(float(found.statistic), 3)


def _answer_quality(pool: Pool) -> float:
    question = parse_question(pool.question.text)
    texts = [chunk.text for chunk in pool.chunks]
    ranked = rank_sentences(question, texts)
    if not ranked or not pool.question.gold:
        return 0.0
    best = ranked[0]
    given = tokenise(texts[best.context_index][best.start : best.end])
    return max((_token_f1(given, tokenise(one)) for one in pool.question.answers), default=0.0)


def _token_f1(given: list[str], wanted: list[str]) -> float:
    common = sum(min(given.count(token), wanted.count(token)) for token in set(given))
    return 2 * common / (len(given) + len(wanted)) if common else 0.0
