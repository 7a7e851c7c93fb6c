"""Models in ONNX form: files, loading, encoder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ragbench.errors import ConfigError
from ragbench.plugins import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class OnnxTextModel:
    """Runs one encoded text at a time, on one thread; any number of threads may call it."""

    def __init__(self, model: Path, tokenizer: Path, *, kind: str) -> None:
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
        """Where each token of a text begins and ends in it, without special ones."""
        given: list[tuple[int, int]] = self.tokenizer.encode(text, add_special_tokens=False).offsets
        return given

    def run(self, encoding: Any, *, max_length: int | None = None) -> NDArray[np.float32]:
        """The first output for a text, without the axis of the batch."""
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


Pooling: TypeAlias = Literal["mean", "cls"]
"""How the vectors of a text's tokens become one: their mean, or that of the first one."""
_MODES: dict[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


class TextEncoder:
    """Gives a text the vector of a model with token vectors (or text vectors) as output.

    Texts run one by one, each on one thread, several threads at once: batches cost more, for
    padding, and in quantised models a text's vector would depend on its neighbours in the batch.
    """

    def __init__(
        self, model: Path, tokenizer: Path, *, pooling: Pooling, max_length: int, threads: int
    ) -> None:
        self._model = OnnxTextModel(model, tokenizer, kind="text encoder")
        self._pooling = pooling
        self._max_length = max_length
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ragbench-encoder")
        row = self._vector("a")
        if row.ndim != 1 or row.dtype.kind != "f" or len(row) < 2:
            raise ConfigError(
                f"'{model}' is not a text encoder: its first output gives no vectors, neither of "
                "tokens nor of texts"
            )
        self.dimension = len(row)

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


def stated_pooling(folder: Path) -> Pooling | None:
    """The pooling that the files of a sentence-transformers model state; None where none does."""
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
            "Choose one with the setting 'pooling'"
        )
    return _MODES[on[0]]


TOKENIZER = "tokenizer.json"
_MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxFiles:
    """The two files that scoring needs."""

    model: Path
    """The graph with its weights."""
    tokenizer: Path
    """A tokenizer.json of the package tokenizers."""


def is_hub_name(model: str) -> bool:
    """Whether a text names a repository ``owner/name`` and no folder of that name exists."""
    return _HUB_NAME.fullmatch(model) is not None and not Path(model).exists()


def find_onnx_files(
    model: str, *, file: str | None = None, revision: str | None = None
) -> OnnxFiles:
    """Finds a model's files; those of a hub repository are downloaded once, by its client."""
    names = (file,) if file else _MODELS
    if is_hub_name(model):
        return _downloaded(model, names, revision)
    folder = Path(model)
    if not folder.is_dir():
        raise ConfigError(f"'{model}' is neither a folder nor a name of the form owner/name")
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None or not (folder / TOKENIZER).is_file():
        wanted = f"'{file}'" if file else " or ".join(f"'{name}'" for name in _MODELS)
        raise ConfigError(f"the folder '{model}' must hold '{TOKENIZER}' and {wanted}")
    return OnnxFiles(model=found, tokenizer=folder / TOKENIZER)


def _downloaded(model: str, names: tuple[str, ...], revision: str | None) -> OnnxFiles:
    hub = require("huggingface_hub", extra="onnx")
    errors = require("huggingface_hub.errors", extra="onnx")
    for name in names:
        try:
            found = hub.hf_hub_download(model, name, revision=revision)
            tokenizer = hub.hf_hub_download(model, TOKENIZER, revision=revision)
        except (errors.HfHubHTTPError, errors.EntryNotFoundError, OSError, ValueError) as error:
            is_offline = isinstance(error, errors.LocalEntryNotFoundError)
            if isinstance(error, errors.EntryNotFoundError) and not is_offline:
                continue
            raise ConfigError(
                f"the model '{model}' cannot be downloaded ({type(error).__name__}). "
                "Check its name and the connection, or give a folder with its files"
            ) from error
        return OnnxFiles(model=Path(found), tokenizer=Path(tokenizer))
    raise ConfigError(
        f"the model '{model}' has no '{TOKENIZER}' or none of {', '.join(names)}: name its ONNX "
        "file with the setting 'file'"
    )
