"""ragbench: what a RAG system retrieves, what it answers, and what that is worth.

Everything that users of the library need is importable from here, and loaded when it is first
used: ``from ragbench import RAGInterface, evaluate, read_cases``. What is not named here may move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragbench.core.case import Case, Evidence, Turn
    from ragbench.core.chunk import Chunk, Document, Node
    from ragbench.core.config import RAGConfig
    from ragbench.core.metric import Skip
    from ragbench.core.outcome import Cell, Failure, Known, Outcome, Status
    from ragbench.core.report import Report
    from ragbench.core.result import GenerationResult, RetrievalResult
    from ragbench.core.trace import Entry, Trace
    from ragbench.embedders.embedder import open_embedder
    from ragbench.errors import RagbenchError
    from ragbench.gate.compare import compare
    from ragbench.gate.config import FigureLimits, GateConfig, MetricGate
    from ragbench.gate.runs import read_run
    from ragbench.io.dumps.read import open_dump
    from ragbench.io.export import write_cases
    from ragbench.io.joined import join_answers
    from ragbench.io.labels import read_labels
    from ragbench.io.people import LabelBook
    from ragbench.io.read import Selection, read_cases, read_documents
    from ragbench.io.sources import open_source
    from ragbench.metrics.matching import Matching
    from ragbench.metrics.metric import metric
    from ragbench.metrics.registry import parse_metrics
    from ragbench.pipeline.baseline import BaselineRAG
    from ragbench.pipeline.documents import Piece
    from ragbench.pipeline.index import index
    from ragbench.pipeline.pipeline import Pipeline
    from ragbench.pipeline.pre_retrieval import Transformed
    from ragbench.pipeline.read import load_pipeline
    from ragbench.pipeline.search_engine import open_engine
    from ragbench.pipeline.stages import PipelineRAG
    from ragbench.post.build import build_operator, build_reranker
    from ragbench.post.operator import Query
    from ragbench.post.rerank import rerank
    from ragbench.post.stage import PostRetrieval
    from ragbench.rag.adapt import as_rag
    from ragbench.rag.fallback import PartialBatchError
    from ragbench.rag.interface import AsyncRAGInterface, RAGInterface
    from ragbench.rag.load import load_rag
    from ragbench.stages.on_workers import Workers
    from ragbench.stages.stage import CallSettings
    from ragbench.stats.decide import RegressionQuestion, decide
    from ragbench.stats.paired import pair
    from ragbench.stores.attached import attach
    from ragbench.stores.registry import open_store
    from ragbench.validators.validator import build_validator
    from ragbench.verbs.ablate import ablate
    from ragbench.verbs.calibrate import calibrate_dump
    from ragbench.verbs.evaluate import EvalSettings, evaluate
    from ragbench.verbs.export import export_run
    from ragbench.verbs.gate import gate_run
    from ragbench.verbs.judge_card import judge_card
    from ragbench.verbs.label import corrected_report, with_labels
    from ragbench.verbs.models import open_chat, open_judge
    from ragbench.verbs.report import open_traces, report_of
    from ragbench.verbs.validate import validate_dump

__all__ = [
    "AsyncRAGInterface",
    "BaselineRAG",
    "CallSettings",
    "Case",
    "Cell",
    "Chunk",
    "Document",
    "Entry",
    "EvalSettings",
    "Evidence",
    "Failure",
    "FigureLimits",
    "GateConfig",
    "GenerationResult",
    "Known",
    "LabelBook",
    "Matching",
    "MetricGate",
    "Node",
    "Outcome",
    "PartialBatchError",
    "Piece",
    "Pipeline",
    "PipelineRAG",
    "PostRetrieval",
    "Query",
    "RAGConfig",
    "RAGInterface",
    "RagbenchError",
    "RegressionQuestion",
    "Report",
    "RetrievalResult",
    "Selection",
    "Skip",
    "Status",
    "Trace",
    "Transformed",
    "Turn",
    "Workers",
    "ablate",
    "as_rag",
    "attach",
    "build_operator",
    "build_reranker",
    "build_validator",
    "calibrate_dump",
    "compare",
    "corrected_report",
    "decide",
    "evaluate",
    "export_run",
    "gate_run",
    "index",
    "join_answers",
    "judge_card",
    "load_pipeline",
    "load_rag",
    "metric",
    "open_chat",
    "open_dump",
    "open_embedder",
    "open_engine",
    "open_judge",
    "open_source",
    "open_store",
    "open_traces",
    "pair",
    "parse_metrics",
    "read_cases",
    "read_documents",
    "read_labels",
    "read_run",
    "report_of",
    "rerank",
    "validate_dump",
    "with_labels",
    "write_cases",
]

_PLACES = {
    "core.case": ("Case", "Evidence", "Turn"),
    "core.chunk": ("Chunk", "Document", "Node"),
    "core.config": ("RAGConfig",),
    "core.metric": ("Skip",),
    "core.outcome": ("Cell", "Failure", "Known", "Outcome", "Status"),
    "core.report": ("Report",),
    "core.result": ("GenerationResult", "RetrievalResult"),
    "core.trace": ("Entry", "Trace"),
    "embedders.embedder": ("open_embedder",),
    "errors": ("RagbenchError",),
    "gate.compare": ("compare",),
    "gate.config": ("FigureLimits", "GateConfig", "MetricGate"),
    "gate.runs": ("read_run",),
    "io.dumps.read": ("open_dump",),
    "io.joined": ("join_answers",),
    "io.labels": ("read_labels",),
    "io.people": ("LabelBook",),
    "io.export": ("write_cases",),
    "io.read": ("Selection", "read_cases", "read_documents"),
    "io.sources": ("open_source",),
    "metrics.matching": ("Matching",),
    "metrics.metric": ("metric",),
    "metrics.registry": ("parse_metrics",),
    "pipeline.baseline": ("BaselineRAG",),
    "pipeline.documents": ("Piece",),
    "pipeline.index": ("index",),
    "pipeline.pipeline": ("Pipeline",),
    "pipeline.pre_retrieval": ("Transformed",),
    "pipeline.read": ("load_pipeline",),
    "pipeline.search_engine": ("open_engine",),
    "pipeline.stages": ("PipelineRAG",),
    "post.build": ("build_operator", "build_reranker"),
    "post.operator": ("Query",),
    "post.rerank": ("rerank",),
    "post.stage": ("PostRetrieval",),
    "rag.adapt": ("as_rag",),
    "rag.fallback": ("PartialBatchError",),
    "rag.interface": ("AsyncRAGInterface", "RAGInterface"),
    "rag.load": ("load_rag",),
    "stages.on_workers": ("Workers",),
    "stages.stage": ("CallSettings",),
    "stats.decide": ("RegressionQuestion", "decide"),
    "stats.paired": ("pair",),
    "stores.attached": ("attach",),
    "stores.registry": ("open_store",),
    "validators.validator": ("build_validator",),
    "verbs.ablate": ("ablate",),
    "verbs.calibrate": ("calibrate_dump",),
    "verbs.evaluate": ("EvalSettings", "evaluate"),
    "verbs.export": ("export_run",),
    "verbs.gate": ("gate_run",),
    "verbs.judge_card": ("judge_card",),
    "verbs.label": ("corrected_report", "with_labels"),
    "verbs.models": ("open_chat", "open_judge"),
    "verbs.report": ("open_traces", "report_of"),
    "verbs.validate": ("validate_dump",),
}


def __getattr__(name: str) -> object:
    """Loads a public name at its first use."""
    from importlib import import_module

    for module, names in _PLACES.items():
        if name in names:
            value: object = getattr(import_module(f"ragbench.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'ragbench' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
