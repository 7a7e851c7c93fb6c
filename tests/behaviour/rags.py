"""RAGs that note what they are asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from ragbench import (
    AsyncRAGInterface,
    Case,
    Entry,
    EvalSettings,
    GenerationResult,
    RAGInterface,
    Report,
    RetrievalResult,
    parse_metrics,
    report_of,
)
from ragbench.core.metric import Metric
from ragbench.core.report import CaseRow
from ragbench.post.operator import OperatorInput, OperatorOutput
from ragbench.verbs.evaluate import RunRequest, run_evaluation
from ragbench.views.write import write_reports

METRICS = "set_recall, exact_match"


class NotingRAG(RAGInterface):
    """Retrieves the chunk ``d-<query>`` and answers ``A <query>``, one query at a time.

    A query that holds "lost" cannot be retrieved, one that holds "mute" not be answered.
    """

    retriever: object = "one"
    generator: object = "one"

    def __init__(self) -> None:
        super().__init__()
        self.retrieved: list[str] = []
        self.generated: list[str] = []
        self.contexts: dict[str, list[str]] = {}
        """By query, those that it was to answer from."""

    def stage_identity(self, stage: str) -> object:
        identities = {"retrieve": self.retriever, "generate": self.generator}
        return identities[stage]

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        self.retrieved.append(query)
        if "lost" in query:
            raise LookupError(f"nothing for {query}")
        return RetrievalResult([f"text {query}"], context_ids=[f"d-{query}"], scores=[0.5])

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        self.generated.append(query)
        self.contexts[query] = contexts
        if "mute" in query:
            raise ValueError(f"no words for {query}")
        return GenerationResult(f"A {query}")


class OnlyGenerates(RAGInterface, families=("generation",)):
    def __init__(self, answer: str = "A {}") -> None:
        super().__init__()
        self.answer = answer
        self.calls: list[tuple[str, list[str]]] = []

    def stage_identity(self, stage: str) -> object:
        return "one"

    def generate(self, query: str, contexts: list[str]) -> str:
        self.calls.append((query, contexts))
        return self.answer.format(query)


class OnlyRetrieves(RAGInterface, families=("retrieval",)):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return [f"text {query}"]


class AsyncRAG(AsyncRAGInterface):
    """The same in coroutines."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = NotingRAG()

    async def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return self.plain.retrieve_with_metadata(query, top_k)

    async def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        return self.plain.generate_with_metadata(query, contexts)


def cases(*queries: str) -> list[Case]:
    """A case a query, answered rightly by the RAGs above."""
    return [
        Case(
            id=query,
            query=query,
            reference=f"A {query}",
            reference_context_ids=(f"d-{query}",),
            reference_contexts=(f"text {query}",),
        )
        for query in queries
    ]


def run(
    data: Iterable[Case | Entry],
    rag: Any,
    out: Path,
    *,
    metrics: str | None = METRICS,
    **options: Any,
) -> Report:
    """Runs an evaluation.

    Args:
        options: fields of the settings and of the request.
    """
    parsed_metrics: Sequence[Metric] | None = None
    if metrics is not None:
        parsed_metrics = parse_metrics(metrics)
    options.setdefault("version", "the same")  # without it nothing is used again in one process
    settings: dict[str, Any] = {}
    for field_of_settings in fields(EvalSettings):
        if field_of_settings.name in options:
            settings[field_of_settings.name] = options.pop(field_of_settings.name)
    request = RunRequest(
        out=out, rag=rag, metrics=parsed_metrics, settings=EvalSettings(**settings), **options
    )
    return run_evaluation(data, request)


def rows(report: Report) -> dict[str, CaseRow]:
    """The rows of the report, by the id of their case."""
    return {row.id: row for row in report.rows()}


class Counts(NamedTuple):
    """How the cases of a stage ended."""

    measured: int = 0
    abstained: int = 0
    skipped: int = 0
    failed: int = 0


def counts(report: Report) -> dict[str, Counts]:
    """How the cases ended, by stage."""
    by_stage: dict[str, Counts] = {}
    for stage in report.stages:
        by_stage[stage.stage] = Counts(
            measured=stage.measured,
            abstained=stage.abstained,
            skipped=stage.skipped,
            failed=stage.failed,
        )
    return by_stage


def report_files(out: Path) -> dict[str, bytes]:
    """The files of a run's report that must repeat byte for byte."""
    write_reports(report_of(out), out)
    return {name: (out / name).read_bytes() for name in ("report.json", "report.md", "cases.csv")}


# --- operators of post-retrieval


@dataclass(frozen=True, kw_only=True, slots=True)
class Backwards:
    """The last chunk first."""

    name: str = "test.backwards"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        note = f"{len(context.chunks)} turned"
        return OperatorOutput(chunks=context.chunks[::-1], notes=(note,))


@dataclass(frozen=True, kw_only=True, slots=True)
class Failing:
    """Fails as long as the switch is on; then it leaves the last chunk."""

    broken: Sequence[bool] = field(default=(True,), metadata={"setting": False})
    name: str = "custom.failing"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        if self.broken:
            raise RuntimeError("no model")
        return OperatorOutput(chunks=context.chunks[-1:])
