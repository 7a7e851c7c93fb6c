"""A model over texts, on the CPU: its graph and its tokenizer, loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError
from ragbench.extras import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OnnxTextModel"]

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class OnnxTextModel:
    """Runs one encoded text at a time, on one thread; any number of threads may call it."""

    def __init__(self, model: Path, tokenizer: Path, *, kind: str) -> None:
        """Loads the files.

        Args:
            model: ONNX file whose inputs are among input_ids, attention_mask, token_type_ids.
            tokenizer: a tokenizer.json.
            kind: what the model should be, for errors: "text encoder".

        Raises:
            ConfigError: a file cannot be read, or the model wants other inputs.
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
            self.tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # both packages raise types of their own
            raise ConfigError(f"the model in '{model.parent}' cannot be loaded: {error}") from error
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self._inputs = [given.name for given in self._session.get_inputs()]
        self.outputs: list[str] = [given.name for given in self._session.get_outputs()]
        unknown = set(self._inputs) - _INPUTS
        if unknown:
            raise ConfigError(f"'{model}' is no {kind}: it wants {', '.join(sorted(unknown))}")

    def encode(self, first: str, second: str | None = None) -> Any:
        """The tokens of a text or of a pair, special ones included; nothing is cut."""
        return self.tokenizer.encode(first, second)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it, special ones left out."""
        given: list[tuple[int, int]] = self.tokenizer.encode(text, add_special_tokens=False).offsets
        return given

    def run(self, encoding: Any, *, max_length: int | None = None) -> NDArray[np.float32]:
        """The first output for a text, without the axis of the batch.

        Args:
            encoding: what `encode` gave.
            max_length: how many of its tokens are read; None for all.
        """
        return self.run_all(encoding, max_length=max_length)[0]

    def run_all(self, encoding: Any, *, max_length: int | None = None) -> list[NDArray[np.float32]]:
        """Like `run`, all outputs in the order of `outputs`."""
        import numpy as np

        known = {
            "input_ids": encoding.ids[:max_length],
            "attention_mask": encoding.attention_mask[:max_length],
            "token_type_ids": encoding.type_ids[:max_length],
        }
        feed = {name: np.array([known[name]], dtype=np.int64) for name in self._inputs}
        return [found[0] for found in self._session.run(None, feed)]
