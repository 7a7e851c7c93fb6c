"""Generation by quoting: see `ragbench.generation.extractive`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragbench.errors import ConfigError
from ragbench.generation.extractive import DEFAULT_THRESHOLD, ExtractiveGenerator
from ragbench.pipeline.stages import WordWeights

__all__ = ["ExtractiveGeneration"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractiveGeneration:
    """The sentence of the contexts that the question's words support best; no model.

    Raises:
        ConfigError: a setting is out of its range.
    """

    threshold: float = DEFAULT_THRESHOLD
    """Support below which no answer is given, in [0, 1]."""
    max_candidates: int = 3
    """How many different sentences are given at most."""
    word_weights: Literal["corpus", "contexts"] = "corpus"
    """Where a word's rarity is counted: in the corpus, where retrieval knows it, or among the
    contexts at hand."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        if self.word_weights not in ("corpus", "contexts"):
            raise ConfigError(
                f"word_weights must be one of corpus, contexts, not {self.word_weights!r}"
            )
        self.open(None)

    def open(self, weights: WordWeights | None) -> ExtractiveGenerator:
        """The generator.

        Args:
            weights: what words are worth in the corpus, where that is known.
        """
        used = weights if self.word_weights == "corpus" else None
        return ExtractiveGenerator(
            threshold=self.threshold,
            max_candidates=self.max_candidates,
            weight=None if used is None else used.weight,
        )
