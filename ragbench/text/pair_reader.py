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
    downloaded,
    find_onnx_files,
    import_onnx_packages,
    is_hub_name,
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
        """How many tokens a pair has, special ones included."""
        ...

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it, without special ones."""
        ...

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """One reading a pair, in order; pairs are not cut."""
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

    place: int = 0
    """Of the logit that speaks for an answer."""
    text_first: bool = False
    """Whether the text comes before the question, as a premise before a hypothesis."""

    def logit(self, row: Floats32) -> float:
        """The logit of an answer, against those of all other classes together."""
        if len(row) == 1:
            return float(row[0])
        others = np.delete(row.astype(np.float64), self.place)
        highest = float(others.max())
        return float(row[self.place]) - highest - float(np.log(np.exp(others - highest).sum()))


_ENTAILS = re.compile(r"entail", re.IGNORECASE)
_DOES_NOT = re.compile(r"not|non|contra", re.IGNORECASE)
_YES = re.compile(r"relevant|yes|true|positive|answerable", re.IGNORECASE)


def _head(columns: int, labels: Sequence[str], name: str) -> _Head:
    """What a row of so many logits means, by the labels of the model's configuration."""
    entails = [place for place, label in enumerate(labels) if _is(label, _ENTAILS)]
    if columns == len(labels) > 1 and len(entails) == 1:
        return _Head(entails[0], text_first=True)
    if columns == 1:
        return _Head()
    if columns == 2:
        says_yes = [place for place, label in enumerate(labels) if _is(label, _YES)]
        yes = says_yes[0] if len(labels) == 2 and len(says_yes) == 1 else 1
        return _Head(yes)
    stated = f"names {', '.join(labels)}" if labels else "is missing, or names none"
    raise ConfigError(
        f"the reader '{name}' has {columns} logits a pair, and which of them speaks for an answer "
        f"is not known: its {_CONFIG} {stated}. A reader has one or two, or the label 'entailment'"
    )


def _is(label: str, meaning: re.Pattern[str]) -> bool:
    return meaning.search(label) is not None and _DOES_NOT.search(label) is None


class _Config(msgspec.Struct):
    """What a model's ``config.json`` says of its head."""

    id2label: dict[str, str] = {}
    architectures: list[str] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels by place."""
        places = sorted(self.id2label, key=lambda place: int(place) if place.isdigit() else -1)
        return tuple([self.id2label[place] for place in places])


def _read_config(config: Path | None) -> _Config:
    """The configuration of a model; an empty one where there is no file."""
    if config is None:
        return _Config()
    with Reading(lambda error: ConfigError(f"{config} cannot be read: {words_of(error)}")):
        return msgspec.json.decode(config.read_bytes(), type=_Config)


# --- readers in ONNX form


class PairReader(PairModel):
    """A reader in ONNX form, of any of the kinds above."""

    def __init__(self, model: Path, tokenizer: Path, threads: int, config: Path | None = None):
        super().__init__(model, tokenizer, threads, kind="reader")
        row_by_name = dict(zip(self.outputs, self.run(self.encode("a", "b")), strict=True))
        self._start = self._place(r"start(_logits)?")
        self._end = self._place(r"end(_logits)?")
        self._answers = self._place("answers")
        spoken_for = {self._start, self._end, self._answers}
        self._logits: int | None = None
        for place, row in enumerate(row_by_name.values()):
            if place not in spoken_for and row.ndim == 1 and self._logits is None:
                self._logits = place
        self._head = _Head()
        if self._logits is not None:
            columns = len(row_by_name[self.outputs[self._logits]])
            self._head = _head(columns, _read_config(config).labels, str(model.parent))
        elif self._start is None or self._end is None:
            listed = ", ".join(f"{name} {row.shape}" for name, row in row_by_name.items())
            raise ConfigError(
                f"'{model}' is not a reader: it has neither logits of a pair nor start and end "
                f"logits, only {listed}"
            )

    def _place(self, name: str) -> int | None:
        """The place of the output with a name; None where there is none."""
        for place, output in enumerate(self.outputs):
            if re.fullmatch(name, output):
                return place
        return None

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """One reading a pair, in order; pairs are not cut."""
        if self._head.text_first:
            pairs = [(text, question) for question, text in pairs]
        return self._each(pairs, self._reading)

    def _reading(self, encoding: Any) -> PairReading:
        """What the model says of one encoded pair."""
        outputs = self.run(encoding)
        answers = None
        if self._answers is not None:
            answers = float(outputs[self._answers][0])
        span = 0.0
        start = 0
        end = 0
        if self._start is not None and self._end is not None:
            span, start, end = self._best_span(encoding, outputs[self._start], outputs[self._end])
        logit = span
        if self._logits is not None:
            logit = self._head.logit(outputs[self._logits])
        return PairReading(logit=logit, span=span, start=start, end=end, answers=answers)

    def _best_span(self, encoding: Any, starts: Floats32, ends: Floats32) -> tuple[float, int, int]:
        """The best span's score above "no answer", and where it is in the text."""
        # Which tokens are the text's is known for every tokenizer; token types are not.
        text = 0 if self._head.text_first else 1
        in_text: list[int] = []
        sequences = zip(encoding.sequence_ids, encoding.offsets, strict=True)
        for position, (sequence, (start, end)) in enumerate(sequences):
            if sequence == text and end > start:
                in_text.append(position)
        if not in_text:
            return 0.0, 0, 0
        # A span is a row (where it starts) and a column (where it ends) of this square. Those that
        # end before they start are no spans, and the ones further right are too long.
        scores = starts[in_text][:, None] + ends[in_text][None, :]
        ones = np.ones_like(scores)
        is_span = np.triu(ones) - np.triu(ones, _LONGEST_ANSWER) > 0
        best = int(np.where(is_span, scores, -np.inf).argmax())
        first, last = divmod(best, len(in_text))
        return (
            float(scores[first, last]) - float(starts[0] + ends[0]),
            int(encoding.offsets[in_text[first]][0]),
            int(encoding.offsets[in_text[last]][1]),
        )


# --- readers that sentence-transformers loads


_CLASSIFIES = "ForSequenceClassification"
"""How the name of an architecture ends that gives a pair its logits."""


class LoadedReader:
    """A cross-encoder or a model of entailment, as sentence-transformers loads it."""

    def __init__(self, files: ReaderFiles) -> None:
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
        try:
            self._model: Any = package.CrossEncoder(folder, device="cpu")
        except (ValueError, OSError) as error:
            problem = " ".join(str(error).split())[:300]
            raise ConfigError(
                f"sentence-transformers cannot load the model '{folder}': {problem}"
            ) from error
        columns = int(self._model.config.num_labels)
        self._head = _head(columns, config.labels, folder)
        self._model.model.eval()

    def length(self, first: str, second: str) -> int:
        """How many tokens a pair has, special ones included."""
        return len(self._model.tokenizer(first, second)["input_ids"])

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it, without special ones."""
        encoding = self._model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True
        )
        return [(int(start), int(end)) for start, end in encoding["offset_mapping"]]

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        """One reading a pair, in order, without a span."""
        readings: list[PairReading] = []
        for question, text in pairs:
            pair = (text, question) if self._head.text_first else (question, text)
            # The logits, and not what the activation of the package makes of them.
            outputs = self._model.model(**self._model.tokenizer(*pair, return_tensors="pt"))
            row = np.asarray(outputs.logits.detach().tolist()[0], dtype=np.float32)
            readings.append(PairReading(logit=self._head.logit(row), span=0.0, start=0, end=0))
        return readings


# --- files and loading

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_TOKENIZERS = (TOKENIZER, "vocab.txt", "spm.model", "sentencepiece.bpe.model", "vocab.json")


def find_reader_files(reader: str) -> ReaderFiles:
    """Finds the files of a reader; those of a hub repository are downloaded once, by its client.

    Raises:
        ConfigError: there is neither an ONNX file nor weights that sentence-transformers loads.
    """
    try:
        found = find_onnx_files(reader)
    except ConfigError as error:
        folder = _weights_folder(reader)
        model = _first_of(folder, _WEIGHTS)
        tokenizer = _first_of(folder, _TOKENIZERS)
        if folder is None or model is None or tokenizer is None:
            raise ConfigError(
                f"{error}. In place of an ONNX file sentence-transformers takes {_CONFIG}, "
                f"{' or '.join(_WEIGHTS)}, and a tokenizer"
            ) from error
        return ReaderFiles(model=model, tokenizer=tokenizer, config=folder / _CONFIG)
    config: Path | None = found.tokenizer.parent / _CONFIG
    if is_hub_name(reader):
        config = downloaded(reader, _CONFIG)
    elif not (found.tokenizer.parent / _CONFIG).is_file():
        config = None
    return ReaderFiles(model=found.model, tokenizer=found.tokenizer, config=config)


def _weights_folder(reader: str) -> Path | None:
    """The folder with a model's weights, of the hub after a download; None where there is none."""
    folder = Path(reader)
    if is_hub_name(reader):
        hub = require("huggingface_hub", extra="onnx")
        wanted = [*_WEIGHTS, "*.json", "*.txt", "*.model"]
        try:
            folder = Path(hub.snapshot_download(reader, allow_patterns=wanted))
        except (OSError, ValueError):  # without a connection, or without such a repository
            return None
    return folder if (folder / _CONFIG).is_file() else None


def _first_of(folder: Path | None, names: Sequence[str]) -> Path | None:
    """The first file of these names that a folder holds."""
    if folder is None:
        return None
    return next((folder / name for name in names if (folder / name).is_file()), None)


@lru_cache(maxsize=2)
def load_reader(files: ReaderFiles, threads: int) -> Reader:
    """A reader, loaded once for the same files."""
    if files.model.suffix == ".onnx":
        return PairReader(files.model, files.tokenizer, threads, files.config)
    return LoadedReader(files)


def import_reader_packages(reader: str | None) -> None:
    """Imports what a reader needs: a missing package is found before any query.

    A model of the hub may turn out to need another one, when its files are fetched.
    """
    if reader is None or is_hub_name(reader):
        import_onnx_packages(reader or "")
    elif find_reader_files(reader).model.suffix != ".onnx":
        require("sentence_transformers", extra="sentence-transformers")
    else:
        import_onnx_packages()
