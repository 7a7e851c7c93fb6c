"""Every choice of a metric's setting computes what it names; one without a number here fails."""

from __future__ import annotations

import math

import pytest

from ragbench.core.trace import Trace
from ragbench.metrics.registry import definitions
from tests.unit.metrics.builders import answered, generated, ranked, trace, value

SPACED = answered("红猫", "红 猫")
DOG = answered("红猫", "红狗")
SWAPPED = answered("cat red", "red cat")
CAPITALS = answered("RED cat", "red cat")
CERTAIN = trace(
    references=["red cat"],
    generation=generated("red old cat", candidates=["red old cat"], confidence=1.0),
)
GRADED = ranked(["b", "a"], {"a": 3, "b": 1})
SECOND = 1 / math.log2(3)
"""The discount of the second place."""

# Of Chinese, SQuAD's script takes what stands between spaces for a token. "red old cat" shares two
# of three and two of two tokens: F1 4/5. Four of its eleven characters are to be deleted.
NUMBERS: dict[tuple[str, str], dict[str, list[tuple[str, Trace, float]]]] = {
    ("nDCG", "dcg"): {
        "log2": [("nDCG(dcg=log2)@10", GRADED, (1 + 3 * SECOND) / (3 + SECOND))],
        "exp-log2": [("nDCG(dcg=exp-log2)@10", GRADED, (1 + 7 * SECOND) / (7 + SECOND))],
    },
    ("exact_match", "normalise"): {
        "multilingual": [
            ("exact_match(normalise=multilingual)", SPACED, 1.0),
            ("exact_match(normalise=multilingual)", CAPITALS, 1.0),
        ],
        "squad": [("exact_match(normalise=squad)", SPACED, 0.0)],
        "none": [("exact_match(normalise=none)", CAPITALS, 0.0)],
    },
    ("token_f1", "normalise"): {
        "multilingual": [("token_f1(normalise=multilingual)", DOG, 0.5)],
        "squad": [("token_f1(normalise=squad)", DOG, 0.0)],
    },
    ("end_to_end_em", "normalise"): {
        "multilingual": [("end_to_end_em(normalise=multilingual)", SPACED, 1.0)],
        "squad": [("end_to_end_em(normalise=squad)", SPACED, 0.0)],
    },
    ("end_to_end_f1", "normalise"): {
        "multilingual": [("end_to_end_f1(normalise=multilingual)", DOG, 0.5)],
        "squad": [("end_to_end_f1(normalise=squad)", DOG, 0.0)],
    },
    ("best_of_n", "metric"): {
        "token_f1": [("best_of_n(metric=token_f1)", CERTAIN, 0.8)],
        "exact_match": [("best_of_n(metric=exact_match)", CERTAIN, 0.0)],
        "edit_similarity": [("best_of_n(metric=edit_similarity)", CERTAIN, 7 / 11)],
    },
    ("brier", "by"): {
        "token_f1": [("brier(by=token_f1,threshold=0.8)", CERTAIN, 0.0)],
        "exact_match": [("brier(by=exact_match,threshold=0.6)", CERTAIN, 1.0)],
        "edit_similarity": [
            ("brier(by=edit_similarity,threshold=0.6)", CERTAIN, 0.0),
            ("brier(by=edit_similarity,threshold=0.7)", CERTAIN, 1.0),
        ],
    },
    ("ECE", "by"): {
        "token_f1": [("ECE(by=token_f1,threshold=0.8)", CERTAIN, 0.0)],
        "exact_match": [("ECE(by=exact_match,threshold=0.6)", CERTAIN, -1.0)],
        "edit_similarity": [
            ("ECE(by=edit_similarity,threshold=0.6)", CERTAIN, 0.0),
            ("ECE(by=edit_similarity,threshold=0.7)", CERTAIN, -1.0),
        ],
    },
}
ROUGE = {"rouge1": 1.0, "rouge2": 0.0, "rougeL": 0.5}
"""Of two tokens in the wrong order."""


def test_no_choice_is_without_a_number() -> None:
    offered = {
        (definition.name, setting.name): set(setting.choices)
        for definition in definitions()
        for setting in definition.parameters
        if setting.choices and not definition.extra
    }
    assert offered == {key: set(choices) for key, choices in NUMBERS.items()}


@pytest.mark.parametrize(
    ("name", "one", "number"),
    [row for choices in NUMBERS.values() for rows in choices.values() for row in rows],
)
def test_a_choice_computes_what_it_names(name: str, one: Trace, number: float) -> None:
    assert value(name, one) == pytest.approx(number)


@pytest.mark.extra("text")
def test_each_variant_of_rouge_is_computed() -> None:
    (variant,) = next(one for one in definitions() if one.name == "rouge").parameters
    assert set(variant.choices) == set(ROUGE)
    for name, number in ROUGE.items():
        assert value(f"rouge(variant={name})", SWAPPED) == pytest.approx(number)
