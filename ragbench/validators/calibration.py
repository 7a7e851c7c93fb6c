"""Linear model, weights, calibration and thresholds: the numbers that validators learned."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.resources import files
from operator import mul
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from ragbench.core.checked import AboveZero, Checked
from ragbench.core.reading import Reading, words_of
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.limits import ReadLimits
from ragbench.validators.slots import SLOTS
from ragbench.validators.worth import LARGEST_POOL, WordLimit, Worth, shipped_worth


class LinearModel(Record):
    """``logit = bias + sum(weight * feature)``."""

    weights: tuple[float, ...]
    bias: float

    def logit(self, values: Sequence[float]) -> float:
        """The model's logit for some features, their weighted sum plus the bias.

        `logistic` makes a probability of it.

        The order of the features is that of training: another one gives wrong sums.

        Args:
            values: of the features, in the order of the weights.
        """
        # Begins with the bias, as the sum of floats depends on the order.
        return sum(map(mul, self.weights, values), self.bias)


def read_model(stored: Mapping[str, Any], features: Sequence[str]) -> LinearModel:
    """A linear model from its stored form ``{"bias": 0.1, "weights": {"a": 1.5, "b": -0.2}}``.

    By their names, weights stay right where a validator computes its features in another order.

    Args:
        features: names in the order in which the model's caller gives their values.
    """
    # By name: the file may list them in any order.
    weights = tuple([float(stored["weights"][name]) for name in features])
    return LinearModel(weights=weights, bias=float(stored["bias"]))


@lru_cache(maxsize=8)
def shipped(name: str) -> Mapping[str, Any]:
    """A file of learned weights that ragbench ships, as parsed JSON, read once.

    The files are ``ragbench/validators/weights/<name>.json``, written by
    benchmarks/train_validator.

    The files hold numbers from training: change them only by training again.
    """
    text = files("ragbench.validators").joinpath("weights", f"{name}.json").read_text("utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


class Thresholds(Record):
    """The probabilities from which on a chunk is relevant, and the answer present."""

    relevant: float
    present: float

    def __post_init__(self) -> None:
        """Refuses thresholds outside (0, 1), and a `present` below `relevant`.

        A chunk that holds the answer is relevant in any case.
        """
        # Written so that a number that is not one (nan) is refused as well: it is above nothing.
        are_inside = 0 < self.relevant < 1 and 0 < self.present < 1
        if not are_inside:
            raise ConfigError(
                f"thresholds must lie between 0 and 1, not {self.relevant:g} and {self.present:g}"
            )
        if self.relevant > self.present:
            raise ConfigError(
                f"a chunk must be relevant (from {self.relevant:g}) before it is an answer (from "
                f"{self.present:g}): set both, relevant at most as high as present"
            )


def logistic(logit: float) -> float:
    """The probability of a logit, 1 / (1 + e^-x), without overflow for either sign.

    A logit is any number; a verdict needs a probability.
    """
    # The other form would overflow for a large negative logit.
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    odds = math.exp(logit)
    return odds / (1 + odds)


def logit(probability: float) -> float:
    """The logit of a probability in (0, 1), ln(p / (1 - p)): the inverse of `logistic`.

    Evidence adds up in logits, as it does not in probabilities.
    """
    return math.log(probability / (1 - probability))


_EDGE = 1e-6
"""How near a probability comes to 0 and 1, which have no logit."""
_VERSION = 3
"""Of the file: in version 2 the probabilities that it scales were steeper."""


class PlattScale(Checked, Record):
    """``p -> logistic(slope * logit(p) + offset)`` (Platt 1999)."""

    slope: AboveZero = 1.0
    """Above 0: the order of probabilities stays."""
    offset: float = 0.0

    def apply(self, probability: float) -> float:
        """A probability as it comes true by the labels that the scale learned; 0 stays 0.

        A model's own probabilities are too high or too low on a user's texts.
        """
        # 0 is "not read" or "no word", and no small probability.
        if probability <= 0:
            return 0.0
        clipped = min(max(probability, _EDGE), 1 - _EDGE)
        return logistic(self.slope * logit(clipped) + self.offset)


UNSCALED = PlattScale()
"""The scale that changes nothing: no labels were learned from."""


class Calibration(Record):
    """What ``ragbench calibrate`` learned from labels, as its file holds it."""

    validator: str
    scale: PlattScale
    """For probabilities: a chunk's, and so the answer's."""
    thresholds: Thresholds
    labels: int
    """How many it was learned from."""
    model: str = ""
    """The digest of the model whose probabilities it scales; empty for a validator without one."""


def calibration_text(calibration: Calibration) -> str:
    """The content of a calibration's file, which `read_calibration` reads.

    Users keep these files: another form needs another `_VERSION`.
    """
    stored = {"version": _VERSION, **asdict(calibration)}
    return json.dumps(stored, indent=2, ensure_ascii=False) + "\n"


@lru_cache(maxsize=8)
def read_calibration(path: str, validator: str, model: str = "") -> Calibration:
    """The calibration in a file, checked to be of the validator and the model that use it.

    Probabilities of another model would be scaled by labels that say nothing of them.

    Raises:
        ConfigError: the file holds none, or one of another validator or model.
    """
    try:
        raw = ReadLimits().read_settings(Path(path))
    except OSError as error:
        raise ConfigError(f"the calibration '{path}' cannot be read: {error.strerror}") from error
    with Reading(lambda error: ConfigError(f"'{path}' holds no calibration: {words_of(error)}")):
        stored = json.loads(raw)
        # Before anything else, since another version has other fields.
        if stored["version"] != _VERSION:
            raise ValueError(f"version {stored['version']!r}, not {_VERSION}: run calibrate again")
        calibration = msgspec.convert(stored, Calibration)
    # By name, as probabilities of two validators have different scales.
    if calibration.validator != validator:
        raise ConfigError(
            f"the calibration '{path}' was made for the validator '{calibration.validator}', "
            f"not for '{validator}'"
        )
    if calibration.model != model:
        raise ConfigError(
            f"the calibration '{path}' was made for the model {calibration.model or '(none)'}, not "
            f"for {model or '(none)'}: run ragbench calibrate with the same reader again"
        )
    return calibration


class DecisionRule(Record):
    """How probabilities become a verdict."""

    thresholds: Thresholds
    scale: PlattScale = UNSCALED
    slots: tuple[str, ...] = ()
    """Rules that must find nothing against an answer; see `ragbench.validators.slots`."""
    words: tuple[WordLimit, ...] = ()
    """What probabilities are called, the surest word first; none where that was not measured."""
    labels: int = 0
    """Labels that the scale was learned from."""
    withholds: bool = False
    """Whether there is no Yes where one was measured to be worth little, as in tables of figures;
    see `ragbench.validators.worth.unreliable`."""

    @property
    def identity(self) -> str:
        """The rule's part of a validator's identity: scale, thresholds and slots, as text.

        Stored verdicts are reused while the identity is equal: all that changes a verdict must be
        in it.

        Slots are the rules by which a chunk about another name or year is no answer.
        """
        # `:g` as in the texts of stored identities: another format would make all verdicts
        # unusable.
        scale = f"{self.scale.slope:g},{self.scale.offset:g}"
        limits = f"{self.thresholds.relevant:g},{self.thresholds.present:g}"
        slots = "+".join(self.slots)
        return f"{scale},{limits},{slots}"

    def on_scale(self, probability: float) -> float:
        """A probability put on the scale of the user's labels; unchanged without labels.

        The probability is rounded first, as it was in the verdicts that the calibration was learned
        from: a threshold then parts new verdicts exactly as it parted those.
        """
        # Unscaled probabilities are not rounded, so that verdicts without labels stay as they were.
        if self.scale == UNSCALED:
            return probability
        return self.scale.apply(round(probability, 4))


class Weights(Record):
    """What was learned for a validator, with the thresholds that were measured with it."""

    chunk: LinearModel
    """From a chunk's features to a logit: the higher, the more it speaks for an answer."""
    pool: LinearModel
    """From the best chunk's logit, and the logarithm of how many chunks there are where that was
    learned (each is a chance of a wrong one), to the logit of an answer in the pool."""
    relevant: float
    """Probability from which on a chunk is relevant: the best F1 on the articles that the weights
    were not learned from."""
    worth: Worth
    """The curve that flattens the probabilities, and the words for them."""
    digest: str
    """Of weights and words: verdicts of others are not compared."""

    def probability(self, logit: float, chunks: int = LARGEST_POOL) -> float:
        """The probability that a chunk holds the answer, as if it were the best of its chunks.

        Among many chunks, one looks like an answer by chance: there it is less probable.

        Args:
            logit: of the chunk by its own model.
            chunks: how many there are; more than were measured count as the largest pool.
        """
        pool_size = math.log(min(chunks, LARGEST_POOL))
        # The pool's model was learned without the curve: its logits are too steep. Where it has
        # one weight alone, the size counts for nothing: the sum ends with the weights.
        steep_logit = self.pool.logit([logit, pool_size])
        return logistic(self.worth.logit(steep_logit, chunks))


@lru_cache(maxsize=8)
def shipped_weights(name: str, features: tuple[str, ...]) -> Weights:
    """The shipped weights of a validator, with the thresholds and words measured with them.

    The file is read once, and checked to have a weight for each feature.

    Args:
        features: in the order in which the validator gives their values.
    """
    stored = shipped(name)
    worth = shipped_worth(name)
    # Sorted, so that the digest is of the numbers and not of their order.
    measured = "\n".join([json.dumps(stored, sort_keys=True), repr(worth)])
    digest = hashlib.sha256(measured.encode()).hexdigest()
    # The threshold was measured in the largest pools, before the curve flattened probabilities.
    # Through the curve of the largest pools, so that it is a threshold of flat probabilities.
    steep_threshold = logit(float(stored["thresholds"]["relevant"]))
    relevant = logistic(worth.logit(steep_threshold, LARGEST_POOL))
    return Weights(
        chunk=read_model(stored["chunk"], features),
        # The names of the pool's weights, in the file's own order.
        pool=read_model(stored["pool"], tuple(stored["pool"]["weights"])),
        relevant=relevant,
        worth=worth,
        digest=digest[:12],
    )


def shipped_rarity(token: str) -> float:
    """The weight of a word by how rare it is in general: ln(1 + (N - n + 0.5) / (n + 0.5)).

    N are the passages that ragbench's shipped counts are of, n those that hold the word. Rare words
    say more about whether a text answers a question. Weights were learned with this formula.
    """
    counts = shipped("rarity")
    passages = counts["passages"]
    with_token = counts["held_by"].get(token, 0)
    return math.log(1 + (passages - with_token + 0.5) / (with_token + 0.5))


# --- the settings of validators


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibratedValidator(ABC):
    """A validator whose probabilities become a verdict by thresholds that can be set."""

    name: ClassVar[str]
    calibration: str | None = None
    """A file that ``ragbench calibrate`` wrote; None for the measures on public data."""
    relevant: float | None = None
    """Probability from which on a chunk is relevant; None for the measured one."""
    present: float | None = None
    """Probability from which on the answer is present; None for the measured one."""

    limits: DecisionRule = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Makes the rule of verdicts: set by hand, else by the calibration, else as measured.

        A wrong file or threshold is refused here, before any query is judged.
        """
        measured = self.measured
        scale = UNSCALED
        labels = 0
        words = measured.words
        base = measured.thresholds
        if self.calibration:
            # Refused where it is of another validator or model.
            calibration = read_calibration(self.calibration, self.name, self.model_digest)
            scale = calibration.scale
            labels = calibration.labels
            # On the scale of labels a word begins at the same share for every validator.
            if not words:
                words = shipped_worth("local").words
            base = calibration.thresholds
        relevant = self.relevant
        present = self.present
        # A threshold that is set by hand moves the other one, where they would cross.
        if relevant is None:
            relevant = base.relevant
            if present is not None:
                # Lowered with `present`: a chunk must be relevant before it is an answer.
                relevant = min(base.relevant, present)
        if present is None:
            present = max(base.present, relevant)
        rule = DecisionRule(
            scale=scale,
            thresholds=Thresholds(relevant=relevant, present=present),
            slots=measured.slots,
            words=words,
            labels=labels,
            withholds=measured.withholds,
        )
        # The class is frozen: its own fields are set by this way alone.
        object.__setattr__(self, "limits", rule)

    @property
    def model_digest(self) -> str:
        """A digest that names the model behind the probabilities; empty where none gives them.

        A calibration holds for the model that it was learned with alone.
        """
        return ""

    @property
    @abstractmethod
    def measured(self) -> DecisionRule:
        """The rule of verdicts that was measured for the validator, where a user sets nothing.

        Each validator has one of its own, since probabilities of two validators differ.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedValidator(CalibratedValidator):
    """A validator with weights that come with ragbench, and the words measured with them."""

    features: ClassVar[tuple[str, ...]]
    slots: tuple[str, ...] = SLOTS
    """What of the question must not be another in the text that answers it; ``[]`` checks none."""

    @property
    def measured(self) -> DecisionRule:
        """The rule with the thresholds and words that were measured with the shipped weights.

        The rule withholds a Yes where a Yes was measured to be worth little.

        Raises:
            ConfigError: a slot does not exist.
        """
        for slot in self.slots:
            if slot not in SLOTS:
                raise ConfigError(f"slots: '{slot}' is not one of {', '.join(SLOTS)}")
        weights = shipped_weights(self.name, self.features)
        thresholds = Thresholds(relevant=weights.relevant, present=weights.worth.present)
        words: tuple[WordLimit, ...] = ()
        if self.has_words:
            words = weights.worth.words
        return DecisionRule(thresholds=thresholds, slots=self.slots, words=words, withholds=True)

    @property
    def has_words(self) -> bool:
        """Whether words for probabilities, such as Yes, were measured for the validator's model.

        Of another model they would claim a certainty that was never measured.
        """
        return True
