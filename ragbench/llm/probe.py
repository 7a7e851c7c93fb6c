"""Models tried out: before a run, and by ``doctor``, which finds the settings that help."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragbench.core.chat import Message, Reply
from ragbench.core.record import Record, field
from ragbench.errors import (
    LLMBudgetError,
    LLMError,
    LLMPromptCutError,
    LLMRefusedError,
    LLMReplyError,
    LLMTruncatedError,
)
from ragbench.llm.answers import WIDER
from ragbench.llm.client import LLMClient
from ragbench.llm.dialect import Marked, fewest_prompt_tokens, is_short
from ragbench.llm.endpoint import Endpoint, StructuredOutput
from ragbench.llm.schema import field_schema, schema_of
from ragbench.llm.session import ModelClients
from ragbench.llm.transport import CallLimits, Clock, Transport

_TRIES = 3
_PREFLIGHT = "preflight"
_DOCTOR = "doctor"
_CAPITAL = "Which city is the capital of France, and how many letters has its name?"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capital:
    city: str
    letters: int


async def ask_word(client: LLMClient) -> Reply[str]:
    messages = [Message(role="user", content="Reply with the single word: ready")]
    return await client.ask(messages, purpose=_DOCTOR)


async def ask_capital(
    client: LLMClient, *, purpose: str = _PREFLIGHT, repeat: int = 0
) -> Reply[Capital]:
    messages = [Message(role="user", content=_CAPITAL)]
    return await client.ask(messages, schema=schema_of(Capital), purpose=purpose, repeat=repeat)


async def preflight(models: ModelClients, *, chat: bool, embeddings: bool) -> None:
    """Sees whether the models answer as a run needs it."""
    if chat and models.chat is not None:
        for client in (models.chat, *models.panel):
            await _structured(client)
    if embeddings and models.embeddings is not None:
        try:
            await models.embeddings.embed(["ready"], purpose=_PREFLIGHT)
        except LLMError as error:
            raise _with_model(error, "the model for embeddings does not answer") from error


async def _structured(client: LLMClient) -> None:
    """One structured answer says all: it is reached, it answers, structure works.

    One that came by a weaker way proves nothing yet against the stronger: it is asked up to three
    times, to settle it. Otherwise all the first questions of a run would find that out. Who has
    failed in every way is not asked again.
    """
    for repeat in range(_TRIES):
        try:
            await ask_capital(client, repeat=repeat)
        except (LLMReplyError, LLMRefusedError, LLMTruncatedError) as error:
            if isinstance(error, LLMRefusedError) and repeat < _TRIES - 1:
                continue  # a single one proves nothing
            problem = "the language model answers, but not in the structure that is needed"
            raise _with_model(error, problem) from error
        except LLMBudgetError:
            raise  # nobody was asked
        except LLMError as error:
            raise _with_model(error, "the language model does not answer") from error
        if client.dialect.known:
            return


def _with_model(error: LLMError, problem: str) -> LLMError:
    """The same error, which says that nothing was judged; an error of one call stops nothing."""
    text = f"{problem}, so nothing was judged: {error}. 'ragbench doctor --llm' says more"
    return type(error)(text, status=error.status, reply=error.reply, attempts=error.attempts)


_CONTEXT_SIZES = (2_000, 8_000, 32_000)
"""Words of the prompts in which something is hidden, one after the other until one is too long."""
_JUDGING_SIZES = (1_000, 4_000)


class Finding(Record):
    name: str
    """What was looked at."""
    detail: str
    good: bool = True
    """Whether it can be left as it is."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """What to set, by the names of the section ``llm``; None for what is not to be sent."""


async def probe(
    endpoint: Endpoint, *, transport: Transport | None = None, clock: Clock | None = None
) -> AsyncGenerator[Finding]:
    """Tries an endpoint out; it may bill that: about 1.4 tokens a word of `_CONTEXT_SIZES`."""

    def opened(endpoint: Endpoint) -> LLMClient:
        """A client that keeps nothing and is not patient: a probe has to see what happens."""
        limits = CallLimits(retries=1, rate_limit_wait=5.0)
        return LLMClient(endpoint, limits=limits, transport=transport, clock=clock)

    async with opened(endpoint) as client:
        reply = await ask_word(client)
        for finding in _parameters(endpoint, client, reply):
            yield finding
        refused = client.dialect.learned.not_sent
        extra = {name: value for name, value in endpoint.extra.items() if name not in refused}
        unset: dict[str, Any] = {name: None for name in refused if hasattr(endpoint, name)}
        endpoint = replace(endpoint, extra=extra, **unset)
    yield await _structure(endpoint, opened)
    async with opened(replace(endpoint, prompt_check=False, context=None)) as client:
        async for finding in _context(client, _CONTEXT_SIZES):
            yield finding


def _parameters(endpoint: Endpoint, client: LLMClient, reply: Reply[str]) -> list[Finding]:
    """What a first reply has shown of the parameters of a request."""
    dialect = client.dialect
    refused = dialect.learned.not_sent
    findings: list[Finding] = []
    for name, reason in refused.items():
        finding = Finding(name=name, good=False, detail=f"refused: {reason}", settings={name: None})
        findings.append(finding)
    if endpoint.temperature is not None and "temperature" not in refused:
        detail = f"{endpoint.temperature:g} is accepted"
        findings.append(Finding(name="temperature", detail=detail))
    if dialect.longest is not None:
        detail = f"called {dialect.learned.token_limit}"
        if dialect.learned.reasons:
            detail += "; the model thinks before it answers"
        findings.append(Finding(name="limit", detail=detail))
    if not reply.usage.reported:
        detail = "no tokens are reported: neither cost nor a cut prompt can be seen"
        findings.append(Finding(name="tokens", good=False, detail=detail))
    return findings


_ODD = "striped-17"


def _check_odd(value: object) -> None:
    if value != _ODD:
        raise ValueError("it does not follow the schema")


async def _structure(endpoint: Endpoint, opened: Callable[[Endpoint], LLMClient]) -> Finding:
    """The strongest way that is followed, not only accepted.

    The question leads away from the only value that the schema allows: a model that is not held to
    the schema, and does not see it, does not hit on it.
    """
    messages = [Message(role="user", content="Say hello in a short sentence.")]
    schema = field_schema("zebra", {"type": "string", "enum": [_ODD]}, _check_odd)
    ignored: list[str] = []
    for way in list(StructuredOutput)[1:]:
        async with opened(replace(endpoint, structured=way)) as client:
            try:
                reply = await client.ask(messages, schema=schema, purpose=_DOCTOR)
                # The objection to a first answer holds the schema: that is another way of asking.
                if reply.repaired and way is not StructuredOutput.NONE:
                    raise LLMReplyError("")
            except LLMReplyError:
                ignored.append(f"{way.value} is accepted and not followed")
            except LLMError as error:
                ignored.append(f"{way.value} is refused ({error.status or type(error).__name__})")
            else:
                detail = "; ".join([*ignored, f"{way.value} is followed"])
                settings = {"structured": way.value} if ignored else {}
                return Finding(name="structure", detail=detail, good=not ignored, settings=settings)
    return Finding(name="structure", detail="; ".join(ignored), good=False)


async def reads(endpoint: Endpoint, limits: CallLimits) -> list[Finding]:
    """Whether a prompt as long as those of judging is read as a whole, and how it is counted."""
    plain = replace(endpoint, prompt_check=False, context=None)
    async with LLMClient(plain, limits=limits) as client:
        findings = [finding async for finding in _context(client, _JUDGING_SIZES)]
        rates: list[str] = []
        for name, count in client.rates.items():
            rates.append(f"{count:,} {name.replace('-', ' ')}")
        if rates:
            findings.append(Finding(name="rates", detail=", ".join(sorted(rates))))
        room = client.dialect.learned.room
        if room is not None:
            detail = f"{room:,} tokens for prompt and answer together; max_tokens follows it"
            findings.append(Finding(name="room", detail=detail))
        return findings


async def _context(client: LLMClient, sizes: Sequence[int]) -> AsyncGenerator[Finding]:
    """How long a prompt may be of which everything is read."""
    read = 0
    for words in sizes:
        marked = Marked(words)
        fewest = fewest_prompt_tokens([{"content": marked.messages[0].content}])
        try:
            reply = await client.ask(marked.messages, purpose=_DOCTOR)
        except LLMError as error:
            problem = f"refused ({error.status or type(error).__name__})"
            if isinstance(error, LLMPromptCutError):
                problem = "cut"
            yield _too_long(words, problem, read)
            return
        missing = [str(number) for number in marked.missing(reply.text)]
        counted = reply.usage.prompt_tokens
        reported = reply.usage.reported
        if len(missing) == 3 and reported and not is_short(reply.usage, fewest):
            # A model that names none of them shows nothing: its server counts all that was sent.
            detail = f"unknown: {counted:,} tokens are reported, and no hidden code is named"
            yield Finding(name="context", detail=detail)
            return
        if missing:
            problem = f"read in part: code {', '.join(missing)} of 3 is not found"
            yield _too_long(words, f"{problem}, {counted:,} tokens are reported", read)
            return
        if reported and is_short(reply.usage, fewest):
            yield Finding(
                name="prompt tokens",
                good=False,
                detail=f"{counted:,} tokens are reported of {words:,} words that were all read: "
                "it counts in its own way, and costs that rest on its count are too low",
            )
        read = max(words, counted)
    yield Finding(name="context", detail=f"all of {read:,} tokens is read; more was not tried")


def _too_long(words: int, problem: str, read: int) -> Finding:
    return Finding(
        name="context",
        good=False,
        detail=f"a prompt of {words:,} words is {problem}; {read:,} tokens are all read: {WIDER}",
        settings={"context": read} if read else {},
    )
