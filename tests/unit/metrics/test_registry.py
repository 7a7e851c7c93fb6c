"""Metrics by name: their spellings, their definitions, those of other packages, and stored ones."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import parse_metrics
from ragbench.core.metric import Metric, MetricDefinition, Parameter, ParameterValue, metric_of
from ragbench.errors import ConfigError
from ragbench.ledger.folder import MetricInfo
from ragbench.metrics.registry import (
    default_metrics,
    definitions,
    find_definition,
    parse_metric,
    split_metrics,
)
from ragbench.plugins import load_attribute
from tests.unit.metrics.builders import cell, generated, politeness, trace

DEFINITIONS = definitions()


def parameter_value(parameter: Parameter) -> st.SearchStrategy[ParameterValue]:
    """Any value that the parameter may have."""
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    if isinstance(parameter.default, bool):
        return st.booleans()
    low = parameter.low
    if isinstance(parameter.default, int):
        return st.integers(min_value=None if low is None else int(low), max_value=10**6)
    if isinstance(parameter.default, float):
        return st.floats(min_value=low, allow_nan=False, allow_infinity=False)
    return st.text()


@st.composite
def metrics(draw: st.DrawFn) -> Metric:
    """Any metric, with any values of its parameters and any cutoff that it may have."""
    definition = draw(st.sampled_from(DEFINITIONS))
    values: list[tuple[str, ParameterValue]] = []
    for parameter in definition.parameters:
        parameter_setting = draw(parameter_value(parameter))
        # A metric does not name what is the default.
        if parameter_setting != parameter.default:
            values.append((parameter.name, parameter_setting))
    cutoffs: dict[str, st.SearchStrategy[int | None]] = {
        "none": st.none(),
        "optional": st.none() | st.integers(1, 1000),
        "required": st.integers(1, 1000),
    }
    cutoff = draw(cutoffs[definition.cutoff])
    return Metric(definition=definition, parameters=tuple(sorted(values)), cutoff=cutoff)


# --- spellings


@given(metrics())
def test_a_metrics_name_reads_back_to_the_same_metric(metric: Metric) -> None:
    assert parse_metric(metric.name) == metric


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ndcg@10", "nDCG@10"),
        ("R@5", "recall@5"),
        ("P(rel=2)@5", "precision(rel=2)@5"),
        ("P( rel = 2 , judged_only=TRUE ) @ 5", "precision(judged_only=true, rel=2)@5"),
        ("P(rel=1)@5", "precision@5"),
        ("SetF(rel=3)", "set_f1(rel=3)"),
        ("nDCG(dcg='exp-log2')@10", "nDCG(dcg=exp-log2)@10"),
        ('nDCG(dcg="log2")@10', "nDCG@10"),
        ("rouge", "rougeL"),
        ("ROUGE1(stemmer=true)", "rouge1"),
        ("brier(threshold=1)", "brier(threshold=1.0)"),
        ("ragas:id_based_context_recall", "ragas:id_based_context_recall"),
    ],
)
def test_a_metric_has_one_name_however_it_is_spelled(text: str, name: str) -> None:
    assert parse_metric(text).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recal@5", "unknown metric 'recal'. Did you mean recall"),
        ("recall", "'recall' needs a cutoff, as in recall@10"),
        ("recall@0", "the cutoff of 'recall' must be at least 1"),
        ("token_f1@5", "'token_f1' takes no cutoff"),
        ("recall(k=3)@5", "'recall' has no parameter 'k': it has rel, judged_only"),
        ("candidate_agreement(k=3)", "no parameter 'k': it has none"),
        ("recall(rel=two)@5", "'recall': rel must be a whole number, not 'two'"),
        ("recall(rel=0)@5", "'recall': rel must be at least 1"),
        ("recall(rel=1, rel=2)@5", "is given the parameter 'rel' twice"),
        ("recall(judged_only=yes)@5", "judged_only must be true or false, not 'yes'"),
        ("brier(threshold=nan)", "threshold must be a number, not 'nan'"),
        ("rouge(variant=rouge1)", "'rougeL' has no parameter 'variant': it has stemmer"),
        ("exact_match(normalise=x)", "must be one of multilingual, squad, none, not 'x'"),
        ("recall(rel)@5", "'recall(rel)@5': 'rel' is not parameter=value"),
        ("recall@", "is not of the form name, name@k or name(parameter=value)@k"),
        ("recall(rel=2@5", "is not of the form"),
        ("", "is not of the form"),
    ],
)
def test_what_is_wrong_is_reported(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_metric(text)


def test_all_wrong_metrics_of_a_list_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        parse_metrics("recal@5, nDCG@10, P@0, token_f1(x=1)")

    assert len(str(error.value).splitlines()) == 3


def test_a_list_is_split_outside_parentheses_and_quotes() -> None:
    text = 'P(rel=2, judged_only=true)@5,token_f1 MRR\n x(a=\'b, c\', d="e)\\" f")'

    assert split_metrics(text) == [
        "P(rel=2, judged_only=true)@5",
        "token_f1",
        "MRR",
        'x(a=\'b, c\', d="e)\\" f")',
    ]


# --- definitions


def name_of(definition: MetricDefinition) -> str:
    return definition.name


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name_of)
def test_each_definition_says_what_it_is_where_it_is_from_and_what_it_reads(
    definition: MetricDefinition,
) -> None:
    assert definition.summary
    assert definition.citation
    assert definition.needs


OUR_DEFINITIONS = [
    definition
    for definition in DEFINITIONS
    if not definition.name.startswith("ragas:")  # their module imports ragas
]


@pytest.mark.parametrize("definition", OUR_DEFINITIONS, ids=name_of)
def test_each_scorer_is_a_function(definition: MetricDefinition) -> None:
    assert callable(load_attribute(definition.scorer))


AGGREGATES = [definition.aggregate for definition in DEFINITIONS if definition.aggregate]


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_each_aggregate_is_a_function(aggregate: str) -> None:
    assert callable(load_attribute(aggregate))


FREE = [definition for definition in DEFINITIONS if definition.cost == "free"]


@pytest.mark.parametrize("definition", FREE, ids=name_of)
def test_each_free_metric_of_ours_has_a_formula_and_no_digest_of_foreign_code(
    definition: MetricDefinition,
) -> None:
    assert definition.formula is not None
    assert not definition.digest


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name_of)
def test_each_definition_is_found_by_its_names_in_any_case(definition: MetricDefinition) -> None:
    assert find_definition(definition.name.upper()) == definition
    for alias in definition.aliases:
        assert find_definition(alias.upper()) == definition


def test_default_metrics_are_free_and_need_no_extra() -> None:
    defaults = default_metrics()

    assert defaults
    for metric in defaults:
        assert metric.definition.cost == "free"
        assert metric.definition.extra is None


# --- metrics of other packages


def offer(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Makes it look as if another package were installed that adds a metric."""
    point = EntryPoint(name="theirs", value=target, group="ragbench.metrics")
    points = {point.group: [point]}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points.get(group, []))


@pytest.fixture
def offered_politeness(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "tests.unit.metrics.builders:politeness")


@pytest.mark.usefixtures("offered_politeness")
def test_another_package_adds_a_metric_by_name_and_alias() -> None:
    definition = find_definition("Politeness")

    assert definition in definitions()
    assert definition == find_definition("courtesy")
    assert definition.formula is not None
    assert definition.formula.function is politeness


@pytest.mark.usefixtures("offered_politeness")
def test_a_metric_of_another_package_has_a_digest_of_its_code() -> None:
    assert find_definition("politeness").digest


@pytest.mark.usefixtures("offered_politeness")
def test_a_metric_of_another_package_scores() -> None:
    case = trace(generation=generated("please"))

    assert cell("politeness", case).value == 1.0


@pytest.mark.usefixtures("offered_politeness")
def test_a_text_of_a_parameter_is_quoted_in_the_name() -> None:
    text = 'politeness(style="very, (very) \\"polite\\"")'

    metric = parse_metric(text)

    assert metric.parameter("style") == 'very, (very) "polite"'
    assert metric.name == text


def test_an_entry_point_that_is_no_metric_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "ragbench.metrics.plan:Plan")

    with pytest.raises(ConfigError, match=r"entry point 'theirs' .* gives a type, not a"):
        definitions()


# --- stored metrics


def through_json(metric: Metric) -> dict[str, Any]:
    definition: dict[str, Any] = orjson.loads(orjson.dumps(MetricInfo.of(metric).definition))
    return definition


@given(metrics())
def test_a_stored_metric_comes_back_as_it_was(metric: Metric) -> None:
    assert metric_of(through_json(metric)) == metric


@pytest.fixture
def rude_metric() -> Metric:
    """A metric with a parameter that is not the default."""
    [metric] = parse_metrics([politeness])
    return replace(metric, parameters=(("style", "rude"),))


def test_facts_of_a_later_version_are_left_out(rude_metric: Metric) -> None:
    stored = through_json(rude_metric)

    stored["colour"] = "red"
    stored["needs"].append("telepathy")

    assert metric_of(stored) == rude_metric


def test_a_missing_fact_gets_its_default(rude_metric: Metric) -> None:
    stored = through_json(rude_metric)

    del stored["unit"]

    assert metric_of(stored) == rude_metric


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: definition.name)
def test_the_formula_of_a_metric_can_be_sent_to_workers(definition: MetricDefinition) -> None:
    name = f"{definition.name}@5" if definition.cutoff == "required" else definition.name
    metrics = parse_metrics(name)

    assert pickle.loads(pickle.dumps(metrics)) == metrics
