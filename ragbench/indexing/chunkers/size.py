"""How large chunks are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.text.sentences import Span
from ragbench.text.token_counter import APPROXIMATE, TokenCounter

__all__ = ["ChunkSize", "packed"]


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
        if self.tokens < 8:
            raise ConfigError(f"a chunk has at least 8 tokens, not {self.tokens}")
        if not 0 <= self.overlap * 2 < self.tokens:
            raise ConfigError(
                f"the overlap must be at least 0 and less than half of {self.tokens} tokens, "
                f"not {self.overlap}"
            )

    @property
    def identity(self) -> dict[str, object]:
        """As JSON."""
        return {"tokens": self.tokens, "overlap": self.overlap, "counter": self.counter.name}


def packed(
    text: str,
    spans: Sequence[Span],
    size: ChunkSize,
    *,
    cut: Callable[[Span], Sequence[Span]],
) -> list[Span]:
    """Neighbouring spans joined for as long as they fit.

    Args:
        text: the text that the spans are of.
        spans: in reading order, without overlap.
        size: the limits.
        cut: divides a span that does not fit by itself.
    """
    found: list[Span] = []
    taken: list[tuple[Span, int]] = []
    for span in spans:
        cost = size.counter.count(text[span.start : span.end])
        if cost > size.tokens:
            _flush(found, taken)
            taken.clear()
            found.extend(cut(span))
            continue
        if taken and sum(each for _, each in taken) + cost > size.tokens:
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
