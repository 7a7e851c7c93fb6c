"""What doctor looks at; loaded when it is called."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal, cast

from ragbench.core.outcome import Failure
from ragbench.core.record import Record, replace
from ragbench.errors import DataError, NoModelError, RagbenchError
from ragbench.io.encoding import encoding_of
from ragbench.io.read import read_cases
from ragbench.llm.budget import price_for
from ragbench.llm.client import EmbeddingClient, LLMClient
from ragbench.llm.probe import Finding, ask_capital, ask_word, probe, reads
from ragbench.llm.settings import LLMSettings
from ragbench.llm.transport import CallLimits
from ragbench.masking import mask_text
from ragbench.plugins import CORE
from ragbench.rag.load import load_rag
from ragbench.safe_text import counted, shown_line
from ragbench.search.pipeline.read import load_pipeline
from ragbench.stages.call_stage import CallStage
from ragbench.stages.rag import RAG, GenerateInput, RetrieveInput, generate_stage, retrieve_stage
from ragbench.verbs.probes import Probe, called, probe_dataset, probe_generation, probe_retrieval
from ragbench_cli.models import LLMChoice, config_section
from ragbench_cli.options import json_object
from ragbench_cli.systems import DocumentsBeside

State = Literal["ok", "absent", "unknown", "doubt", "failed"]
"""Absent is something optional that is not there; a doubt makes numbers wrong that are printed all
the same."""


class DoctorCheck(Record):
    name: str
    state: State
    detail: str
    """What was found, or what to do. Never a credential."""


class Checks(list[DoctorCheck]):
    """What was looked at so far."""

    step = ""
    """What is tried now: the name of the check that comes of it."""

    def found(self, detail: str, state: State = "ok", *, name: str = "") -> None:
        self.append(DoctorCheck(name=name or self.step, state=state, detail=mask_text(detail)))

    def probed(self, found: Probe) -> None:
        state: State = "unknown" if found.holds is None else "ok" if found.holds else "doubt"
        self.found(found.detail, state, name=found.name)

    def tried(self, found: Finding) -> None:
        mended = found.settings or found.name == "prompt tokens"
        state: State = "ok" if found.good else "doubt" if mended else "failed"
        self.found(found.detail, state, name=f"llm {found.name}")

    @contextmanager
    def trying(self, step: str) -> Generator[None]:
        """A block whose first error fails the step that it is in, and ends the block."""
        before, self.step = self.step, step
        try:
            yield
        except RagbenchError as error:
            self.found(str(error), "failed")
        finally:
            self.step = before


_REQUIRED = re.compile(r"(?P<package>[\w.-]+)\s*(?:\[(?P<features>[^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"](?P<extra>[\w-]+)['"]""")
_ONLY_FOR_A_FEATURE = re.compile(rf"(?P<package>[\w.-]+)[^;]*;\s*{_EXTRA.pattern}\s*")
"""A requirement without other conditions, such as of a platform."""
_NOT_SHOWN = ("all", "dev")


_LONGEST_IMPORT = 180.0
"""Seconds that all packages of an extra may take to import."""
_MARK = "ragbench-import:"
_BEGINS = "ragbench-begins:"
_IMPORTING = """
import sys
sys.path[:] = {path!r}
from ragbench.plugins import extra_problem
problem = extra_problem({extra!r}, lambda package: print({begins!r}, package, flush=True))
sys.stdout.flush()
print({mark!r}, problem)
"""


def import_problem(extra: str) -> str:
    """Imports an extra's packages in a process of its own; what fails, and empty if nothing does.

    A compiled package that is broken may end the process, and packages print what they like.
    """
    program = _IMPORTING.format(path=sys.path, extra=extra, mark=_MARK, begins=_BEGINS)
    command = [sys.executable, "-W", "ignore", "-c", program]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_LONGEST_IMPORT,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"importing its packages took longer than {_LONGEST_IMPORT:g} seconds"
    _, mark, problem = done.stdout.rpartition(_MARK)
    if mark:
        return problem.strip()
    return _end_of_python(extra, done)


def _end_of_python(extra: str, done: subprocess.CompletedProcess[str]) -> str:
    """Which package ended the process that imported it, and what mends that."""
    _, begun, rest = done.stdout.rpartition(_BEGINS)
    package = f"its package '{rest.split()[0]}'" if begun else "its packages"
    lines = done.stderr.strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    installed = "ragbench" if extra == CORE else f"'ragbench[{extra}]'"
    return (
        f"importing {package} ended Python with exit code {done.returncode}{last}. "
        f"Install it with: pip install --force-reinstall {installed}"
    )


def check_installation() -> Checks:
    """Looks at versions, and imports what is installed: a package may be there and not work."""
    checks, requirements = Checks(), list[str]()
    try:
        checks.found(version("ragbench"), name="ragbench")
        requirements = requires("ragbench") or []
    except PackageNotFoundError:
        checks.found("run from its source: without its metadata no more is known", name="ragbench")
    checks.found(f"{platform.python_version()} on {platform.system()}", name="python")
    by_extra = _by_extra(requirements)
    problems = _import_problems(by_extra)
    for extra, packages in by_extra.items():
        checks.step = f"extra {extra}" if extra else "core"
        there, missing = _installed(packages)
        remedy = f"'ragbench[{extra}]'" if extra else "--force-reinstall ragbench"
        if missing:
            state: State = "absent" if extra else "failed"
            checks.found(f"without {', '.join(missing)}: pip install {remedy}", state)
        elif problem := problems[extra]:
            checks.found(problem, "failed")
        else:
            checks.found(", ".join(there))
    tracking = os.environ.get("RAGAS_DO_NOT_TRACK", "true")
    is_off = tracking.lower() == "true"
    telemetry = "off" if is_off else f"on: RAGAS_DO_NOT_TRACK={tracking}"
    checks.found(telemetry, name="ragas telemetry")
    return checks


def _import_problems(by_extra: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What importing each extra that is installed shows, several at a time."""
    whole = [extra for extra, packages in by_extra.items() if not _installed(packages)[1]]
    names = [extra or CORE for extra in whole]
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        problems = pool.map(import_problem, names)
        return dict(zip(whole, problems, strict=True))


def installation_in_short(checks: Sequence[DoctorCheck]) -> Checks:
    """Versions in a line and extras in another; what does not work as it is."""
    by_name = {check.name: check for check in checks}
    found = Checks(check for check in checks if check.state == "failed")
    versions = f"{by_name['ragbench'].detail}, Python {by_name['python'].detail}"
    found.found(versions, name="ragbench")
    extras = [check for check in checks if check.name.startswith("extra ")]
    absent = [check.name.removeprefix("extra ") for check in extras if check.state == "absent"]
    if extras:
        detail = f"{len(extras) - len(absent)} of {len(extras)} are installed"
        if absent:
            detail += f"; pip install 'ragbench[NAME]' adds {', '.join(absent)}"
        found.found(detail, name="extras")
    if (telemetry := by_name["ragas telemetry"]).detail != "off":
        found.append(telemetry)
    return found


def _by_extra(requirements: Sequence[str]) -> dict[str, list[str]]:
    """The packages that each extra asks for; those of the core stand under an empty name."""
    by_extra: dict[str, list[str]] = {}
    for requirement in requirements:
        required, extra = _REQUIRED.match(requirement), _EXTRA.search(requirement)
        if required is None or required["package"] == "ragbench":
            continue
        listed = by_extra.setdefault(extra["extra"] if extra else "", [])
        package, features = required["package"], required["features"] or ""
        for name in (package, *_packages_of_features(package, features)):
            if name not in listed:
                listed.append(name)
    return {extra: by_extra[extra] for extra in sorted(by_extra) if extra not in _NOT_SHOWN}


def _packages_of_features(package: str, features: str) -> list[str]:
    """What `fsspec[http]` asks for beside fsspec, which others bring without that."""
    asked = {feature.strip() for feature in features.split(",")}
    try:
        requirements = requires(package) or []
    except PackageNotFoundError:
        return []
    matches = map(_ONLY_FOR_A_FEATURE.fullmatch, requirements)
    return [match["package"] for match in matches if match and match["extra"] in asked]


def _installed(packages: Iterable[str]) -> tuple[list[str], list[str]]:
    """Those that are there, with their versions; and those that are not."""
    there, missing = list[str](), list[str]()
    for package in packages:
        try:
            there.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    return there, missing


def check_llm(checks: Checks, choice: LLMChoice, *, is_probed: bool) -> None:
    """Shows each setting and asks the model twice; stops at the first thing that does not work.

    Args:
        is_probed: instead it is tried out what the endpoint takes, and what to set for it.
    """
    with checks.trying("llm settings"), asyncio.Runner() as runner:
        settings = choice.settings()
        _show_settings(checks, settings)
        runner.run(_try_out(checks, settings) if is_probed else _ask_model(checks, settings))
        with checks.trying("embeddings"), suppress(NoModelError):
            runner.run(_embed(checks, choice.embeddings(settings)))


def _show_settings(checks: Checks, settings: LLMSettings) -> None:
    for setting in settings.settings:
        checks.found(f"{setting.value} (from {setting.origin})", name=f"llm {setting.name}")
    price, state = price_for(settings.endpoint), cast("State", "absent")
    detail = (
        "unknown: cost is neither reported nor capped. Set price_input and price_output, per "
        "million tokens"
    )
    if price is not None:
        amounts = f"{price.input} in, {price.output} out, {price.currency} a million tokens"
        detail, state = f"{amounts} ({price.origin})", "ok"
    checks.found(detail, state, name="llm price")


async def _embed(checks: Checks, settings: LLMSettings) -> None:
    async with EmbeddingClient(settings.endpoint, limits=_patience(settings)) as client:
        found = await client.embed(["ready"], purpose="doctor")
    where = f"{settings.endpoint.model} at {settings.endpoint.base_url}"
    checks.found(f"{where}: {len(found[0]):,} numbers a text")


def _patience(settings: LLMSettings) -> CallLimits:
    """What a run would wait for is reported here at once."""
    timeout = min(settings.limits.timeout, 60.0)
    return replace(settings.limits, retries=1, rate_limit_wait=5.0, timeout=timeout)


async def _ask_model(checks: Checks, settings: LLMSettings) -> None:
    limits = _patience(settings)
    with checks.trying("llm opens"):
        async with LLMClient(settings.endpoint, limits=limits) as client:
            checks.step, started = "llm answers", time.perf_counter()
            word = await ask_word(client)
            seconds = time.perf_counter() - started
            model = "" if word.model in ("", client.endpoint.model) else f" as {word.model}"
            detail = f"'{shown_line(word.text, longest=60)}'{model} in {seconds:.2f} s"
            tokens = "; it reports no tokens, so the cost is unknown"
            checks.found(detail + ("" if word.usage.reported else tokens))
            checks.step, started = "llm structure", time.perf_counter()
            capital = await ask_capital(client, purpose="doctor")
            seconds = time.perf_counter() - started
            way = client.dialect.structured.value if client.dialect.known else "no mode"
            repaired = ", after one correction" if capital.repaired else ""
            checks.found(f"works with {way}{repaired} in {seconds:.2f} s")
        checks.step = "llm context"
        for found in await reads(settings.endpoint, limits):
            checks.tried(found)


async def _try_out(checks: Checks, settings: LLMSettings) -> None:
    """Tries the endpoint out; the last check says what it needs."""
    wanted: dict[str, Any] = {}
    with checks.trying("llm answers"):
        async for found in probe(settings.endpoint):
            wanted |= found.settings
            checks.tried(found)
        lines = [
            f"{name}: {'none' if value is None else str(value).lower()}"
            for name, value in wanted.items()
        ]
        needed = f"put into the section llm of the configuration: {', '.join(lines)}"
        checks.found(needed if lines else "needs nothing more", name="llm section")


def check_dataset(checks: Checks, dataset: str, corpus: str | None) -> None:
    """Reads a dataset, and the documents beside it, for what would be scored wrongly."""
    with checks.trying("data reads"):
        encoding, _ = encoding_of(dataset)
        cases = list(read_cases(dataset, encoding=encoding))
        detail, documents = f"{len(cases):,} cases", None
        checks.step = "corpus reads"
        try:
            documents = list(DocumentsBeside(dataset, corpus).read())
            detail += f", {len(documents):,} documents"
        except RagbenchError:
            if corpus is not None:
                raise
        checks.found(detail, name="data reads")
        for found in probe_dataset(cases, documents):
            checks.probed(found)


def check_rag(checks: Checks, spec: str, arguments: str | None, question: str) -> None:
    """Loads a RAG and asks it; stops at the first thing that does not work."""
    with checks.trying("rag loads"):
        rag = load_rag(spec, json_object(arguments or "{}", "--rag-args"))
        checks.found(type(cast("object", rag)).__name__)
        asyncio.run(_ask(checks, rag, question))


async def _ask(checks: Checks, rag: RAG, question: str) -> None:
    """One question through what a RAG can do, then what it does that nobody would notice."""
    contexts: Sequence[str] = ()
    if "retrieval" in rag.families:
        sought: RetrieveInput = (question, [])
        stage = retrieve_stage(rag, b"", None)
        found = await _called(checks, "rag retrieves", stage, sought)
        if found is None:
            return
        contexts = found.contexts
        said = [counted(len(contexts), "context")]
        for name, given in (("ids", found.context_ids), ("scores", found.scores)):
            said += [f"{'without' if given is None else 'with'} {name}"] if contexts else []
        checks.found(", ".join(said), name="rag retrieves")
        async for one in probe_retrieval(rag, question):
            checks.probed(one)
    if "generation" in rag.families:
        asked: GenerateInput = (question, list(contexts), [])
        answer = await _called(checks, "rag generates", generate_stage(rag, b""), asked)
        if answer is not None:
            shown = shown_line(answer.response, longest=200) or "an empty answer"
            checks.found(shown, name="rag generates")
            async for one in probe_generation(rag, question, contexts):
                checks.probed(one)


async def _called(checks: Checks, name: str, stage: CallStage[Any, Any], value: object) -> Any:
    """One call of a stage; None, and a failed check, when it raises."""
    try:
        return (await called(stage, [value]))[0]
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        checks.found(str(Failure.of(error, stage=stage.name)), "failed", name=name)
    return None


def check_pipeline(checks: Checks, path: Path, question: str) -> None:
    """Reads a pipeline and, where it names its corpus, asks it; each problem is a check."""
    with checks.trying("pipeline"):
        try:
            pipeline = load_pipeline(path, environ=os.environ, llm=config_section()[0])
        except DataError as error:
            for problem in error.problems:
                checks.found(str(problem), "failed")
            return
        checks.found(f"{path} is in order")
        if pipeline.corpus is None and pipeline.indexing.settings.store == "memory:":
            detail = "not asked: it names no corpus and is given that of the dataset"
            checks.found(detail, name="pipeline answers")
            return
        checks.step = "pipeline opens"
        with pipeline.open() as opened:
            if detail := "; ".join(opened.retriever.notes):
                checks.found(detail, name="pipeline reads")
            asyncio.run(_ask(checks, opened.rag, question))
