"""Trains the lexical validator's weights: ``train_lexical.py DATA_DIR``.

Data, from DATA_DIR: squad2_dev_half. The chunk model learns on the articles that are not held out,
the pool model and the thresholds on those that are. Writes ``ragbench/validators/weights``:
``rarity.json`` and ``lexical.json``. The same data give the same bytes.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.train_validator.logistic_fit import Matrix, fit, stored
from benchmarks.train_validator.thresholds import relevant_from, smallest_at_precision
from benchmarks.validation_pools import PROTOCOLS, Pool, build_pools, squad_half
from ragbench.text.tokens import tokenise
from ragbench.validators.lexical import LEXICAL_FEATURES, prepare_question, read_pool

WEIGHTS = Path(__file__).parents[2] / "ragbench" / "validators" / "weights"
RARE = 3
"""Tokens in fewer passages than this are left out of the table: unknown ones count as rarest."""


def main() -> None:
    folder = Path(sys.argv[1])
    training, held_out = (squad_half(folder, held_out=held) for held in (False, True))
    held_by = Counter(token for chunk in training.chunks for token in set(tokenise(chunk.text)))
    passages = len(training.chunks)
    common = {token: count for token, count in sorted(held_by.items()) if count >= RARE}
    _write("rarity.json", {"passages": passages, "held_by": common})

    def rarity(token: str) -> float:
        known = common.get(token, 0)
        return math.log(1 + (passages - known + 0.5) / (known + 0.5))

    def read(pools: list[Pool]) -> list[tuple[Pool, Matrix]]:
        found: list[tuple[Pool, Matrix]] = []
        for pool in pools:
            readings = read_pool(
                prepare_question(pool.question.text, rarity), [c.text for c in pool.chunks]
            )
            if readings:
                found.append((pool, np.array([one.features for one in readings])))
        return found

    known = read(build_pools(training, PROTOCOLS, limit=700))
    slopes, bias = fit(np.concatenate([rows for _, rows in known]), _gold(known))
    terms = [(place,) for place in range(len(LEXICAL_FEATURES))]

    chosen_on = read(build_pools(held_out, PROTOCOLS, limit=400, seed=11))
    logits = [rows @ slopes + bias for _, rows in chosen_on]
    pool_rows = np.array([(max(map(float, one), default=-12.0),) for one in logits])
    present = np.array([float(pool.present) for pool, _ in chosen_on])
    kind = np.array([pool.protocol for pool, _ in chosen_on])
    # Questions written to deceive would make every probability of real ones too low.
    plain = kind != "topical"
    pool_slopes, pool_bias = fit(pool_rows[plain], present[plain])
    answers = 1 / (1 + np.exp(-(pool_rows @ pool_slopes + pool_bias)))
    by_protocol = {
        name: smallest_at_precision(answers[kind == name], present[kind == name], 0.98)
        for name in ("document-absent", "siblings")
    }
    # One scale: a chunk's probability is that of an answer where it is the best one.
    chunks = 1 / (1 + np.exp(-(np.concatenate(logits) * pool_slopes[0] + pool_bias)))
    relevant = relevant_from(chunks, _gold(chosen_on), min(by_protocol.values()))
    _write(
        "lexical.json",
        {
            "validator": "lexical",
            "trained_on": "squad2_dev_half without the held-out articles (CC BY-SA 4.0)",
            "thresholds_from": "squad2_dev_half, held-out articles",
            "command": "benchmarks/train_validator/train_lexical.py",
            "chunk": stored(terms, LEXICAL_FEATURES, slopes, bias),
            "pool": stored(
                [(0,)],
                ["best"],
                pool_slopes,
                pool_bias,
            ),
            "thresholds": {
                "relevant": round(relevant, 4),
                # Where a Yes begins if `validation_worth` finds no better place.
                "present": round(by_protocol["document-absent"], 4),
            },
        },
    )
    print(json.dumps(by_protocol), relevant)


def _gold(rows: list[tuple[Pool, Matrix]]) -> Matrix:
    return np.array(
        [
            float(pool.present and chunk.id in pool.question.gold)
            for pool, _ in rows
            for chunk in pool.chunks
        ]
    )


def _write(name: str, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    (WEIGHTS / name).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
