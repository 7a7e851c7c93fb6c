"""The learned part of a validator: two logistic regressions and their thresholds."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ragbench.errors import ConfigError
from ragbench.validation.linear_model import LinearModel, logistic, read_model, shipped
from ragbench.validation.verdict_rule import Thresholds

__all__ = [
    "ABSENCES",
    "POOL_FEATURES",
    "Absence",
    "Weights",
    "pool_features",
    "shipped_rarity",
    "shipped_weights",
]

POOL_FEATURES = ("best",)
"""What the probability of an answer rests on: the best chunk's logit. How many chunks there are
and how far the others lie behind is left out: it tells more of a retriever than of an answer."""

Absence = Literal["siblings", "document-absent"]
"""What is in a corpus that lacks an answer: other passages of the right document, or not even
that."""
ABSENCES: tuple[Absence, ...] = ("siblings", "document-absent")

_LOWEST = -12.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """What was learned."""

    chunk: LinearModel
    """From a chunk's features to the logit of its holding an answer."""
    pool: LinearModel
    """From `pool_features` to the logit of an answer in the pool."""
    relevant: float
    """Probability from which on a chunk is relevant: best F1 on the held-out articles."""
    present: Mapping[Absence, float]
    """Probability from which on the answer is present, for a precision of 98 % on the held-out
    articles, by what the pools without an answer hold."""
    digest: str
    """Tells one set of weights from another."""

    def thresholds(self, absence: Absence) -> Thresholds:
        """The measured thresholds."""
        return Thresholds(relevant=self.relevant, present=self.present[absence])

    def answer_probability(self, logits: Sequence[float]) -> float:
        """That at least one chunk holds the answer; 0 when there is none."""
        return logistic(self.pool.logit(pool_features(logits))) if logits else 0.0


def pool_features(logits: Sequence[float]) -> tuple[float, ...]:
    """A pool's numbers, as `POOL_FEATURES` names them, from its chunks' logits."""
    return (max(logits, default=_LOWEST),)


@lru_cache(maxsize=8)
def shipped_weights(name: str, features: tuple[str, ...]) -> Weights:
    """The weights that come with ragbench for a validator.

    Raises:
        ConfigError: the file does not fit the features: it is of another version.
    """
    given = shipped(name)
    where = f"the weights file '{name}.json'"
    try:
        limits = given["thresholds"]
        return Weights(
            chunk=read_model(given["chunk"], features, where=where),
            pool=read_model(given["pool"], POOL_FEATURES, where=where),
            relevant=float(limits["relevant"]),
            present={name: float(limits["present"][name]) for name in ABSENCES},
            digest=hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:12],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{where} is not usable: {error}") from error


@lru_cache(maxsize=1)
def shipped_rarity() -> Callable[[str], float]:
    """What a token is worth: ln(1 + (N - n + 0.5) / (n + 0.5)), from counts that come along."""
    counts: Mapping[str, Any] = shipped("rarity")
    passages = int(counts["passages"])
    held: Mapping[str, int] = counts["held_by"]

    def rarity(token: str) -> float:
        known = held.get(token, 0)
        return math.log(1 + (passages - known + 0.5) / (known + 0.5))

    return rarity
