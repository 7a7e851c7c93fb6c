"""Models tried out: before a run, and by ``doctor``, which finds the settings that help."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
"""How often a model is asked before a run, until it is settled how it takes a schema."""
_PREFLIGHT = "preflight"
_DOCTOR = "doctor"
"""What calls before a run, and those of ``doctor``, are booked under."""
_CAPITAL = "Which city is the capital of France, and how many letters has its name?"
"""A question that any model can answer, with a text and a number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capital:
    """The answer to the question that tries out whether a model answers in a structure."""

    city: str
    letters: int


async def ask_word(client: LLMClient) -> Reply[str]:
    """Asks a model for a single word, to see whether it answers at all.

    ``ragbench doctor`` begins with it: a wrong address, key or model shows here, at the cost of a
    few tokens.
    """
    messages = [Message(role="user", content="Reply with the single word: ready")]
    return await client.ask(messages, purpose=_DOCTOR)


async def ask_capital(
    client: LLMClient, *, purpose: str = _PREFLIGHT, repeat: int = 0
) -> Reply[Capital]:
    """Asks a model a simple question with a schema, to see whether it answers in a structure.

    Judges need JSON with texts and numbers, as this question does.

    Args:
        repeat: which of several answers to the question, from 0; each is kept in the cache apart.
    """
    messages = [Message(role="user", content=_CAPITAL)]
    return await client.ask(messages, schema=schema_of(Capital), purpose=purpose, repeat=repeat)


async def preflight(models: ModelClients, *, chat: bool, embeddings: bool) -> None:
    """Raises unless the models answer as a run needs it, before the run asks them anything.

    A run may take hours before its first judgement: a wrong key or a model that gives no JSON must
    show before.

    Args:
        chat: whether the run asks the language models.
        embeddings: whether it asks the model for embeddings.
    """
    if chat and models.chat is not None:
        for client in (models.chat, *models.panel):
            await _check_structure(client)
    if embeddings and models.embeddings is not None:
        try:
            await models.embeddings.embed(["ready"], purpose=_PREFLIGHT)
        except LLMError as error:
            raise _with_model(error, "the model for embeddings does not answer") from error


async def _check_structure(client: LLMClient) -> None:
    """Raises unless a model can be reached and answers in a structure; one answer shows both.

    An answer that came by a weaker way of asking for JSON proves nothing yet against a stronger
    way. So the model is asked up to three times, until it is settled which way it follows: else
    all the first questions of a run would find that out at once. A model that failed in every way
    is not asked again.
    """
    for repeat in range(_TRIES):
        try:
            await ask_capital(client, repeat=repeat)
        except (LLMReplyError, LLMRefusedError, LLMTruncatedError) as error:
            if isinstance(error, LLMRefusedError) and repeat < _TRIES - 1:
                continue  # a single refusal proves nothing
            problem = "the language model answers, but not in the structure that is needed"
            raise _with_model(error, problem) from error
        except LLMBudgetError:
            raise  # the model was not asked, so nothing is said about it
        except LLMError as error:
            raise _with_model(error, "the language model does not answer") from error
        if client.dialect.mode_is_known:
            return


def _with_model(error: LLMError, problem: str) -> LLMError:
    """The error of a model that was tried out before a run, with a text that nothing was judged.

    Elsewhere an error of one call costs one score; here it stops the run.

    Args:
        problem: how the model fails, in words.
    """
    text = f"{problem}, so nothing was judged: {error}. 'ragbench doctor --llm' says more"
    # Of the same kind: exit codes and callers go by the kind.
    return type(error)(text, status=error.status, reply=error.reply, attempts=error.attempts)


_CONTEXT_SIZES = (2_000, 8_000, 32_000)
"""Words of the prompts in which something is hidden, one after the other until one is too long."""
_JUDGING_SIZES = (1_000, 4_000)
"""The same for prompts as long as those of judging."""


class Finding(Record):
    """One thing that trying out a model has shown, and the settings that follow from it."""

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
    """Tries out how an endpoint answers, and gives each finding as soon as it is there.

    An endpoint may bill that: about 1.4 tokens for each word of `_CONTEXT_SIZES`.
    """
    new_client = partial(_probing_client, transport=transport, clock=clock)
    async with new_client(endpoint) as client:
        reply = await ask_word(client)
        for finding in _parameter_findings(endpoint, client, reply):
            yield finding
        refused = client.dialect.learned.not_sent
        extra = {name: value for name, value in endpoint.extra.items() if name not in refused}
        unset: dict[str, Any] = {name: None for name in refused if hasattr(endpoint, name)}
        # From here on without what is refused: each new client would have to find it out anew.
        endpoint = replace(endpoint, extra=extra, **unset)
    yield await _structure_finding(endpoint, new_client)
    async with new_client(replace(endpoint, prompt_check=False, context=None)) as client:
        async for finding in _context_findings(client, _CONTEXT_SIZES):
            yield finding


def _probing_client(
    endpoint: Endpoint, *, transport: Transport | None, clock: Clock | None
) -> LLMClient:
    """A client for trying an endpoint out: it keeps no answers and hardly repeats a request.

    A kept answer, or patience with rate limits, would hide how the endpoint behaves now.
    """
    limits = CallLimits(retries=1, rate_limit_wait=5.0)
    return LLMClient(endpoint, limits=limits, transport=transport, clock=clock)


def _parameter_findings(endpoint: Endpoint, client: LLMClient, reply: Reply[str]) -> list[Finding]:
    """The findings that a model's first reply allows about the parameters of its requests.

    Which are refused, under which name the answer's length is limited, whether tokens are reported.
    """
    dialect = client.dialect
    refused = dialect.learned.not_sent
    findings: list[Finding] = []
    # What is refused comes first: it needs a setting.
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


_ONLY_VALUE = "striped-17"
"""The only value that the schema of the probe allows; nobody answers a greeting with it."""


def _check_only_value(value: object) -> None:
    """Raises `ValueError` unless the value is the only one that the probe's schema allows.

    A model that is not held to the schema would greet instead: so an answer that passes shows that
    the endpoint follows the schema, and does not merely accept it.
    """
    if value != _ONLY_VALUE:
        raise ValueError("it does not follow the schema")


async def _structure_finding(
    endpoint: Endpoint, new_client: Callable[[Endpoint], LLMClient]
) -> Finding:
    """The strongest way of asking for JSON that the endpoint follows, not only accepts.

    The question leads away from the only value that the schema allows: a model that is not held to
    the schema, and does not see it, does not hit on it.
    """
    messages = [Message(role="user", content="Say hello in a short sentence.")]
    form = {"type": "string", "enum": [_ONLY_VALUE]}
    schema = field_schema("zebra", form, _check_only_value)
    failures: list[str] = []
    modes = list(StructuredOutput)[1:]  # the first, AUTO, is no way of its own
    for mode in modes:
        async with new_client(replace(endpoint, structured=mode)) as client:
            try:
                reply = await client.ask(messages, schema=schema, purpose=_DOCTOR)
                # The objection to a first answer holds the schema: that is another way of asking.
                if reply.repaired and mode is not StructuredOutput.NONE:
                    raise LLMReplyError("")
            except LLMReplyError:
                failures.append(f"{mode.value} is accepted and not followed")
            except LLMError as error:
                cause = error.status or type(error).__name__
                failures.append(f"{mode.value} is refused ({cause})")
            else:
                # Where the strongest way works, the default finds it: nothing needs to be set.
                settings = {"structured": mode.value} if failures else {}
                return Finding(
                    name="structure",
                    detail="; ".join([*failures, f"{mode.value} is followed"]),
                    good=not failures,
                    settings=settings,
                )
    return Finding(name="structure", detail="; ".join(failures), good=False)


async def reads(endpoint: Endpoint, limits: CallLimits) -> list[Finding]:
    """The findings about prompts as long as those of judging: whether all is read, and its limits.

    Codes are hidden in such prompts. The limits are those that the endpoint reported on the way:
    its rates, and its room for prompt and answer.
    """
    # The client's own checks are off: a cut prompt is to be seen here, not raised.
    plain = replace(endpoint, prompt_check=False, context=None)
    async with LLMClient(plain, limits=limits) as client:
        findings = [finding async for finding in _context_findings(client, _JUDGING_SIZES)]
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


async def _context_findings(client: LLMClient, sizes: Sequence[int]) -> AsyncGenerator[Finding]:
    """The findings about how long a prompt may be so that all of it is read.

    Codes are hidden in prompts of growing length, and the model is to name them. A server that
    cuts prompts without a word is seen by a code that is not named.

    Args:
        sizes: of the prompts, in words, ascending.
    """
    tokens_read = 0
    for words in sizes:
        marked = Marked(words)
        fewest = fewest_prompt_tokens([{"content": marked.messages[0].content}])
        try:
            reply = await client.ask(marked.messages, purpose=_DOCTOR)
        except LLMError as error:
            problem = f"refused ({error.status or type(error).__name__})"
            if isinstance(error, LLMPromptCutError):
                problem = "cut"
            yield _too_long_finding(words, problem, tokens_read)
            return
        missing_codes = [str(number) for number in marked.missing(reply.text)]
        tokens = reply.usage.prompt_tokens
        is_reported = reply.usage.reported
        # The count is compared as `Reading` compares it in a run.
        counts_too_few = is_reported and is_short(reply.usage, fewest)
        if len(missing_codes) == 3 and is_reported and not counts_too_few:
            # The server counts all that was sent: the model just does not name codes, which says
            # nothing about the length.
            detail = f"unknown: {tokens:,} tokens are reported, and no hidden code is named"
            yield Finding(name="context", detail=detail)
            return
        if missing_codes:
            problem = f"read in part: code {', '.join(missing_codes)} of 3 is not found"
            problem += f", {tokens:,} tokens are reported"
            yield _too_long_finding(words, problem, tokens_read)
            return
        if counts_too_few:
            yield Finding(
                name="prompt tokens",
                good=False,
                detail=f"{tokens:,} tokens are reported of {words:,} words that were all read: "
                "it counts in its own way, and costs that rest on its count are too low",
            )
        tokens_read = max(words, tokens)  # the count may be missing or too low
    detail = f"all of {tokens_read:,} tokens is read; more was not tried"
    yield Finding(name="context", detail=detail)


def _too_long_finding(words: int, problem: str, tokens_read: int) -> Finding:
    """The finding that a prompt was not read as a whole, with the setting that helps.

    With that setting, prompts that would be cut fail before they cost anything.

    Args:
        words: of the prompt.
        problem: how the endpoint failed, such as ``"cut"``.
        tokens_read: of the longest prompt that was read as a whole: the setting ``context``.
    """
    detail = (
        f"a prompt of {words:,} words is {problem}; {tokens_read:,} tokens are all read: {WIDER}"
    )
    settings = {"context": tokens_read} if tokens_read else {}
    return Finding(name="context", good=False, detail=detail, settings=settings)
