"""Trains the local validator's weights: ``train_local.py DATA_DIR``.

Data, from DATA_DIR: the held-out articles of squad2_dev_half, which neither the reader nor the
lexical weights were trained on. Five folds over questions, so that thresholds are chosen on
probabilities of questions that were not learned from. Writes
``ragbench/validators/weights/local.json``. Readings are kept in the file of ``--cache``.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adjudication import adjudicated
from benchmarks.score_cache import ScoreCache
from benchmarks.train_validator.logistic_fit import Matrix, fit, stored
from benchmarks.train_validator.thresholds import relevant_from, smallest_at_precision
from benchmarks.validation_pools import PROTOCOLS, Pool, build_pools, squad_half
from ragbench.text.pair_reader import ReaderFiles, find_reader_files
from ragbench.validators.calibration import shipped_rarity, shipped_weights
from ragbench.validators.lexical import LEXICAL_FEATURES, prepare_question, read_in_windows
from ragbench.validators.local import (
    LOCAL_FEATURES,
    local_features,
    settled_logit,
    shipped_reader,
)

WEIGHTS = Path(__file__).parents[2] / "ragbench" / "validators" / "weights"
FOLDS = 5
READ = 20
POOL_FEATURES = ("best", "size")
PRECISION, BESIDE_SIBLINGS = 0.98, 0.94
"""Of a Yes, with each threshold where its absence is meant; of the lower one where siblings are
there: documents are told apart so well that their absence alone would set it too low."""
SIZES = (1, 2, 3, 5, 10, READ)
"""Chunks of the pools from which is learned what their number means."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One pool's chunks that were read."""

    pool: Pool
    values: Matrix
    settled: Matrix
    """The same with what the second tower takes off: what decides."""
    gold: Matrix
    texts: tuple[str, ...]


def main() -> None:
    given = _arguments()
    cache = ScoreCache(given.cache, only_known=given.cached_only)
    held = squad_half(given.data, held_out=True)
    pools = build_pools(held, PROTOCOLS, limit=given.limit, seed=23)
    kept = [pool for pool in adjudicated(pools) if pool is not None]
    rows = [one for pool in kept if (one := _read(pool, cache, given)) is not None]
    _learn(rows)


def _files(given: argparse.Namespace) -> ReaderFiles:
    return shipped_reader() if given.reader is None else find_reader_files(given.reader)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--reader", help="a folder, instead of the reader that comes along")
    parser.add_argument("--cache", type=Path, default=Path("scores.jsonl"))
    parser.add_argument("--cached-only", action="store_true")
    parser.add_argument("--limit", type=int, default=250)
    return parser.parse_args()


def _read(pool: Pool, cache: ScoreCache, given: argparse.Namespace) -> Rows | None:
    if not pool.chunks:
        return None
    question = prepare_question(pool.question.text, shipped_rarity)
    words = read_in_windows(
        question,
        [chunk.text for chunk in pool.chunks],
        shipped_weights("lexical", LEXICAL_FEATURES).chunk,
    )
    best = sorted(sorted(range(len(words)), key=lambda at: -words[at].logit)[:READ])
    texts = [pool.chunks[at].text for at in best]
    query = pool.question.text
    try:
        readings, _ = cache.readings_of(_files(given), query, texts, max_length=512, threads=2)
    except LookupError:
        return None
    gold = [float(pool.chunks[at].id in pool.question.gold) for at in best]
    values, settled = (
        np.array(
            [local_features(words[at], say(one)) for at, one in zip(best, readings, strict=True)]
        )
        for say in (attrgetter("logit"), settled_logit)
    )
    return Rows(pool, values, settled, np.array(gold), tuple(texts))


def _learn(rows: list[Rows]) -> None:
    """Writes weights learned on all rows; thresholds come from folds that were not learned from."""
    questions = sorted({row.pool.question.id for row in rows})
    fold = {question: at % FOLDS for at, question in enumerate(questions)}
    logits: list[Matrix] = [np.zeros(0)] * len(rows)
    for held in range(FOLDS):
        slopes, bias = _fit([row for row in rows if fold[row.pool.question.id] != held])
        for at, row in enumerate(rows):
            if fold[row.pool.question.id] == held:
                logits[at] = row.settled @ slopes + bias
    slopes, bias = _fit(rows)
    present = np.array([float(row.pool.present) for row in rows])
    kind = np.array([row.pool.protocol for row in rows])
    # Questions written to deceive would make every probability of real ones too low.
    plain = kind != "topical"
    sized = [_handed_over(logits, rows, size) for size in SIZES]
    pool_slopes, pool_bias = fit(
        np.concatenate([one[plain] for one in sized]),
        np.tile(present[plain], len(SIZES)),
        penalty=0.1,
    )
    answers = _logistic(sized[-1] @ pool_slopes + pool_bias)

    def reached(protocol: str, precision: float) -> float:
        of = kind == protocol
        return smallest_at_precision(answers[of], present[of], precision)

    limits = {
        "siblings": reached("siblings", PRECISION),
        "document-absent": max(
            reached("document-absent", PRECISION), reached("siblings", BESIDE_SIBLINGS)
        ),
    }
    # One scale: a chunk's probability is that of an answer where it is the best one.
    relevant = relevant_from(
        _logistic(
            np.concatenate(logits) * pool_slopes[0] + pool_slopes[1] * np.log(READ) + pool_bias
        ),
        np.concatenate([row.gold for row in rows]),
        min(limits.values()),
    )
    value: dict[str, Any] = {
        "validator": "local",
        "trained_on": "squad2_dev_half, held-out articles (CC BY-SA 4.0), five folds",
        "questions": len(questions),
        "pools": len(rows),
        "command": "benchmarks/train_validator/train_local.py",
        "chunk": stored([(at,) for at in range(len(LOCAL_FEATURES))], LOCAL_FEATURES, slopes, bias),
        "pool": stored([(0,), (1,)], POOL_FEATURES, pool_slopes, pool_bias),
        "thresholds": {
            "relevant": round(relevant, 4),
            # Where a Yes begins if `validation_worth` finds no better place.
            "present": round(limits["document-absent"], 4),
        },
    }
    (WEIGHTS / "local.json").write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    print(len(rows), value["thresholds"])


def _handed_over(logits: list[Matrix], rows: list[Rows], size: int) -> Matrix:
    """`POOL_FEATURES` of smaller pools: the gold chunk, and the ones that come first beside it."""
    kept = [np.argsort(-row.gold, kind="stable")[:size] for row in rows]
    best = [one[chosen].max() for one, chosen in zip(logits, kept, strict=True)]
    return np.array([(one, np.log(size)) for one in best])


def _fit(rows: list[Rows]) -> tuple[Matrix, float]:
    values, gold = (np.concatenate([getattr(row, of) for row in rows]) for of in ("values", "gold"))
    return fit(values, gold, penalty=1.0)


def _logistic(logits: Matrix) -> Matrix:
    return np.asarray(1 / (1 + np.exp(-logits)))


if __name__ == "__main__":
    main()
