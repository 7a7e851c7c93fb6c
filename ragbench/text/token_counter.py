"""How many tokens a text has for a model."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Protocol, runtime_checkable

from ragbench.core.record import Record
from ragbench.errors import ConfigError, MissingExtraError
from ragbench.plugins import require
from ragbench.text.letters import readable_text


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """The name of the counter in reports and fingerprints; equal names give equal counts.

        Budgets of two runs compare only if they were counted alike.
        """
        ...

    @property
    def approximate(self) -> bool:
        """Whether the counter's counts are an estimate, not those of a model's own tokenizer.

        Reports then say that the numbers are estimates.
        """
        ...

    def count(self, text: str) -> int:
        """The number of tokens in a text; 0 for the empty text.

        Special tokens that a model puts around a text are not counted.
        """
        ...


ESTIMATED = (
    "tokens are an estimate; the extra 'tokens' counts exactly (counter: tiktoken:ENCODING or "
    "tokenizers:PATH)"
)
"""What a reader must know of the numbers of an approximate counter."""

# Byte-pair vocabularies of general models hold most English words whole, and cut words of other
# languages and of code into pieces of about four letters.
_ENGLISH = re.compile(r" ?[A-Z]?[a-z]{1,7}| ?[A-Z]{1,3}|\d{1,3}|\n+|[!-/:-@\[-`{-~]")
_OTHER = re.compile(r" ?[A-Z]?[a-z]{1,4}| ?[A-Z]{1,2}|\d{1,3}|\n+|[!-/:-@\[-`{-~]")
_WORD = re.compile(r"[^\W\d_]+")
_COMMON = re.compile(
    r"\b(?:the|of|and|to|in|is|a|for|that|are|was|on|with|as|by|be|or|it)\b", re.IGNORECASE
)
_COMMON_SHARE = 0.15
"""Share of the words of a text from which on these say that it is English."""
_NOISE = re.compile(
    r"(?=[A-Za-z+/=_]*\d)(?=[\d+/=_]*[A-Za-z])[A-Za-z0-9+/=_]{16,}|[A-Za-z0-9+/]{40,}={0,2}"
)
"""Keys, hashes, base64: letters and digits without words."""
_NOISE_LETTERS = 1.25
"""Letters of it in a token."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_BLOCKS = (
    (0x80, 1.0),
    (0xC0, 0.9),  # Latin with accents
    (0x250, 1.5),
    (0x370, 1.15),  # Greek
    (0x400, 0.72),  # Cyrillic
    (0x530, 2.1),  # Armenian
    (0x590, 1.25),  # Hebrew
    (0x600, 0.95),  # Arabic
    (0x780, 2.0),
    (0x900, 1.2),  # Devanagari
    (0x980, 1.6),  # Bengali and further scripts of India
    (0xE00, 1.25),  # Thai
    (0xE80, 2.3),
    (0x1E00, 1.0),  # further Latin
    (0x1F00, 1.5),
    (0x2000, 1.2),  # punctuation
    (0x2070, 2.0),
    (0x2E80, 1.4),
    (0x3040, 1.15),  # kana
    (0x3100, 1.6),
    (0x3400, 1.5),  # Han
    (0xA000, 2.5),
    (0xAC00, 1.3),  # Hangul
    (0xD7B0, 2.0),
    (0xF900, 1.6),
    (0xFE00, 2.0),
    (0xFF00, 1.3),  # full-width forms
    (0xFFF0, 2.0),
    (0x10000, 3.0),  # emoji, rare signs
)
"""By the first character of a block of Unicode: tokens a character, as cl100k_base has them."""
_STARTS = [start for start, _ in _BLOCKS]


class ApproximateCounter(Record):
    """Counts by script, without any vocabulary; for most texts more than there are.

    Its weights are those of the encoding cl100k_base, with a margin: a budget must not be
    overrun. docs/post_retrieval.md says how far it is off, by language.
    """

    name = "approximate"
    approximate = True

    def count(self, text: str) -> int:
        """About how many tokens a text has, rather too many than too few.

        A budget of tokens must not be overrun. The weights were fitted to the encoding cl100k_base;
        docs/post_retrieval.md says how far they are off.
        """
        # Runs at random (keys, base64) have fewer letters a token than words: they are counted by
        # letters.
        noise_letters = sum(map(len, _NOISE.findall(text)))
        if noise_letters:
            # A blank in place of each such run, so that the words around it do not become one.
            text = _NOISE.sub(" ", text)
        words = len(_WORD.findall(text))
        common_words = len(_COMMON.findall(text))
        pieces = _OTHER
        # Words of English are mostly one token; of other languages and code they are several.
        if words > 0 and common_words >= _COMMON_SHARE * words:
            pieces = _ENGLISH
        total = noise_letters / _NOISE_LETTERS + len(pieces.findall(text))
        if not text.isascii():
            # Counted by kind of letter: a block of Unicode has about the same tokens a letter.
            for character, times in Counter(_BEYOND_ASCII.findall(text)).items():
                if not character.isspace():
                    # The blocks are in order of their first letter: the character is in the last
                    # one that begins at or before it.
                    block = bisect_right(_STARTS, ord(character)) - 1
                    _, tokens_a_character = _BLOCKS[block]
                    total += times * tokens_a_character
        return math.ceil(total)


APPROXIMATE = ApproximateCounter()
"""The counter that needs nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCounter:
    """Counts by a model's own tokenizer, without the special tokens that it puts around a text."""

    approximate = False

    name: str
    tokens: Callable[[str], Sized] = field(repr=False, compare=False)

    def count(self, text: str) -> int:
        """The number of tokens in a text by the model's tokenizer.

        Lone surrogates, half characters, are replaced: tokenizers refuse them.
        """
        return len(self.tokens(readable_text(text)))


def token_counter(spec: str, folder: Path = Path()) -> TokenCounter:
    """The counter that a setting names, such as ``tiktoken:cl100k_base`` or ``tokenizers:PATH``.

    Budgets of contexts are counted by it.

    Args:
        spec: in users' files, so its forms stay.
        folder: to which the path in it is relative.

    Raises:
        ConfigError: there is no such counter, or its file cannot be read.
    """
    kind, _, name = spec.partition(":")
    # A name behind "approximate" would be ignored: it is refused below.
    if kind == "approximate" and not name:
        return APPROXIMATE
    if kind == "tiktoken" and name:
        return _tiktoken_counter(name)
    if kind == "tokenizers" and name:
        return _file_counter(folder / Path(name).expanduser())
    raise ConfigError(
        f"unknown token counter '{spec}'. Known: approximate, tiktoken:ENCODING (such as "
        "tiktoken:cl100k_base), tokenizers:PATH of a tokenizer.json"
    )


@lru_cache(maxsize=8)
def _tiktoken_counter(encoding: str) -> ModelCounter:
    """The counter of an encoding of tiktoken, which is downloaded when it is first used.

    Afterwards the encoding is in tiktoken's cache. What looks like a special token in a text counts
    as plain text, and is no error.
    """
    tiktoken = require("tiktoken", extra="tokens")
    if encoding not in tiktoken.list_encoding_names():
        names = ", ".join(sorted(tiktoken.list_encoding_names()))
        raise ConfigError(f"unknown tiktoken encoding '{encoding}'. Known: {names}")
    try:
        encode = tiktoken.get_encoding(encoding).encode
    except Exception as error:  # whatever the download raises
        raise ConfigError(
            f"the tiktoken encoding '{encoding}' is not in its cache and cannot be downloaded: "
            f"{error}"
        ) from error
    # What looks like a special token counts as plain text.
    return ModelCounter(name=f"tiktoken:{encoding}", tokens=partial(encode, disallowed_special=()))


def _file_counter(path: Path) -> ModelCounter:
    """The counter of a file ``tokenizer.json``, as models on the Hugging Face hub bring one.

    Its name holds a digest of the file: the same path with another vocabulary is another counter.
    """
    tokenizers = require("tokenizers", extra="tokens")
    try:
        content = path.read_bytes()
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except Exception as error:  # the package raises bare exceptions
        raise ConfigError(f"{path} is not a tokenizer.json: {error}") from error
    # The file may cut or fill up each text to the length of the model.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # The same path with another vocabulary is another counter.
    digest = blake2b(content, digest_size=4).hexdigest()
    name = f"tokenizers:{path.name}:{digest}"
    return ModelCounter(name=name, tokens=partial(tokenizer.encode, add_special_tokens=False))


@lru_cache(maxsize=8)
def counter_for_model(model: str) -> TokenCounter:
    """The counter of a language model that tiktoken knows; for others the approximate one.

    Remembered: without a network, each call would try the download again, and a dry run of many
    cases takes minutes.
    """
    try:
        tiktoken = require("tiktoken", extra="tokens")
        return _tiktoken_counter(str(tiktoken.encoding_name_for_model(model)))
    # Not installed, not known, or not to be downloaded: an estimate is enough for a dry run.
    except (MissingExtraError, KeyError, ConfigError):
        return APPROXIMATE
