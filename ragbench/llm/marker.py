"""Whether an endpoint reads all of a prompt: something is hidden in one and asked for."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ragbench.core.chat import Message, Usage
from ragbench.errors import LLMError, LLMPromptCutError, LLMStoppedError, warn
from ragbench.llm.answers import WIDER
from ragbench.llm.dialect import Dialect

_FILLER = "The river runs past the mill and the road goes on over the hill to the next village. "


class Marked:
    """A prompt of so many words with a code at its beginning, in its middle and at its end."""

    def __init__(self, words: int) -> None:
        draw = random.Random(words)
        self._codes = [f"{draw.randrange(10_000, 99_999)}" for _ in range(3)]
        half = _FILLER * (words // len(_FILLER.split()) // 2)
        hidden = [f"Code {number} is {code}. " for number, code in enumerate(self._codes, start=1)]
        text = f"{hidden[0]}{half}{hidden[1]}{half}{hidden[2]}"
        self.messages = [Message(role="user", content=f"{text}\n\nWhich are the three codes?")]

    def missing(self, answer: str) -> Sequence[int]:
        """The numbers of the codes that an answer lacks."""
        return [at for at, code in enumerate(self._codes, start=1) if code not in answer]


_CUT = 0.75
"""A prompt of which less than this share of its fewest tokens was read has been cut. Below 1, since
some newer tokenizers merge words that often stand together."""
_FEWEST_MISSING = 128
"""Tokens. No endpoint has so small a context that less is cut; counts of short prompts differ."""


_SILENT = 1_500
"""Words of a prompt from which on an endpoint that reports no tokens is tried out."""
_SHORT = 60
"""Words of a prompt that every endpoint reads: a model that finds no code in it shows nothing."""


class Reading:
    """Looks whether prompts are read as a whole, by what is reported of their tokens.

    A count alone proves nothing: some endpoints count only what they had not kept, or always the
    same. It is a reason to hide something in a prompt of that length, once, and to ask for it.
    """

    def __init__(
        self, where: str, dialect: Dialect, ask: Callable[[Sequence[Message]], Awaitable[str]]
    ) -> None:
        self._where = where
        self._dialect = dialect
        self._ask = ask
        self._whole = 0
        """Words up to which no more is asked in this command."""
        self._cut: int | None = None
        """Words of a prompt that was read in part."""
        self._asking = asyncio.Lock()

    async def check(self, usage: Usage, fewest: int) -> None:
        """Refuses an answer to a part of the question."""
        if not is_short(usage, fewest):
            return
        async with self._asking:
            if self._cut is None or fewest < self._cut:
                # A prompt that is twice as long may be cut where this one was not.
                if fewest <= 2 * max(self._whole, self._dialect.learned.read_whole):
                    return
                await self._try(usage, fewest)
        if self._cut is not None and fewest >= self._cut:
            read = f"{usage.prompt_tokens:,} tokens" if usage.reported else "a part"
            raise LLMPromptCutError(
                f"the endpoint read {read} of a prompt of {fewest:,} words or more, not the marker "
                f"hidden in it: {WIDER}"
            )

    async def _try(self, usage: Usage, fewest: int) -> None:
        marked, short = Marked(fewest), Marked(_SHORT)
        reported = f"{usage.prompt_tokens:,} tokens" if usage.reported else "no tokens"
        doubt = f"{self._where} reports {reported} of a prompt of {fewest:,} words or more"
        try:
            if marked.missing(await self._ask(marked.messages)):
                if not short.missing(await self._ask(short.messages)):
                    self._cut = fewest
                    return
                unsure = "does not find what is hidden even in a short one"
            else:
                unsure = ""
        except LLMStoppedError:
            raise
        except LLMError as error:
            unsure = f"could not be tried out ({error})"
        self._whole = fewest
        if unsure:
            warn(f"{doubt}, and {unsure}: whether it reads all of it is unknown")
        else:
            is_new = not self._dialect.learned.read_whole
            self._dialect.learn(read_whole=fewest)
            if is_new and usage.reported:
                warn(f"{doubt}, and reads all of it: costs that rest on its count are too low")


def is_short(usage: Usage, fewest: int) -> bool:
    """Whether fewer tokens are reported than a prompt can have; or none, of a long one."""
    if not usage.reported or not usage.prompt_tokens:
        return fewest >= _SILENT
    # Some count what they had in their cache apart.
    read = usage.prompt_tokens + usage.cached_prompt_tokens
    return read < _CUT * fewest and fewest - read >= _FEWEST_MISSING


_WORD = re.compile(r"\S+")
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Letters of scripts that are written without spaces."""
_LETTERS_A_TOKEN = 4


def fewest_prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """A number of tokens that a prompt does not fall short of.

    Tokenizers split at white space before they merge anything, so each word is a token at the
    least; in scripts without spaces a token holds some letters.
    """
    fewest = 0
    for message in messages:
        text = str(message.get("content", ""))
        dense = 0 if text.isascii() else len(_DENSE.findall(text))
        fewest += len(_WORD.findall(text)) + dense // _LETTERS_A_TOKEN
    return fewest
