"""A sequence classifier over pairs of texts, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError
from ragbench.models.onnx_text_model import OnnxTextModel

__all__ = ["PairClassifier", "load_pair_classifier"]


class PairClassifier:
    """Gives a pair of texts one logit: how well the second fits the first.

    Pairs run one by one, each on one thread, several threads side by side: measured on two cores,
    batches of twenty cost 2.5 times the processor time of single pairs, for padding.
    """

    def __init__(self, model: Path, tokenizer: Path, threads: int) -> None:
        """Loads the files.

        Args:
            model: ONNX file whose inputs are among input_ids, attention_mask, token_type_ids, and
                whose first output has one column (a logit) or two (not relevant, relevant).
            tokenizer: a tokenizer.json.
            threads: how many pairs run side by side.

        Raises:
            ConfigError: a file cannot be read, or the model is of another kind.
            MissingExtraError: onnxruntime or tokenizers is not installed.
        """
        self._model = OnnxTextModel(model, tokenizer, kind="text classifier")
        self._check_kind(model)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ragbench-pairs")

    def length(self, first: str, second: str) -> int:
        """How many tokens a pair has, special ones included."""
        return len(self._model.encode(first, second).ids)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it, special ones left out."""
        return self._model.offsets(text)

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number a pair, in order; pairs are not cut."""
        encoded = [self._model.encode(first, second) for first, second in pairs]
        # The longest first: none of them is then left over for the end.
        order = sorted(range(len(pairs)), key=lambda at: -len(encoded[at].ids))
        found = self._pool.map(self._logit, [encoded[at] for at in order])
        by_place = dict(zip(order, found, strict=True))
        return [by_place[at] for at in range(len(pairs))]

    def _logit(self, encoding: Any) -> float:
        row = self._model.run(encoding)
        return float(row[0]) if len(row) == 1 else float(row[1] - row[0])

    def _check_kind(self, model: Path) -> None:
        row = self._model.run(self._model.encode("a", "b"))
        if row.ndim != 1 or len(row) not in (1, 2):
            raise ConfigError(
                f"'{model}' is no cross-encoder: its first output has the shape {row.shape} a "
                "pair, not one or two numbers"
            )


@lru_cache(maxsize=4)
def load_pair_classifier(model: Path, tokenizer: Path, threads: int) -> PairClassifier:
    """`PairClassifier`, loaded once for the same files."""
    return PairClassifier(model, tokenizer, threads)
