"""A reliability diagram as SVG: how often an answer was there, by the probability that was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SIZE, EDGE = 300, 40
COLOURS = ("#1f6f8b", "#c8553d", "#588157", "#6d597a")


def reliability_diagram(series: Mapping[str, Sequence[tuple[float, float, int]]]) -> str:
    """Draws one line a series.

    Args:
        series: by name, of each bin the mean probability, the share with an answer, the pools.
    """
    height = SIZE + 2 * EDGE + 20 * len(series)
    width = SIZE + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_axes(),
    ]
    for place, (name, bins) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        points = " ".join(f"{_x(told):.1f},{_y(seen):.1f}" for told, seen, _ in bins)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        parts += [
            f'<circle cx="{_x(told):.1f}" cy="{_y(seen):.1f}" r="{1.5 + count**0.5 / 3:.1f}" '
            f'fill="{colour}" fill-opacity="0.6"><title>{count} pools</title></circle>'
            for told, seen, count in bins
        ]
        line = SIZE + 2 * EDGE + 14 + 20 * place
        parts.append(f'<circle cx="{EDGE}" cy="{line - 4}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{EDGE + 12}" y="{line}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes() -> list[str]:
    corner = f"{_x(0):.0f},{_y(0):.0f}"
    marks = [
        f'<text x="{_x(at / 4):.0f}" y="{_y(0) + 16:.0f}" text-anchor="middle">{at / 4:g}</text>'
        f'<text x="{_x(0) - 6:.0f}" y="{_y(at / 4) + 4:.0f}" text-anchor="end">{at / 4:g}</text>'
        for at in range(5)
    ]
    return [
        f'<polyline points="{_x(0):.0f},{_y(1):.0f} {corner} {_x(1):.0f},{_y(0):.0f}" '
        'fill="none" stroke="#444"/>',
        f'<line x1="{_x(0):.0f}" y1="{_y(0):.0f}" x2="{_x(1):.0f}" y2="{_y(1):.0f}" '
        'stroke="#bbb" stroke-dasharray="4"/>',
        *marks,
        f'<text x="{_x(0.5):.0f}" y="{_y(0) + 32:.0f}" text-anchor="middle">'
        "probability told</text>",
        f'<text x="12" y="{_y(0.5):.0f}" text-anchor="middle" '
        f'transform="rotate(-90 12 {_y(0.5):.0f})">share with an answer</text>',
    ]


def _x(value: float) -> float:
    return EDGE + SIZE * value


def _y(value: float) -> float:
    return EDGE + SIZE * (1 - value)
