"""A reader asked about the chunks of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragbench.text.onnx_model import OnnxFiles
from ragbench.text.onnx_pairs import PairClassifier, PairReading, load_pair_reader
from ragbench.text.sentences import Span
from ragbench.text.tokens import tokenise
from ragbench.validators.lexical_features import windows_of

_CHARACTERS = 1800
_FEWEST = 60


def fitting_windows(
    model: PairClassifier, query: str, text: str, max_length: int
) -> tuple[Span, ...]:
    """Windows that hold all of a text, each short enough to be read whole."""
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
    """The query, cut when it would leave too little room for a chunk, and a note that says so."""
    offsets = model.offsets(query)
    room = max_length // 4
    if len(offsets) <= room:
        return query, None
    told = f"the query has {len(offsets)} tokens: the models read the first {room}"
    return query[: offsets[room - 1][1]], told


MOST_WINDOWS = 64
"""Windows of one text that a reader reads, about a hundred thousand characters."""


@dataclass(frozen=True, slots=True)
class _Piece:
    place: int
    """The chunk's."""
    window: Span
    text: str


def readings_of(
    files: OnnxFiles, query: str, texts: Sequence[str], *, max_length: int, threads: int
) -> tuple[list[PairReading], tuple[str, ...]]:
    """What a reader says of each text, and sentences about what it did not read.

    Of a long text up to `MOST_WINDOWS` windows are read, and the best one counts; spans are offsets
    in the whole text.
    """
    reader = load_pair_reader(files.model, files.tokenizer, threads)
    asked, told = fitted_query(reader, query, max_length)
    pieces, left_out = _pieces(reader, asked, texts, max_length)
    best: dict[int, PairReading] = {}
    found = reader.read([(asked, piece.text) for piece in pieces])
    for piece, one in zip(pieces, found, strict=True):
        if piece.place not in best or one.logit > best[piece.place].logit:
            shift = piece.window.start
            best[piece.place] = replace(one, start=one.start + shift, end=one.end + shift)
    notes = [told] if told else []
    if left_out:
        notes.append(
            f"of a long chunk the reader reads {MOST_WINDOWS} windows, those with most words of "
            f"the query: {left_out} more were read for words alone"
        )
    return [best[place] for place in range(len(texts))], tuple(notes)


def _pieces(
    model: PairClassifier, query: str, texts: Sequence[str], max_length: int
) -> tuple[list[_Piece], int]:
    """What is read of each text, and how many windows are not."""
    pieces: list[_Piece] = []
    left_out = 0
    for place, text in enumerate(texts):
        windows = fitting_windows(model, query, text, max_length)
        if len(windows) > MOST_WINDOWS:
            left_out += len(windows) - MOST_WINDOWS
            windows = _most_promising(query, text, windows)
        pieces += [_Piece(place, window, text[slice(*window)]) for window in windows]
    return pieces, left_out


def _most_promising(query: str, text: str, windows: Sequence[Span]) -> tuple[Span, ...]:
    """The windows with most of the query's words, in reading order; of equals the earlier."""
    asked = set(tokenise(query))
    held = [len(asked.intersection(tokenise(text[slice(*one)]))) for one in windows]
    best = sorted(range(len(windows)), key=lambda at: -held[at])[:MOST_WINDOWS]
    return tuple(windows[at] for at in sorted(best))
