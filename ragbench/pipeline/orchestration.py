"""How the stages of a pipeline work together."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.errors import ConfigError

__all__ = ["Orchestration"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Orchestration:
    """One stage after the other.

    Raises:
        ConfigError: a setting is out of its range.
    """

    rrf_k: int = 60
    """When a question is searched for in several ways: how little the first ranks count more than
    the next ones in the fusion of the rankings."""
    candidates: int = 50
    """When a question is searched for in several ways: how many chunks of each ranking are fused;
    never fewer than retrieval's ``top_k``."""
    concurrency: int = 1
    """How many questions are worked on at once in an evaluation that does not say; more than 1 is
    for stages that wait for a model elsewhere."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        for name in ("rrf_k", "candidates", "concurrency"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
