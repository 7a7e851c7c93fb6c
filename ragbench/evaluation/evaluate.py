"""evaluate(): cases through a RAG, into a journal, under metrics, to a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError, InterfaceError, InterruptedRunError, Problem
from ragbench.evaluation.judge_info import judge_info, judge_key
from ragbench.evaluation.judging import JudgeRun, Judging
from ragbench.evaluation.post_retrieve import post_retrieve_stage
from ragbench.evaluation.rag_stages import RAG, generate_stage, retrieve_stage
from ragbench.evaluation.report import report_of
from ragbench.evaluation.run import Run
from ragbench.evaluation.scored_turn import Column
from ragbench.evaluation.selection import Selection
from ragbench.evaluation.stage import InLoop, Limits, Settle
from ragbench.evaluation.validate_stage import VALIDATE, validate_stage
from ragbench.interface.adapters.parts import Adapted
from ragbench.interface.identity import describe_rag
from ragbench.postretrieval.on_result import POST_RETRIEVE
from ragbench.postretrieval.operator import PostRetrieval
from ragbench.records.cases import Case
from ragbench.records.metrics import Metric
from ragbench.records.reports import Report
from ragbench.runs.fingerprint import fingerprint, running_digest
from ragbench.runs.folder import RunFolder
from ragbench.runs.journal import Journal
from ragbench.runs.manifest import (
    DatasetInfo,
    Manifest,
    MetricInfo,
    RagInfo,
    git_state,
    package_versions,
    write_manifest,
)
from ragbench.scoring.judge_plan import JudgePlan
from ragbench.scoring.matching import Matching
from ragbench.scoring.plan import Plan
from ragbench.scoring.registry import default_metrics
from ragbench.validation.validator import Validator

__all__ = ["Advance", "evaluate"]

Advance = Callable[[str, int, int, int, int], None]
"""Told of progress: stage, cases in all, cases now settled, how many of those failed, how many
came out of the journal."""

_PACKAGES = (
    "bm25s", "ir-measures", "pytrec-eval-terrier", "ragas", "ragbench", "rapidfuzz",
    "rouge-score", "sacrebleu",
)  # fmt: skip


def evaluate(
    cases: Iterable[Case],
    rag: RAG,
    *,
    out: Path,
    post_retrieval: PostRetrieval | None = None,
    validator: Validator | None = None,
    metrics: Sequence[Metric] | None = None,
    name: str = "dataset",
    source: str = "",
    rag_name: str | None = None,
    rag_description: Mapping[str, Any] | None = None,
    top_k: int | None = None,
    selection: Selection | None = None,
    limits: Limits | None = None,
    matching: Matching = Matching.AUTO,
    judging: Judging | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    advance: Advance | None = None,
) -> Report:
    """Evaluates a RAG and leaves everything in a run folder.

    Called again with the same arguments it continues: outcomes that are in the folder's journal
    under the same stage identity and inputs are not computed again.

    Args:
        cases: the dataset's cases; read once, from front to back.
        rag: the system; see `ragbench.interface.adapt.as_rag` for what can be made one.
        out: the run folder.
        post_retrieval: what happens to chunks between the RAG's retrieval and its generation;
            nothing when not given.
        validator: what judges the chunks that generation is given, and changes nothing of them;
            nothing when not given.
        metrics: what to measure; `default_metrics` when not given.
        name: the dataset's name in reports.
        source: where the dataset came from, as the user named it.
        rag_name: the system's name in reports; its class when not given.
        rag_description: what distinguishes the system; derived from it when not given.
        top_k: handed to retrieval; None leaves it to the system.
        selection: which of the cases to take; all when not given.
        limits: batch size, calls in flight, time limit.
        matching: how retrieved chunks are compared with the relevant ones.
        judging: who is asked by metrics that ask models; without it there may be none of those.
        fresh: forget what an earlier run left in the folder.
        retry_failed: compute again what failed in an earlier run.
        stopped: asked before each call; once true, what is in flight is finished and the run ends.
        advance: told of progress.

    Returns:
        The report; `ragbench.reports` renders it.

    Raises:
        DataError: there are no cases or one cannot be used; nothing is run, and an earlier run in
            the folder is left as it was.
        ConfigError: a metric cannot be computed as it is set, or post-retrieval or validation is
            asked for a RAG that gives no room for it.
        MissingExtraError: a metric needs a package that is not installed.
        RunMismatchError: the folder holds something that is no run.
        RunError: the folder cannot be written.
        RunLockedError: another process works on the folder.
        InterruptedRunError: `stopped` said so; the same call continues.
        LLMStoppedError: no model answers any more, or may be asked; the same call continues.
    """
    chosen = tuple(metrics) if metrics is not None else default_metrics()
    # A metric that cannot be computed is told before anything runs.
    Plan([metric for metric in chosen if not metric.is_judged], matching=matching)
    judge = _judge(chosen, judging)
    class_name = type(rag).__name__
    description = rag_description or describe_rag(rag, rag_name or class_name)
    stages = _stage_fingerprints(rag, description, top_k)
    settings: dict[str, Any] = {"top_k": top_k}
    if post_retrieval is not None:
        _check_room(rag)
        settings[POST_RETRIEVE] = post_retrieval.identity
        stages[POST_RETRIEVE] = fingerprint((POST_RETRIEVE, post_retrieval.identity))
    if validator is not None:
        if "retrieval" not in rag.families:
            raise ConfigError("the RAG does not retrieve: validation has nothing to judge")
        stages[VALIDATE] = fingerprint((VALIDATE, validator.name, validator.identity))
    folder = RunFolder(path=out)
    with ExitStack() as stack:
        if stack.enter_context(folder.locked()):
            # A folder whose cases never came is not left behind.
            stack.callback(_discard_if_empty, folder)
        draw = _Draw(cases, selection or Selection(), source, stopped)
        if fresh:
            with folder.new_journal() as path, Journal(path) as new:
                new.replace_cases(draw)
        journal = stack.enter_context(Journal(folder.journal))
        if not fresh:
            journal.replace_cases(draw)
        dataset = _dataset_info(journal, draw, name)
        manifest = Manifest(
            dataset=dataset,
            rag=RagInfo(name=rag_name or class_name, description=description, stages=stages),
            metrics=tuple(MetricInfo(name=m.name, version=m.definition.version) for m in chosen),
            settings={**settings, "matching": str(matching)},
            packages=package_versions(_PACKAGES),
            git=git_state(Path.cwd()),
            judge=None if judge is None else judge.info,
        )
        write_manifest(manifest.with_fingerprints(), folder.manifest)

        def decided(used: Matching) -> None:
            now = {**settings, "matching": str(used)}
            known = replace(manifest, settings=now).with_fingerprints()
            write_manifest(known, folder.manifest)

        settle = _settle(advance, dataset.cases)
        Run(
            journal=journal,
            retrieve=retrieve_stage(rag, bytes.fromhex(stages["retrieve"]), top_k)
            if "retrieve" in stages
            else None,
            post_retrieve=None
            if post_retrieval is None
            else post_retrieve_stage(post_retrieval, bytes.fromhex(stages[POST_RETRIEVE])),
            validate=None
            if validator is None
            else validate_stage(validator, bytes.fromhex(stages[VALIDATE])),
            generate=generate_stage(rag, bytes.fromhex(stages["generate"]))
            if "generate" in stages
            else None,
            metrics=chosen,
            judge=None if judge is None else judge.run(journal, stopped, settle),
            limits=limits or Limits(),
            retry_failed=retry_failed,
            stopped=stopped,
            in_loop=stack.enter_context(_event_loop()) if rag.is_async else asyncio.run,
            settle=settle,
            restore=rag.restore if isinstance(rag, Adapted) else None,
            decided=decided,
        ).all_cases(matching)
    return report_of(out)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judge:
    """The judged metrics of a run and who judges them."""

    plan: JudgePlan
    judging: Judging
    info: dict[str, Any]

    def run(self, journal: Journal, stopped: Callable[[], bool], settle: Settle) -> JudgeRun:
        return JudgeRun(
            plan=self.plan,
            columns=[Column.of(m, judge_key(self.info, m)) for m in self.plan.metrics],
            judging=self.judging,
            journal=journal,
            stopped=stopped,
            judged=lambda cases: settle("judge", cases, 0, 0),
        )


def _judge(metrics: Sequence[Metric], judging: Judging | None) -> _Judge | None:
    """Makes the judged metrics ready.

    Raises:
        ConfigError: there is nobody to ask.
    """
    judged = [metric for metric in metrics if metric.is_judged]
    if not judged:
        return None
    chat = embeddings = None
    if judging is not None:
        chat = None if judging.chat is None else judging.chat.endpoint
        embeddings = None if judging.embeddings is None else judging.embeddings.endpoint
    plan = JudgePlan(judged, repeats=1 if judging is None else judging.repeats)
    info = judge_info(plan, chat, embeddings)
    if judging is None:
        raise ConfigError("nobody is there to ask: give evaluate() its argument judging")
    return _Judge(plan=plan, judging=judging, info=info)


def _check_room(rag: RAG) -> None:
    """Refuses post-retrieval for a RAG that nothing can be put into.

    Raises:
        ConfigError: it does not retrieve, or it answers in the same call.
    """
    if "retrieval" not in rag.families:
        raise ConfigError("the RAG does not retrieve: post-retrieval has nothing to work on")
    if isinstance(rag, Adapted) and rag.answers_in_one_call:
        raise ConfigError(
            "the RAG retrieves and answers in one call: nothing can be put in between. Evaluate "
            "it without post-retrieval, and compare variants with: ragbench ablate"
        )


def _stage_fingerprints(
    rag: RAG, description: Mapping[str, Any], top_k: int | None
) -> dict[str, str]:
    """What each stage's outcomes are kept under: they are reused while it stays the same.

    A stage that the RAG lacks has none.
    """
    # What one stage says of itself must not make the other one run again.
    common = {key: value for key, value in description.items() if key != "stages"}
    found: dict[str, str] = {}
    for stage, family in (("retrieve", "retrieval"), ("generate", "generation")):
        if family in rag.families:
            identity = rag.stage_identity(stage)
            wanted = top_k if stage == "retrieve" else None
            found[stage] = fingerprint((stage, common if identity is None else identity, wanted))
    return found


@dataclass(frozen=True, slots=True)
class _Draw:
    """The cases that are taken; at least one, or an error."""

    cases: Iterable[Case]
    selection: Selection
    source: str
    stopped: Callable[[], bool]

    def __iter__(self) -> Iterator[Case]:
        """The cases, in order.

        Raises:
            DataError: there is none.
            InterruptedRunError: `stopped` said so.
        """
        case = None
        for case in self.selection.apply(self.cases):
            if self.stopped():
                raise InterruptedRunError("stopped while the cases were read; nothing was run")
            yield case
        if case is None:
            raise DataError([Problem(message="there are no cases", path=self.source)])


def _dataset_info(journal: Journal, draw: _Draw, name: str) -> DatasetInfo:
    selection = draw.selection
    return DatasetInfo(
        name=name,
        source=draw.source,
        fingerprint=running_digest(journal.case_digests()).hex(),
        cases=journal.case_count(),
        limit=selection.limit,
        sample=selection.sample,
        seed=None if selection.sample is None else selection.seed,
    )


@contextmanager
def _event_loop() -> Generator[InLoop]:
    """Where the coroutines of an async RAG run: one event loop for the whole run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            yield runner.run
    else:
        raise InterfaceError(
            "evaluate() runs an async RAG in an event loop of its own and was called inside of "
            "one: call it as 'await asyncio.to_thread(evaluate, ...)'"
        )


def _settle(advance: Advance | None, total: int) -> Settle:
    def settle(stage: str, done: int, failed: int, reused: int) -> None:
        if advance is not None:
            advance(stage, total, done, failed, reused)

    return settle


def _discard_if_empty(folder: RunFolder) -> None:
    if not folder.manifest.exists():
        folder.discard()
