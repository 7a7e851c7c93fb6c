"""Windows of a text that a model can take together with the query."""

from __future__ import annotations

from ragbench.models.onnx_pairs import PairClassifier
from ragbench.text.sentences import Span
from ragbench.validation.windows import windows_of

__all__ = ["fitted_query", "fitting_windows"]

_CHARACTERS = 1800
_FEWEST = 60


def fitting_windows(
    model: PairClassifier, query: str, text: str, max_length: int
) -> tuple[Span, ...]:
    """Windows that hold all of a text, each short enough to be read whole.

    Args:
        model: what counts the tokens.
        query: the question, already short enough.
        text: a chunk's text.
        max_length: tokens of query and window together.
    """
    characters = _CHARACTERS
    while True:
        windows = windows_of(text, characters=characters)
        # A token is at least a character: short texts need no counting.
        fits = all(
            len(query) + (window.end - window.start) + 8 <= max_length
            or model.length(query, text[slice(*window)]) <= max_length
            for window in windows
        )
        if fits or characters <= _FEWEST:
            return windows
        characters //= 2


def fitted_query(model: PairClassifier, query: str, max_length: int) -> tuple[str, str | None]:
    """The query, cut when it would leave too little room for a chunk, and a sentence that says so.

    Args:
        model: what counts the tokens.
        query: the question.
        max_length: tokens of query and window together.
    """
    offsets = model.offsets(query)
    room = max_length // 4
    if len(offsets) <= room:
        return query, None
    told = f"the query has {len(offsets)} tokens: the models read the first {room}"
    return query[: offsets[room - 1][1]], told
