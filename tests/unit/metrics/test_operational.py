from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ragbench.core.outcome import Cell
from ragbench.metrics.operational import token_counts
from ragbench.metrics.registry import find_definition
from tests.unit.metrics.builders import cells, generated, retrieved, trace


@dataclass
class Usage:
    input_tokens: int
    output_tokens: int


@dataclass
class Metadata:
    usage: Usage


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 16},
            {"prompt_tokens": 10.0, "response_tokens": 5.0, "total_tokens": 16.0},
        ),
        ({"usage": {"completion_tokens": 5}}, {"response_tokens": 5.0}),
        (
            {"usage_metadata": {"input_tokens": 1, "output_tokens": 2}},
            {"prompt_tokens": 1.0, "response_tokens": 2.0, "total_tokens": 3.0},
        ),
        (
            Metadata(Usage(3, 4)),
            {"prompt_tokens": 3.0, "response_tokens": 4.0, "total_tokens": 7.0},
        ),
        ({"total_tokens": 9, "token_usage": {"total_tokens": 1}}, {"total_tokens": 9.0}),
        (
            {"prompt_tokens": 10, "total_tokens": 15},
            {"prompt_tokens": 10.0, "total_tokens": 15.0},
        ),
        ({"total_tokens": 0}, {"total_tokens": 0.0}),
        ({"total_tokens": float("inf")}, {}),
        ({"total_tokens": True}, {}),
        ({"total_tokens": -1}, {}),
        ({"total_tokens": float("nan")}, {}),
        ({"total_tokens": "12"}, {}),
        ({}, {}),
        (None, {}),
        ("12", {}),
    ],
)
def test_token_counts_are_read_and_never_estimated(metadata: Any, expected: Any) -> None:
    assert token_counts(metadata) == expected


def test_reported_tokens_are_measured_and_others_skipped() -> None:
    one = trace(generation=generated("x", metadata={"usage": {"completion_tokens": 5}}))
    row = cells("response_tokens, prompt_tokens, total_tokens", one)[0]
    unknown = Cell.skipped("generation reported no token usage")
    assert row == (Cell.measured(5.0), unknown, unknown)


def test_times_are_those_of_the_stages() -> None:
    one = trace(retrieval=retrieved("a", seconds=0.5), generation=generated("x", seconds=1.5))
    row = cells("retrieval_latency, generation_latency", one)[0]
    assert [c.value for c in row] == [0.5, 1.5]


def test_times_are_marked_as_not_repeatable() -> None:
    assert not find_definition("retrieval_latency").deterministic
    assert not find_definition("generation_latency").deterministic
    assert find_definition("token_f1").deterministic
