"""The validator with a reader, a model that runs on this machine.

Words find the best chunks; the reader reads these, in windows where they are long, and its readings
are kept on disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from functools import lru_cache, partial
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

from msgspec import Meta

from ragbench.core.checked import Checked, Positive
from ragbench.core.chunk import Chunk
from ragbench.core.record import replace
from ragbench.core.validation import Verdict
from ragbench.errors import RunError
from ragbench.io.settings import ModelPath
from ragbench.ledger.scores import ScoreStore, digest, user_cache
from ragbench.plugins import import_packages_of, load_attribute
from ragbench.safe_text import counted
from ragbench.text.language import language_of
from ragbench.text.onnx_model import is_hub_name
from ragbench.text.pair_reader import (
    PairReading,
    Reader,
    ReaderFiles,
    find_reader_files,
    import_reader_packages,
    load_reader,
)
from ragbench.text.sentences import SENTENCES_VERSION, Span, split_sentences, touched, windows_of
from ragbench.text.table_rows import row_around
from ragbench.text.tokens import TOKENISER_VERSION
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
    prepare_question,
    read_in_windows,
    read_pool,
)
from ragbench.validators.parts import QueryPart
from ragbench.validators.slots import without_echo, without_marks
from ragbench.validators.verdict import Finding, decide, settled

LOCAL_FEATURES: tuple[str, ...] = ("lexical", "reader")
"""The numbers of a chunk that the reader has read. More of them (coverage, kinds of answers, the
span's score, how far behind the best) made nothing better on articles not learned from."""

_LOGIT_SCALE = 10.0
"""Logits are divided by this, so that all numbers are of one size."""
_FEWEST_WORDS = -1.0
"""A lower logit by words says no more against a reader that finds an answer in other words."""


def local_features(words: ChunkReading, logit: float) -> tuple[float, float]:
    """The features of a chunk by words and by the reader, in the order of `LOCAL_FEATURES`.

    The reader is the model that reads question and text together. Weights were learned with these
    numbers: another scale wants other weights.
    """
    return max(words.logit, _FEWEST_WORDS) / _LOGIT_SCALE, logit / _LOGIT_SCALE


def settled_logit(reading: PairReading) -> float:
    """The logit that decides about a text: that of the reader's second tower, where it has one.

    The first tower says whether a text is on the topic, the second whether it answers the question.
    """
    if reading.answers is None:
        return reading.logit
    return reading.answers


def shipped_reader() -> ReaderFiles:
    """The files of the reader that ragbench ships, its model and its tokenizer.

    A validator without settings works with it, without any download.
    """
    package_folder = Path(str(files("ragbench.validators")))
    return find_reader_files(str(package_folder / "reader"))


_BY_WORDS = 4
_BY_RANK = 2
"""Chunks that are read first: the best by words, and the retriever's first ones."""
_HOPELESS = -7.0
"""Logit by words below which no further chunk is read: of 6,608 such chunks the reader would find
20 relevant, and none of these is gold (docs/measured/validators.md)."""
_UNKNOWN_LEVEL = (
    "the level of this reader was not measured: label 20 queries and run ragbench calibrate"
)
_UNKNOWN_LANGUAGE = "the language of the query is unknown: the reader took it for English"


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalValidator(LearnedValidator, Checked):
    """Words find the best chunks; a reader says whether they answer the query, and where.

    The weights were learned and measured with the reader that comes with ragbench. The words of
    another one are worth nothing before a calibration, and each says so. Where no other reader is
    given, queries that are not English are judged by words alone, with a warning.
    """

    name = "local"
    features: ClassVar[tuple[str, ...]] = LOCAL_FEATURES
    reader: ModelPath | None = None
    """None for the one that comes along; else a folder, or ``owner/name`` on the Hugging Face hub:
    a cross-encoder, a model of question answering or one of entailment, as ONNX or for
    sentence-transformers (`ragbench.text.pair_reader`)."""
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
        """Refuses a folder without a model at once, before any query is judged.

        A model of the hub is fetched when first needed.
        """
        # Called by class, each once: `super()` would call the method of the first base only.
        Checked.__post_init__(self)
        # A hub's model is looked for when it is needed, since that may download it.
        if self.reader is not None and not is_hub_name(self.reader):
            find_reader_files(self.reader)
        LearnedValidator.__post_init__(self)

    @property
    def identity(self) -> str:
        """The validator's identity: rules, weights, limits, and the bytes of its reader.

        Stored verdicts are reused while the identity is equal, so that it has to hold all that
        changes a verdict.
        """
        # The words' own weights decide what the reader reads.
        lexical = shipped_weights("lexical", LEXICAL_FEATURES).digest
        weights = f"{lexical}.{self._weights.digest}"
        reading = self._reading_identity
        return f"local:{weights}:{reading}:{self.read}.{self.embedder}:{self.limits.identity}"

    @property
    def _reading_identity(self) -> str:
        """A name for all that a reading depends on, except the question and the text.

        Readings are kept under it on disk: a change has them read again.

        A reading is what the reader, a model, says of a question and a text.
        """
        files = self._files
        # The bytes of model and tokenizer, so that a file of another place counts as the same.
        versions = f"{TOKENISER_VERSION}.{SENTENCES_VERSION}"
        reader = f"{digest_of(files.model)}.{digest_of(files.tokenizer)}"
        return f"{versions}:{reader}:{self.max_length}"

    def import_packages(self) -> None:
        """Imports the packages of reader and embedder, so that a missing one shows at once.

        Otherwise a run would end in the middle, at the first query that needs the package.
        """
        import_reader_packages(self.reader)
        if self.embedder is not None:
            import_packages_of(_open_embedder(self.embedder))

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """The verdict on a query's chunks by words and the reader.

        The shipped reader knows English only: a query in another language is judged by words alone.
        """
        language = language_of(query)
        is_english = language == "en"
        # Without a sign of a language, Latin letters are taken for English.
        if not language:
            is_english = query.isascii()
        # The shipped reader is used where `self.reader` is None; one that the user names may know
        # other languages.
        if self.reader is None and not is_english:
            return self._by_words(query, chunks, language)
        reasons: list[str] = []
        if self.reader is None and language is None:
            reasons.append(_UNKNOWN_LANGUAGE)
        if not self.limits.words:
            reasons.append(_UNKNOWN_LEVEL)
        intake = inspect_chunks(query, chunks)
        # Filled by `_findings` while `decide` calls it, for the query and each of its parts.
        notes: list[str] = []
        read: set[str] = set()
        verdict = decide(
            query,
            intake,
            partial(self._findings, chunks=intake.chunks, notes=notes, read=read),
            self.limits,
            validator=self.name,
            reasons=reasons,
            warnings=notes,
        )
        # A chunk without text is never read.
        with_text = [chunk for chunk in intake.chunks if chunk.text.strip()]
        # A chunk that was read for any part of the query counts as read.
        unread = len(with_text) - len(read)
        verdict_reasons = verdict.reasons
        # After a Yes the chunks that were not read do not matter.
        if unread > 0 and not verdict.answer_present:
            ranked_by = "words"
            if self.embedder:
                ranked_by = "words and meaning"
            reason = (
                f"{unread} of {counted(len(intake.chunks), 'chunk')} were not read by the model, "
                f"for {ranked_by} put them last: none of them is called relevant (read={self.read} "
                "sets how many are at most)"
            )
            verdict_reasons = (*verdict_reasons, reason)
        details = {"read_by_models": float(len(read))}
        return replace(verdict, reasons=verdict_reasons, details=details)

    def _by_words(self, query: str, chunks: Sequence[Chunk], language: str | None) -> Verdict:
        """The verdict by words alone, for a query in a language that the reader does not know.

        A model guesses in a language that it has not learned.

        Args:
            language: of the query; None where it is not recognised.
        """
        # With this validator's limits, where a user has set them.
        lexical = LexicalValidator(relevant=self.relevant, present=self.present, slots=self.slots)
        verdict = lexical.validate(query, chunks)
        where = "in one that is not recognised"
        if language:
            where = f"in another one ({language})"
        note = f"the reader knows English only and the query is {where}: words alone decided"
        return replace(
            verdict,
            validator=self.name,
            warnings=(*verdict.warnings, note),
            details={**verdict.details, "read_by_models": 0.0},
        )

    def _findings(
        self, part: QueryPart, chunks: Sequence[Chunk], notes: list[str], read: set[str]
    ) -> list[Finding]:
        """The finding in each chunk for a query or a part of it, by the reader where it is read.

        The first few chunks are read, and the others only where none of these answers: reading
        takes nearly all the time. Notes and read ids are collected from all parts of a query.

        A finding is the probability of an answer in a chunk, and places to quote.

        Args:
            notes: gets what the reader could not read.
            read: gets the ids of the chunks that were read.
        """
        query = part.question
        question = prepare_question(query, shipped_rarity)
        weights = self._weights
        limits = self.limits.thresholds
        # Echoes are blanked: a repeated question is no answer.
        texts = [without_echo(query, chunk.text) for chunk in chunks]
        lexical = shipped_weights("lexical", LEXICAL_FEATURES)
        readings_by_words = read_in_windows(question, texts, lexical.chunk)
        logits = [reading.logit for reading in readings_by_words]
        # Chunks that no model has read are never called relevant.
        # Half of the threshold: whatever the words, below relevant for sure.
        highest_unread = limits.relevant / 2
        findings: list[Finding] = []
        for chunk, logit in zip(chunks, logits, strict=True):
            probability = min(weights.probability(logit, len(chunks)), highest_unread)
            findings.append(Finding(chunk=chunk, probability=probability))
        if not question.weights:
            return findings  # a query without words asks nothing
        # Without the texts, which `kept_readings` gives for those that are not known.
        reader = partial(
            readings_of, self._files, query, max_length=self.max_length, threads=self.threads
        )
        # A chunk without a sentence has nothing to read.
        has_words = [bool(reading.sentences) for reading in readings_by_words]
        for batch in self._batches(query, texts, logits, has_words):
            # Blanked as well: positions in the chunk stay.
            texts_to_read = [without_marks(query, texts[number]) for number in batch]
            readings, new_notes = kept_readings(
                self._reading_identity, query, texts_to_read, reader
            )
            read.update(chunks[number].id for number in batch)
            # The same note would come of each batch.
            notes += [note for note in new_notes if note not in notes]
            is_answered = False
            for number, reading in zip(batch, readings, strict=True):
                words = readings_by_words[number]
                finding = _finding(weights, chunks[number], words, reading, len(chunks))
                findings[number] = finding
                # The probability as the verdict will have it, after rules and objections.
                probability = settled(query, finding, self.limits).probability
                is_answered = is_answered or probability >= limits.present
            if is_answered:
                break  # the next batch could only find a second answer
        return findings

    def _batches(
        self, query: str, texts: Sequence[str], logits: Sequence[float], has_words: Sequence[bool]
    ) -> tuple[list[int], list[int]]:
        """The chunks that the reader reads first, and those for where none of these answers.

        Chunks are numbers of places in the pool.

        A pool is the chunks that were retrieved for one query.

        Args:
            logits: by words, of each text.
            has_words: whether there is anything to read in a text.
        """
        ranked = self._ranked(query, texts, logits)
        best_by_words = ranked[:_BY_WORDS]
        best_by_rank = range(min(_BY_RANK, len(texts)))
        # The best by words, then the first in the retriever's order, each chunk once.
        first = list(dict.fromkeys([*best_by_words, *best_by_rank]))
        # The chunks to read first, then the others as they are ranked.
        order = [number for number in dict.fromkeys([*first, *ranked]) if has_words[number]]
        order = order[: self.read]
        later: list[int] = []
        for number in order[len(first) :]:
            # An embedder ranks by meaning what has few words of the query.
            if self.embedder or logits[number] >= _HOPELESS:
                later.append(number)
        return order[: len(first)], later

    def _ranked(self, query: str, texts: Sequence[str], logits: Sequence[float]) -> list[int]:
        """The chunks to read, the best first: by words, and by meaning where an embedder is set.

        Chunks are numbers of places in the pool. A retriever may give more than the reader can
        read.

        A pool is the chunks that were retrieved for one query.

        Args:
            logits: by words, of each text.
        """
        # Sorting keeps the order of equals: the retriever's.
        by_words = sorted(range(len(texts)), key=lambda number: -logits[number])
        # With few chunks a ranking by meaning changes nothing.
        are_all_read = len(texts) <= self.read
        if are_all_read or self.embedder is None or not query.strip():
            return by_words[: self.read]
        embedder = _open_embedder(self.embedder)
        with_text = [number for number, text in enumerate(texts) if text.strip()]
        query_vector = embedder.embed_queries([query])[0]
        vectors = embedder.embed_passages([texts[number] for number in with_text])
        similarities = dict(zip(with_text, (vectors @ query_vector).tolist(), strict=True))
        # Without a text a chunk is in this ranking nowhere.
        by_meaning = sorted(similarities, key=lambda number: -similarities[number])
        # Each ranking gives half of the places: an answer in other words has words against it.
        merged: list[int] = []
        for pair in zip_longest(by_words, by_meaning):
            merged += [number for number in pair if number is not None]
        # A dict: each chunk at its better place.
        return list(dict.fromkeys(merged))[: self.read]

    @property
    def _files(self) -> ReaderFiles:
        """The files of the reader; those of a hub repository are fetched when first needed.

        A validator that is built and never asked so needs no download.
        """
        if self.reader is None:
            return shipped_reader()
        return find_reader_files(self.reader)

    @property
    def model_digest(self) -> str:
        """A digest of the reader's bytes, since a calibration holds for this reader alone.

        Another reader has other probabilities, under the same name perhaps.
        """
        return digest_of(self._files.model)

    @property
    def has_words(self) -> bool:
        """Whether Yes, Perhaps and No may be said of the validator's probabilities.

        The bounds between these words were measured with the reader that ragbench ships; of another
        reader they would claim a worth that was never measured.
        """
        return self.reader is None

    @property
    def _weights(self) -> Weights:
        """The weights that were learned with the shipped reader; every reader is scored by them.

        With another reader these weights give an order of chunks, and no measured probability.
        """
        return shipped_weights(self.name, self.features)


def _finding(
    weights: Weights, chunk: Chunk, words: ChunkReading, reading: PairReading, chunks: int
) -> Finding:
    """The finding in a chunk that the reader has read: its probability and the places to quote.

    Where the reader names an answer, its sentence is quoted; else the best one by words.

    Args:
        words: the chunk by its words.
        reading: the chunk by the reader.
        chunks: how many there are: among many, one of them looks like an answer by chance.
    """
    # By the reader's first tower: how surely the chunk is on the topic.
    topic = weights.chunk.logit(local_features(words, reading.logit))
    answered: float | None = None
    if reading.answers is not None:
        # By the second tower, with the same weights: how surely the chunk answers the question.
        logit = weights.chunk.logit(local_features(words, reading.answers))
        answered = weights.probability(logit, chunks)
    beside = words.quoted()
    spans = beside[:1]  # the best sentence by words, where the reader names no place
    # An empty span means that the reader names no place.
    if reading.end > reading.start:
        answer = Span(reading.start, reading.end)
        sentence: Span | None = None
        if row_around(chunk.text, answer) is None:  # a sentence can be several rows of a table
            sentence = touched(words.sentences, answer)
            if sentence is None:
                # The answer may be outside of the window whose sentences were scored by words.
                sentence = touched(split_sentences(chunk.text), answer)
        # Without a sentence around the answer, the answer itself is quoted.
        spans = (sentence or answer,)
    return Finding(
        chunk=chunk,
        probability=weights.probability(topic, chunks),
        spans=spans,
        beside=beside,
        answered=answered,
    )


@lru_cache(maxsize=16)
def digest_of(path: Path) -> str:
    """The first twelve hexadecimal digits of a file's SHA-256, which names a reader's file.

    Kept readings and calibrations hold for this file alone: another length would drop them all.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


@lru_cache(maxsize=2)
def _open_embedder(name: str) -> Any:
    """The embedder of a name, opened once and loaded by its place in another package.

    Validators do not import the search package: they know embedders by name alone.
    """
    return load_attribute("ragbench.search.embedders.embedder:open_embedder")(name)


# --- a reader asked about the chunks of a pool

_FIRST_CHARACTERS = 1800
"""Characters of a window at first: about 512 tokens of English, with a query."""
_FEWEST_CHARACTERS = 60
"""Characters below which a window is not halved any more: the model cuts what is too long."""
_SPECIAL_TOKENS = 8
"""Tokens at most that a model puts around query and text."""


class PairLength(Protocol):
    """Counts the tokens of a query and a text together."""

    def length(self, first: str, second: str) -> int:
        """How many tokens query and text have together, special ones included.

        Only the model's own tokenizer can tell, since tokens are parts of words.
        """
        ...


def fitting_windows(model: PairLength, query: str, text: str, max_length: int) -> tuple[Span, ...]:
    """Windows that hold all of a text, each short enough to be read whole beside the query.

    A model would cut off the end of a longer window, and an answer in it.
    """
    characters = _FIRST_CHARACTERS
    while True:
        # Windows overlap, so that a sentence at a border is whole in one of them.
        windows = windows_of(text, characters=characters)
        window_texts = [text[window.start : window.end] for window in windows]
        fits = all(_fits(model, query, window_text, max_length) for window_text in window_texts)
        # Below that, halving would cut sentences into words.
        if fits or characters <= _FEWEST_CHARACTERS:
            return windows
        characters //= 2


def _fits(model: PairLength, query: str, text: str, max_length: int) -> bool:
    """Whether query and text together have at most as many tokens as the model takes.

    A longer pair would be cut by the model, without a sign of it.
    """
    # An upper bound, so that most texts need no tokenizer.
    # A token is at least a character: short texts need no counting.
    most_tokens = len(query) + len(text) + _SPECIAL_TOKENS
    if most_tokens <= max_length:
        return True
    return model.length(query, text) <= max_length


def fitted_query(model: Reader, query: str, max_length: int) -> tuple[str, str | None]:
    """The query, cut where it would leave too little room for a chunk, and a note if it was cut.

    A very long query would push the chunk out of what the model reads.
    """
    offsets = model.offsets(query)
    room = max_length // 4  # three quarters are left for the chunk
    if len(offsets) <= room:
        return query, None
    note = f"the query has {len(offsets)} tokens: the models read the first {room}"
    # The end of the last token that has room, in characters.
    _, end = offsets[room - 1]
    return query[:end], note


class _WindowLimits(NamedTuple):
    """How many windows of one text a reader reads."""

    whole: int
    """A text of up to so many is read whole."""
    first: int
    """Of a longer one so many are read in any case, the best by words, ..."""
    most: int
    """... and up to so many while their logit by words is `_HOPELESS` or more."""


def _window_limits(max_length: int) -> _WindowLimits:
    """How many windows of a text are read: of 512 tokens 16, 8 and 24; of shorter ones more.

    A text of 25,000 characters is so read whole. In documents of 235,000 characters, the 8 to 24
    windows hold 95 to 100 % of the answers of four labelled sets; 64 windows by their number of
    shared words hold 98 to 100 %, and are six times as much to read.
    """
    # A window of half the tokens holds half as much: twice as many are read.
    windows_of_512 = max(1, 512 // max_length)
    return _WindowLimits(16 * windows_of_512, 8 * windows_of_512, 24 * windows_of_512)


def readings_of(
    files: ReaderFiles, query: str, texts: Sequence[str], *, max_length: int, threads: int
) -> tuple[list[PairReading], tuple[str, ...]]:
    """A reader's reading of each text for a query, and notes on parts that it did not read.

    Of a long text the windows that words find best are read, and the best of these counts; spans
    are offsets in the whole text.

    The reader is a model that reads query and text together.
    """
    reader = load_reader(files, threads)
    query, note = fitted_query(reader, query, max_length)
    limits = _window_limits(max_length)
    windows: list[tuple[int, Span]] = []
    left_out = 0
    # Cut by the reader's own tokens, since the query takes some of them.
    for number, text in enumerate(texts):
        fitting = fitting_windows(reader, query, text, max_length)
        if len(fitting) > limits.whole:
            promising = _promising_windows(query, text, fitting, limits)
            left_out += len(fitting) - len(promising)
            fitting = promising
        windows += [(number, window) for window in fitting]
    pairs = [(query, texts[number][window.start : window.end]) for number, window in windows]
    best: dict[int, PairReading] = {}
    # All windows in one call, which fills the model's batches.
    for (number, window), reading in zip(windows, reader.read(pairs), strict=True):
        # The best window of each text.
        if number not in best or reading.logit > best[number].logit:
            start = window.start + reading.start
            end = window.start + reading.end
            best[number] = replace(reading, start=start, end=end)
    notes = [note] if note else []
    if left_out:
        notes.append(
            f"of a long chunk the reader reads up to {limits.most} windows, the best by words: "
            f"{left_out} more were read for words alone"
        )
    return [best[number] for number in range(len(texts))], tuple(notes)


def _promising_windows(
    query: str, text: str, windows: Sequence[Span], limits: _WindowLimits
) -> tuple[Span, ...]:
    """The windows of a long text that words find best for a query, in reading order.

    To read all of them would take minutes.
    """
    question = prepare_question(query, shipped_rarity)
    model = shipped_weights("lexical", LEXICAL_FEATURES).chunk
    window_texts = [text[window.start : window.end] for window in windows]
    readings = read_pool(question, window_texts)
    logits = [model.logit(reading.features) for reading in readings]
    ranked = sorted(range(len(windows)), key=lambda number: -logits[number])
    promising = ranked[: limits.first]
    # More only while words leave some hope.
    for number in ranked[limits.first : limits.most]:
        if logits[number] >= _HOPELESS:
            promising.append(number)
    # In reading order, whatever their rank.
    return tuple([windows[number] for number in sorted(promising)])


# --- readings kept on disk: no pair of question and text is read twice
#
# Of a pair a digest and five numbers are kept, and neither question nor text. Another order, other
# scores, another k, another retriever or dump then read only what is new. A place that cannot be
# written costs time, never a verdict.

_LARGEST_FILE = 250_000_000
"""Bytes, about two million pairs: a file that has grown beyond them is begun anew."""
_NUMBERS = tuple(field.name for field in fields(PairReading))
"""The fields of a reading, in the order in which their numbers are kept."""
Read = Callable[[Sequence[str]], tuple[list[PairReading], tuple[str, ...]]]
"""Reads texts, and returns with the readings notes on what it could not read."""

readings_file = partial(user_cache, "RAGBENCH_READINGS", "readings.sqlite")


def kept_readings(
    reader: str, query: str, texts: Sequence[str], read: Read
) -> tuple[list[PairReading], tuple[str, ...]]:
    """The readings of some texts for a query: kept ones from disk, new ones by the reader.

    New ones are kept: another retriever or another order then reads only new pairs of query and
    text.

    A reading is what the reader, a model, says of a query and a text.

    Args:
        reader: names all that a reading depends on, but for the question and the text.
    """
    # By digests: neither question nor text is kept.
    keys = [digest(text) for text in texts]
    query_key = digest(query)
    reader_key = digest(reader).hex()
    # The process's id, so that a fork opens a connection of its own.
    store = _store(readings_file(), os.getpid())
    readings: dict[bytes, PairReading] = {}
    if store is not None:
        # What is damaged is read again by the model.
        with suppress(RunError, ValueError, TypeError):
            # All kept readings of the question, of these and other texts.
            for key, numbers in store.known(reader_key, query_key, ()).items():
                numbers_by_field = dict(zip(_NUMBERS, numbers, strict=True))
                readings[key] = PairReading(**numbers_by_field)
    missing = [number for number, key in enumerate(keys) if key not in readings]
    if not missing:
        return [readings[key] for key in keys], ()
    new_readings, notes = read([texts[number] for number in missing])
    fresh: dict[bytes, PairReading] = {}
    for number, reading in zip(missing, new_readings, strict=True):
        fresh[keys[number]] = reading
    # Notes say what was not read: with kept readings they would be missing the next time.
    if store is not None and not notes:
        # A reading that could not be stored costs only time.
        with suppress(RunError):
            rows = {key: astuple(reading) for key, reading in fresh.items()}
            store.keep(reader_key, query_key, rows)
    readings |= fresh
    return [readings[key] for key in keys], notes


@lru_cache(maxsize=2)
def _store(path: Path | None, process: int) -> ScoreStore | None:
    """The store of readings on disk, opened once in each process; None where it cannot be opened.

    A store that cannot be opened costs time and never a verdict. One that has grown too large is
    begun anew.

    A reading is what a model said of a query and a text.

    Args:
        process: its id, so that a forked process opens the file anew: SQLite's connections are of
            one process.
    """
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGEST_FILE:
            # Older readings are lost with it, and made again where they are needed.
            path.unlink()
        return ScoreStore(path)
    except (OSError, RunError):
        return None
