"""Models on this machine, asked about the chunks of one pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.models.onnx_files import find_onnx_files
from ragbench.models.onnx_pairs import PairClassifier, load_pair_classifier
from ragbench.models.onnx_reader import PairReading, load_pair_reader
from ragbench.text.sentences import Span
from ragbench.validation.pair_windows import fitted_query, fitting_windows

__all__ = ["cross_logits", "readings_of"]


@dataclass(frozen=True, slots=True)
class _Piece:
    place: int
    """The chunk's."""
    window: Span
    text: str


def cross_logits(
    model: str, query: str, texts: Sequence[str], *, max_length: int, threads: int
) -> tuple[list[float], str | None]:
    """A cross-encoder's logit for each text, and a sentence where the query had to be cut.

    Of a long text every window is read, and the best one counts.

    Args:
        model: a folder, or ``owner/name`` on the hub.
        query: the question.
        texts: chunks with at least one word each.
        max_length: tokens of query and window together.
        threads: texts that are read side by side.

    Raises:
        ConfigError: the model cannot be found, downloaded or loaded.
        MissingExtraError: the extra ``onnx`` is not installed.
    """
    files = find_onnx_files(model)
    classifier = load_pair_classifier(files.model, files.tokenizer, threads)
    asked, told = fitted_query(classifier, query, max_length)
    pieces = _pieces(classifier, asked, texts, max_length)
    logits = classifier.logits([(asked, piece.text) for piece in pieces])
    best = [float("-inf")] * len(texts)
    for piece, logit in zip(pieces, logits, strict=True):
        best[piece.place] = max(best[piece.place], logit)
    return best, told


def readings_of(
    model: str, query: str, texts: Sequence[str], *, max_length: int, threads: int
) -> list[PairReading]:
    """What a reader says of each text, spans as offsets in the whole text; see `cross_logits`."""
    files = find_onnx_files(model)
    reader = load_pair_reader(files.model, files.tokenizer, threads)
    asked, _ = fitted_query(reader, query, max_length)
    pieces = _pieces(reader, asked, texts, max_length)
    best: dict[int, PairReading] = {}
    found = reader.read([(asked, piece.text) for piece in pieces])
    for piece, one in zip(pieces, found, strict=True):
        if piece.place not in best or one.logit > best[piece.place].logit:
            shift = piece.window.start
            best[piece.place] = PairReading(
                logit=one.logit, span=one.span, start=one.start + shift, end=one.end + shift
            )
    return [best[place] for place in range(len(texts))]


def _pieces(
    model: PairClassifier, query: str, texts: Sequence[str], max_length: int
) -> list[_Piece]:
    return [
        _Piece(place, window, text[slice(*window)])
        for place, text in enumerate(texts)
        for window in fitting_windows(model, query, text, max_length)
    ]
