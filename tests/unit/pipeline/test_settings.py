"""Defaults of a search, and where they come from."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError
from ragbench.pipeline.strategies import RetrievalSettings


def test_the_defaults_of_the_specification() -> None:
    settings = RetrievalSettings()
    assert (settings.top_k, settings.score_threshold) == (4, None)


def test_the_environment_is_read_by_the_specification_s_names_and_by_ours() -> None:
    assert RetrievalSettings.from_environment(
        {
            "DEFAULT_TOP_K": "7",
            "DEFAULT_SCORE_THRESHOLD": "0.25",
            "RETRIEVAL_STRATEGY": "sparse",
            "RAGBENCH_TOP_K": "9",
            "RAGBENCH_RRF_K": "10",
        }
    ) == RetrievalSettings(top_k=9, score_threshold=0.25, strategy="sparse", rrf_k=10)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("DEFAULT_TOP_K", "many", "expected a whole number"),
        ("DEFAULT_TOP_K", "0", "top_k must be at least 1"),
        ("DEFAULT_SCORE_THRESHOLD", "high", "expected a number"),
        ("DEFAULT_SCORE_THRESHOLD", "nan", "must be a number"),
        ("RETRIEVAL_STRATEGY", "both", "dense, sparse, hybrid"),
        ("RAGBENCH_DENSE_WEIGHT", "-1", "at least 0"),
    ],
)
def test_a_wrong_value_names_its_variable(variable: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        RetrievalSettings.from_environment({variable: value})
    assert str(caught.value).startswith(f"{variable}='{value}': ")


def test_weights_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="one of them above 0"):
        RetrievalSettings(dense_weight=0, sparse_weight=0)
