"""Models in ONNX form: files, loading, encoder; classifiers of pairs of texts.

Embedders, rerankers, readers of pairs and local judges run their models by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

from ragbench.core.reading import words_of
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.plugins import Floats32, np, require
from ragbench.text.letters import readable_text

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""All that a tokenizer gives: a model with another input is none of texts alone."""


def import_onnx_packages(model: str = "") -> None:
    """Imports the packages that a model in ONNX form needs, those of the hub only for a hub name.

    So a missing package is reported before a run begins.

    Args:
        model: a folder or a hub name; empty for a model that comes with a package.
    """
    require("onnxruntime", extra="onnx")
    require("tokenizers", extra="onnx")
    if is_hub_name(model):
        require("huggingface_hub", extra="onnx")


class OnnxTextModel:
    """Runs one encoded text at a time, on one thread; any number of threads may call it."""

    def __init__(self, model: Path, tokenizer: Path, *, kind: str) -> None:
        """Loads the graph and its tokenizer, and refuses a graph that wants more than texts.

        It runs on one thread, as texts are run side by side by the callers. Cutting and filling up
        that the tokenizer's file asks for is turned off: a part of a text would be left unread.

        Args:
            model: the ONNX file.
            tokenizer: a ``tokenizer.json``.
            kind: the kind of model that is expected, for the message.

        Raises:
            ConfigError: a file cannot be loaded, or the graph has other inputs.
        """
        runtime = require("onnxruntime", extra="onnx")
        tokenizers = require("tokenizers", extra="onnx")
        options = runtime.SessionOptions()
        # Texts are read side by side, each by one thread: more in one text would wait for each
        # other.
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # errors; warnings of the graph help no user
        # Threads that wait for work would take the processor from those that have some.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: Any = runtime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
            self.tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # both packages raise types of their own
            raise ConfigError(f"the model in '{model.parent}' cannot be loaded: {error}") from error
        # The file of the tokenizer may say that texts are cut: a part would then be left unread.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Models of one kind differ in their inputs: each is given those that it names.
        self._inputs = [node.name for node in self._session.get_inputs()]
        self.outputs: list[str] = [node.name for node in self._session.get_outputs()]
        unknown_inputs = sorted(set(self._inputs) - _INPUTS)
        if unknown_inputs:
            raise ConfigError(f"'{model}' is no {kind}: it wants {', '.join(unknown_inputs)}")

    def encode(self, first: str, second: str | None = None) -> Any:
        """The tokens of a text or of a pair of texts, special ones included; nothing is cut.

        Callers see by the length whether the model takes it, and cut it themselves.
        """
        # The tokenizer refuses a text with half of a character in it.
        first = readable_text(first)
        if second is not None:
            second = readable_text(second)
        return self.tokenizer.encode(first, second)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each token of a text its begin and end in the text, without special tokens.

        A long text is cut into windows at these positions. They are the text's own, although the
        tokenizer reads it with halves of characters replaced: each is replaced by one character.
        """
        encoding = self.tokenizer.encode(readable_text(text), add_special_tokens=False)
        offsets: list[tuple[int, int]] = encoding.offsets
        return offsets

    def run(self, encoding: Any, *, max_length: int | None = None) -> list[Floats32]:
        """The graph's outputs for one encoded text, in the order of `outputs`, without batch axis.

        A model gets only the inputs that its graph has, and may be called by several threads.

        Args:
            encoding: from `encode`.
            max_length: tokens that are read; None: all.
        """
        tokens_by_input = {
            "input_ids": encoding.ids[:max_length],
            "attention_mask": encoding.attention_mask[:max_length],
            "token_type_ids": encoding.type_ids[:max_length],
        }
        # A model may have no token_type_ids, and refuses what it has no input for.
        feed: dict[str, Any] = {}
        for name in self._inputs:
            batch = [tokens_by_input[name]]
            feed[name] = np.array(batch, dtype=np.int64)
        outputs = self._session.run(None, feed)
        return [output[0] for output in outputs]


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
        """Loads the model, and tries it with a text to learn how long its vectors are.

        The try shows a wrong file at once, and not after an index was half built.

        Args:
            pooling: how the vectors of a text's tokens become one.
            max_length: tokens that the model takes, special ones included.
            threads: texts that are encoded at once.

        Raises:
            ConfigError: the model cannot be loaded, or gives no vectors.
        """
        self._model = OnnxTextModel(model, tokenizer, kind="text encoder")
        self._pooling = pooling
        self._max_length = max_length
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ragbench-encoder")
        # A try with any text says at once whether the file is the right one, and how long its
        # vectors are. A single number is that of a classifier.
        vector = self._vector_of_piece("a")
        if vector.ndim != 1 or vector.dtype.kind != "f" or len(vector) < 2:
            raise ConfigError(
                f"'{model}' is not a text encoder: its first output gives no vectors, neither of "
                "tokens nor of texts"
            )
        self.dimension = len(vector)

    def encode(self, texts: Sequence[str], *, prefix: str = "") -> Floats32:
        """For each text a row with its vector, not normalised.

        A text that is longer than the model takes is cut into pieces, each with the prefix, and
        gets the mean of their vectors, weighted by their tokens: nothing is left unread. Stored
        vectors were made by these rules: another way to cut or weigh makes old indexes wrong.

        Args:
            prefix: put before each piece, as some models want "query: ".
        """
        pieces_by_text = [self._pieces_that_fit(text, prefix) for text in texts]
        # One flat list of all pieces, so that the threads have work though texts differ in length.
        inputs: list[str] = []
        for pieces in pieces_by_text:
            inputs += [prefix + piece for piece, _ in pieces]
        vectors = iter(self._pool.map(self._vector_of_piece, inputs))
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        # `map` keeps the order: the next vectors are those of this text's pieces.
        for row, pieces in zip(rows, pieces_by_text, strict=True):
            # The prefix counts as no token of the text.
            all_tokens = sum(tokens for _, tokens in pieces)
            for _, tokens in pieces:
                vector = next(vectors)
                row += vector * np.float32(tokens / all_tokens)
        return rows

    def close(self) -> None:
        """Ends the threads that encode; the encoder cannot be used afterwards.

        Its owner calls it when no more texts come.
        """
        self._pool.shutdown()

    def _pieces_that_fit(self, text: str, prefix: str) -> list[tuple[str, int]]:
        """A text in pieces that fit the model together with a prefix, with the tokens of each.

        An empty text counts as one token, so that it has a vector: that of the prefix.
        """
        offsets = self._model.offsets(text)
        # The prefix is before each piece, so each has less room.
        room = self._max_length - len(self._model.encode(prefix).ids)
        if len(offsets) <= room:
            return [(text, max(1, len(offsets)))]
        pieces: list[tuple[str, int]] = []
        start = 0
        # Cut at tokens and not at words: each piece is as long as the model can read.
        for first_token in range(0, len(offsets), room):
            end_token = min(first_token + room, len(offsets))
            # Between tokens may be white space: a piece goes on to where the next one begins.
            end = len(text)
            if end_token < len(offsets):
                end = offsets[end_token][0]
            pieces.append((text[start:end], end_token - first_token))
            start = end
        return pieces

    def _vector_of_piece(self, text: str) -> Floats32:
        """The vector of a text that fits the model: its tokens' vectors pooled, or the model's own.

        Called by several threads at once.
        """
        encoding = self._model.encode(text)
        # A piece may have a token more than it had within its text: that one is cut.
        outputs = self._model.run(encoding, max_length=self._max_length)
        first_output = outputs[0]
        if first_output.ndim == 1:  # the model has pooled itself
            return first_output
        pooled: Floats32
        if self._pooling == "cls":
            pooled = first_output[0]
        else:
            pooled = first_output.mean(axis=0)
        return pooled


def stated_pooling(folder: Path) -> Pooling | None:
    """The pooling that the files of a sentence-transformers model state; None without such a file.

    Pooled in another way, the vectors of a model mean nothing, and no error would show it.

    Raises:
        ConfigError: the model states a pooling that the encoder does not know.
    """
    path = folder / "1_Pooling" / "config.json"
    try:
        stated: object = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    # A file that is there and cannot be read is no model without one.
    except Exception as error:
        raise ConfigError(f"{path} cannot be read: {words_of(error)}") from error
    settings: dict[str, object] = {}
    if isinstance(stated, dict):
        settings = cast("dict[str, object]", stated)
    modes: list[str] = []
    for name, is_used in settings.items():
        if name.startswith("pooling_mode_") and is_used is True:
            modes.append(name)
    # Several modes at once are vectors one behind the other, which the encoder does not make.
    if len(modes) == 1 and modes[0] in _MODES:
        return _MODES[modes[0]]
    stated_modes = ", ".join(modes) or "no pooling"
    raise ConfigError(
        f"{path} states {stated_modes}: known are {', '.join(_MODES)}. "
        "Choose one with the setting 'pooling'"
    )


TOKENIZER = "tokenizer.json"
_MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
"""Where exports put the graph: the exact one is taken before the quantised one."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class OnnxFiles(Record):
    """The two files that scoring needs."""

    model: Path
    """The graph with its weights."""
    tokenizer: Path
    """A tokenizer.json of the package tokenizers."""


def is_hub_name(model: str) -> bool:
    """Whether a text names a repository ``owner/name`` of the hub, and no folder that exists.

    A user writes either in the same setting, and a folder needs no download.
    """
    return _HUB_NAME.fullmatch(model) is not None and not Path(model).exists()


def find_onnx_files(
    model: str, *, file: str | None = None, revision: str | None = None
) -> OnnxFiles:
    """The ONNX graph and the tokenizer of a model; those of a hub repository are downloaded once.

    Exports put the graph in different places (`_MODELS`), an exact one before a quantised one.

    Args:
        model: a folder or a hub name.
        file: the path of the graph in it; without one the usual names are tried.
        revision: of a hub repository.

    Raises:
        ConfigError: the files are not there, or cannot be downloaded.
    """
    # A named file alone, and not the usual ones behind it: another graph would go unnoticed.
    names = (file,) if file else _MODELS
    if is_hub_name(model):
        return _files_from_hub(model, names, revision)
    folder = Path(model)
    if not folder.is_dir():
        raise ConfigError(f"'{model}' is neither a folder nor a name of the form owner/name")
    # The tokenizer is at the top of every export, wherever the graph is.
    tokenizer = folder / TOKENIZER
    if tokenizer.is_file():
        for name in names:
            graph = folder / name
            if graph.is_file():
                return OnnxFiles(model=graph, tokenizer=tokenizer)
    choices = " or ".join(f"'{name}'" for name in names)
    raise ConfigError(f"the folder '{model}' must hold '{TOKENIZER}' and {choices}")


def _files_from_hub(model: str, names: tuple[str, ...], revision: str | None) -> OnnxFiles:
    """The ONNX graph and the tokenizer of a hub repository, downloaded by the hub's client.

    A missing file leads to the next name; without a connection no other name would help.

    Args:
        names: paths of graphs; the first that the repository has is taken.
    """
    hub = require("huggingface_hub", extra="onnx")
    errors = require("huggingface_hub.errors", extra="onnx")
    for name in names:
        try:
            graph = hub.hf_hub_download(model, name, revision=revision)
            tokenizer = hub.hf_hub_download(model, TOKENIZER, revision=revision)
        except (errors.HfHubHTTPError, errors.EntryNotFoundError, OSError, ValueError) as error:
            # Without a connection the client says that there is no such file, too.
            is_offline = isinstance(error, errors.LocalEntryNotFoundError)
            is_missing = isinstance(error, errors.EntryNotFoundError)
            if is_missing and not is_offline:
                continue  # the repository may have a graph of the next name
            raise ConfigError(
                f"the model '{model}' cannot be downloaded ({type(error).__name__}). "
                "Check its name and the connection, or give a folder with its files"
            ) from error
        return OnnxFiles(model=Path(graph), tokenizer=Path(tokenizer))
    raise ConfigError(
        f"the model '{model}' has no '{TOKENIZER}' or none of {', '.join(names)}: name its ONNX "
        "file with the setting 'file'"
    )


def optional_hub_file(model: str, name: str) -> Path | None:
    """A file that a hub repository need not have, downloaded; None where that fails.

    The model works without it, as a reader without ``config.json``.
    """
    hub = require("huggingface_hub", extra="onnx")
    errors = require("huggingface_hub.errors", extra="onnx")
    try:
        path = hub.hf_hub_download(model, name)
    # `OSError` without a network, `ValueError` for a name that the hub refuses.
    except (errors.HfHubHTTPError, errors.EntryNotFoundError, OSError, ValueError):
        return None
    return Path(path)


# --- pairs of texts

_ReadT = TypeVar("_ReadT")


class PairModel(OnnxTextModel):
    """Reads pairs of texts.

    Pairs run one by one, each on one thread, several threads at once: measured on two cores,
    batches of twenty cost 2.5 times the processor time of single pairs, for padding.
    """

    def __init__(self, model: Path, tokenizer: Path, threads: int, *, kind: str) -> None:
        """Loads a model of pairs of texts.

        The threads wait for pairs; each runs the graph on one of them.

        Args:
            threads: pairs that are read at once.
            kind: the kind of model that is expected, for the message.
        """
        super().__init__(model, tokenizer, kind=kind)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ragbench-pairs")

    def length(self, first: str, second: str) -> int:
        """The number of tokens of a pair of texts, special ones included.

        By it a long text is cut so that each pair fits the model.
        """
        return len(self.encode(first, second).ids)

    def _read_each(
        self, pairs: Sequence[tuple[str, str]], read: Callable[[Any], _ReadT]
    ) -> list[_ReadT]:
        """For each pair of texts what a function makes of its tokens, in the order of the pairs.

        The longest pairs come first, so that no thread is left alone with one at the end.

        Args:
            read: runs the model on an encoded pair; called by several threads.
        """
        encodings = [self.encode(first, second) for first, second in pairs]
        positions = range(len(pairs))
        # The longest pair first: if it came last, one thread would read it while the others wait.
        longest_first = sorted(positions, key=lambda position: -len(encodings[position].ids))
        readings = self._pool.map(read, [encodings[position] for position in longest_first])
        reading_by_position = dict(zip(longest_first, readings, strict=True))
        return [reading_by_position[position] for position in positions]


class PairClassifier(PairModel):
    """Gives a pair of texts one logit: how well the second fits the first."""

    def __init__(self, model: Path, tokenizer: Path, threads: int) -> None:
        """Loads a classifier of pairs of texts, and tries it with a pair to see its output.

        A file of another kind of model is an error now, and not a wrong score later.

        Args:
            threads: pairs that are read at once.

        Raises:
            ConfigError: the model is no cross-encoder with one or two numbers a pair.
        """
        super().__init__(model, tokenizer, threads, kind="text classifier")
        # A try with any pair says at once whether the file is the right one.
        outputs = self.run(self.encode("a", "b"))
        row = outputs[0]
        if row.ndim != 1 or len(row) not in (1, 2):
            raise ConfigError(
                f"'{model}' is not a cross-encoder: its first output has the shape {row.shape} a "
                "pair, not one or two numbers"
            )

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """For each pair of texts one logit: how well the second fits the first.

        Pairs are not cut: callers cut those that are longer than the model takes.
        """
        return self._read_each(pairs, self._logit)

    def _logit(self, encoding: Any) -> float:
        """The logit of one encoded pair: the model's one number, or that of yes less that of no.

        Cross-encoders are trained in both forms.
        """
        outputs = self.run(encoding)
        row = outputs[0]
        # One number is a score already; of two the difference is.
        if len(row) == 1:
            return float(row[0])
        return float(row[1] - row[0])


load_pair_classifier = lru_cache(maxsize=4)(PairClassifier)
"""`PairClassifier`, loaded once for the same files."""
