"""A reader on this machine, asked about the chunks of one pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.models.onnx_files import OnnxFiles
from ragbench.models.onnx_pairs import PairClassifier
from ragbench.models.onnx_reader import PairReading, load_pair_reader
from ragbench.text.sentences import Span
from ragbench.validation.pair_windows import fitted_query, fitting_windows

__all__ = ["readings_of"]


@dataclass(frozen=True, slots=True)
class _Piece:
    place: int
    """The chunk's."""
    window: Span
    text: str


def readings_of(
    files: OnnxFiles, query: str, texts: Sequence[str], *, max_length: int, threads: int
) -> tuple[list[PairReading], str | None]:
    """What a reader says of each text, and a sentence where the query had to be cut.

    Of a long text every window is read, and the best one counts; spans are offsets in the whole
    text.

    Args:
        files: the reader's.
        query: the question.
        texts: chunks with at least one word each.
        max_length: tokens of query and window together.
        threads: texts that are read side by side.

    Raises:
        ConfigError: the model cannot be loaded, or is no reader.
        MissingExtraError: the extra ``onnx`` is not installed.
    """
    reader = load_pair_reader(files.model, files.tokenizer, threads)
    asked, told = fitted_query(reader, query, max_length)
    pieces = _pieces(reader, asked, texts, max_length)
    best: dict[int, PairReading] = {}
    found = reader.read([(asked, piece.text) for piece in pieces])
    for piece, one in zip(pieces, found, strict=True):
        if piece.place not in best or one.logit > best[piece.place].logit:
            shift = piece.window.start
            best[piece.place] = PairReading(
                logit=one.logit, span=one.span, start=one.start + shift, end=one.end + shift
            )
    return [best[place] for place in range(len(texts))], told


def _pieces(
    model: PairClassifier, query: str, texts: Sequence[str], max_length: int
) -> list[_Piece]:
    return [
        _Piece(place, window, text[slice(*window)])
        for place, text in enumerate(texts)
        for window in fitting_windows(model, query, text, max_length)
    ]
