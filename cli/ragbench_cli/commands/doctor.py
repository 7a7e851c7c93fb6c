"""``ragbench doctor``: is everything there that a run needs?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ragbench_cli import console
from ragbench_cli.exit_codes import ExitCode
from ragbench_cli.options import JsonOption

__all__ = ["command"]

_EXTRAS = {
    "ragas": ("ragas", "langchain-community", "instructor"),
    "hf": ("datasets", "pandas", "pyarrow"),
    "text": ("rouge-score", "sacrebleu"),
    "http": ("httpx",),
}
_CORE = ("bm25s", "ir-measures", "numpy", "orjson", "rapidfuzz", "rich", "scipy", "typer")


def command(
    rag: Annotated[
        str | None,
        typer.Option(help="Load this RAG too and ask it one question.", show_default=False),
    ] = None,
    rag_args: Annotated[
        str | None,
        typer.Option(help="Arguments for the class or factory, as JSON.", show_default=False),
    ] = None,
    question: Annotated[
        str, typer.Option(help="The question that the RAG is asked.")
    ] = "What is this about?",
    json: JsonOption = False,
) -> None:
    """Check the installation and, with --rag, whether your RAG answers as the interface says.

    Exit code 2 when something that was asked for does not work.

    Examples:
    \b
      ragbench doctor
      ragbench doctor --rag my_module:MyRAG --question "How many days of leave?"
    """
    checks = [*_installation(), *(_ask(rag, rag_args, question) if rag else [])]
    if json:
        console.print_json(checks)
    else:
        for check in checks:
            typer.echo(f"{check['state']:<8} {check['name']:<24} {check['detail']}")
    if any(check["state"] == "failed" for check in checks):
        raise typer.Exit(ExitCode.CANNOT_RUN)


def _check(name: str, state: str, detail: str) -> dict[str, str]:
    return {"name": name, "state": state, "detail": detail}


def _installation() -> list[dict[str, str]]:
    import os
    import platform

    from ragbench.runs.manifest import package_versions

    core = package_versions(("ragbench", *_CORE))
    checks = [_check("python", "ok", platform.python_version())]
    for name in ("ragbench", *_CORE):
        installed = core.get(name)
        detail = installed or "not installed: pip install --force-reinstall ragbench"
        checks.append(_check(name, "ok" if installed else "failed", detail))
    for extra, names in _EXTRAS.items():
        versions = package_versions(names)
        missing = [name for name in names if name not in versions]
        if missing:
            detail = f"{', '.join(missing)} not installed: pip install 'ragbench[{extra}]'"
            checks.append(_check(f"extra {extra}", "absent", detail))
        else:
            listed = ", ".join(f"{name} {version}" for name, version in versions.items())
            checks.append(_check(f"extra {extra}", "ok", listed))
    tracked = os.environ.get("RAGAS_DO_NOT_TRACK", "")
    telemetry = "on: RAGAS_DO_NOT_TRACK=false" if tracked.lower() == "false" else "off"
    checks.append(_check("ragas telemetry", "ok", telemetry))
    return checks


def _ask(spec: str, arguments: str | None, question: str) -> list[dict[str, str]]:
    """Loads a RAG and sends one question through both of its stages."""
    import asyncio

    from ragbench.errors import RagbenchError
    from ragbench.evaluation.rag_stages import generate_stage, retrieve_stage
    from ragbench.interface.load import load_rag
    from ragbench.records.cells import Failure
    from ragbench_cli.commands.evaluate import json_object

    try:
        rag = load_rag(spec, json_object(arguments, "--rag-args"))
    except RagbenchError as error:
        return [_check("rag loads", "failed", str(error))]
    checks = [_check("rag loads", "ok", type(rag).__name__)]
    contexts: list[str] = []

    async def both() -> None:
        nonlocal contexts
        if "retrieval" in rag.families:
            retrieved = await _first(retrieve_stage(rag, b"", None), question)
            contexts = list(retrieved.contexts)
            ids = "with ids" if retrieved.context_ids is not None else "without ids"
            checks.append(_check("rag retrieves", "ok", f"{len(contexts)} contexts, {ids}"))
        if "generation" in rag.families:
            answer = await _first(generate_stage(rag, b""), (question, contexts))
            checks.append(_check("rag generates", "ok", answer.response[:200]))

    try:
        asyncio.run(both())
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        checks.append(_check("rag answers", "failed", str(Failure.of(error, stage="call"))))
    return checks


async def _first(stage: Any, value: object) -> Any:
    """One call of a stage, plain or coroutine."""
    if stage.call is not None:
        return stage.call([value])[0]
    return (await stage.call_async([value]))[0]
