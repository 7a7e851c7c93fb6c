"""Small charts as inline SVG: no library, no style attributes, a text for who cannot see them.

A page must open without a network, and under a policy that forbids styles inside it: the page's
style sheet draws by the classes that are given here. Numbers are in pixels of the drawing.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ragbench.safe_text import counted

_WIDTH = 160
"""Of a drawing in the row of a table."""
_MARGIN = 4
"""Left and right of its axis: half of a dot."""
_ROW = Markup('<svg class="forest" viewBox="0 0 160 18" width="160" height="18" {}>{}</svg>')
_DOT = Markup('<circle cx="{}" cy="9" r="4"/>')
_BARS_WIDTH = 80
_BARS_HEIGHT = 18
"""Of a histogram in a row."""
_LEAST_BAR = 0.6
"""Per cent of the width that a bar has at least: one case of a thousand is to be seen, too."""
_BOX = 220
"""Width and height of a square drawing."""
_EDGE = 34
"""Left of its axis and below it, where titles and numbers are."""
_PLOT = _BOX - _EDGE - 12
"""Width and height of what lies between the axes."""


def forest(
    score: float,
    low: float | None,
    high: float | None,
    *,
    least: float,
    most: float,
    limit: float | None = None,
) -> Markup:
    """A drawing of a figure with its interval, and a limit, on an axis from ``least`` to ``most``.

    What is drawn later lies above: axis, zero and limit as thin lines, the interval, then the dot.
    """
    inside = Markup('<path class="axis" d="M4 9H{}"/>').format(_WIDTH - _MARGIN)
    label = f"{score:.3f}"
    # A zero within the axis parts gains from losses.
    if least < 0 < most:
        zero = _place_in_row(0, least, most)
        inside += Markup('<path class="zero" d="M{} 0v18"/>').format(zero)
    if limit is not None:
        place = _place_in_row(limit, least, most)
        inside += Markup('<path class="limit" d="M{} 1v16"/>').format(place)
    # Half an interval is not drawn.
    if low is not None and high is not None:
        start = _place_in_row(low, least, most)
        end = _place_in_row(high, least, most)
        # A line from end to end, and a stroke across each end.
        interval = Markup('<path class="iv" d="M{} 9H{}M{} 5v8M{} 5v8"/>')
        inside += interval.format(start, end, start, end)
        label += f", {low:.3f} to {high:.3f}"
    inside += _DOT.format(_place_in_row(score, least, most))
    if limit is not None:
        label += f"; limit {limit:.3f}"
    attributes = Markup('role="img" aria-label="{}"').format(label)
    return _ROW.format(attributes, inside)


def differences(
    intervals: Sequence[tuple[float | None, float | None, float | None]],
) -> list[Markup]:
    """Drawings of differences with their intervals, all on one axis around 0, to compare by eye.

    Nothing is drawn where a difference is not known.

    Args:
        intervals: each difference, and the low and high end of its interval.
    """
    # The furthest end on either side, so that 0 is in the middle.
    edge = 0.0
    for interval in intervals:
        for end in interval:
            if end is not None:
                edge = max(edge, abs(end))
    edge = edge or 1.0  # an axis needs a length
    drawings: list[Markup] = []
    for value, low, high in intervals:
        if value is None:
            drawings.append(Markup(""))
        else:
            drawings.append(forest(value, low, high, least=-edge, most=edge))
    return drawings


def _place_in_row(value: float, least: float, most: float) -> str:
    """The place of a value across a drawing in a table's row, in pixels from the left.

    A value beyond an end of the axis is drawn at that end. On an axis without a length, that of
    equal values, it lies in the middle.
    """
    share = 0.5
    # Equal values have no scale: the middle says as much.
    if most > least:
        value_on_axis = min(max(value, least), most)
        share = (value_on_axis - least) / (most - least)
    # The margins leave room for the dot of a value at an end.
    length = _WIDTH - 2 * _MARGIN
    return f"{_MARGIN + share * length:.1f}"


def times(
    mean: float, p50: float | None, p95: float | None, longest: float | None, *, most: float
) -> Markup:
    """A drawing of how long stages took, on an axis from 0 to ``most``.

    A bar goes to the 95th percentile, a line to the longest time. Where there are no percentiles,
    because cases shared their calls, the mean alone is drawn.
    """
    inside = Markup("")
    if p95 is not None and longest is not None:
        to_longest = _place_in_row(longest, 0.0, most)
        to_p95 = _place_in_row(p95, 0.0, most)
        inside = Markup(
            '<path class="axis" d="M4 9H{}"/><path class="iv" d="M4 9H{}v-4v8"/>'
        ).format(to_longest, to_p95)
    typical = mean if p50 is None else p50
    inside += _DOT.format(_place_in_row(typical, 0.0, most))
    # Hidden from screen readers: the drawing's numbers are in the cells beside it.
    return _ROW.format(Markup('aria-hidden="true"'), inside)


def outcomes(parts: Sequence[tuple[str, str, int]]) -> Markup:
    """A drawing of all cases of a run as one bar, cut into right, lost and unchecked cases.

    Lost cases are cut by their cause.

    Args:
        parts: name of the kind, which has a colour, its label, and its cases.
    """
    # Without a case the bar is empty: the 1 only keeps the division whole.
    total = sum(cases for _, _, cases in parts) or 1
    inside = Markup("")
    texts: list[str] = []
    start = 0.0
    # In hundredths of the bar's width, as `viewBox` has it.
    for kind, label, cases in parts:
        width = 100 * cases / total
        inside += Markup('<rect class="c-{}" x="{:.2f}" y="0" width="{:.2f}" height="8"/>').format(
            kind, start, width
        )
        start += width
        texts.append(f"{label} {cases:,}")
    # `Markup.format` escapes what it fills in: labels may hold signs of HTML.
    return Markup(
        '<svg class="outcomes" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(f"Cases: {', '.join(texts)}", inside)


def share_bar(share: float, *, kind: str = "", before: float = 0.0) -> Markup:
    """A bar of a share of all cases. Bars below each other make a waterfall of losses.

    A bar has a least width, so that one case of a thousand is seen.

    Args:
        kind: of the cases, which has a colour.
        before: the share at which the bar begins.
    """
    # In hundredths of the width, as `viewBox` has it.
    start = before * 100
    width = max(share * 100, _LEAST_BAR)
    return Markup(
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rest" width="100" height="10"/><rect class="c-{}" x="{}" width="{}" '
        'height="10"/></svg>'
    ).format(kind, f"{start:.2f}", f"{width:.2f}")


def histogram(values: Sequence[float], least: float, most: float, *, bins: int) -> Markup:
    """A drawing of how many values lie in each of ``bins`` bins of one width, from least to most.

    A value beyond an end is counted in the bin there; the highest one belongs to the last bin.
    """
    counts = [0] * bins
    for value in values:
        # On an axis without a length all values are in the first bin.
        share = 0.0
        if most > least:
            share = (value - least) / (most - least)
        number = min(max(int(share * bins), 0), bins - 1)
        counts[number] += 1
    width = _BARS_WIDTH / bins
    # The highest bar fills the drawing: only shapes are compared.
    highest = max(counts)
    bars = Markup("")
    for position, count in enumerate(counts):
        if not count:
            continue
        height = _BARS_HEIGHT * count / highest
        bars += Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(
            f"{position * width:.1f}",
            f"{_BARS_HEIGHT - height:.1f}",
            f"{width - 1:.1f}",  # a gap to the next bar
            f"{height:.1f}",
        )
    label = f"cases from {least:g} to {most:g}: {', '.join(map(str, counts))}"
    return Markup(
        '<svg class="bars" viewBox="0 0 80 18" width="80" height="18" role="img" '
        'aria-label="{}"><path class="axis" d="M0 17.5H80"/>{}</svg>'
    ).format(label, bars)


def calibration(points: Sequence[tuple[float, float, int]], *, label: str) -> Markup:
    """A reliability diagram: how often answers of one confidence are right.

    The dots of a system that knows how sure it may be lie on the diagonal; below it are those of
    one that is too sure.

    Args:
        points: mean confidence, share that was right and number of answers, for each bin.
        label: all of it in words, for who cannot see it.
    """
    largest = max((count for _, _, count in points), default=1)
    dots = Markup("")
    for confidence, right, count in points:
        # The area of a dot, and not its radius, grows with its cases. 3 pixels are
        # the least that is seen, and 9 the most that leaves room for other dots.
        radius = 3 + 6 * (count / largest) ** 0.5
        title = f"{counted(count, 'case')}: said {confidence:.2f}, right {right:.2f}"
        dot = Markup('<circle cx="{}" cy="{}" r="{}"><title>{}</title></circle>')
        dots += dot.format(_pixels_across(confidence), _pixels_down(right), f"{radius:.1f}", title)
    diagonal = Markup('<path class="zero" d="M{} {}L{} {}"/>').format(
        _pixels_across(0), _pixels_down(0), _pixels_across(1), _pixels_down(1)
    )
    return _square_drawing(_end_numbers(0, 1) + diagonal + dots, label, "confidence", "share right")


def curve(
    values: Sequence[float], before: Sequence[float] = (), *, label: str, across: str, up: str
) -> Markup:
    """A drawing of shares (0 to 1) as a line over 1, 2, 3 ...

    It shows how many chunks are worth keeping: where it is flat, more bring nothing.

    Args:
        before: of another retriever, which are drawn as a dashed line.
        label: what is drawn, for who cannot see it.
        across: the title of the axis to the right.
        up: the title of the axis upwards.
    """
    last = max(len(values) - 1, 1)  # a single point lies at the left end
    line = Markup("")
    for kind, shares in (("line before", before), ("line", values)):
        if not shares:
            continue
        points: list[str] = []
        for position, share in enumerate(shares):
            points.append(f"{_pixels_across(position / last)},{_pixels_down(share)}")
        line += Markup('<polyline class="{}" points="{}"/>').format(kind, " ".join(points))
    return _square_drawing(line + _end_numbers(1, len(values)), label, across, up)


def _end_numbers(first: int, last: int) -> Markup:
    """The numbers below the two ends of a square drawing's axis to the right.

    Two numbers are enough to read a drawing of this size.
    """
    below = _BOX - 18
    texts = Markup('<text x="{}" y="{}">{}</text><text x="{}" y="{}" class="end">{}</text>')
    return texts.format(_EDGE, below, first, _BOX - 6, below, last)


def _square_drawing(inside: Markup, label: str, across: str, up: str) -> Markup:
    """A square drawing with two axes and their titles, around what lies between them.

    Curves and diagrams of calibration share this frame.

    Args:
        inside: what lies between the axes, at places by `_pixels_across` and `_pixels_down`.
        label: what is drawn, for who cannot see it.
        across: the title of the axis to the right.
        up: the title of the axis upwards.
    """
    # The drawing's area ends above the edge, which holds the lower axis and its title.
    middle = (_BOX - _EDGE) / 2
    return Markup(
        '<svg class="square" viewBox="0 0 {box} {box}" width="{box}" height="{box}" role="img" '
        'aria-label="{label}"><path class="axis" d="M{edge} 8V{bottom}H{right}"/>{inside}'
        '<text x="{center}" y="{foot}" class="mid">{across}</text>'
        '<text x="12" y="{middle}" class="mid" transform="rotate(-90 12 {middle})">{up}</text>'
        "</svg>"
    ).format(
        box=_BOX,
        label=label,
        edge=_EDGE,
        bottom=_BOX - _EDGE,
        right=_BOX - 6,
        inside=inside,
        center=(_BOX + _EDGE) / 2,
        foot=_BOX - 5,
        across=across,
        middle=middle,
        up=up,
    )


def _pixels_across(share: float) -> str:
    """The pixels from the left at which a share (0 to 1) lies in a square drawing.

    `_pixels_down` gives the place upwards; both leave an edge for the axes' titles.
    """
    return f"{_EDGE + share * _PLOT:.1f}"


def _pixels_down(share: float) -> str:
    """The pixels from the top at which a share (0 to 1) lies in a square drawing.

    SVG counts from the top, and 0 is at the bottom of a drawing.
    """
    return f"{_BOX - _EDGE - share * _PLOT:.1f}"
