"""What a search does when a call does not say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, cast, get_args

from ragbench.errors import ConfigError

__all__ = ["RetrievalSettings", "StrategyName"]

StrategyName: TypeAlias = Literal["dense", "sparse", "hybrid"]

_VARIABLES = {
    "top_k": "DEFAULT_TOP_K",
    "score_threshold": "DEFAULT_SCORE_THRESHOLD",
    "strategy": "RETRIEVAL_STRATEGY",
}
"""The retrieval specification's names of the settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalSettings:
    """Defaults of `ragbench.retrieval.engine.RetrievalEngine`."""

    top_k: int = 4
    """How many chunks a search returns at most; at least 1."""
    score_threshold: float = 0.0
    """Chunks that score less are left out; 0 is the score of what has nothing to do with the
    query, 1 the highest. In a hybrid search it holds for each leg before they are fused."""
    strategy: StrategyName = "hybrid"
    """``dense`` compares meanings by vectors, ``sparse`` words by BM25, ``hybrid`` fuses both."""
    dense_weight: float | None = None
    """Hybrid: weight of the dense ranking, at least 0; None for the one measured for the embedder
    (`ragbench.embedders.base.Embedder.hybrid_weight`)."""
    sparse_weight: float = 1.0
    """Hybrid: weight of the sparse ranking, at least 0."""
    rrf_k: int = 60
    """Hybrid: how little the first ranks count more than the next ones, at least 1."""
    candidates: int = 100
    """Hybrid: how many chunks of each leg are fused, at least 1 and never fewer than are asked
    for."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        for name in ("top_k", "rrf_k", "candidates"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not math.isfinite(self.score_threshold):
            raise ConfigError(f"score_threshold must be a number, not {self.score_threshold}")
        if self.strategy not in get_args(StrategyName):
            known = ", ".join(get_args(StrategyName))
            raise ConfigError(f"strategy is one of {known}, not '{self.strategy}'")
        weights = (1.0 if self.dense_weight is None else self.dense_weight, self.sparse_weight)
        if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise ConfigError("the weights must be at least 0, and one of them above 0")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> RetrievalSettings:
        """The settings, some of them from environment variables.

        Args:
            environ: may hold ``DEFAULT_TOP_K``, ``DEFAULT_SCORE_THRESHOLD`` and
                ``RETRIEVAL_STRATEGY``, and each of them, or ``RAGBENCH_<SETTING>`` such as
                ``RAGBENCH_RRF_K``, which comes before.

        Raises:
            ConfigError: a value is wrong; the message names the variable.
        """
        found: dict[str, object] = {}
        for field in fields(cls):
            names = [f"RAGBENCH_{field.name.upper()}", _VARIABLES.get(field.name, "")]
            variable = next((name for name in names if name and name in environ), None)
            if variable is not None:
                found[field.name] = _read(field.name, variable, environ[variable])
        return cls(**cast("dict[str, Any]", found))


def _read(name: str, variable: str, text: str) -> object:
    default: object = getattr(RetrievalSettings(), name)
    wanted = "dense, sparse or hybrid"
    try:
        value: object = text.strip()
        if isinstance(default, float) or name == "dense_weight":
            wanted = "a number"
            value = float(text)
        elif isinstance(default, int):
            wanted = "a whole number"
            value = int(text)
        RetrievalSettings(**{name: cast("Any", value)})
    except (ValueError, ConfigError) as error:
        detail = str(error) if isinstance(error, ConfigError) else f"expected {wanted}"
        raise ConfigError(f"{variable}={text!r}: {detail}") from error
    return value
