"""Classifiers and readers over pairs of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ragbench.errors import ConfigError
from ragbench.text.onnx_model import OnnxTextModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ReadT = TypeVar("_ReadT")


class PairClassifier:
    """Gives a pair of texts one logit: how well the second fits the first.

    Pairs run one by one, each on one thread, several threads at once: measured on two cores,
    batches of twenty cost 2.5 times the processor time of single pairs, for padding.
    """

    def __init__(self, model: Path, tokenizer: Path, threads: int) -> None:
        self._model = OnnxTextModel(model, tokenizer, kind="text classifier")
        row = self._model.run(self._model.encode("a", "b"))
        if row.ndim != 1 or len(row) not in (1, 2):
            raise ConfigError(
                f"'{model}' is not a cross-encoder: its first output has the shape {row.shape} a "
                "pair, not one or two numbers"
            )
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ragbench-pairs")

    def length(self, first: str, second: str) -> int:
        """How many tokens a pair has, special ones included."""
        return len(self._model.encode(first, second).ids)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it, without special ones."""
        return self._model.offsets(text)

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number a pair, in order; pairs are not cut."""
        return self._each(pairs, lambda encoding: _logit(self._model.run(encoding)))

    def _each(
        self, pairs: Sequence[tuple[str, str]], read: Callable[[Any], _ReadT]
    ) -> list[_ReadT]:
        encoded = [self._model.encode(first, second) for first, second in pairs]
        # The longest first: none of them is then left over for the end.
        order = sorted(range(len(pairs)), key=lambda at: -len(encoded[at].ids))
        found = self._pool.map(read, [encoded[at] for at in order])
        by_place = dict(zip(order, found, strict=True))
        return [by_place[at] for at in range(len(pairs))]


def _logit(row: NDArray[np.float32]) -> float:
    return float(row[0]) if len(row) == 1 else float(row[1] - row[0])


@lru_cache(maxsize=4)
def load_pair_classifier(model: Path, tokenizer: Path, threads: int) -> PairClassifier:
    """`PairClassifier`, loaded once for the same files."""
    return PairClassifier(model, tokenizer, threads)


_LONGEST = 30
"""Tokens of the longest answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairReading:
    """What a reader says of one question and one text."""

    logit: float
    """How sure it is that the text answers the question."""
    span: float
    """The best span's score above that of "no answer"; start and end logits added."""
    start: int
    """Offset of the span's first character in the text."""
    end: int
    """Offset behind its last character."""
    answers: float | None = None
    """How sure a second tower of the model is that the text answers *this* question, a logit; None
    where the model has none."""


class PairReader(PairClassifier):
    """A pair classifier with two more outputs, ``start`` and ``end``: a logit a token.

    The first token stands for "no answer", as in Devlin et al. 2019 (BERT) for SQuAD 2.0. A further
    output ``answers`` is a logit a pair.
    """

    def __init__(self, model: Path, tokenizer: Path, threads: int) -> None:
        super().__init__(model, tokenizer, threads)
        outputs = self._model.outputs
        if not {"start", "end"} <= set(outputs):
            raise ConfigError(
                f"'{model}' is not a reader: it has no outputs 'start' and 'end'. Use it as "
                "cross_encoder instead"
            )
        self._places = [outputs.index("start"), outputs.index("end")]
        self._second = outputs.index("answers") if "answers" in outputs else None

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """One reading a pair, in order; pairs are not cut."""
        return self._each(pairs, self._reading)

    def _reading(self, encoding: Any) -> PairReading:
        import numpy as np

        outputs = self._model.run_all(encoding)
        logit = _logit(outputs[0])
        answers = None if self._second is None else float(outputs[self._second][0])
        starts, ends = (outputs[place] for place in self._places)
        nothing = float(starts[0] + ends[0])
        inside = [
            at
            for at, (kind, (first, last)) in enumerate(
                zip(encoding.type_ids, encoding.offsets, strict=True)
            )
            if kind == 1 and last > first
        ]
        if not inside:
            return PairReading(logit=logit, span=0.0, start=0, end=0, answers=answers)
        scores = starts[inside][:, None] + ends[inside][None, :]
        near = np.triu(np.ones_like(scores)) - np.triu(np.ones_like(scores), _LONGEST)
        best = int(np.where(near > 0, scores, -np.inf).argmax())
        first, last = divmod(best, len(inside))
        return PairReading(
            logit=logit,
            span=float(scores[first, last]) - nothing,
            start=int(encoding.offsets[inside[first]][0]),
            end=int(encoding.offsets[inside[last]][1]),
            answers=answers,
        )


@lru_cache(maxsize=2)
def load_pair_reader(model: Path, tokenizer: Path, threads: int) -> PairReader:
    """`PairReader`, loaded once for the same files."""
    return PairReader(model, tokenizer, threads)
