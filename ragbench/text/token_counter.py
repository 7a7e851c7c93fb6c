"""How many tokens a text has for a model."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ragbench.errors import ConfigError, MissingExtraError
from ragbench.plugins import require

__all__ = [
    "APPROXIMATE",
    "ApproximateCounter",
    "TiktokenCounter",
    "TokenCounter",
    "TokenizersCounter",
    "count_within",
    "counter_for_model",
    "token_counter",
]


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """How reports call it; equal names give equal counts."""
        ...

    @property
    def approximate(self) -> bool:
        """Whether its counts are an estimate, not those of a model's own tokenizer."""
        ...

    def count(self, text: str) -> int:
        """The number of tokens; 0 for the empty text."""
        ...


# Pieces of up to eight Latin letters with the space before them, three digits, one character of
# anything else: byte-pair vocabularies of general models cut about there.
_PIECE = re.compile(r" ?[A-Za-z]{1,8}|\d{1,3}|[^\W\d_A-Za-z\u3041-\uffff]{1,3}|[^\s]")


@dataclass(frozen=True, kw_only=True, slots=True)
class ApproximateCounter:
    """Counts without any vocabulary. See docs/post_retrieval.md for how far it is off."""

    @property
    def name(self) -> str:
        """See `TokenCounter.name`."""
        return "approximate"

    @property
    def approximate(self) -> bool:
        """Always true."""
        return True

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        return len(_PIECE.findall(text))


APPROXIMATE = ApproximateCounter()
"""The counter that needs nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TiktokenCounter:
    """Counts by an encoding of the package tiktoken, such as ``"cl100k_base"``.

    tiktoken downloads an encoding when it is first used; afterwards it is in its cache.

    Raises:
        MissingExtraError: tiktoken is not installed.
        ConfigError: there is no such encoding, or it can be neither found nor downloaded.
    """

    encoding: str
    _encoder: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Loads the encoding, so that a wrong name is told before anything runs."""
        object.__setattr__(self, "_encoder", _encoding(self.encoding))

    @property
    def name(self) -> str:
        """See `TokenCounter.name`."""
        return f"tiktoken:{self.encoding}"

    @property
    def approximate(self) -> bool:
        """Always false."""
        return False

    def count(self, text: str) -> int:
        """See `TokenCounter.count`; what looks like a special token counts as plain text."""
        return len(self._encoder.encode(text, disallowed_special=()))


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizersCounter:
    """Counts by a ``tokenizer.json``, as models on the Hugging Face hub bring one.

    Special tokens that a model puts around a text are not counted.

    Raises:
        MissingExtraError: the package tokenizers is not installed.
        ConfigError: the file is missing or holds no tokenizer.
    """

    path: Path
    digest: str = field(init=False)
    """Of the file: the same path with another vocabulary is another counter."""
    _tokenizer: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Loads the file, so that a wrong one is told before anything runs."""
        tokenizers = require("tokenizers", extra="tokens")
        try:
            content = self.path.read_bytes()
            tokenizer = tokenizers.Tokenizer.from_buffer(content)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror or error}") from error
        except Exception as error:  # the package raises bare exceptions
            raise ConfigError(f"{self.path} is not a tokenizer.json: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        object.__setattr__(self, "digest", blake2b(content, digest_size=4).hexdigest())
        object.__setattr__(self, "_tokenizer", tokenizer)

    @property
    def name(self) -> str:
        """See `TokenCounter.name`."""
        return f"tokenizers:{self.path.name}:{self.digest}"

    @property
    def approximate(self) -> bool:
        """Always false."""
        return False

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def count_within(counter: TokenCounter, text: str, limit: int) -> int | None:
    """The number of tokens; None where there are more than a limit, which may be told sooner."""
    # No token of this counter reaches over white space.
    if isinstance(counter, ApproximateCounter) and len(text.split()) > limit:
        return None
    count = counter.count(text)
    return count if count <= limit else None


def token_counter(spec: str) -> TokenCounter:
    """A counter by its name.

    Args:
        spec: ``"approximate"``, ``"tiktoken:ENCODING"`` or ``"tokenizers:PATH"`` (of a
            ``tokenizer.json``).

    Raises:
        ConfigError: no such counter, encoding or file.
        MissingExtraError: a package that it needs is not installed.
    """
    kind, _, rest = spec.partition(":")
    if kind == "approximate" and not rest:
        return APPROXIMATE
    if kind == "tiktoken" and rest:
        return TiktokenCounter(encoding=rest)
    if kind == "tokenizers" and rest:
        return TokenizersCounter(path=Path(rest))
    raise ConfigError(
        f"unknown token counter '{spec}'. Known: approximate, tiktoken:ENCODING (such as "
        "tiktoken:cl100k_base), tokenizers:PATH of a tokenizer.json"
    )


@lru_cache(maxsize=8)
def _encoding(name: str) -> Any:
    tiktoken = require("tiktoken", extra="tokens")
    if name not in tiktoken.list_encoding_names():
        known = ", ".join(sorted(tiktoken.list_encoding_names()))
        raise ConfigError(f"unknown tiktoken encoding '{name}'. Known: {known}")
    try:
        return tiktoken.get_encoding(name)
    except Exception as error:  # whatever the download raises
        raise ConfigError(
            f"the tiktoken encoding '{name}' is not in its cache and cannot be downloaded: {error}"
        ) from error


def counter_for_model(model: str) -> TokenCounter:
    """A counter for what a model will read.

    Args:
        model: its name, such as ``"gpt-4o-mini"``.

    Returns:
        tiktoken's, where that package is installed, knows the model and has or gets its encoding;
        it downloads one when it is first used. Otherwise the one that counts about.
    """
    try:
        tiktoken = require("tiktoken", extra="tokens")
        return TiktokenCounter(encoding=str(tiktoken.encoding_name_for_model(model)))
    except (MissingExtraError, KeyError, ConfigError):
        return APPROXIMATE
