from __future__ import annotations

import pytest

from ragbench.errors import ConfigError, InputError
from ragbench.stats.repeats import variance_components

SCORES = {"a": [1.0, 3.0], "b": [5.0, 7.0]}


def test_by_hand() -> None:
    # Within: (1 + 1 + 1 + 1) / 2 = 2. Means 2 and 6: between squares 2 * (4 + 4) / 1 = 16;
    # (16 - 2) / 2 = 7.
    parts = variance_components(SCORES)
    assert (parts.within, parts.between, parts.repeats) == (2.0, 7.0, 2.0)
    assert (parts.cases, parts.scores) == (2, 4)
    assert parts.share_within == pytest.approx(1 / 8)
    assert parts.once == pytest.approx(9.0)
    # 2 / r is at most a tenth of (7 + 2 / r) from r = 18/7 on.
    assert parts.repeats_for(0.1) == 3


def test_without_repeats_nothing_is_known_of_the_noise() -> None:
    parts = variance_components({"a": [1.0], "b": [2.0], "c": []})
    assert (parts.within, parts.between, parts.share_within) == (None, None, None)
    assert parts.once is None
    assert parts.repeats_for(0.1) is None
    assert variance_components({}).repeats is None
    assert variance_components({"a": [1.0, 2.0]}).between is None


def test_unequal_repeats_by_hand() -> None:
    # Means 1 and 4, within 2 / 1. Centre 6 / 3 = 2: squares 2 * 1 + 1 * 4 = 6, and
    # n0 = 3 - (4 + 1) / 3 = 4 / 3, so that between = (6 - 2) / (4 / 3).
    parts = variance_components({"a": [0.0, 2.0], "b": [4.0], "c": []})
    assert (parts.cases, parts.scores, parts.within) == (2, 3, 2.0)
    assert parts.between == pytest.approx(3.0)
    assert parts.repeats == pytest.approx(4 / 3)
    # 2 / (4 / 3) = 1.5 of 4.5.
    assert parts.share_within == pytest.approx(1 / 3)


def test_scores_that_are_all_equal_have_no_noise_to_remove() -> None:
    equal = variance_components({"a": [0.5, 0.5], "b": [0.5, 0.5]})
    assert (equal.within, equal.between, equal.share_within) == (0.0, 0.0, 0.0)
    assert equal.repeats_for(0.1) == 1 and equal.once == 0.0


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="case 'b': score 1"):
        variance_components({"a": [1.0], "b": [1.0, float("nan")]})
    with pytest.raises(ConfigError):
        variance_components(SCORES).repeats_for(1.0)
