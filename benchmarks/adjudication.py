"""Labels that a second reading found wrong: ``adjudicated.json``, kept apart from the data.

For each question the chunks that words rank highest (the best four by the lexical validator, the
first three by BM25, of every pool without the gold chunk) and the passages of unanswerable
questions were read, before any other validator had judged them. A chunk that answers its question
counts as gold; one of which the reader was not sure takes the pool out of the adjudicated figures.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from benchmarks.validation_pools import Pool

ADJUDICATED = Path(__file__).parent / "adjudicated.json"


def adjudicated(pools: Sequence[Pool]) -> list[Pool | None]:
    """The pools with the labels of the second reading; None where it was not sure."""
    return [_adjudicated(pool) for pool in pools]


def _adjudicated(pool: Pool) -> Pool | None:
    found = _answering()[pool.question.id]
    inside = {chunk.id: found[chunk.id] for chunk in pool.chunks if chunk.id in found}
    sure = frozenset(chunk for chunk, is_sure in inside.items() if is_sure)
    if inside and not sure and not pool.present:
        return None
    gold = pool.question.gold | sure
    return replace(
        pool, question=replace(pool.question, gold=gold), present=pool.present or bool(sure)
    )


@lru_cache(maxsize=1)
def _answering() -> dict[str, dict[str, bool]]:
    """Of each question the chunks that answer it, and whether the reader was sure."""
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for case in json.loads(ADJUDICATED.read_text("utf-8"))["answering"]:
        found[case["question"]][case["chunk"]] = not case.get("unsure", False)
    return found
