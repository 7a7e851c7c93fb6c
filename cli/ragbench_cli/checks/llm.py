"""Whether a language model answers, before anything is paid for: two small calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragbench.errors import LLMError, RagbenchError
from ragbench.llm.chat import Message
from ragbench_cli.checks.check import Check

if TYPE_CHECKING:
    from ragbench.llm.client import LLMClient
    from ragbench.llm.settings import LLMSettings

__all__ = ["check_llm"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Capital:
    """What the model is asked for as structure."""

    city: str
    letters: int


def check_llm(read: Callable[[], LLMSettings]) -> list[Check]:
    """Tells each setting and asks the model twice; stops at the first thing that does not work.

    Args:
        read: gives the settings, or raises what is wrong with them.
    """
    try:
        settings = read()
    except RagbenchError as error:
        return [Check(name="llm settings", state="failed", detail=str(error))]
    with asyncio.Runner() as runner:
        return _settings(settings) + runner.run(_check(settings))


def _settings(settings: LLMSettings) -> list[Check]:
    """Each setting and where it comes from; never a key."""
    from ragbench.llm.price_table import price_for

    checks = [
        _ok(f"llm {setting.name}", f"{setting.value} (from {setting.origin})")
        for setting in settings.settings
    ]
    price = price_for(settings.endpoint)
    if price is None:
        detail = (
            "not known: cost is neither told nor capped. Give price_input and price_output, per "
            "million tokens"
        )
        return [*checks, Check(name="llm price", state="absent", detail=detail)]
    told = f"{price.input} in, {price.output} out, {price.currency} a million tokens"
    return [*checks, _ok("llm price", f"{told} ({price.origin})")]


async def _check(settings: LLMSettings) -> list[Check]:
    from ragbench.llm.client import LLMClient
    from ragbench.llm.retry import RetryPolicy

    # What a run would be patient with is told here at once.
    patience = RetryPolicy(retries=1, rate_limit_wait=5.0)
    limits = replace(settings.limits, retry=patience, timeout=min(settings.limits.timeout, 60.0))
    checks: list[Check] = []
    try:
        async with LLMClient(settings.endpoint, limits=limits) as client:
            await _answers(client, checks)
            await _structure(client, checks)
    except LLMError as error:
        name = "llm structure" if checks else "llm answers"
        checks.append(Check(name=name, state="failed", detail=str(error)))
    except RagbenchError as error:
        checks.append(Check(name="llm opens", state="failed", detail=str(error)))
    return checks


async def _answers(client: LLMClient, checks: list[Check]) -> None:
    started = time.perf_counter()
    asked = [Message(role="user", content="Reply with the single word: ready")]
    reply = await client.ask(asked, purpose="doctor")
    seconds = time.perf_counter() - started
    text = " ".join(reply.text.split())
    shown = f"'{text[:60]} ...'" if len(text) > 60 else f"'{text}'"
    named = f" as {reply.model}" if reply.model not in ("", client.endpoint.model) else ""
    tokens = "" if reply.usage.reported else "; it tells no tokens, so no cost can be told"
    checks.append(_ok("llm answers", f"{shown}{named} in {seconds:.2f} s{tokens}"))


async def _structure(client: LLMClient, checks: list[Check]) -> None:
    from ragbench.llm.schema import schema_of

    started = time.perf_counter()
    asked = [
        Message(
            role="user",
            content="Which city is the capital of France, and how many letters has its name?",
        )
    ]
    reply = await client.ask(asked, schema=schema_of(_Capital), purpose="doctor")
    seconds = time.perf_counter() - started
    way = "no mode" if client.structured is None else client.structured.value
    mended = ", after one correction" if reply.repaired else ""
    checks.append(_ok("llm structure", f"works with {way}{mended} in {seconds:.2f} s"))


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, state="ok", detail=detail)
