"""Criteria in the user's words: how their metrics are read and told apart."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError
from ragbench.metrics.registry import parse_metrics, split_metrics
from ragbench.metrics.rubric import rubric


def test_a_rubric_is_named_after_its_criterion() -> None:
    metric = rubric("polite", "The answer is polite.")

    assert metric.name == "rubric:polite"
    assert metric.definition.summary == "The answer is polite."
    assert metric.is_judged


def test_other_words_are_another_metric_under_the_same_name() -> None:
    polite = rubric("polite", "The answer is polite.")
    very_polite = rubric("polite", "The answer is very polite.")

    assert polite.name == very_polite.name
    assert polite.identity != very_polite.identity


def test_white_space_in_the_words_makes_no_other_metric() -> None:
    on_one_line = rubric("polite", "The answer is polite.")
    on_two_lines = rubric("polite", "The answer\n  is polite.")

    assert on_two_lines.identity == on_one_line.identity


def test_a_rubric_takes_the_rest_of_a_list_with_its_commas() -> None:
    text = "token_f1, recall@5,rubric:kind=It is kind, short, and right"

    assert split_metrics(text) == [
        "token_f1",
        "recall@5",
        "rubric:kind=It is kind, short, and right",
    ]


def test_an_equals_sign_elsewhere_begins_no_rubric() -> None:
    assert split_metrics("P(rel=2)@5,rubric:kind,token_f1") == [
        "P(rel=2)@5",
        "rubric:kind",
        "token_f1",
    ]


def test_rubrics_that_are_described_elsewhere_stand_anywhere_in_a_list() -> None:
    metrics = parse_metrics("rubric:kind,token_f1", rubrics={"kind": "It is kind."})

    assert [metric.name for metric in metrics] == ["rubric:kind", "token_f1"]


def test_two_rubrics_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two rubrics are called 'rubric:kind'"):
        parse_metrics(["rubric:kind=It is kind.", "rubric:kind=It is short."])


def test_a_second_rubric_in_the_words_of_the_first_is_refused() -> None:
    with pytest.raises(ConfigError, match="describes two rubrics"):
        parse_metrics("rubric:kind=It is kind., rubric:short=It is short.")


def test_an_unknown_name_lists_those_of_the_file() -> None:
    with pytest.raises(ConfigError, match="It has kind, short"):
        parse_metrics("rubric:polite", rubrics={"kind": "It is kind.", "short": "It is short."})
