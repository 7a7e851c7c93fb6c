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


def test_a_frontier_marks_what_is_beaten_and_names_the_ends_of_its_axes() -> None:
    points = [
        (1, charts.Point("all", 900.0, 0.75)),
        (2, charts.Point("<b>two</b>", 400.0, 0.60, True)),
        (4, charts.Point("one", 100.0, 0.50)),
    ]
    drawn = charts.frontier(
        points, label="recall by tokens", across="tokens", up="recall@5", shown=lambda v: f"{v:.0f}"
    )
    assert drawn.count("<circle") == 3
    assert drawn.count('class="beaten"') == 1
    assert "&lt;b&gt;two&lt;/b&gt;: tokens 400, recall@5 0.600" in drawn
    first, second, third = places(drawn)
    assert third[0] < second[0] < first[0]  # dearer to the right
    assert first[1] < second[1] < third[1]  # better upwards
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert texts == ["100", "900", "0.50", "0.75", "1", "2", "4", "tokens", "recall@5"]


def test_an_axis_on_which_all_stand_at_one_place_is_named_once() -> None:
    points = [(1, charts.Point("a", 3.0, 0.5)), (2, charts.Point("b", 3.0, 0.5))]
    drawn = charts.frontier(points, label="l", across="x", up="y", shown=str)
    assert re.findall(r"<text[^>]*>([^<]*)</text>", drawn) == ["3.0", "0.50", "1", "2", "x", "y"]


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
