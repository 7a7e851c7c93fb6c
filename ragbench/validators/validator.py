"""The protocol of validators, how one is built by its name, and the cascade of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from ragbench.core.calling import bears_calls, history_keyword
from ragbench.core.case import Said
from ragbench.core.chat import ChatModel
from ragbench.core.chunk import Chunk
from ragbench.core.record import replace
from ragbench.core.validation import Verdict
from ragbench.errors import ConfigError
from ragbench.io.settings import build_named
from ragbench.plugins import Registry


@runtime_checkable
class Validator(Protocol):
    """Decides which chunks answer a query, and where. It never ranks for others and never answers.

    The same input gives the same verdict. One whose ``validate`` has a parameter ``history`` is
    given the conversation before, as messages with a role and a content. One that waits for a
    service, and may be called in several threads, says so with an attribute ``bears_calls = True``:
    four queries are judged at once to begin with, and up to sixteen.
    """

    @property
    def name(self) -> str:
        """The validator's name, by which verdicts, calibrations and settings refer to it."""
        ...

    @property
    def identity(self) -> str:
        """A text that changes whenever the same input could get another verdict.

        The text holds settings, weights and models. Stored verdicts are reused while the identity
        is equal.
        """
        ...

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """Judges the chunks that were retrieved for one query: which answer it, and where.

        The same input must give the same verdict, since verdicts are stored and reused.
        """
        ...


def in_conversation(
    validator: Validator, query: str, chunks: Sequence[Chunk], history: Said
) -> Verdict:
    """The verdict of a validator on a query, with the conversation before it where it takes that.

    "And when?" is no question without the messages before it.

    Args:
        history: the messages before the query; empty without any.
    """
    # `Callable[...]`: the protocol has no history, which some validators take all the same.
    validate: Callable[..., Verdict] = validator.validate
    # Without messages every validator is asked in the plain way.
    keyword = history_keyword(validate) if history else None
    if keyword is None:
        return validate(query, chunks)
    # Under the name that the validator's own parameter has.
    return validate(query, chunks, **{keyword: history})


@dataclass(frozen=True, kw_only=True, slots=True)
class CascadeValidator:
    """Asks ``second`` when ``first`` gives the answer a probability in [low, high).

    ``details["escalated"]`` is 1 for verdicts of the second validator, else 0: its mean over a run
    is the share that was passed on.
    """

    name = "cascade"

    first: Validator
    """The cheap one."""
    second: Validator
    """The expensive one: its verdict counts where it is asked."""
    low: float = 0.05
    """Below this probability the first one's verdict holds, in [0, 1]."""
    high: float = 0.95
    """From this probability on the first one's verdict holds, above ``low``, in [0, 1]."""

    def __post_init__(self) -> None:
        """Refuses limits that are no shares, or leave no band that asks the second validator.

        Otherwise a cascade would be only one of its two validators, under another name.
        """
        # Written so that NaN is refused as well.
        if not 0 <= self.low < self.high <= 1:
            raise ConfigError(
                f"cascade: low and high must lie in [0, 1], low first, not {self.low:g} and "
                f"{self.high:g}"
            )

    @property
    def bears_calls(self) -> bool:
        """Whether the cascade may be called in several threads, as its second validator says.

        The second one is the slow one, which callers wait for.
        """
        return bears_calls(self.second)

    @property
    def identity(self) -> str:
        """The cascade's identity: it changes with either of its validators and with its limits.

        Stored verdicts are reused while the identity is equal.
        """
        return f"cascade:{self.low:g}:{self.high:g}:({self.first.identity})({self.second.identity})"

    def validate(self, query: str, chunks: Sequence[Chunk], history: Said = ()) -> Verdict:
        """The verdict of the first validator, or of the second where the first is unsure.

        Without chunks the second one is never asked: nothing can be in them.
        """
        verdict = in_conversation(self.first, query, chunks, history)
        probability = verdict.answer_probability
        # Below `low` and from `high` on the cheap verdict holds.
        escalates = bool(chunks) and self.low <= probability < self.high
        reason = f"{self.first.name} was sure enough"
        if escalates:
            verdict = in_conversation(self.second, query, chunks, history)
            reason = f"{self.first.name} was unsure ({probability:.2f}): {self.second.name} decided"
        # "cascade" stays in front of the name of the validator that decided: a reader sees both.
        return replace(
            verdict,
            validator=f"cascade: {verdict.validator}",
            reasons=(reason, *verdict.reasons),
            details={**verdict.details, "escalated": float(escalates)},
        )


VALIDATORS = Registry(kind="validators")
"""Other packages add theirs through the entry-point group ``ragbench.validators``."""


def build_validator(given: object, *, chat: ChatModel | None = None) -> Validator:
    """Builds a validator from the settings of a configuration file or a command.

    Commands, files and Python so name validators and their settings in one way.

    Args:
        given: a name, or a mapping with ``name`` and the validator's settings, which are the fields
            of its class; validators within validators are written the same way. A `Validator` is
            returned as it is.
        chat: the language model for validators that ask one.

    Raises:
        ConfigError: the name or a setting does not exist (the message lists those that do), a
            setting has the wrong type or is out of its range, or a language model is missing.

    Example:
        >>> build_validator("lexical").name
        'lexical'
    """
    return build_named(
        given,
        Validator,  # type: ignore[type-abstract]  # it is looked for, never made
        registry=VALIDATORS,
        method="validate",
        chat=chat,
    )


def default_validator() -> str:
    """The name of the best validator that this installation can run without a service.

    The local one needs two packages; words alone need none.
    """
    # Found, not imported: that would take long.
    needed = ("onnxruntime", "tokenizers")
    return "local" if all(find_spec(name) is not None for name in needed) else "lexical"
