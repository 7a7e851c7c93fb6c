"""A text encoder, on the CPU: texts to vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from ragbench.errors import ConfigError
from ragbench.models.onnx_text_model import OnnxTextModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Pooling", "TextEncoder", "stated_pooling"]

Pooling: TypeAlias = Literal["mean", "cls"]
"""How the vectors of a text's tokens become one: their mean, or that of the first one."""
_MODES: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
}


class TextEncoder:
    """Gives a text the vector of a model with token vectors (or text vectors) as output.

    Texts run one by one, each on one thread, several threads side by side: batches cost more, for
    padding, and in quantised models a text's vector would depend on its neighbours in the batch.
    """

    def __init__(
        self, model: Path, tokenizer: Path, *, pooling: Pooling, max_length: int, threads: int
    ) -> None:
        """Loads the files.

        Args:
            model: ONNX file whose inputs are among input_ids, attention_mask, token_type_ids, and
                whose first output is a vector a token or a vector a text.
            tokenizer: a tokenizer.json.
            pooling: how the vectors of tokens become one.
            max_length: tokens that the model takes, special ones included.
            threads: how many texts run side by side.

        Raises:
            ConfigError: a file cannot be read, or the model is of another kind.
            MissingExtraError: onnxruntime or tokenizers is not installed.
        """
        self._model = OnnxTextModel(model, tokenizer, kind="text encoder")
        self._pooling = pooling
        self._max_length = max_length
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ragbench-encoder")
        self.dimension = self._checked_dimension(model)

    def encode(self, texts: Sequence[str], *, prefix: str = "") -> NDArray[np.float32]:
        """One row a text; not normalised.

        A text that is longer than the model takes is cut into pieces, each with the prefix, and
        gets the mean of their vectors, weighted by their tokens: nothing is left unread.
        """
        import numpy as np

        pieces = [self._pieces(text, prefix) for text in texts]
        flat = [piece for of_text in pieces for piece in of_text]
        vectors = iter(self._pool.map(self._vector, [prefix + piece for piece, _ in flat]))
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, of_text in zip(rows, pieces, strict=True):
            whole = sum(tokens for _, tokens in of_text)
            for _, tokens in of_text:
                row += next(vectors) * np.float32(tokens / whole)
        return rows

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def _pieces(self, text: str, prefix: str) -> list[tuple[str, int]]:
        """The text in pieces that fit, with the tokens of each, at least 1."""
        fixed = len(self._model.encode(prefix).ids)
        offsets = self._model.offsets(text)
        room = self._max_length - fixed
        if len(offsets) <= room:
            return [(text, max(1, len(offsets)))]
        starts = list(range(0, len(offsets), room))
        cuts = [0, *(offsets[start][0] for start in starts[1:]), len(text)]
        return [
            (text[cuts[at] : cuts[at + 1]], min(room, len(offsets) - start))
            for at, start in enumerate(starts)
        ]

    def _vector(self, text: str) -> NDArray[np.float32]:
        # A piece may have a token more than it had within its text.
        found = self._model.run(self._model.encode(text), max_length=self._max_length)
        if found.ndim == 1:
            return found
        pooled: NDArray[np.float32] = found[0] if self._pooling == "cls" else found.mean(axis=0)
        return pooled

    def _checked_dimension(self, model: Path) -> int:
        row = self._vector("a")
        if row.ndim != 1 or row.dtype.kind != "f" or len(row) < 2:
            raise ConfigError(
                f"'{model}' is no text encoder: its first output gives no vectors, neither of "
                "tokens nor of texts"
            )
        return len(row)


def stated_pooling(folder: Path) -> Pooling | None:
    """The pooling that the files of a sentence-transformers model state; None where none does.

    Raises:
        ConfigError: the file cannot be read, or states another kind of pooling.
    """
    path = folder / "1_Pooling" / "config.json"
    try:
        stated: object = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    modes = cast("dict[str, object]", stated) if isinstance(stated, dict) else {}
    on = [name for name, used in modes.items() if name.startswith("pooling_mode_") and used is True]
    if len(on) != 1 or on[0] not in _MODES:
        raise ConfigError(
            f"{path} states {', '.join(on) or 'no pooling'}: known are {', '.join(_MODES)}. "
            "Say it with the setting 'pooling'"
        )
    return _MODES[on[0]]
