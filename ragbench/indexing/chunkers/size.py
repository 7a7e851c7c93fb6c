"""How large chunks are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ragbench.errors import ConfigError
from ragbench.text.sentences import Span
from ragbench.text.token_counter import APPROXIMATE, TokenCounter

__all__ = ["ChunkSize", "packed"]

_LEAST = 8
_FEW = 8
"""What takes no more than one part in so many of a chunk does not stand alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkSize:
    """Limits in tokens."""

    tokens: int = 256
    """The most tokens that a chunk has, at least 8."""
    overlap: int = 0
    """About how many tokens a chunk repeats from the one before it; less than half of `tokens`."""
    counter: TokenCounter = APPROXIMATE
    """What counts tokens."""

    def __post_init__(self) -> None:
        """Refuses sizes that cannot be."""
        if self.tokens < _LEAST:
            raise ConfigError(f"a chunk has at least {_LEAST} tokens, not {self.tokens}")
        if not 0 <= self.overlap * 2 < self.tokens:
            raise ConfigError(
                f"the overlap must be at least 0 and less than half of {self.tokens} tokens, "
                f"not {self.overlap}"
            )

    @property
    def identity(self) -> dict[str, object]:
        """As JSON."""
        return {"tokens": self.tokens, "overlap": self.overlap, "counter": self.counter.name}

    def less(self, tokens: int) -> ChunkSize:
        """The same with room for so many tokens less."""
        left = max(self.tokens - tokens, _LEAST)
        return replace(self, tokens=left, overlap=min(self.overlap, (left - 1) // 2))


def packed(
    text: str,
    spans: Sequence[Span],
    size: ChunkSize,
    *,
    cut: Callable[[Span, ChunkSize], Sequence[Span]],
) -> list[Span]:
    """Neighbouring spans joined for as long as they fit.

    Args:
        text: the text that the spans are of.
        spans: in reading order, without overlap.
        size: the limits.
        cut: divides a span that does not fit by itself into at least one that does.
    """
    found: list[Span] = []
    taken: list[tuple[Span, int]] = []
    for span in spans:
        cost = size.counter.count(text[span.start : span.end])
        held = sum(each for _, each in taken)
        # A few words, such as a heading, are no chunk: they go with what follows them.
        lonely = bool(taken) and held * _FEW <= size.tokens < held + cost
        if cost > size.tokens or lonely:
            if not lonely:
                _flush(found, taken)
                found.extend(cut(span, size))
            else:
                first, *rest = cut(span, size.less(held))
                found += [Span(taken[0][0].start, first.end), *rest]
            taken.clear()
            continue
        if taken and held + cost > size.tokens:
            _flush(found, taken)
            taken = _repeated(taken, min(size.overlap, size.tokens - cost))
        taken.append((span, cost))
    _flush(found, taken)
    return found


def _flush(found: list[Span], taken: Sequence[tuple[Span, int]]) -> None:
    if taken:
        found.append(Span(taken[0][0].start, taken[-1][0].end))


def _repeated(taken: Sequence[tuple[Span, int]], room: int) -> list[tuple[Span, int]]:
    """The last spans that fit into the room; never all of them."""
    kept: list[tuple[Span, int]] = []
    for span, cost in reversed(taken[1:]):
        room -= cost
        if room < 0:
            break
        kept.insert(0, (span, cost))
    return kept
