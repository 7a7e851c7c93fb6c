"""The validator with a reader on this machine."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from functools import lru_cache, partial
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from ragbench.core.checked import Checked, Positive
from ragbench.core.chunk import Chunk
from ragbench.core.record import replace
from ragbench.core.validation import Verdict
from ragbench.errors import RunError
from ragbench.ledger.scores import ScoreStore, digest, user_cache
from ragbench.plugins import import_packages_of, load_attribute
from ragbench.text.language import language_of
from ragbench.text.onnx_model import (
    OnnxFiles,
    PairClassifier,
    PairReading,
    find_onnx_files,
    import_onnx_packages,
    is_hub_name,
    load_pair_reader,
)
from ragbench.text.sentences import SENTENCES_VERSION, Span, split_sentences, touched, windows_of
from ragbench.text.tokens import TOKENISER_VERSION, tokenise
from ragbench.validators.calibration import (
    LearnedValidator,
    Weights,
    shipped_rarity,
    shipped_weights,
)
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical import (
    LEXICAL_FEATURES,
    ChunkReading,
    LexicalValidator,
    ask,
    read_in_windows,
)
from ragbench.validators.slots import without_echo, without_marks
from ragbench.validators.verdict import Finding, decide, settled

LOCAL_FEATURES: tuple[str, ...] = ("lexical", "reader")
"""The numbers of a chunk that the reader has read. More of them (coverage, kinds of answers, the
span's score, how far behind the best) made nothing better on articles not learned from."""

_LOGIT_SCALE = 10.0
"""Logits are divided by this, so that all numbers are of one size."""
_FEWEST_WORDS = -1.0
"""A lower logit by words says no more against what a reader finds: answers in other words."""


def local_features(words: ChunkReading, logit: float) -> tuple[float, float]:
    """The numbers of a chunk with a reader's logit, as `LOCAL_FEATURES` names them."""
    return max(words.logit, _FEWEST_WORDS) / _LOGIT_SCALE, logit / _LOGIT_SCALE


def settled_logit(reading: PairReading) -> float:
    """What decides: the second tower's logit, where there is one."""
    return reading.logit if reading.answers is None else reading.answers


def shipped_reader() -> OnnxFiles:
    """Where its model and its tokenizer are; their card stands beside them."""
    return find_onnx_files(str(Path(str(files("ragbench.validators"))) / "reader"))


_BY_WORDS, _BY_RANK = 4, 2
"""Chunks that are read first: the best by words, and the retriever's first ones."""
_HOPELESS = -7.0
"""Logit by words below which no further chunk is read: of 6,608 such chunks the reader would find
20 relevant, and none of these is gold (docs/measured/validators.md)."""
_UNKNOWN_LANGUAGE = "the language of the query is unknown: the reader took it for English"


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalValidator(LearnedValidator, Checked):
    """Words find the best chunks; a reader says whether they answer the query, and where.

    The weights were learned and measured with the reader that comes with ragbench. Other models
    want a calibration. Where no other reader is given, queries that are not English are judged by
    words alone, with a warning.
    """

    name = "local"
    features: ClassVar[tuple[str, ...]] = LOCAL_FEATURES
    reader: str | None = None
    """None for the one that comes along; else a folder with model.onnx and tokenizer.json, or
    ``owner/name`` on the Hugging Face hub: a model of question and text with the outputs logits,
    start and end, and perhaps answers."""
    read: Positive = 10
    """How many chunks the reader reads at most; no other one is ever relevant. It begins with the
    four best by words and the two that the retriever has first, and reads on where none of them
    answers."""
    max_length: Annotated[int, Meta(ge=64)] = 512
    """Tokens of query and text together that the model takes; longer texts are read in windows."""
    embedder: str | None = None
    """Beyond that many chunks, what ranks them by meaning beside the words: ``NAME[:MODEL]`` of
    `ragbench show embedders`; None for words alone."""
    threads: Positive = 2

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.reader is not None and not is_hub_name(self.reader):
            find_onnx_files(self.reader)
        LearnedValidator.__post_init__(self)

    @property
    def identity(self) -> str:
        """Names the rules, the weights, the limits, and the reader by the bytes of its files."""
        weights = (shipped_weights("lexical", LEXICAL_FEATURES), self._weights)
        learned = ".".join(one.digest for one in weights)
        return f"local:{learned}:{self._reads}:{self.read}.{self.embedder}:{self.limits.identity}"

    @property
    def _reads(self) -> str:
        """All that a reading depends on, but for the question and the text."""
        files, versions = self._files, f"{TOKENISER_VERSION}.{SENTENCES_VERSION}"
        reader = f"{digest_of(files.model)}.{digest_of(files.tokenizer)}"
        return f"{versions}:{reader}:{self.max_length}"

    def import_packages(self) -> None:
        import_onnx_packages(self.reader or "")
        if self.embedder is not None:
            import_packages_of(_opened(self.embedder))

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        language = language_of(query)
        # Neither English, nor in Latin letters without a sign of another language.
        if self.reader is None and language != "en" and (language or not query.isascii()):
            return self._by_words(query, chunks, language)
        intake = inspect_chunks(query, chunks)
        notes: list[str] = []
        read: set[str] = set()
        verdict = decide(
            query,
            intake,
            partial(self._found, chunks=intake.chunks, notes=notes, read=read),
            self.limits,
            validator=self.name,
            reasons=[_UNKNOWN_LANGUAGE] if self.reader is None and language is None else (),
            warnings=notes,
        )
        unread = sum(bool(one.text.strip()) for one in intake.chunks) - len(read)
        why = (
            f"{unread} of {len(intake.chunks)} chunks were not read by the model, for words"
            f"{' and meaning' if self.embedder else ''} put them last: none of them is called "
            f"relevant (read={self.read} sets how many are at most)"
        )
        told = [why] if unread > 0 and not verdict.answer_present else []
        details = {"read_by_models": float(len(read))}
        return replace(verdict, reasons=(*verdict.reasons, *told), details=details)

    def _by_words(self, query: str, chunks: Sequence[Chunk], language: str | None) -> Verdict:
        """What words say, where the reader would guess."""
        words = LexicalValidator(
            relevant=self.relevant, present=self.present, absence=self.absence, slots=self.slots
        )
        verdict = words.validate(query, chunks)
        asked = f"in another one ({language})" if language else "in one that is not recognised"
        note = f"the reader knows English only and the query is {asked}: words alone decided"
        return replace(
            verdict,
            validator=self.name,
            warnings=(*verdict.warnings, note),
            details={**verdict.details, "read_by_models": 0.0},
        )

    def _found(
        self, query: str, chunks: Sequence[Chunk], notes: list[str], read: set[str]
    ) -> list[Finding]:
        asked, weights = ask(query, shipped_rarity), self._weights
        texts = [without_echo(query, chunk.text) for chunk in chunks]
        words = read_in_windows(asked, texts, shipped_weights("lexical", LEXICAL_FEATURES).chunk)
        limits = self.limits.thresholds
        unread = limits.relevant / 2  # what no model has read is never called relevant
        findings = [
            Finding(chunk=chunk, probability=min(weights.probability(one.logit), unread))
            for chunk, one in zip(chunks, words, strict=True)
        ]
        chosen = self._chosen(query, texts, [one.logit for one in words]) if asked.weights else []
        first = [*dict.fromkeys([*chosen[:_BY_WORDS], *range(min(_BY_RANK, len(texts)))])]
        order = [at for at in dict.fromkeys([*first, *chosen]) if words[at].sentences][: self.read]
        later = [at for at in order[len(first) :] if self.embedder or words[at].logit >= _HOPELESS]
        reader = partial(
            readings_of, self._files, query, max_length=self.max_length, threads=self.threads
        )
        for places in (order[: len(first)], later) if asked.weights else ():
            asking = [without_marks(query, texts[at]) for at in places]
            readings, about = kept_readings(self._reads, query, asking, reader)
            read.update(chunks[at].id for at in places)
            notes += [one for one in about if one not in notes]
            for at, reading in zip(places, readings, strict=True):
                findings[at] = _finding(weights, chunks[at], words[at], reading, len(chunks))
            settle = partial(settled, query, rule=self.limits)
            if any(settle(findings[at]).probability >= limits.present for at in places):
                break  # what is left could only be a second answer
        return findings

    def _chosen(self, query: str, texts: Sequence[str], logits: Sequence[float]) -> list[int]:
        """Which chunks are read, in order: by words, and by meaning where an embedder is given."""
        # Sorting keeps the order of equals: the retriever's.
        by_words = sorted(range(len(texts)), key=lambda at: -logits[at])
        if len(texts) <= self.read or self.embedder is None or not query.strip():
            return by_words[: self.read]
        embedder = _opened(self.embedder)
        filled = [at for at in range(len(texts)) if texts[at].strip()]
        asked = embedder.embed_queries([query])[0]
        rows = embedder.embed_passages([texts[at] for at in filled])
        near = dict(zip(filled, (rows @ asked).tolist(), strict=True))
        by_meaning = sorted(near, key=lambda at: -near[at])
        # Each ranking gives half of the places: an answer in other words has words against it.
        merged = [at for pair in zip_longest(by_words, by_meaning) for at in pair if at is not None]
        return list(dict.fromkeys(merged))[: self.read]

    @property
    def _files(self) -> OnnxFiles:
        return shipped_reader() if self.reader is None else find_onnx_files(self.reader)

    @property
    def _weights(self) -> Weights:
        return shipped_weights(self.name, self.features)


def _finding(
    weights: Weights, chunk: Chunk, words: ChunkReading, reading: PairReading, chunks: int
) -> Finding:
    topic, settled_one = (
        weights.probability(weights.chunk.logit(local_features(words, one)), chunks)
        for one in (reading.logit, settled_logit(reading))
    )
    answer = Span(reading.start, reading.end)
    # It may stand in another window than the words found best.
    quoted = touched(words.sentences, answer) or touched(split_sentences(chunk.text), answer)
    return Finding(
        chunk=chunk,
        probability=topic,
        spans=(quoted or answer,),
        beside=words.quoted(),
        answered=None if reading.answers is None else settled_one,
    )


@lru_cache(maxsize=16)
def digest_of(path: Path) -> str:
    """The first twelve hexadecimal digits of a file's SHA-256: what a reading depends on."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


@lru_cache(maxsize=2)
def _opened(name: str) -> Any:
    """An embedder, by its place: validators know embedders by name alone."""
    return load_attribute("ragbench.search.embedders.embedder:open_embedder")(name)


# --- a reader asked about the chunks of a pool

_CHARACTERS = 1800
_FEWEST = 60


def fitting_windows(
    model: PairClassifier, query: str, text: str, max_length: int
) -> tuple[Span, ...]:
    """Windows that hold all of a text, each short enough to be read whole."""
    characters = _CHARACTERS
    while True:
        windows = windows_of(text, characters=characters)
        # A token is at least a character: short texts need no counting.
        fits = all(
            len(query) + (window.end - window.start) + 8 <= max_length
            or model.length(query, text[slice(*window)]) <= max_length
            for window in windows
        )
        if fits or characters <= _FEWEST:
            return windows
        characters //= 2


def fitted_query(model: PairClassifier, query: str, max_length: int) -> tuple[str, str | None]:
    """The query, cut when it would leave too little room for a chunk, and a note that says so."""
    offsets = model.offsets(query)
    room = max_length // 4
    if len(offsets) <= room:
        return query, None
    note = f"the query has {len(offsets)} tokens: the models read the first {room}"
    return query[: offsets[room - 1][1]], note


MOST_WINDOWS = 64
"""Windows of one text that a reader reads, about a hundred thousand characters."""


def readings_of(
    files: OnnxFiles, query: str, texts: Sequence[str], *, max_length: int, threads: int
) -> tuple[list[PairReading], tuple[str, ...]]:
    """What a reader says of each text, and sentences about what it did not read.

    Of a long text up to `MOST_WINDOWS` windows are read, and the best one counts; spans are offsets
    in the whole text.
    """
    reader = load_pair_reader(files.model, files.tokenizer, threads)
    asked, note = fitted_query(reader, query, max_length)
    pieces: list[tuple[int, Span]] = []
    left_out = 0
    for place, text in enumerate(texts):
        windows = fitting_windows(reader, asked, text, max_length)
        if len(windows) > MOST_WINDOWS:
            left_out += len(windows) - MOST_WINDOWS
            wanted = set(tokenise(asked))
            held = [len(wanted.intersection(tokenise(text[slice(*one)]))) for one in windows]
            best = sorted(range(len(windows)), key=lambda at: -held[at])[:MOST_WINDOWS]
            windows = tuple(windows[at] for at in sorted(best))
        pieces += [(place, window) for window in windows]
    found = reader.read([(asked, texts[place][slice(*window)]) for place, window in pieces])
    by_place: dict[int, PairReading] = {}
    for (place, window), one in zip(pieces, found, strict=True):
        if place not in by_place or one.logit > by_place[place].logit:
            shift = window.start
            by_place[place] = replace(one, start=one.start + shift, end=one.end + shift)
    notes = [note] if note else []
    if left_out:
        notes.append(
            f"of a long chunk the reader reads {MOST_WINDOWS} windows, those with most words of "
            f"the query: {left_out} more were read for words alone"
        )
    return [by_place[place] for place in range(len(texts))], tuple(notes)


# --- readings kept on disk: no pair of question and text is read twice
#
# Of a pair a digest and five numbers are kept, and neither question nor text. Another order, other
# scores, another k, another retriever or dump then read only what is new. A place that cannot be
# written costs time, never a verdict.

_LARGEST = 250_000_000
"""Bytes, about two million pairs: a file that has grown beyond them is begun anew."""
_NUMBERS = tuple(one.name for one in fields(PairReading))
Read = Callable[[Sequence[str]], tuple[list[PairReading], tuple[str, ...]]]
"""Reads texts, and says what of them it could not read."""


readings_file = partial(user_cache, "RAGBENCH_READINGS", "readings.sqlite")


def kept_readings(
    reader: str, query: str, texts: Sequence[str], read: Read
) -> tuple[list[PairReading], tuple[str, ...]]:
    """What is kept of the texts, and the rest read; ``reader`` names all else it depends on."""
    keys, asked, model = [*map(digest, texts)], digest(query), digest(reader).hex()
    store, known = _store(readings_file(), os.getpid()), dict[bytes, PairReading]()
    if store is not None:
        with suppress(sqlite3.Error, ValueError, TypeError):
            for key, numbers in store.known(model, asked, ()).items():
                known[key] = PairReading(**dict(zip(_NUMBERS, numbers, strict=True)))
    missing = [at for at, key in enumerate(keys) if key not in known]
    found, notes = read([texts[at] for at in missing]) if missing else ([], ())
    fresh = {keys[at]: one for at, one in zip(missing, found, strict=True)}
    if store is not None and fresh and not notes:  # what was not read whole is said each time
        with suppress(sqlite3.Error):
            store.keep(model, asked, {key: astuple(one) for key, one in fresh.items()})
    known |= fresh
    return [known[key] for key in keys], notes


@lru_cache(maxsize=2)
def _store(path: Path | None, process: int) -> ScoreStore | None:
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGEST:
            path.unlink()
        return ScoreStore(path)
    except (OSError, RunError):
        return None
