"""Readers: models that read a question with a text, and say whether and where it is answered.

Any of four kinds of heads, each known by the outputs of the model and the labels in its
``config.json``:

- a reader of ours: a logit of the pair, and the outputs ``start`` and ``end``, a logit a token;
- a model of question answering: start and end logits alone. The pair's logit is the score of the
  best span above that of "no answer", the first token (Devlin et al. 2019, for SQuAD 2.0);
- a cross-encoder: one logit, or two, those of no and of yes. It says nothing of where;
- a model of entailment, which is given the text first and takes the question for a statement.

A model without an ONNX file is loaded by sentence-transformers, where that is installed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from ragbench.core.reading import Reading, words_of
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.plugins import Floats32, np, require
from ragbench.text.onnx_model import (
    TOKENIZER,
    PairModel,
    find_onnx_files,
    import_onnx_packages,
    is_hub_name,
    optional_hub_file,
)

_LONGEST_ANSWER = 30
"""Tokens of the longest answer."""
_CONFIG = "config.json"


class PairReading(Record):
    """What a reader says of one question and one text."""

    logit: float
    """How sure it is that the text answers the question."""
    span: float
    """The best span's score above that of "no answer"; start and end logits added."""
    start: int
    """Offset of the span's first character in the text."""
    end: int
    """Offset behind its last character; that of the first where the model gives no span."""
    answers: float | None = None
    """How sure a second tower of the model is that the text answers *this* question, a logit; None
    where the model has none."""


class Reader(Protocol):
    """Reads pairs of a question and a text."""

    def length(self, first: str, second: str) -> int:
        """The number of tokens of a question with a text, special ones included.

        By it a long text is cut so that each pair fits the model.
        """
        ...

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each token of a text its begin and end in the text, without special tokens.

        A long text is cut into windows at these positions.
        """
        ...

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """One reading for each pair of a question and a text, in order; pairs are not cut.

        A reading says how sure the model is that the text answers the question, and where.
        """
        ...


class ReaderFiles(Record):
    """The files of a reader."""

    model: Path
    """The ONNX graph, or the weights that sentence-transformers loads."""
    tokenizer: Path
    config: Path | None = None
    """The ``config.json`` with the labels; None where there is none."""


# --- the meaning of a row of logits


class _Head(NamedTuple):
    """What the logits of a pair mean."""

    answer_class: int = 0
    """The position of the logit that speaks for an answer."""
    text_first: bool = False
    """Whether the text comes before the question, as a premise before a hypothesis."""

    def logit(self, row: Floats32) -> float:
        """The logit that a text answers a question, from the logits of all classes of a pair.

        Against those of all other classes together: a model of entailment has three classes, and
        two of them speak against an answer.

        Args:
            row: a logit for each class.
        """
        if len(row) == 1:
            return float(row[0])
        other_classes = np.delete(row.astype(np.float64), self.answer_class)
        # The logarithm of a sum of exponentials: less the highest, none is above 1 and none
        # overflows.
        highest = float(other_classes.max())
        log_of_sum = float(np.log(np.exp(other_classes - highest).sum()))
        return float(row[self.answer_class]) - highest - log_of_sum


_ENTAILS = re.compile(r"entail", re.IGNORECASE)
_DOES_NOT = re.compile(r"not|non|contra", re.IGNORECASE)
"""What a label says that denies one of these: "not_entailment", "non-relevant"."""
_YES = re.compile(r"relevant|yes|true|positive|answerable", re.IGNORECASE)


def _head_by_labels(columns: int, labels: Sequence[str], name: str) -> _Head:
    """The meaning of a reader's row of logits, by the labels of the model's configuration.

    A head is the last layer of a model. Readers of any kind then give one logit: how sure they are
    that the text answers the question.

    Args:
        columns: how many logits a row has.
        labels: of the classes, in their order.
        name: of the model, for the message.

    Raises:
        ConfigError: it is not known which logit speaks for an answer.
    """
    entailing = _classes_with(labels, _ENTAILS)
    # Entailment goes first: such models have two or three classes, and read the text before the
    # question.
    if columns == len(labels) > 1 and len(entailing) == 1:
        return _Head(entailing[0], text_first=True)
    # One logit is the score itself.
    if columns == 1:
        return _Head()
    if columns == 2:
        # Where the labels do not say it, the first class is no and the second yes.
        yes = 1
        saying_yes = _classes_with(labels, _YES)
        if len(labels) == 2 and len(saying_yes) == 1:
            yes = saying_yes[0]
        return _Head(yes)
    if labels:
        stated = f"names {', '.join(labels)}"
    else:
        stated = "is missing, or names none"
    raise ConfigError(
        f"the reader '{name}' has {columns} logits a pair, and which of them speaks for an answer "
        f"is not known: its {_CONFIG} {stated}. A reader has one or two, or the label 'entailment'"
    )


def _classes_with(labels: Sequence[str], meaning: re.Pattern[str]) -> list[int]:
    """The positions of the labels that have a meaning, and do not deny it as "not_entailment" does.

    Models name their classes as they like: "entailment", "LABEL_1", "relevant".

    Args:
        meaning: a pattern of what the label says.
    """
    positions: list[int] = []
    for position, label in enumerate(labels):
        # A label such as "not_relevant" has the word as well.
        if meaning.search(label) and not _DOES_NOT.search(label):
            positions.append(position)
    return positions


class _Config(msgspec.Struct):
    """What a model's ``config.json`` says of its head."""

    id2label: dict[str, str] = {}
    architectures: list[str] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the model's classes, in the order of its logits.

        By them it is known which logit speaks for an answer.
        """
        keys = sorted(self.id2label, key=_position_of_class)
        return tuple([self.id2label[key] for key in keys])


def _position_of_class(key: str) -> int:
    """The sort key of a class in a model's configuration: its position as text, such as "2".

    Keys of any other form come before all others.
    """
    if key.isdigit():
        return int(key)
    return -1


def _read_config(config: Path | None) -> _Config:
    """The labels and architectures of a model's ``config.json``; empty ones where there is no file.

    The labels say what each logit means; without the file a model of one or two logits still works.

    Raises:
        ConfigError: the file cannot be read.
    """
    if config is None:
        return _Config()
    with Reading(lambda error: ConfigError(f"{config} cannot be read: {words_of(error)}")):
        return msgspec.json.decode(config.read_bytes(), type=_Config)


# --- readers in ONNX form


class PairReader(PairModel):
    """A reader in ONNX form, of any of the kinds above."""

    def __init__(self, model: Path, tokenizer: Path, threads: int, config: Path | None = None):
        """Loads a reader, and tries it with a pair to see by its outputs which kind of head it has.

        The kind of head is seen by the names and shapes of the outputs.

        Args:
            threads: pairs that are read at once.
            config: the file with the labels of the logits; None where there is none.

        Raises:
            ConfigError: the model is no reader, or its logits cannot be understood.
        """
        super().__init__(model, tokenizer, threads, kind="reader")
        # A try with any pair shows the shapes of the outputs, by which the kind of head is known.
        rows = self.run(self.encode("a", "b"))
        # Each is the position of an output, None where the model has none of that name.
        self._start = self._position_of_output(r"start(_logits)?")
        self._end = self._position_of_output(r"end(_logits)?")
        self._answers = self._position_of_output("answers")
        self._logits = self._position_of_logits(rows)
        self._head = _Head()
        if self._logits is not None:
            columns = len(rows[self._logits])
            self._head = _head_by_labels(columns, _read_config(config).labels, str(model.parent))
        # Outputs that are neither logits of a pair nor both ends of a span: the model answers
        # nothing.
        elif self._start is None or self._end is None:
            outputs: list[str] = []
            for name, row in zip(self.outputs, rows, strict=True):
                outputs.append(f"{name} {row.shape}")
            raise ConfigError(
                f"'{model}' is not a reader: it has neither logits of a pair nor start and end "
                f"logits, only {', '.join(outputs)}"
            )

    def _position_of_output(self, pattern: str) -> int | None:
        """The position of the model's output whose name has a pattern; None where there is none.

        By the names of its outputs it is known which kinds of logits a model gives.
        """
        for position, name in enumerate(self.outputs):
            if re.fullmatch(pattern, name):
                return position
        return None

    def _position_of_logits(self, rows: Sequence[Floats32]) -> int | None:
        """The position of the output with the logits of a pair; None for a model of spans alone.

        It is the first one with a row for each pair and no name that says more.

        Args:
            rows: the outputs for a pair.
        """
        for position, row in enumerate(rows):
            if position not in (self._start, self._end, self._answers) and row.ndim == 1:
                return position
        return None

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """One reading for each pair of a question and a text, in order; pairs are not cut.

        A model of entailment is given the text first, as a premise. The longest pairs are read
        first, several at once.
        """
        if self._head.text_first:
            pairs = [(text, question) for question, text in pairs]
        return self._read_each(pairs, self._reading)

    def _reading(self, encoding: Any) -> PairReading:
        """The reading of one encoded pair: how sure the model is of an answer, and where it is.

        The logit is that of the pair where the model has one, else the score of its best span.
        """
        outputs = self.run(encoding)
        # None where the model has no output that says how sure it is of an answer.
        answers = None
        if self._answers is not None:
            answers = float(outputs[self._answers][0])
        span = 0.0
        start = 0
        end = 0
        if self._start is not None and self._end is not None:
            span, start, end = self._best_span(encoding, outputs[self._start], outputs[self._end])
        # A model of spans has no class: its best span is all that it knows.
        logit = span
        if self._logits is not None:
            logit = self._head.logit(outputs[self._logits])
        return PairReading(logit=logit, span=span, start=start, end=end, answers=answers)

    def _best_span(self, encoding: Any, starts: Floats32, ends: Floats32) -> tuple[float, int, int]:
        """The span of a text that best answers the question, with its score above "no answer".

        Longer ones than `_LONGEST_ANSWER` tokens are left out: they quote a passage, and answer
        nothing.

        Args:
            starts: of each token of the pair, the logit that the answer starts with it.
            ends: of each token, the logit that the answer ends with it.

        Returns:
            The score; the offset of the span's first character, and the one behind its last.
        """
        # Which tokens are the text's is known for every tokenizer; token types are not.
        sequence_of_text = 0 if self._head.text_first else 1
        offsets = encoding.offsets
        text_tokens: list[int] = []
        for token, sequence in enumerate(encoding.sequence_ids):
            start, end = offsets[token]
            if sequence == sequence_of_text and end > start:
                text_tokens.append(token)
        if not text_tokens:
            return 0.0, 0, 0
        # A span is a row (where it starts) and a column (where it ends) of this square. Those that
        # end before they start are no spans, and the ones further right are too long.
        scores = starts[text_tokens][:, None] + ends[text_tokens][None, :]
        ones = np.ones_like(scores)
        is_span = np.triu(ones) - np.triu(ones, _LONGEST_ANSWER) > 0
        best = int(np.where(is_span, scores, -np.inf).argmax())
        row, column = divmod(best, len(text_tokens))
        # The first token of a pair, which is a special one, is the span of "no answer".
        no_answer = float(starts[0] + ends[0])
        score = float(scores[row, column]) - no_answer
        first_token = text_tokens[row]
        last_token = text_tokens[column]
        return score, int(offsets[first_token][0]), int(offsets[last_token][1])


# --- readers that sentence-transformers loads


_CLASSIFIES = "ForSequenceClassification"
"""How the name of an architecture ends that gives a pair its logits."""


class LoadedReader:
    """A cross-encoder or a model of entailment, as sentence-transformers loads it."""

    def __init__(self, files: ReaderFiles) -> None:
        """Loads a cross-encoder or a model of entailment by sentence-transformers.

        A model with another head would get random weights in its place, and answer at random.

        Raises:
            ConfigError: the model has another head, or cannot be loaded.
        """
        folder = str(files.model.parent)
        config = _read_config(files.config)
        architectures = config.architectures or []
        # Another head would be left out, and one with random weights put in its place.
        if architectures and not any(name.endswith(_CLASSIFIES) for name in architectures):
            raise ConfigError(
                f"the model in '{folder}' is a {', '.join(architectures)}, and "
                f"sentence-transformers loads only ...{_CLASSIFIES}. Give it as ONNX: "
                "optimum-cli export onnx --model NAME FOLDER"
            )
        package = require("sentence_transformers", extra="sentence-transformers")
        # The package raises ValueError or OSError for a folder that it does not understand.
        try:
            self._model: Any = package.CrossEncoder(folder, device="cpu")
        except (ValueError, OSError) as error:
            # The package's messages may be pages long; 300 letters are any number that fits a few
            # lines.
            problem = " ".join(str(error).split())[:300]
            raise ConfigError(
                f"sentence-transformers cannot load the model '{folder}': {problem}"
            ) from error
        columns = int(self._model.config.num_labels)
        self._head = _head_by_labels(columns, config.labels, folder)
        # Without training's dropout, which would give other logits at each call.
        self._model.model.eval()

    def length(self, first: str, second: str) -> int:
        """The number of tokens of a question with a text, special ones included.

        By it a long text is cut so that each pair fits the model.
        """
        return len(self._model.tokenizer(first, second)["input_ids"])

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each token of a text its begin and end in the text, without special tokens.

        A long text is cut into windows at these positions.
        """
        encoding = self._model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True
        )
        return [(int(start), int(end)) for start, end in encoding["offset_mapping"]]

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """One reading for each pair of a question and a text, in order; such a model names no span.

        It runs in PyTorch, one pair at a time.
        """
        readings: list[PairReading] = []
        for question, text in pairs:
            pair = (question, text)
            if self._head.text_first:
                pair = (text, question)
            inputs = self._model.tokenizer(*pair, return_tensors="pt")
            # The logits, and not what the activation of the package makes of them.
            outputs = self._model.model(**inputs)
            first_row = outputs.logits.detach().tolist()[0]
            logits = np.asarray(first_row, dtype=np.float32)
            logit = self._head.logit(logits)
            readings.append(PairReading(logit=logit, span=0.0, start=0, end=0))
        return readings


# --- files and loading

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Files of weights that sentence-transformers loads; of both the first is taken."""
_TOKENIZERS = (TOKENIZER, "vocab.txt", "spm.model", "sentencepiece.bpe.model", "vocab.json")
"""Files of which a tokenizer of transformers has at least one."""


def find_reader_files(reader: str) -> ReaderFiles:
    """The files of a reader; those of a hub repository are downloaded once, by the hub's client.

    An ONNX file is preferred: it needs no PyTorch.

    Raises:
        ConfigError: there is neither an ONNX file nor weights that sentence-transformers loads.
    """
    try:
        onnx_files = find_onnx_files(reader)
    except ConfigError as error:
        # Without an ONNX graph the folder may hold a model of PyTorch, with files of other names.
        folder = _weights_folder(reader)
        model = _first_file(folder, _WEIGHTS)
        tokenizer = _first_file(folder, _TOKENIZERS)
        # All three or none: the first error has the better advice for an ONNX model.
        if folder is None or model is None or tokenizer is None:
            raise ConfigError(
                f"{error}. In place of an ONNX file sentence-transformers takes {_CONFIG}, "
                f"{' or '.join(_WEIGHTS)}, and a tokenizer"
            ) from error
        return ReaderFiles(model=model, tokenizer=tokenizer, config=folder / _CONFIG)
    # A repository has its files by name, a folder of the user beside its tokenizer.
    if is_hub_name(reader):
        config = optional_hub_file(reader, _CONFIG)
    else:
        config = _first_file(onnx_files.tokenizer.parent, [_CONFIG])
    return ReaderFiles(model=onnx_files.model, tokenizer=onnx_files.tokenizer, config=config)


def _weights_folder(reader: str) -> Path | None:
    """The folder with a reader's weights, of the hub after a download; None where there is none.

    Only a reader without an ONNX file is loaded from weights.
    """
    folder = Path(reader)
    if is_hub_name(reader):
        hub = require("huggingface_hub", extra="onnx")
        # Weights of other frameworks in the repository, often gigabytes, are not downloaded.
        patterns = [*_WEIGHTS, "*.json", "*.txt", "*.model"]
        try:
            folder = Path(hub.snapshot_download(reader, allow_patterns=patterns))
        except (OSError, ValueError):  # without a connection, or without such a repository
            return None
    if not (folder / _CONFIG).is_file():
        return None
    return folder


def _first_file(folder: Path | None, names: Sequence[str]) -> Path | None:
    """The file of a folder with the first of some names; None where the folder has none of them.

    Models come with files of several names, of which one is enough.
    """
    if folder is None:
        return None
    for name in names:
        # In the order of the names: the first is the best form.
        path = folder / name
        if path.is_file():
            return path
    return None


@lru_cache(maxsize=2)
def load_reader(files: ReaderFiles, threads: int) -> Reader:
    """A reader of any kind from its files, loaded once for the same files.

    Loading takes seconds, and validators of one run share the reader.

    Args:
        threads: pairs that are read at once.
    """
    if files.model.suffix == ".onnx":
        return PairReader(files.model, files.tokenizer, threads, files.config)
    return LoadedReader(files)


def import_reader_packages(reader: str | None) -> None:
    """Imports the packages that a reader needs, so that a missing one is found before any query.

    A model of the hub may turn out to need another one, when its files are fetched.

    Args:
        reader: a folder or a hub name; None for the reader that comes with ragbench.
    """
    # Without a name it is the reader that comes with ragbench, which is in ONNX form.
    if reader is None:
        import_onnx_packages()
    elif is_hub_name(reader):
        import_onnx_packages(reader)
    elif find_reader_files(reader).model.suffix == ".onnx":
        import_onnx_packages()
    else:
        require("sentence_transformers", extra="sentence-transformers")
