"""Whether a language model answers, before anything is paid for: two small calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ragbench.errors import LLMError, NoModelError, RagbenchError
from ragbench_cli.checks.check import Check

if TYPE_CHECKING:
    from ragbench.llm.client import LLMClient
    from ragbench.llm.limits import CallLimits
    from ragbench.llm.settings import LLMSettings

__all__ = ["check_llm"]


def check_llm(
    read: Callable[[], LLMSettings], read_embeddings: Callable[[LLMSettings], LLMSettings]
) -> list[Check]:
    """Tells each setting and asks the model twice; stops at the first thing that does not work.

    Args:
        read: gives the settings, or raises what is wrong with them.
        read_embeddings: gives those of the model for embeddings, which is asked once where one is
            named.
    """
    try:
        settings = read()
    except RagbenchError as error:
        return [Check(name="llm settings", state="failed", detail=str(error))]
    with asyncio.Runner() as runner:
        checks = _settings(settings) + runner.run(_check(settings))
        try:
            embeddings = read_embeddings(settings)
        except NoModelError:
            return checks
        except RagbenchError as error:
            return [*checks, Check(name="embeddings", state="failed", detail=str(error))]
        return [*checks, runner.run(_embeds(embeddings))]


async def _embeds(settings: LLMSettings) -> Check:
    from ragbench.llm.embeddings import EmbeddingClient

    where = f"{settings.endpoint.model} at {settings.endpoint.base_url}"
    try:
        async with EmbeddingClient(settings.endpoint, limits=_patience(settings)) as client:
            found = await client.embed(["ready"], purpose="doctor")
    except RagbenchError as error:
        return Check(name="embeddings", state="failed", detail=str(error))
    return _ok("embeddings", f"{where}: {len(found.vectors[0]):,} numbers a text")


def _patience(settings: LLMSettings) -> CallLimits:
    """What a run would be patient with is told here at once."""
    from ragbench.llm.retry import RetryPolicy

    patience = RetryPolicy(retries=1, rate_limit_wait=5.0)
    return replace(settings.limits, retry=patience, timeout=min(settings.limits.timeout, 60.0))


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

    checks: list[Check] = []
    try:
        async with LLMClient(settings.endpoint, limits=_patience(settings)) as client:
            await _answers(client, checks)
            await _structure(client, checks)
    except LLMError as error:
        name = "llm structure" if checks else "llm answers"
        checks.append(Check(name=name, state="failed", detail=str(error)))
    except RagbenchError as error:
        checks.append(Check(name="llm opens", state="failed", detail=str(error)))
    return checks


async def _answers(client: LLMClient, checks: list[Check]) -> None:
    from ragbench.llm.preflight import ask_word

    started = time.perf_counter()
    reply = await ask_word(client, purpose="doctor")
    seconds = time.perf_counter() - started
    text = " ".join(reply.text.split())
    shown = f"'{text[:60]} ...'" if len(text) > 60 else f"'{text}'"
    named = f" as {reply.model}" if reply.model not in ("", client.endpoint.model) else ""
    tokens = "" if reply.usage.reported else "; it tells no tokens, so no cost can be told"
    checks.append(_ok("llm answers", f"{shown}{named} in {seconds:.2f} s{tokens}"))


async def _structure(client: LLMClient, checks: list[Check]) -> None:
    from ragbench.llm.preflight import ask_structure

    started = time.perf_counter()
    reply = await ask_structure(client, purpose="doctor")
    seconds = time.perf_counter() - started
    way = "no mode" if client.structured is None else client.structured.value
    mended = ", after one correction" if reply.repaired else ""
    checks.append(_ok("llm structure", f"works with {way}{mended} in {seconds:.2f} s"))


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, state="ok", detail=detail)
