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

from ragbench.core.chunk import Document
from ragbench.core.outcome import Failure
from ragbench.core.record import Record, replace
from ragbench.errors import ContractError, DataError, NoModelError, RagbenchError
from ragbench.io.encoding import encoding_of
from ragbench.io.read import read_cases
from ragbench.llm.budget import price_for
from ragbench.llm.client import EmbeddingClient, LLMClient
from ragbench.llm.probe import Finding, ask_capital, ask_word, probe, reads
from ragbench.llm.settings import LLMSettings
from ragbench.llm.transport import CallLimits
from ragbench.masking import mask_text
from ragbench.plugins import CORE
from ragbench.rag.exploration import explore
from ragbench.rag.load import load_rag
from ragbench.rag.proposal import tree_of
from ragbench.rag.service_mapping import Service, read_service
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
    """One thing that doctor looked at."""

    name: str
    state: State
    detail: str
    """What was found, or what to do. Never a credential."""


class Checks(list[DoctorCheck]):
    """What was looked at so far."""

    step = ""
    """What is tried now: the name of the check that comes of it."""
    command = ""
    """What the user can run next, in lines that a shell takes as they are; empty for nothing."""

    def record(self, detail: str, state: State = "ok", *, name: str = "") -> None:
        """Adds a finding to doctor's list: of the present step, unless it is named.

        Keys in it are masked, since users paste doctor's output into issues.
        """
        self.append(DoctorCheck(name=name or self.step, state=state, detail=mask_text(detail)))

    def record_probe(self, probe: Probe) -> None:
        """Adds the result of a probe of a RAG or a dataset to doctor's list, with its state.

        A probe that fails is a doubt: the RAG runs, but some numbers would be wrong.
        """
        state: State = "doubt"
        # None: the probe could not be tried.
        if probe.holds is None:
            state = "unknown"
        elif probe.holds:
            state = "ok"
        self.record(probe.detail, state, name=probe.name)

    def record_finding(self, finding: Finding) -> None:
        """Adds a finding about a language model's endpoint to doctor's list, with its state.

        Whatever a setting mends is only a doubt.
        """
        state: State = "failed"
        if finding.good:
            state = "ok"
        elif finding.settings or finding.name == "prompt tokens":
            state = "doubt"
        self.record(finding.detail, state, name=f"llm {finding.name}")

    @contextmanager
    def trying(self, step: str) -> Generator[None]:
        """A block of doctor's checks.

        The first error fails the step that it is in, and ends the block. So doctor goes on with its
        other checks.
        """
        # Checks are nested: the outer one goes on under its own name.
        outer_step = self.step
        self.step = step
        try:
            yield
        # Only ragbench's own errors: any other is a bug, and ends doctor.
        except RagbenchError as error:
            self.record(str(error), "failed")
        finally:
            self.step = outer_step


# --- the installation

_REQUIRED = re.compile(r"(?P<package>[\w.-]+)\s*(?:\[(?P<features>[^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"](?P<extra>[\w-]+)['"]""")
_ONLY_FOR_A_FEATURE = re.compile(rf"(?P<package>[\w.-]+)[^;]*;\s*{_EXTRA.pattern}\s*")
"""A requirement without other conditions, such as of a platform."""
_NOT_SHOWN = ("all", "dev")
"""Extras that are made of others, or are for those who change ragbench."""

_LONGEST_IMPORT = 180.0
"""Seconds that all packages of an extra may take to import."""
_MARK = "ragbench-import:"
"""Printed before what fails: packages print something of their own while they are imported."""
_BEGINS = "ragbench-begins:"
"""Printed before each package that is imported: one that ends Python is the last."""
_IMPORTING = """
import sys
sys.path[:] = {path!r}
from ragbench.plugins import extra_problem
problem = extra_problem({extra!r}, lambda package: print({begins!r}, package, flush=True))
sys.stdout.flush()
print({mark!r}, problem)
"""


def import_problem(extra: str) -> str:
    """The problem of importing the packages of an extra, in words; empty where they all work.

    A process of its own does it: a broken compiled package may end Python, and packages print.
    """
    # The child looks where this process does: the path may have been changed since its start.
    program = _IMPORTING.format(path=sys.path, extra=extra, mark=_MARK, begins=_BEGINS)
    command = [sys.executable, "-W", "ignore", "-c", program]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_IMPORT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"importing its packages took longer than {_LONGEST_IMPORT:g} seconds"
    # Behind the last mark: what packages print while they are imported comes before it.
    _, mark, problem = done.stdout.rpartition(_MARK)
    if mark:
        return problem.strip()
    # Without the mark Python has ended on the way, as with a broken compiled package.
    return _end_of_python(extra, done)


def _end_of_python(extra: str, done: subprocess.CompletedProcess[str]) -> str:
    """The problem of a package that ended the process that imported it, and its remedy.

    Args:
        done: the process, which printed each package's name before it imported it.
    """
    # The last package whose name was printed is the one that never came back.
    _, mark, output = done.stdout.rpartition(_BEGINS)
    package = f"its package '{output.split()[0]}'" if mark else "its packages"
    # The last line of standard error is mostly the error itself.
    lines = done.stderr.strip().splitlines()
    last_line = f": {lines[-1]}" if lines else ""
    distribution = "ragbench" if extra == CORE else f"'ragbench[{extra}]'"
    return (
        f"importing {package} ended Python with exit code {done.returncode}{last_line}. "
        f"Install it with: pip install --force-reinstall {distribution}"
    )


def check_installation() -> Checks:
    """Doctor's checks of the installation.

    It checks versions, and whether each installed extra can be imported. A package may be there and
    not work.
    """
    checks = Checks()
    requirements: list[str] = []
    # A source checkout has no metadata: doctor goes on without the extras.
    try:
        checks.record(version("ragbench"), name="ragbench")
        requirements = requires("ragbench") or []
    except PackageNotFoundError:
        checks.record("run from its source: without its metadata no more is known", name="ragbench")
    checks.record(f"{platform.python_version()} on {platform.system()}", name="python")
    # An empty name among the extras is the core, without which nothing works.
    by_extra = _packages_by_extra(requirements)
    problems = _import_problems(by_extra)
    for extra, packages in by_extra.items():
        checks.step = f"extra {extra}" if extra else "core"
        installed, missing = _installed_and_missing(packages)
        if missing:
            remedy = f"'ragbench[{extra}]'" if extra else "--force-reinstall ragbench"
            state: State = "absent" if extra else "failed"
            checks.record(f"without {', '.join(missing)}: pip install {remedy}", state)
        elif problems[extra]:
            checks.record(problems[extra], "failed")
        else:
            checks.record(", ".join(installed))
    # RAGAS sends usage data unless this variable is "true": ragbench sets it so where a user has
    # not.
    tracking = os.environ.get("RAGAS_DO_NOT_TRACK", "true")
    is_off = tracking.lower() == "true"
    telemetry = "off" if is_off else f"on: RAGAS_DO_NOT_TRACK={tracking}"
    checks.record(telemetry, name="ragas telemetry")
    return checks


def _import_problems(by_extra: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The problems of importing each extra whose packages are all installed; several at a time.

    An extra that lacks a package is reported as absent, and not imported. Each import is a process,
    which takes a second or more.
    """
    complete: list[str] = []
    for extra, packages in by_extra.items():
        _, missing = _installed_and_missing(packages)
        if not missing:
            complete.append(extra)
    # The core has an empty name here and `CORE` for the child process.
    names = [extra or CORE for extra in complete]
    # Threads are enough: they only wait for processes.
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        problems = pool.map(import_problem, names)
        return dict(zip(complete, problems, strict=True))


def installation_in_short(checks: Sequence[DoctorCheck]) -> Checks:
    """Doctor's checks of the installation in a few lines.

    They hold failures, versions, and the extras by name.
    """
    # `check_installation` records each name that is looked up here in every case.
    by_name = {check.name: check for check in checks}
    # Failures first: they are why somebody runs doctor.
    short = Checks(check for check in checks if check.state == "failed")
    versions = f"{by_name['ragbench'].detail}, Python {by_name['python'].detail}"
    short.record(versions, name="ragbench")
    extras = [check for check in checks if check.name.startswith("extra ")]
    if extras:
        absent = [check.name.removeprefix("extra ") for check in extras if check.state == "absent"]
        detail = f"{len(extras) - len(absent)} of {len(extras)} are installed"
        if absent:
            detail += f"; pip install 'ragbench[NAME]' adds {', '.join(absent)}"
        short.record(detail, name="extras")
    telemetry = by_name["ragas telemetry"]
    if telemetry.detail != "off":
        short.append(telemetry)
    return short


def _packages_by_extra(requirements: Sequence[str]) -> dict[str, list[str]]:
    """The names of packages that each extra of ragbench asks for.

    Packages of the core have an empty name.

    Args:
        requirements: the lines of the installed package's metadata.
    """
    by_extra: dict[str, list[str]] = {}
    for requirement in requirements:
        required = _REQUIRED.match(requirement)
        extra = _EXTRA.search(requirement)
        # An extra that is made of other extras requires ragbench itself, which is no optional
        # package.
        if required is None or required["package"] == "ragbench":
            continue
        # An empty name for the core.
        packages = by_extra.setdefault(extra["extra"] if extra else "", [])
        package = required["package"]
        features = required["features"] or ""
        # With the packages of the required features: another package may have brought this one
        # without them.
        for name in (package, *_packages_of_features(package, features)):
            if name not in packages:
                packages.append(name)
    # In the order of names; some extras only join others, and are not shown.
    return {extra: by_extra[extra] for extra in sorted(by_extra) if extra not in _NOT_SHOWN}


def _packages_of_features(package: str, features: str) -> list[str]:
    """The packages that a feature such as ``fsspec[http]`` adds to its package.

    Others may bring the package without its feature, so both are looked for.
    """
    names = {feature.strip() for feature in features.split(",")}
    try:
        requirements = requires(package) or []
    except PackageNotFoundError:
        # A missing package is reported under its own name already.
        return []
    packages: list[str] = []
    for requirement in requirements:
        match = _ONLY_FOR_A_FEATURE.fullmatch(requirement)
        if match is not None and match["extra"] in names:
            packages.append(match["package"])
    return packages


def _installed_and_missing(packages: Iterable[str]) -> tuple[list[str], list[str]]:
    """Those packages that are installed, with their versions; and those that are not.

    Doctor prints the former, and how to install the latter.
    """
    installed: list[str] = []
    missing: list[str] = []
    for package in packages:
        # Metadata are read, and the package is not imported: an import may end Python.
        try:
            installed.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    return installed, missing


# --- a language model


def check_llm(checks: Checks, choice: LLMChoice, *, is_probed: bool) -> None:
    """Doctor's checks of a language model: each setting, two questions, and its embeddings.

    It stops at the first step that does not work.

    Args:
        is_probed: whether the endpoint is tried out instead: which requests it takes, and what
            to set for it.
    """
    with checks.trying("llm settings"), asyncio.Runner() as runner:
        settings = choice.settings()
        _show_settings(checks, settings)
        if is_probed:
            runner.run(_try_out_endpoint(checks, settings))
        else:
            runner.run(_ask_model(checks, settings))
        # Nested: a mistake with embeddings leaves the checks above as they are. No model for
        # embeddings is named in most projects.
        with checks.trying("embeddings"), suppress(NoModelError):
            runner.run(_ask_embeddings(checks, choice.embeddings(settings)))


def _show_settings(checks: Checks, settings: LLMSettings) -> None:
    """Adds each setting of a language model to doctor's list, with its origin, and its price.

    Users see which of option, file and variable won. Without a price, costs cannot be capped.
    """
    for setting in settings.settings:
        checks.record(f"{setting.value} (from {setting.origin})", name=f"llm {setting.name}")
    # Looked up by the endpoint, since the same model costs differently elsewhere.
    price = price_for(settings.endpoint)
    if price is None:
        checks.record(
            "unknown: cost is neither reported nor capped. Set price_input and price_output, per "
            "million tokens",
            "absent",
            name="llm price",
        )
    else:
        amounts = f"{price.input} in, {price.output} out, {price.currency} a million tokens"
        checks.record(f"{amounts} ({price.origin})", name="llm price")


async def _ask_embeddings(checks: Checks, settings: LLMSettings) -> None:
    """Asks the model for embeddings for one vector, and adds its length to doctor's list.

    Metrics of similarity need such a model.
    """
    async with EmbeddingClient(settings.endpoint, limits=_short_patience(settings)) as client:
        vectors = await client.embed(["ready"], purpose="doctor")
    endpoint = f"{settings.endpoint.model} at {settings.endpoint.base_url}"
    checks.record(f"{endpoint}: {len(vectors[0]):,} numbers a text")


def _short_patience(settings: LLMSettings) -> CallLimits:
    """The limits of calls for doctor, which reports at once what a run would wait for.

    A run waits minutes for a busy endpoint; a user who checks it would not.
    """
    timeout = min(settings.limits.timeout, 60.0)
    return replace(settings.limits, retries=1, rate_limit_wait=5.0, timeout=timeout)


async def _ask_model(checks: Checks, settings: LLMSettings) -> None:
    """Asks a language model for a word, for an answer in a structure, and with long prompts.

    These are the three things that judges need of it.
    """
    limits = _short_patience(settings)
    with checks.trying("llm opens"):
        async with LLMClient(settings.endpoint, limits=limits) as client:
            checks.step = "llm answers"
            started = time.perf_counter()
            word = await ask_word(client)
            seconds = time.perf_counter() - started
            model = ""
            if word.model not in ("", client.endpoint.model):
                model = f" as {word.model}"
            detail = f"'{shown_line(word.text, longest=60)}'{model} in {seconds:.2f} s"
            if not word.usage.reported:
                detail += "; it reports no tokens, so the cost is unknown"
            checks.record(detail)

            # The same client: the dialect that the first question found out is used here.
            checks.step = "llm structure"
            started = time.perf_counter()
            capital = await ask_capital(client, purpose="doctor")
            seconds = time.perf_counter() - started
            dialect = client.dialect
            mode = dialect.structured.value if dialect.mode_is_known else "no mode"
            repaired = ", after one correction" if capital.repaired else ""
            checks.record(f"works with {mode}{repaired} in {seconds:.2f} s")
        # Outside: this check needs a client without its own checks, which would refuse a cut
        # prompt.
        checks.step = "llm context"
        for finding in await reads(settings.endpoint, limits):
            checks.record_finding(finding)


async def _try_out_endpoint(checks: Checks, settings: LLMSettings) -> None:
    """Tries out which requests an endpoint takes.

    The last check lists the settings that it needs.
    """
    needed: dict[str, Any] = {}
    with checks.trying("llm answers"):
        # The settings of all findings, which belong together in one file.
        async for finding in probe(settings.endpoint):
            needed |= finding.settings
            checks.record_finding(finding)
        detail = "needs nothing more"
        if needed:
            lines: list[str] = []
            for name, value in needed.items():
                # YAML writes true and false in small letters.
                text = "none" if value is None else str(value).lower()
                lines.append(f"{name}: {text}")
            detail = f"put into the section llm of the configuration: {', '.join(lines)}"
        checks.record(detail, name="llm section")


# --- a dataset, a RAG, a pipeline


def check_dataset(
    checks: Checks, dataset: str, corpus: str | None, fields: Mapping[str, str]
) -> None:
    """Doctor's checks of a dataset and the documents beside it: what would be scored wrongly.

    Such as one question with two answers, or gold that no document holds. An error while reading is
    a failed check, not the end of doctor.
    """
    with checks.trying("data reads"):
        encoding, _ = encoding_of(dataset)
        # The whole dataset: some mistakes show only between cases, such as two equal questions.
        cases = list(read_cases(dataset, encoding=encoding, fields=fields))
        detail = counted(len(cases), "case")
        documents: list[Document] | None = None
        # From here on an error is the corpus', and named so.
        checks.step = "corpus reads"
        try:
            documents = list(DocumentsBeside(dataset, corpus).read())
            detail += f", {counted(len(documents), 'document')}"
        except RagbenchError:
            # A dataset need not have documents beside it.
            if corpus is not None:
                raise
        checks.record(detail, name="data reads")
        for probed in probe_dataset(cases, documents):
            checks.record_probe(probed)


def check_rag(checks: Checks, spec: str, arguments: str | None, question: str) -> None:
    """Doctor's checks of a RAG: it is loaded and asked; the first thing that fails ends them.

    A service that does not answer as it is asked is explored, and options that fit are proposed.
    """
    options = json_object(arguments or "{}", "--rag-args")
    with checks.trying("rag loads"):
        service = read_service(spec)
        # A service with a method or a body of its own, and no paths: only its response can show the
        # paths.
        if service is not None and (service.method or "send" in options) and "take" not in options:
            _explore_service(checks, service, options, question)
            return
        rag = load_rag(spec, options)
        checks.record(type(cast("object", rag)).__name__)
        try:
            asyncio.run(_ask_rag(checks, rag, question))
        # A service that was named as a plain address may not know ragbench's protocol.
        except ContractError:
            # With paths or a preset the user has stated the form: then the mistake is reported as
            # it is.
            if service is None or service.preset or "take" in options:
                raise
            detail = (
                "it does not answer ragbench's own requests; asked as a service of its own kind"
            )
            checks.record(detail, "absent", name="rag answers")
            _explore_service(checks, service, options, question)


def _explore_service(
    checks: Checks, service: Service, options: Mapping[str, Any], question: str
) -> None:
    """Asks an HTTP service in the usual ways; adds its response and options that fit.

    Users of an unknown service need not read its documentation: the options for ``ragbench eval``
    are printed, ready to paste.
    """
    checks.step = "service answers"
    explored = explore(
        service,
        question,
        send=options.get("send"),
        headers=options.get("headers"),
        timeout=options.get("timeout", 60.0),
    )
    # No way of asking gave a response: the problem has what the last one answered.
    if explored.body is None:
        checks.record(explored.problem, "failed")
        return
    checks.record(f"after {counted(explored.requests, 'request')}; its response holds")
    for path, sample in tree_of(explored.body):
        checks.record(sample, name=path)
    checks.step = "service mapping"
    if explored.is_complete:
        checks.record("proposed from this response: check that each path is the right one")
    else:
        checks.record(
            "nothing in the response looks like an answer: name it with --take answer=PATH",
            "unknown",
        )
    lines = ["ragbench eval CASES", *explored.options]
    # Headers among the options may hold keys, and users paste the command into issues.
    checks.command = mask_text(" \\\n    ".join(lines))


async def _ask_rag(checks: Checks, rag: RAG, question: str) -> None:
    """Asks a RAG one question, then probes it for mistakes that no error would show.

    Such mistakes are results of a batch in another order, or answers that ignore the contexts.

    Args:
        checks: doctor's list, which gets the findings.
    """
    # A RAG that only generates is asked without contexts.
    contexts: Sequence[str] = ()
    if "retrieval" in rag.families:
        # No digest and no limit: nothing of this is stored.
        retrieve_input: RetrieveInput = (question, [])
        stage = retrieve_stage(rag, b"", None)
        result = await _stage_result(checks, "rag retrieves", stage, retrieve_input)
        # The failure is recorded already; an answer on no contexts would only mislead.
        if result is None:
            return
        contexts = result.contexts
        details = [counted(len(contexts), "context")]
        if contexts:
            details.append("without ids" if result.context_ids is None else "with ids")
            details.append("without scores" if result.scores is None else "with scores")
        checks.record(", ".join(details), name="rag retrieves")
        async for probed in probe_retrieval(rag, question):
            checks.record_probe(probed)
    if "generation" in rag.families:
        generate_input: GenerateInput = (question, list(contexts), [])
        answer = await _stage_result(
            checks, "rag generates", generate_stage(rag, b""), generate_input
        )
        if answer is not None:
            text = shown_line(answer.response, longest=200) or "an empty answer"
            checks.record(text, name="rag generates")
            async for probed in probe_generation(rag, question, contexts):
                checks.record_probe(probed)


async def _stage_result(
    checks: Checks, name: str, stage: CallStage[Any, Any], value: object
) -> Any:
    """The result of a stage of a RAG for one input; None, and a failed check, when it raises.

    A user's code may raise anything. A `ContractError` goes on to the caller, which then explores
    the service.
    """
    try:
        results = await called(stage, [value])
        return results[0]
    except ContractError:
        raise
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        checks.record(str(Failure.of(error, stage=stage.name)), "failed", name=name)
        return None


def check_pipeline(checks: Checks, path: Path, question: str) -> None:
    """Doctor's checks of a pipeline file: it is read and, where it names its corpus, asked.

    Each problem of the file is a check of its own.
    """
    with checks.trying("pipeline"):
        try:
            llm, _ = config_section()
            pipeline = load_pipeline(path, environ=os.environ, llm=llm)
        except DataError as error:
            for problem in error.problems:
                checks.record(str(problem), "failed")
            return
        checks.record(f"{path} is in order")
        # A store in memory without a corpus is empty: asking it would show only that.
        if pipeline.corpus is None and pipeline.indexing.settings.store == "memory:":
            detail = "not asked: it names no corpus and is given that of the dataset"
            checks.record(detail, name="pipeline answers")
            return
        checks.step = "pipeline opens"
        with pipeline.open() as opened:
            notes = "; ".join(opened.retriever.notes)
            if notes:
                checks.record(notes, name="pipeline reads")
            asyncio.run(_ask_rag(checks, opened.rag, question))
