"""Traces that the tests of prepare share: one of every kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from ragbench import Case, Evidence, GenerationResult, RetrievalResult, open_source
from ragbench.core.outcome import Cell, Failure, Outcome, Status
from ragbench.core.trace import Entry, SampleRow, Trace
from ragbench.io.export import Scores


def measured(value: Any) -> Outcome[Any]:
    return Outcome(status=Status.MEASURED, value=value, seconds=0.25)


def failed(stage: str) -> Outcome[Any]:
    failure = Failure(type="ValueError", message="boom", stage=stage, cause="KeyError: 'x'")
    return Outcome(status=Status.FAILED, failure=failure)


def skipped(reason: str) -> Outcome[Any]:
    return Outcome(status=Status.SKIPPED, reason=reason)


FULL = Trace(
    case=Case(
        id="full",
        query="Where is “Zürich”?",
        reference="In Switzerland",
        answerable=True,
        reference_contexts=("Zürich is in Switzerland.",),
        reference_context_ids=("ch-1", "ch-2"),
        evidence=(Evidence(text="in Switzerland", document_id="ch-1", start=10, end=24),),
        tags=("geo",),
        language="en",
        metadata={"rubrics": {"score1": "wrong"}, "persona_name": "tourist", "n": 3},
    ),
    retrieval=measured(
        RetrievalResult(
            ["Zürich is in Switzerland.", "Bern, the capital"],
            context_ids=["ch-1", "ch-9"],
            scores=[0.9, 0.25],
            context_metadata=[{"page": 1}, {"page": 2}],
            metadata={"index": "v2"},
        )
    ),
    generation=measured(
        GenerationResult(
            "In Switzerland",
            multi_responses=["In Switzerland", "In Germany"],
            confidence=0.75,
            metadata={"tokens": 12},
        )
    ),
)
BARE = Trace(
    case=Case(id="bare", query="苹果是什么？\n第二行"),
    retrieval=measured(RetrievalResult(["苹果是水果"])),
    generation=measured(GenerationResult("")),
)
NOTHING_FOUND = Trace(
    case=Case(id="none", query="gibberish", reference="?", reference_context_ids=()),
    retrieval=measured(RetrievalResult([], context_ids=[])),
    generation=Outcome(status=Status.ABSTAINED, value=GenerationResult("I do not know.")),
)
RETRIEVAL_FAILED = Trace(
    case=Case(id="rf", query="q", reference="a", reference_context_ids=("ch-1",)),
    retrieval=failed("retrieve"),
    generation=skipped("retrieval failed"),
)
GENERATION_FAILED = Trace(
    case=Case(id="gf", query="q", reference="a", reference_context_ids=("x",)),
    retrieval=measured(RetrievalResult(["x"], context_ids=["x"])),
    generation=failed("generate"),
)
ONLY_GENERATES = Trace(
    case=Case(id="og", query="q", reference="a"),
    retrieval=skipped("the RAG only generates"),
    generation=measured(GenerationResult("a")),
)
ALL = (FULL, BARE, NOTHING_FOUND, RETRIEVAL_FAILED, GENERATION_FAILED, ONLY_GENERATES)

SCORES = Scores(
    metrics=("EM", "nDCG@10"),
    cells={
        "full": {"EM": Cell.measured(1.0), "nDCG@10": Cell.measured(0.5)},
        "none": {"EM": Cell.abstained("declined"), "nDCG@10": Cell.skipped("no judgements")},
        "rf": {"EM": Cell.failed(Failure(type="ValueError", message="boom", stage="retrieve"))},
    },
)


def trace_of(
    contexts: list[str],
    *,
    case: str = "q1",
    ids: list[Any] | None = None,
    scores: list[float] | None = None,
    grades: dict[str, int] | None = None,
) -> Trace:
    """A trace that only retrieves."""
    return Trace(
        case=Case(id=case, query="q", grades=grades),
        retrieval=measured(RetrievalResult(contexts, context_ids=ids, scores=scores)),
        generation=skipped("the RAG only retrieves"),
    )


def as_lists(row: SampleRow) -> dict[str, object]:
    """A row's values with its tuples as lists, as they come back from a file."""
    return {
        name: [*cast("tuple[str, ...]", value)] if isinstance(value, tuple) else value
        for name, value in row.as_mapping().items()
    }


def lines(path: Path, rows: Iterable[object]) -> Path:
    """JSON Lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def written(path: Path, content: object, *, indent: int | None = None) -> Path:
    """Bytes or a text as they are, all else as JSON."""
    if not isinstance(content, bytes):
        content = content if isinstance(content, str) else json.dumps(content, indent=indent)
        content = content.encode()
    path.write_bytes(content)
    return path


def entries(path: Path, **options: Any) -> list[Entry]:
    """All of a source."""
    with open_source(path, **options) as source:
        return list(source)
