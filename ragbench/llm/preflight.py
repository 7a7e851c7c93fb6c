"""Two small questions before the first call that is paid for in earnest."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.errors import LLMError, LLMRefusedError, LLMReplyError, LLMTruncatedError
from ragbench.llm.chat import Message
from ragbench.llm.client import LLMClient
from ragbench.llm.models import Models
from ragbench.llm.reply import Reply
from ragbench.llm.schema import schema_of

__all__ = ["Capital", "ask_structure", "ask_word", "preflight"]

_TRIES = 3
_PURPOSE = "preflight"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capital:
    """What the model is asked for as structure."""

    city: str
    letters: int


async def ask_word(client: LLMClient, *, purpose: str = _PURPOSE, repeat: int = 0) -> Reply[str]:
    """Asks for a word."""
    asked = [Message(role="user", content="Reply with the single word: ready")]
    return await client.ask(asked, purpose=purpose, repeat=repeat)


async def ask_structure(
    client: LLMClient, *, purpose: str = _PURPOSE, repeat: int = 0
) -> Reply[Capital]:
    """Asks for an object of two fields."""
    question = "Which city is the capital of France, and how many letters has its name?"
    asked = [Message(role="user", content=question)]
    return await client.ask(asked, schema=schema_of(Capital), purpose=purpose, repeat=repeat)


async def preflight(models: Models, *, chat: bool, embeddings: bool) -> None:
    """Sees whether the models answer as a run needs it.

    Args:
        models: open clients. What they answered to this before is taken from their cache.
        chat: whether the language model is needed, with structured answers.
        embeddings: whether the model for embeddings is.

    Raises:
        LLMError: one does not; says which and why.
    """
    if chat and models.chat is not None:
        await _structured(models.chat)
    if embeddings and models.embeddings is not None:
        try:
            await models.embeddings.embed(["ready"], purpose=_PURPOSE)
        except LLMError as error:
            raise _told(error, "the model for embeddings does not answer") from error


async def _structured(client: LLMClient) -> None:
    """One structured answer says all: it is reached, it answers, structure works.

    A single odd answer proves nothing: it is asked up to three times.
    """
    for repeat in range(_TRIES):
        try:
            await ask_structure(client, repeat=repeat)
        except (LLMReplyError, LLMRefusedError, LLMTruncatedError) as error:
            if repeat == _TRIES - 1:
                what = "the language model answers, but not in the structure that is needed"
                raise _told(error, what) from error
        except LLMError as error:
            raise _told(error, "the language model does not answer") from error
        else:
            return


def _told(error: LLMError, what: str) -> LLMError:
    """The same error, which says that nothing was judged; an error of one call stops nothing."""
    text = f"{what}, so nothing was judged: {error}. 'ragbench doctor --llm' says more"
    return type(error)(text, status=error.status, reply=error.reply, attempts=error.attempts)
