"""Embedders: their protocol, their names, what models want before texts, what cosines mean."""

from __future__ import annotations

import json
import math
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from ragbench.core.reading import Reading
from ragbench.errors import ConfigError, RagbenchError
from ragbench.io.settings import ModelPath, from_settings, placed, placed_model
from ragbench.plugins import Floats, Floats32, Registry, load_target, np
from ragbench.safe_text import shortened_line
from ragbench.stats.logistic import logistic_fit, platt_targets
from ragbench.text.tables import table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Embedder(Protocol):
    """Turns texts into vectors; those of a question and of its answer lie close together.

    Prefixes, instructions and the cutting of long texts are the embedder's own business.
    """

    @property
    def identity(self) -> Mapping[str, object]:
        """All that an embedder's vectors depend on, as JSON.

        A collection stores it, and vectors of two identities are never compared.
        """
        ...

    @property
    def dimension(self) -> int:
        """How many numbers each vector has: a store fixes it when it makes a collection.

        Vectors of another number of values cannot be added to the collection later.
        """
        ...

    @property
    def hybrid_weight(self) -> float:
        """How much the ranking by vectors counts in a hybrid search; that by words counts 1.

        Measured for the embedders that are known (docs/measured/retrieval.md); else 1.
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> Floats32:
        """The vectors of questions: one row of length 1 per text, in the order of the texts.

        Questions have a method of their own because many models read them with another prefix than
        passages.
        """
        ...

    def embed_passages(self, texts: Sequence[str]) -> Floats32:
        """The vectors of the chunks that are searched: one row of length 1 per text, in order.

        Compared with the vectors of questions: both are of the same width and model.
        """
        ...

    def close(self) -> None:
        """Lets go of the embedder's connections and threads; called once, at the end.

        An embedder without such things does nothing here.
        """
        ...


Kind: TypeAlias = Literal["query", "passage"]


class ModelEmbedder:
    """What most embedders have in common: rows of any length are brought to length 1."""

    __slots__ = ()
    hybrid_weight: float = 1.0
    agreeing_weight: float = 2.0
    """`hybrid_weight` where vectors tell the passages of a collection apart as well as words do."""
    languages: tuple[str, ...] = ()
    """The only ones that it reads, by ISO 639-1; none where it reads several or it is not known."""
    named_by: str = "model"
    """The setting that stands behind the colon of its name; empty for none."""

    def embed_queries(self, texts: Sequence[str]) -> Floats32:
        """The vectors of questions, of length 1; some models read them unlike passages.

        Subclasses write `_rows` alone, which gets the kind of the texts.
        """
        return self._unit_vectors(texts, "query")

    def embed_passages(self, texts: Sequence[str]) -> Floats32:
        """The vectors of the chunks that are searched, of length 1, in the texts' order.

        Subclasses write `_rows` alone, which gets the kind of the texts.
        """
        return self._unit_vectors(texts, "passage")

    def _unit_vectors(self, texts: Sequence[str], kind: Kind) -> Floats32:
        """The model's vectors of texts at length 1, so that a product of two is their cosine.

        No text gives an array without rows but of the right width; the model is not asked.
        """
        if not texts:
            # Every subclass has a dimension; this base alone has none, as it has no model.
            return np.zeros((0, cast("Embedder", self).dimension), dtype=np.float32)
        return unit_rows(self._rows(texts, kind))

    def _rows(self, texts: Sequence[str], kind: Kind) -> ArrayLike:
        """The model's vectors of texts, of any length, a row each: an embedder writes this.

        Args:
            texts: never empty.
            kind: whether the texts are questions or passages: some models read the two differently.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Does nothing: most models have neither connections nor threads to let go of.

        A kind of embedder with a session or a thread ends it in a method of its own.
        """


class MeasuredEmbedder(ModelEmbedder):
    """An embedder whose model names no dimension: it is counted on the vector of a word."""

    @cached_property
    def dimension(self) -> int:
        """How many numbers the model's vectors have, counted on the vector of a word.

        The number is kept: to find it out loads the model, or asks its endpoint.
        """
        vectors = np.asarray(self._rows(["dimension"], "passage"))
        return int(vectors.shape[1])


DEFAULT_EMBEDDER = "multilingual"
NO_EMBEDDER = "none"
"""Of a collection that is searched by words alone: nothing is embedded."""

EMBEDDERS = Registry(kind="embedders")
"""Name to a `ModelEmbedder` with settings, or to a function ``(model, settings)``: what stands
behind the colon, and the settings."""
_USER_EMBEDDERS = "ragbench.search.embedders.loaded:embedder_of_target"
"""What makes an embedder of an object of the user's; reached by name, as embedders are."""


def open_embedder(name: str = DEFAULT_EMBEDDER, **settings: Any) -> Embedder:
    """Makes an embedder; it loads its model or opens its connection when it is first used.

    Example:
        >>> open_embedder("hashing:64").dimension
        64

    Args:
        name: a registered name, and behind a colon the model where it takes one:
            ``"english"``, ``"multilingual"``, ``"small"``, ``"onnx:FOLDER"``, ``"openai:MODEL"``,
            ``"fastembed:MODEL"``, ``"sentence-transformers:MODEL"``, ``"hashing:256"``,
            ``"none"``; or ``file.py:thing`` for an object with `Embedder`'s methods, or one of
            LangChain or LlamaIndex.
        **settings: of that embedder, such as ``query_prefix="query: "``.

    Raises:
        ConfigError: no such name, or a setting is unknown or wrong.
        MissingExtraError: a package that it needs is not installed.
    """
    kind, _, model = name.partition(":")
    # ``file.py:thing`` and ``package.module:thing``; a registered name may hold a dot, too.
    if model and "." in kind and not EMBEDDERS.has(kind):
        embedder_of_target = load_target(_USER_EMBEDDERS)
        return cast("Embedder", embedder_of_target(name, settings))
    make: Any = EMBEDDERS.load(kind)
    named_by: str | None = getattr(make, "named_by", None)
    if named_by is None:  # a function, which reads the model's name itself
        return cast("Embedder", make(model, settings))
    if model and not named_by:
        raise ConfigError(f"the embedder {kind} takes no model, found '{model}'")
    if named_by == "model" and not model:
        raise ConfigError(f"the embedder {kind} needs a model: {kind}:MODEL")
    if model:
        value: object = model
        if named_by == "dimension" and model.isdecimal():
            value = int(model)
        # Settings come last: one that is named in them, too, takes precedence over the colon.
        settings = {named_by: value, **settings}
    return cast("Embedder", from_settings(make, settings, where=f"embedder {kind}"))


def placed_embedder(
    name: str, settings: Mapping[str, Any], folder: Path
) -> tuple[str, dict[str, Any]]:
    """An embedder's name and settings out of a pipeline file, its relative paths resolved.

    They are relative to the file's folder, so that the file works from any working directory. The
    registry knows which of the settings, and whether the name's model, are paths.
    """
    kind, colon, model = name.partition(":")
    make: Any = EMBEDDERS.load(kind)
    named_by: str | None = getattr(make, "named_by", None)
    # A function has no fields whose types would show which settings are paths.
    if named_by is None:
        return name, placed_model(settings, folder)
    hints = typing.get_type_hints(make, include_extras=True)
    model = placed({named_by: model}, hints, folder)[named_by]
    return f"{kind}{colon}{model}", placed(settings, hints, folder)


def checked_rows(
    vectors: object, texts: Sequence[str], label: str, error: type[RagbenchError]
) -> Floats32:
    """The vectors of a foreign model or endpoint, checked: one per text, finite, and not zeros.

    Wrong ones would be searched without an error, and the figures would be low for no visible
    reason.

    Args:
        label: how messages call the model.
        error: what is raised where the vectors are something else.
    """
    try:
        rows = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):  # no numbers, or rows of several lengths
        rows = np.zeros((0, 0), dtype=np.float32)
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
        raise error(f"{label} did not give one vector for each of {len(texts)}")
    if not np.isfinite(rows).all():
        raise error(f"{label} gave a vector with numbers that are not finite")
    for row, text in zip(rows, texts, strict=True):
        if not row.any():
            raise error(
                f"{label} gave a vector of zeros for '{shortened_line(text)}': it would be "
                "similar to nothing"
            )
    return rows


def unit_rows(rows: ArrayLike) -> Floats32:
    """The rows divided by their lengths, so that products are cosines; zeros stay zeros.

    Stores and metrics multiply vectors and take the product for a cosine: that holds for rows of
    length 1 alone.
    """
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats32 = np.zeros_like(vectors)
    np.divide(vectors, lengths, out=unit, where=lengths > 0)
    return unit


class Prefixes(NamedTuple):
    """What a model wants before each text; empty for nothing."""

    query: str
    passage: str


def prefixes_of(model: str, query: str | None = None, passage: str | None = None) -> Prefixes:
    """The texts that a model wants before a question and a passage.

    The caller's own prefixes count; None means those that are known by the model's name, empty
    where nothing is known. A model that was trained with prefixes searches worse without them.

    Example:
        >>> prefixes_of("intfloat/multilingual-e5-small")
        Prefixes(query='query: ', passage='passage: ')
    """
    # The last part of a path or of a name on a hub, without a tag behind a colon.
    path = model.replace("\\", "/").rstrip("/")
    _, _, last_part = path.rpartition("/")
    name, _, _ = last_part.partition(":")
    model_query: str = ""
    model_passage: str = ""
    for pattern, prefixes in table("ragbench.search.embedders", "prefixes").items():
        # The whole name has to fit, so no name fits two of the patterns.
        if re.fullmatch(pattern, name.lower()):
            model_query, model_passage = prefixes
            break
    # An empty text is the user's word, too: no prefix.
    if query is None:
        query = model_query
    if passage is None:
        passage = model_passage
    return Prefixes(query=query, passage=passage)


@dataclass(frozen=True, kw_only=True)
class PrefixedEmbedder(ModelEmbedder):
    """A model that wants something before each text."""

    model: ModelPath
    """Its name."""
    query_prefix: str | None = None
    """What the model wants before a question; None: what is known of it by its name
    (`ragbench.search.embedders.embedder`), such as ``"query: "`` for E5."""
    passage_prefix: str | None = None
    """The same before a passage."""

    @cached_property
    def prefixes(self) -> Prefixes:
        """The prefixes that vectors are made with: the user's, else the model's known ones.

        Vectors of other prefixes do not compare, so they are a part of the embedder's identity.
        """
        return prefixes_of(self.model, self.query_prefix, self.passage_prefix)


# --- what the cosine of an embedder means
#
# Raw cosines do not compare: with one model unrelated texts score 0.02, with another 0.7. So each
# embedder is measured on a small sample of questions and passages that ragbench brings, in which it
# is known which belong together:
#
# 1. ``background`` is the cosine that 98 of 100 pairs which do not belong together stay below.
# 2. A logistic curve is fitted through the pairs that do and those that do not (Platt 1999,
#    "Probabilistic Outputs for Support Vector Machines"): how probable it is that a pair with this
#    cosine belongs together, where as many pairs do as do not.
# 3. The curve is moved and stretched so that the background scores 0 and equal vectors score 1.
#
# The score is a strictly rising function of the cosine: it never changes a ranking. It is measured
# in the language of the corpus: a model that knows only English sees all Chinese texts alike.

SAMPLE_LANGUAGES = ("en", "zh", "de", "fr", "es")
"""Languages that the sample holds, by ISO 639-1."""
_QUANTILE = 0.98
"""Of the cosines of unrelated pairs: the one that scores 0."""
_FLAT = 1e-6
"""A curve that rises less than this from the background on says nothing: a line is used."""
_FLAT_SLOPE = 1e-3
"""A fitted curve of at most this slope is flat or falls: related pairs are not more similar."""
_HIGHEST_BACKGROUND = 0.999
"""Below 1, so that the scale from the background to equal vectors has a length."""
_LARGEST_EXPONENT = 700.0
"""What `math.exp` takes: a stored scale may be so steep that its curve is a step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CosineScale:
    """From an embedder's cosines to scores that compare, as it was measured on the sample."""

    background: float = 0.0
    """The cosine that scores 0: 98 of 100 pairs of unrelated texts stay below it."""
    unrelated: float = 0.0
    """Mean cosine of unrelated pairs."""
    related: float = 1.0
    """Mean cosine of a question and the passage that answers it."""
    slope: float = 0.0
    """Steepness of the logistic curve; 0 for a straight line, where the cosines of pairs that
    belong together are not higher than those of others."""
    midpoint: float = 0.0
    """The cosine at which both are equally probable."""

    def score(self, cosine: float) -> float:
        """A cosine as a score that compares between embedders: 0 if unrelated, 1 if equal.

        Below 0 where texts are less similar than unrelated ones mostly are. The score rises with
        the cosine, so it never changes a ranking.
        """
        cosine = min(cosine, 1.0)  # float32 gives equal vectors a cosine slightly above 1
        low = self._probability(self.background)
        high = self._probability(1.0)
        if high - low < _FLAT:
            return (cosine - self.background) / (1.0 - self.background)
        return (self._probability(cosine) - low) / (high - low)

    def to_json(self) -> dict[str, float]:
        """The scale as a collection's identity stores it: later searches score by the same.

        Its fields' names are in stored collections: renamed, these collections could not be scored
        any more.
        """
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> CosineScale:
        """The scale that a collection keeps; one that lacks a field is refused.

        Scores of a stored collection keep the scale that they were measured with.
        """
        with Reading(lambda _: ConfigError(f"no calibration of an embedder: {value!r}")):
            # A missing field becomes None, which is no number: the defaults of the class would
            # score wrongly in silence.
            fields_or_none = {**dict.fromkeys(asdict(cls())), **value}
            return msgspec.convert(fields_or_none, cls)

    def _probability(self, cosine: float) -> float:
        """The probability, in (0, 1), that two texts with this cosine belong together.

        Logistic, with the fitted slope and midpoint. The exponent is limited, as a stored scale may
        be so steep that its curve is a step.
        """
        exponent = -self.slope * (cosine - self.midpoint)
        return 1 / (1 + math.exp(min(exponent, _LARGEST_EXPONENT)))


def measure_calibration(embedder: Embedder, languages: Iterable[str] = ("en",)) -> CosineScale:
    """The scale of an embedder's scores, measured on texts that are known to be related or not.

    The pairs of question and passage are a sample in the languages of the corpus, in English where
    it has none of them. With one model unrelated texts have a cosine of 0.02, with another of 0.7:
    raw cosines do not compare.
    """
    corpus_languages = set(languages)
    # In the sample's order: that of a set would change the last digits of the scale.
    measured = [language for language in SAMPLE_LANGUAGES if language in corpus_languages]
    if not measured:
        measured = ["en"]
    related: list[Floats32] = []
    unrelated: list[Floats32] = []
    for language in measured:
        pairs = _sample_pairs()[language]
        questions = [question for question, _ in pairs]
        passages = [passage for _, passage in pairs]
        question_vectors = embedder.embed_queries(questions)
        passage_vectors = embedder.embed_passages(passages)
        cosines = question_vectors @ passage_vectors.T
        # The diagonal holds each question with its own passage, all else are unrelated pairs.
        same = np.eye(len(pairs), dtype=bool)
        related.append(cosines[same])
        unrelated.append(cosines[~same])
    return _fit_scale(np.concatenate(related), np.concatenate(unrelated))


def _fit_scale(related: Floats32, unrelated: Floats32) -> CosineScale:
    """The scale of an embedder, by its cosines of related and unrelated pairs of the sample.

    Collections store these numbers, and scores in reports come from them.
    """
    slope, midpoint = _fitted_curve(related.astype(float), unrelated.astype(float))
    quantile = float(np.quantile(unrelated, _QUANTILE))
    background = min(quantile, _HIGHEST_BACKGROUND)
    # Six decimals: more would differ between processors.
    return CosineScale(
        background=round(background, 6),
        unrelated=round(float(unrelated.mean()), 6),
        related=round(float(related.mean()), 6),
        slope=round(slope, 6),
        midpoint=round(midpoint, 6),
    )


def _fitted_curve(related: Floats, unrelated: Floats) -> tuple[float, float]:
    """Slope and midpoint of the curve from a cosine to the probability that texts are related.

    (0, 0) where no curve rises, as related pairs are not more similar: a score is then a straight
    line over the cosine.
    """
    # Related first, here and below: weights, cosines and targets pair by place.
    counts = [len(related), len(unrelated)]
    # Each group weighs one half in all: of the sample's pairs far more are unrelated.
    weights = np.repeat([0.5 / count for count in counts], counts)
    cosines = np.concatenate([related, unrelated])
    targets = np.repeat(platt_targets(*counts), counts)
    slope, offset = logistic_fit(
        cosines,
        targets,
        weights,
        start=(0.0, 0.0),
        # Keeps the fit solvable where all cosines are equal, as those of `NoEmbedder` are.
        ridge=(1e-6, 1e-6),
        longest=10.0,  # of one step: the first ones may go too far
    )
    if slope <= _FLAT_SLOPE:
        return 0.0, 0.0
    # Where slope * cosine + offset is 0, both kinds of pairs are equally probable.
    return slope, -offset / slope


@lru_cache(maxsize=1)
def _sample_pairs() -> Mapping[str, Sequence[tuple[str, str]]]:
    """By language, questions with the passages that answer them, on which embedders are measured.

    The file is read once. Scales of stored collections were measured on it: other pairs give
    others.
    """
    file = files("ragbench.search.embedders").joinpath("sample.json")
    text = file.read_text("utf-8")
    return cast("Mapping[str, Sequence[tuple[str, str]]]", json.loads(text))
