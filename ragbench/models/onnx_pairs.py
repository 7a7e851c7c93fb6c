"""A sequence classifier over pairs of texts, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError
from ragbench.extras import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
        runtime = require("onnxruntime", extra="onnx")
        tokenizers = require("tokenizers", extra="onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: Any = runtime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # both packages raise types of their own
            raise ConfigError(f"the model in '{model.parent}' cannot be loaded: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._inputs = [given.name for given in self._session.get_inputs()]
        self._check_kind(model)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ragbench-pairs")

    def length(self, first: str, second: str) -> int:
        """How many tokens a pair has, special ones included."""
        return len(self._tokenizer.encode(first, second).ids)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it, special ones left out."""
        given: list[tuple[int, int]] = self._tokenizer.encode(
            text, add_special_tokens=False
        ).offsets
        return given

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number a pair, in order; pairs are not cut."""
        encoded = [self._tokenizer.encode(first, second) for first, second in pairs]
        # The longest first: none of them is then left over for the end.
        order = sorted(range(len(pairs)), key=lambda at: -len(encoded[at].ids))
        found = self._pool.map(self._logit, [encoded[at] for at in order])
        by_place = dict(zip(order, found, strict=True))
        return [by_place[at] for at in range(len(pairs))]

    def _logit(self, encoding: Any) -> float:
        row = self._row(encoding)
        return float(row[0]) if len(row) == 1 else float(row[1] - row[0])

    def _row(self, encoding: Any) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self._session.run(None, self._feed(encoding))[0][0]
        return row

    def _feed(self, encoding: Any) -> dict[str, NDArray[np.int64]]:
        """The model's inputs for one pair."""
        import numpy as np

        known = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        return {name: np.array([known[name]], dtype=np.int64) for name in self._inputs}

    def _check_kind(self, model: Path) -> None:
        unknown = set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ConfigError(
                f"'{model}' is no text classifier: it wants {', '.join(sorted(unknown))}"
            )
        row = self._row(self._tokenizer.encode("a", "b"))
        if row.ndim != 1 or len(row) not in (1, 2):
            raise ConfigError(
                f"'{model}' is no cross-encoder: its first output has the shape {row.shape} a "
                "pair, not one or two numbers"
            )


@lru_cache(maxsize=4)
def load_pair_classifier(model: Path, tokenizer: Path, threads: int) -> PairClassifier:
    """`PairClassifier`, loaded once for the same files."""
    return PairClassifier(model, tokenizer, threads)
