from __future__ import annotations

import re

from ragbench.views.html import charts


def places(drawn: str) -> list[tuple[float, float]]:
    found = re.findall(r'<circle[^>]* cx="([\d.]+)" cy="([\d.]+)"', drawn)
    return [(float(x), float(y)) for x, y in found]


def test_differences_of_one_metric_share_an_axis() -> None:
    found = [(-0.1, -0.2, 0.0), (-0.4, -0.5, -0.3), (None, None, None)]
    small, large, none = charts.differences(found)
    assert none == ""
    # From -0.5 to 0.5 on 152 units that begin at 4: 0.1 are 15.2.
    assert places(small) == [(64.8, 9.0)]
    assert places(large) == [(19.2, 9.0)]
    assert small.count('class="zero"') == 1


def test_a_curve_is_drawn_with_the_earlier_one_behind_it() -> None:
    drawn = charts.curve([0.0, 1.0], [0.5, 0.5], label="l", across="x", up="y")
    assert re.findall(r'polyline class="([^"]*)"', drawn) == ["line before", "line"]
    assert charts.curve([0.0, 1.0], label="l", across="x", up="y").count("<polyline") == 1


def test_times_are_drawn_by_percentile_and_by_the_mean_where_there_are_none() -> None:
    drawn = charts.times(0.2, 0.1, 0.5, 1.0, most=1.0)
    assert places(drawn) == [(19.2, 9.0)]  # the median, a tenth of 152 units from 4
    assert 'class="axis" d="M4 9H156.0"' in drawn
    assert 'class="iv" d="M4 9H80.0v-4v8"' in drawn
    shared = charts.times(0.5, None, None, None, most=1.0)
    assert places(shared) == [(80.0, 9.0)]
    assert "<path" not in shared
