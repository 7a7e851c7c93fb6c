"""What doctor looks at; loaded when it is called."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal, cast

from ragbench.core.outcome import Failure
from ragbench.errors import DataError, LLMError, NoModelError, RagbenchError
from ragbench.io.encoding import encoding_of
from ragbench.io.read import read_cases
from ragbench.llm.budget import price_for
from ragbench.llm.client import EmbeddingClient, LLMClient
from ragbench.llm.probe import Finding, ask_capital, ask_word, probe, reads
from ragbench.llm.settings import LLMSettings
from ragbench.llm.transport import CallLimits
from ragbench.masking import mask_text
from ragbench.pipeline.read import load_pipeline
from ragbench.rag.load import load_rag
from ragbench.stages.call_stage import CallStage
from ragbench.stages.rag import RAG, generate_stage, retrieve_stage
from ragbench.verbs.probes import Probe, probe_dataset, probe_generation, probe_retrieval
from ragbench_cli.models import config_section
from ragbench_cli.options import json_object
from ragbench_cli.systems import DocumentsBeside

State = Literal["ok", "absent", "unknown", "doubt", "failed"]
"""Absent is something optional that is not there; a doubt makes numbers wrong that are printed all
the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorCheck:
    name: str
    state: State
    detail: str
    """What was found, or what to do. Never a credential."""


_REQUIRED = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"""extra\s*==\s*['"](?P<extra>[\w-]+)['"]""")
_NOT_SHOWN = ("all", "dev")


def check_installation() -> list[DoctorCheck]:
    """Looks at versions alone: nothing is imported, so it takes no time."""
    try:
        checks = [_passed("ragbench", version("ragbench"))]
        requirements = requires("ragbench") or []
    except PackageNotFoundError:
        checks = [_passed("ragbench", "run from its source: without its metadata no more is known")]
        requirements = []
    checks.append(_passed("python", f"{platform.python_version()} on {platform.system()}"))
    for extra, packages in _by_extra(requirements).items():
        if extra:
            remedy = f"pip install 'ragbench[{extra}]'"
            checks.append(_packages(f"extra {extra}", packages, remedy, "absent"))
        else:
            remedy = "pip install --force-reinstall ragbench"
            checks.append(_packages("core", packages, remedy, "failed"))
    checks.append(_passed("ragas telemetry", _telemetry()))
    return checks


def installation_in_short(checks: Sequence[DoctorCheck]) -> list[DoctorCheck]:
    """Versions in a line and extras in another; what does not work as it is."""
    by_name = {check.name: check for check in checks}
    versions = f"{by_name['ragbench'].detail}, Python {by_name['python'].detail}"
    found = [check for check in checks if check.state == "failed"]
    found.append(_passed("ragbench", versions))
    extras = [check for check in checks if check.name.startswith("extra ")]
    absent = [check.name.removeprefix("extra ") for check in extras if check.state == "absent"]
    if extras:
        detail = f"{len(extras) - len(absent)} of {len(extras)} are installed"
        if absent:
            detail += f"; pip install 'ragbench[NAME]' adds {', '.join(absent)}"
        found.append(_passed("extras", detail))
    telemetry = by_name["ragas telemetry"]
    return [*found, *([] if telemetry.detail == "off" else [telemetry])]


def _passed(name: str, detail: str) -> DoctorCheck:
    return DoctorCheck(name=name, state="ok", detail=detail)


def _failed(name: str, detail: str) -> DoctorCheck:
    return DoctorCheck(name=name, state="failed", detail=mask_text(detail))


def _by_extra(requirements: list[str]) -> dict[str, list[str]]:
    """The packages that each extra asks for; those of the core stand under an empty name."""
    found: dict[str, list[str]] = {}
    for requirement in requirements:
        name, extra = _REQUIRED.match(requirement), _EXTRA.search(requirement)
        if name is not None and name[0] != "ragbench":
            listed = found.setdefault(extra["extra"] if extra else "", [])
            listed += [name[0]] if name[0] not in listed else []
    return {extra: found[extra] for extra in sorted(found) if extra not in _NOT_SHOWN}


def _packages(name: str, packages: list[str], remedy: str, without: State) -> DoctorCheck:
    """One check of several packages, and its state when one of them is missing."""
    there: list[str] = []
    missing: list[str] = []
    for package in packages:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if not missing:
        return _passed(name, ", ".join(there))
    detail = f"without {', '.join(missing)}: {remedy}"
    return DoctorCheck(name=name, state=without, detail=detail)


def _telemetry() -> str:
    set_to = os.environ.get("RAGAS_DO_NOT_TRACK")
    if set_to is None or set_to.lower() == "true":
        return "off"
    return f"on: RAGAS_DO_NOT_TRACK={set_to}"


def check_llm(
    read: Callable[[], LLMSettings],
    read_embeddings: Callable[[LLMSettings], LLMSettings],
    *,
    is_probed: bool,
) -> list[DoctorCheck]:
    """Shows each setting and asks the model twice; stops at the first thing that does not work.

    Args:
        is_probed: instead it is tried out what the endpoint takes, and what to set for it.
    """
    try:
        settings = read()
    except RagbenchError as error:
        return [_failed("llm settings", str(error))]
    with asyncio.Runner() as runner:
        asked = _probed(settings) if is_probed else _check(settings)
        checks = _settings(settings) + runner.run(asked)
        try:
            embeddings = read_embeddings(settings)
        except NoModelError:
            return checks
        except RagbenchError as error:
            return [*checks, _failed("embeddings", str(error))]
        return [*checks, runner.run(_embeds(embeddings))]


async def _embeds(settings: LLMSettings) -> DoctorCheck:
    where = f"{settings.endpoint.model} at {settings.endpoint.base_url}"
    try:
        async with EmbeddingClient(settings.endpoint, limits=_patience(settings)) as client:
            found = await client.embed(["ready"], purpose="doctor")
    except RagbenchError as error:
        return _failed("embeddings", str(error))
    return _passed("embeddings", f"{where}: {len(found.vectors[0]):,} numbers a text")


def _patience(settings: LLMSettings) -> CallLimits:
    """What a run would wait for is reported here at once."""
    timeout = min(settings.limits.timeout, 60.0)
    return replace(settings.limits, retries=1, rate_limit_wait=5.0, timeout=timeout)


def _settings(settings: LLMSettings) -> list[DoctorCheck]:
    checks = [
        _passed(f"llm {setting.name}", f"{setting.value} (from {setting.origin})")
        for setting in settings.settings
    ]
    price = price_for(settings.endpoint)
    if price is None:
        detail = (
            "unknown: cost is neither reported nor capped. Set price_input and price_output, "
            "per million tokens"
        )
        return [*checks, DoctorCheck(name="llm price", state="absent", detail=detail)]
    detail = f"{price.input} in, {price.output} out, {price.currency} a million tokens"
    return [*checks, _passed("llm price", f"{detail} ({price.origin})")]


async def _check(settings: LLMSettings) -> list[DoctorCheck]:
    checks: list[DoctorCheck] = []
    try:
        async with LLMClient(settings.endpoint, limits=_patience(settings)) as client:
            started = time.perf_counter()
            word = await ask_word(client, purpose="doctor")
            seconds = time.perf_counter() - started
            model = "" if word.model in ("", client.endpoint.model) else f" as {word.model}"
            tokens = "; it reports no tokens, so the cost is unknown"
            detail = f"'{_shortened(word.text, 60)}'{model} in {seconds:.2f} s"
            checks.append(_passed("llm answers", detail + ("" if word.usage.reported else tokens)))
            started = time.perf_counter()
            capital = await ask_capital(client, purpose="doctor")
            seconds = time.perf_counter() - started
            way = client.dialect.structured.value if client.dialect.known else "no mode"
            repaired = ", after one correction" if capital.repaired else ""
            detail = f"works with {way}{repaired} in {seconds:.2f} s"
            checks.append(_passed("llm structure", detail))
        checks += map(_of_finding, await reads(settings.endpoint, _patience(settings)))
    except LLMError as error:
        names = ("llm answers", "llm structure", "llm context")
        checks.append(_failed(names[len(checks)], str(error)))
    except RagbenchError as error:
        checks.append(_failed("llm opens", str(error)))
    return checks


async def _probed(settings: LLMSettings) -> list[DoctorCheck]:
    """Tries the endpoint out; the last check says what it needs."""
    checks: list[DoctorCheck] = []
    wanted: dict[str, Any] = {}
    try:
        async for found in probe(settings.endpoint):
            wanted |= found.settings
            checks.append(_of_finding(found))
    except RagbenchError as error:
        return [*checks, _failed("llm answers", str(error))]
    lines = [f"{name}: {_yaml(value)}" for name, value in wanted.items()]
    needed = f"put into the section llm of the configuration: {', '.join(lines)}"
    return [*checks, _passed("llm section", needed if lines else "needs nothing more")]


def _of_finding(found: Finding) -> DoctorCheck:
    mended = found.settings or found.name == "prompt tokens"
    state: State = "ok" if found.good else "doubt" if mended else "failed"
    return DoctorCheck(name=f"llm {found.name}", state=state, detail=found.detail)


def _yaml(value: object) -> str:
    return "none" if value is None else str(value).lower()


def check_dataset(dataset: str, corpus: str | None) -> list[DoctorCheck]:
    """Reads a dataset, and the documents beside it, for what would be scored wrongly."""
    try:
        encoding, _ = encoding_of(dataset)
        cases = list(read_cases(dataset, encoding=encoding))
    except RagbenchError as error:
        return [_failed("data reads", str(error))]
    documents = None
    try:
        documents = list(DocumentsBeside(dataset, corpus).read())
    except RagbenchError as error:
        if corpus is not None:
            return [_failed("corpus reads", str(error))]
    detail = f"{len(cases):,} cases" + (
        "" if documents is None else f", {len(documents):,} documents"
    )
    return [_passed("data reads", detail), *map(_of_probe, probe_dataset(cases, documents))]


def check_rag(spec: str, arguments: str | None, question: str) -> list[DoctorCheck]:
    """Loads a RAG and asks it; stops at the first thing that does not work."""
    try:
        rag = load_rag(spec, json_object(arguments or "{}", "--rag-args"))
    except RagbenchError as error:
        return [_failed("rag loads", str(error))]
    checks = [_passed("rag loads", type(cast("object", rag)).__name__)]
    return [*checks, *asyncio.run(_ask(rag, question))]


async def _ask(rag: RAG, question: str) -> list[DoctorCheck]:
    """One question through what a RAG can do, then what it does that nobody would notice."""
    checks: list[DoctorCheck] = []
    contexts: Sequence[str] = ()
    if "retrieval" in rag.families:
        found = await _called("rag retrieves", retrieve_stage(rag, b"", None), question, checks)
        if found is None:
            return checks
        contexts = found.contexts
        ids = "without ids" if found.context_ids is None else "with ids"
        scores = "without scores" if found.scores is None else "with scores"
        detail = f"{len(contexts)} contexts, {ids}, {scores}"
        checks.append(_passed("rag retrieves", detail))
        checks += [_of_probe(found) async for found in probe_retrieval(rag, question)]
    if "generation" in rag.families:
        asked = (question, list(contexts))
        answer = await _called("rag generates", generate_stage(rag, b""), asked, checks)
        if answer is not None:
            detail = mask_text(_shortened(answer.response)) or "an empty answer"
            checks.append(_passed("rag generates", detail))
            checks += [_of_probe(found) async for found in probe_generation(rag, *asked)]
    return checks


def _of_probe(found: Probe) -> DoctorCheck:
    state: State = "unknown" if found.holds is None else "ok" if found.holds else "doubt"
    return DoctorCheck(name=found.name, state=state, detail=mask_text(found.detail))


async def _called(
    name: str, stage: CallStage[Any, Any], value: object, checks: list[DoctorCheck]
) -> Any:
    """One call of a stage; None, and a failed check, when it raises."""
    try:
        if stage.call is not None:
            return stage.call([value])[0]
        if stage.call_async is not None:
            return (await stage.call_async([value]))[0]
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        checks.append(_failed(name, str(Failure.of(error, stage=stage.name))))
    return None


def _shortened(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]} ..."


def check_pipeline(path: Path, question: str) -> list[DoctorCheck]:
    """Reads a pipeline and, where it names its corpus, asks it; each problem is a check."""
    try:
        llm, _ = config_section()
        pipeline = load_pipeline(path, environ=os.environ, llm=llm)
    except DataError as error:
        return [_failed("pipeline", str(problem)) for problem in error.problems]
    except RagbenchError as error:
        return [_failed("pipeline", str(error))]
    checks = [_passed("pipeline", f"{path} is in order")]
    if pipeline.corpus is None and pipeline.indexing.settings.store == "memory:":
        detail = "not asked: it names no corpus and is given that of the dataset"
        return [*checks, _passed("pipeline answers", detail)]
    try:
        with pipeline.open() as opened:
            if detail := "; ".join(opened.retriever.notes):
                checks.append(_passed("pipeline reads", detail))
            return [*checks, *asyncio.run(_ask(opened.rag, question))]
    except RagbenchError as error:
        return [*checks, _failed("pipeline opens", str(error))]
