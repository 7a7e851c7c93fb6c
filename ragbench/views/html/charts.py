"""Small charts as inline SVG: no library, no style attributes, a text for who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ragbench.safe_text import counted

_WIDTH = 160
_ROW = Markup('<svg class="forest" viewBox="0 0 160 18" width="160" height="18" {}>{}</svg>')
_DOT = Markup('<circle cx="{}" cy="9" r="4"/>')
_BOX = 220
_EDGE = 34


def forest(
    score: float,
    low: float | None,
    high: float | None,
    *,
    least: float,
    most: float,
    limit: float | None = None,
) -> Markup:
    """A figure with its interval, and a limit, on an axis from ``least`` to ``most``."""
    inside = Markup('<path class="axis" d="M4 9H{}"/>').format(_WIDTH - 4)
    label = f"{score:.3f}"
    if least < 0 < most:
        inside += Markup('<path class="zero" d="M{} 0v18"/>').format(_scale(0, least, most))
    if limit is not None:
        inside += Markup('<path class="limit" d="M{} 1v16"/>').format(_scale(limit, least, most))
    if low is not None and high is not None:
        ends = _scale(low, least, most), _scale(high, least, most)
        inside += Markup('<path class="iv" d="M{} 9H{}M{} 5v8M{} 5v8"/>').format(*ends, *ends)
        label += f", {low:.3f} to {high:.3f}"
    inside += _DOT.format(_scale(score, least, most))
    if limit is not None:
        label += f"; limit {limit:.3f}"
    return _ROW.format(Markup('role="img" aria-label="{}"').format(label), inside)


def differences(
    intervals: Sequence[tuple[float | None, float | None, float | None]],
) -> list[Markup]:
    """Differences with their intervals, all on one axis around 0; nothing where there is none.

    Args:
        intervals: each difference, and the low and high end of its interval.
    """
    edge = 0.0
    for interval in intervals:
        for end in interval:
            if end is not None:
                edge = max(edge, abs(end))
    edge = edge or 1.0
    drawings: list[Markup] = []
    for value, low, high in intervals:
        if value is None:
            drawings.append(Markup(""))
        else:
            drawings.append(forest(value, low, high, least=-edge, most=edge))
    return drawings


def _scale(value: float, least: float, most: float) -> str:
    """Where a value lies across a row."""
    share = 0.5
    if most > least:
        share = (min(max(value, least), most) - least) / (most - least)
    return f"{4 + share * (_WIDTH - 8):.1f}"


def times(
    mean: float, p50: float | None, p95: float | None, longest: float | None, *, most: float
) -> Markup:
    """Percentiles of a time on an axis from 0 to ``most``: bar to p95, line to the longest.

    Where there are no percentiles, because cases shared their calls, the mean alone is drawn.
    """
    inside = Markup("")
    if p95 is not None and longest is not None:
        to_longest = _scale(longest, 0.0, most)
        to_p95 = _scale(p95, 0.0, most)
        inside = Markup(
            '<path class="axis" d="M4 9H{}"/><path class="iv" d="M4 9H{}v-4v8"/>'
        ).format(to_longest, to_p95)
    inside += _DOT.format(_scale(mean if p50 is None else p50, 0.0, most))
    return _ROW.format(Markup('aria-hidden="true"'), inside)


def outcomes(parts: Sequence[tuple[str, str, int]]) -> Markup:
    """All cases as one bar, cut by what became of them.

    Args:
        parts: name of the kind, which has a colour, its label, and its cases.
    """
    total = sum(cases for _, _, cases in parts) or 1
    inside = Markup("")
    texts: list[str] = []
    start = 0.0
    for kind, label, cases in parts:
        width = 100 * cases / total
        inside += Markup('<rect class="c-{}" x="{:.2f}" y="0" width="{:.2f}" height="8"/>').format(
            kind, start, width
        )
        start += width
        texts.append(f"{label} {cases:,}")
    return Markup(
        '<svg class="outcomes" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(f"Cases: {', '.join(texts)}", inside)


def share_bar(share: float, *, kind: str = "", before: float = 0.0) -> Markup:
    """A bar of a share of all, behind what stood before it."""
    return Markup(
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rest" width="100" height="10"/><rect class="c-{}" x="{}" width="{}" '
        'height="10"/></svg>'
    ).format(kind, f"{before * 100:.2f}", f"{max(share * 100, 0.6):.2f}")


def histogram(values: Sequence[float], least: float, most: float, *, bins: int) -> Markup:
    """How many of the values lie in each of some bins, equal in width."""
    counts = [0] * bins
    for value in values:
        share = 0.0 if most <= least else (value - least) / (most - least)
        counts[min(max(int(share * bins), 0), bins - 1)] += 1
    width = 80 / bins
    highest = max(counts)
    bars = Markup("")
    for position, count in enumerate(counts):
        if count:
            height = 18 * count / highest
            bars += Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(
                f"{position * width:.1f}", f"{18 - height:.1f}", f"{width - 1:.1f}", f"{height:.1f}"
            )
    label = f"cases from {least:g} to {most:g}: {', '.join(map(str, counts))}"
    return Markup(
        '<svg class="bars" viewBox="0 0 80 18" width="80" height="18" role="img" '
        'aria-label="{}"><path class="axis" d="M0 17.5H80"/>{}</svg>'
    ).format(label, bars)


def calibration(points: Sequence[tuple[float, float, int]], *, label: str) -> Markup:
    """A reliability diagram: mean confidence, share that was right, and how many, per bin."""
    most = max((count for _, _, count in points), default=1)
    dots = Markup("")
    for confidence, right, count in points:
        dots += Markup('<circle cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
            _x(confidence),
            _y(right),
            f"{3 + 6 * (count / most) ** 0.5:.1f}",  # by area
            f"{counted(count, 'case')}: said {confidence:.2f}, right {right:.2f}",
        )
    diagonal = Markup('<path class="zero" d="M{} {}L{} {}"/>').format(_x(0), _y(0), _x(1), _y(1))
    return _square(_ends(0, 1) + diagonal + dots, label, "confidence", "share right")


def curve(
    values: Sequence[float], before: Sequence[float] = (), *, label: str, across: str, up: str
) -> Markup:
    """A line of shares (0 to 1) over 1, 2, 3 ...; with ``before``, a dashed one of as many."""
    last = max(len(values) - 1, 1)
    line = Markup("")
    for kind, shares in (("line before", before), ("line", values)):
        if not shares:
            continue
        points: list[str] = []
        for position, share in enumerate(shares):
            points.append(f"{_x(position / last)},{_y(share)}")
        line += Markup('<polyline class="{}" points="{}"/>').format(kind, " ".join(points))
    return _square(line + _ends(1, len(values)), label, across, up)


def _ends(first: int, last: int) -> Markup:
    """The numbers below an axis."""
    return Markup('<text x="{}" y="{}">{}</text><text x="{}" y="{}" class="end">{}</text>').format(
        _EDGE, _BOX - 18, first, _BOX - 6, _BOX - 18, last
    )


def _square(inside: Markup, label: str, across: str, up: str) -> Markup:
    """A square drawing with two axes and their titles."""
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


def _x(share: float) -> str:
    return f"{_EDGE + share * (_BOX - _EDGE - 12):.1f}"


def _y(share: float) -> str:
    return f"{_BOX - _EDGE - share * (_BOX - _EDGE - 12):.1f}"
