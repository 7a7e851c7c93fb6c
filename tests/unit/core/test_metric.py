from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given

from ragbench import parse_metrics
from ragbench.core.metric import Metric, metric_of, stored_definition
from tests.unit.metrics.builders import politeness
from tests.unit.metrics.test_registry import metrics

DEFINITION = parse_metrics([politeness])[0].definition


def through_json(metric: Metric) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(orjson.dumps(stored_definition(metric)))
    return read


@given(metrics())
def test_a_stored_metric_comes_back_as_it_was(metric: Metric) -> None:
    assert metric_of(through_json(metric)) == metric


def test_facts_of_a_later_version_are_left_out_and_missing_ones_get_their_default() -> None:
    metric = Metric(definition=DEFINITION, parameters=(("style", "rude"),))
    stored = through_json(metric)
    stored["colour"] = "red"
    stored["needs"].append("telepathy")
    del stored["unit"]
    assert metric_of(stored) == metric
