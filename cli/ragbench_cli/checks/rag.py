"""Whether a RAG loads, retrieves and generates: one question through both of its stages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from ragbench.errors import RagbenchError
from ragbench.evaluation.rag_stages import RAG, generate_stage, retrieve_stage
from ragbench.evaluation.stage import Stage
from ragbench.interface.masking import MASK, is_secret, mask_text
from ragbench.records.cells import Failure
from ragbench_cli.checks.check import Check
from ragbench_cli.systems import user_rag
from ragbench_cli.values import json_object

__all__ = ["ask_rag", "check_rag"]


def check_rag(spec: str, arguments: str | None, question: str) -> list[Check]:
    """Loads a RAG and asks it; stops at the first thing that does not work."""
    try:
        system = user_rag(spec, json_object(arguments, "--rag-args"))
    except RagbenchError as error:
        return [Check(name="rag loads", state="failed", detail=_masked(str(error)))]
    checks = [Check(name="rag loads", state="ok", detail=type(system.rag).__name__)]
    return [*checks, *ask_rag(system.rag, question)]


def ask_rag(rag: RAG, question: str) -> list[Check]:
    """One question through what a RAG can do."""
    checks: list[Check] = []
    with asyncio.Runner() as runner:
        runner.run(_ask(rag, question, checks))
    return checks


async def _ask(rag: RAG, question: str, checks: list[Check]) -> None:
    contexts: Sequence[str] = ()
    if "retrieval" in rag.families:
        found = await _called("rag retrieves", retrieve_stage(rag, b"", None), question, checks)
        if found is None:
            return
        contexts = found.contexts
        ids = "without ids" if found.context_ids is None else "with ids"
        scores = "without scores" if found.scores is None else "with scores"
        detail = f"{len(contexts)} contexts, {ids}, {scores}"
        checks.append(Check(name="rag retrieves", state="ok", detail=detail))
    if "generation" in rag.families:
        asked = (question, list(contexts))
        answer = await _called("rag generates", generate_stage(rag, b""), asked, checks)
        if answer is not None:
            detail = _masked(_shortened(answer.response)) or "an empty answer"
            checks.append(Check(name="rag generates", state="ok", detail=detail))


async def _called(name: str, stage: Stage[Any, Any], value: object, checks: list[Check]) -> Any:
    """One call of a stage; None, and a failed check, when it raises."""
    try:
        if stage.call is not None:
            return stage.call([value])[0]
        if stage.call_async is not None:
            return (await stage.call_async([value]))[0]
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        told = _masked(str(Failure.of(error, stage=stage.name)))
        checks.append(Check(name=name, state="failed", detail=told))
    return None


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]} ..."


def _masked(text: str) -> str:
    """A text without credentials in URLs, and without the environment's keys and passwords."""
    for name, value in os.environ.items():
        if len(value) >= 8 and is_secret(name):
            text = text.replace(value, MASK)
    return mask_text(text)
