from __future__ import annotations

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
    definition = draw(st.sampled_from(DEFINITIONS))
    values = {p.name: draw(parameter_value(p)) for p in definition.parameters}
    cutoff = draw(st.integers(1, 1000)) if definition.cutoff != "none" else None
    if definition.cutoff == "optional" and draw(st.booleans()):
        cutoff = None
    defaults = {p.name: p.default for p in definition.parameters}
    given_values = tuple(sorted(each for each in values.items() if each[1] != defaults[each[0]]))
    return Metric(definition=definition, parameters=given_values, cutoff=cutoff)


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
def test_spellings(text: str, name: str) -> None:
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


@pytest.mark.parametrize("definition", definitions(), ids=lambda d: d.name)
def test_each_definition_is_complete(definition: MetricDefinition) -> None:
    assert definition.summary and definition.citation and definition.needs
    if not definition.name.startswith("ragas:"):  # its module imports ragas
        assert callable(load_attribute(definition.scorer))
    if definition.cost == "free":
        assert definition.formula is not None and not definition.digest
    if definition.aggregate is not None:
        assert callable(load_attribute(definition.aggregate))
    for name in (definition.name, *definition.aliases):
        assert find_definition(name.upper()) == definition


def test_default_metrics_are_free_and_need_no_extra() -> None:
    defaults = [metric.definition for metric in default_metrics()]
    assert defaults and all(d.extra is None and d.cost == "free" for d in defaults)


def test_other_packages_add_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "tests.unit.metrics.builders:politeness")
    found = find_definition("Politeness")
    assert find_definition("courtesy") == found
    assert found in definitions()
    assert found.formula is not None and found.formula.function is politeness
    assert found.digest
    assert cell("politeness", trace(generation=generated("please"))).value == 1.0
    text = 'politeness(style="very, (very) \\"polite\\"")'
    assert parse_metric(text).parameter("style") == 'very, (very) "polite"'
    assert parse_metric(text).name == text
    offer(monkeypatch, "ragbench.metrics.plan:Plan")
    with pytest.raises(ConfigError, match=r"entry point 'theirs' .* gives a type, not a"):
        definitions()


def offer(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    point = EntryPoint(name="theirs", value=target, group="ragbench.metrics")
    found = {point.group: [point]}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.get(group, []))


def through_json(metric: Metric) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(orjson.dumps(MetricInfo.of(metric).definition))
    return read


@given(metrics())
def test_a_stored_metric_comes_back_as_it_was(metric: Metric) -> None:
    assert metric_of(through_json(metric)) == metric


def test_facts_of_a_later_version_are_left_out_and_missing_ones_get_their_default() -> None:
    (named,) = parse_metrics([politeness])
    metric = replace(named, parameters=(("style", "rude"),))
    stored = through_json(metric)
    stored["colour"] = "red"
    stored["needs"].append("telepathy")
    del stored["unit"]
    assert metric_of(stored) == metric
