"""The public names of ragbench, and the module of each: read by type checkers and at run time.

The panels are those of ``ragbench --help``; docs/python.md lists the names in them.
"""

# Panel: Start

from ragbench.core.case import Case as Case
from ragbench.core.case import Evidence as Evidence
from ragbench.core.case import Turn as Turn
from ragbench.core.chunk import Chunk as Chunk
from ragbench.core.chunk import Document as Document
from ragbench.core.chunk import Node as Node
from ragbench.core.result import GenerationResult as GenerationResult
from ragbench.core.result import RetrievalResult as RetrievalResult
from ragbench.core.trace import Entry as Entry
from ragbench.errors import RagbenchError as RagbenchError
from ragbench.io.joined import join_answers as join_answers
from ragbench.io.only import Selection as Selection
from ragbench.io.read import read_cases as read_cases
from ragbench.io.read import read_documents as read_documents
from ragbench.io.sources import open_source as open_source
from ragbench.rag.adapt import as_rag as as_rag
from ragbench.rag.fallback import PartialBatchError as PartialBatchError
from ragbench.rag.interface import AsyncRAGInterface as AsyncRAGInterface
from ragbench.rag.interface import RAGConfig as RAGConfig
from ragbench.rag.interface import RAGInterface as RAGInterface
from ragbench.rag.load import load_rag as load_rag
from ragbench.search.pipeline.baseline import BaselineRAG as BaselineRAG

# isort: split

# Panel: Evaluate

from ragbench.core.metric import Skip as Skip
from ragbench.core.outcome import Cell as Cell
from ragbench.core.outcome import Failure as Failure
from ragbench.core.outcome import Known as Known
from ragbench.core.outcome import Outcome as Outcome
from ragbench.core.outcome import Status as Status
from ragbench.core.report import Report as Report
from ragbench.core.trace import Trace as Trace
from ragbench.io.export import write_cases as write_cases
from ragbench.io.joined import open_dump as open_dump
from ragbench.metrics.matching import Matching as Matching
from ragbench.metrics.metric import metric as metric
from ragbench.metrics.registry import parse_metrics as parse_metrics
from ragbench.metrics.rubric import rubric as rubric
from ragbench.stages.on_workers import Workers as Workers
from ragbench.stages.stage import CallSettings as CallSettings
from ragbench.stages.system import EvalSettings as EvalSettings
from ragbench.validators.validator import build_validator as build_validator
from ragbench.verbs.cases import export_run as export_run
from ragbench.verbs.evaluate import evaluate as evaluate
from ragbench.verbs.models import open_chat as open_chat
from ragbench.verbs.models import open_judge as open_judge
from ragbench.verbs.report import open_traces as open_traces
from ragbench.verbs.report import report_of as report_of
from ragbench.verbs.validate import validate_dump as validate_dump

# isort: split

# Panel: Decide

from ragbench.gate.compare import compare as compare
from ragbench.gate.config import FigureLimits as FigureLimits
from ragbench.gate.config import GateConfig as GateConfig
from ragbench.gate.config import MetricGate as MetricGate
from ragbench.gate.runs import read_run as read_run
from ragbench.stats.decide import RegressionQuestion as RegressionQuestion
from ragbench.stats.decide import decide as decide
from ragbench.stats.paired import pair as pair
from ragbench.verbs.gate import gate_run as gate_run

# isort: split

# Panel: Improve retrieval

from ragbench.core.search_query import Transformed as Transformed
from ragbench.post.build import build_operator as build_operator
from ragbench.post.build import build_reranker as build_reranker
from ragbench.post.operator import Query as Query
from ragbench.post.rerank import rerank as rerank
from ragbench.post.stage import PostRetrieval as PostRetrieval
from ragbench.search.embedders.embedder import open_embedder as open_embedder
from ragbench.search.pipeline.documents import Piece as Piece
from ragbench.search.pipeline.index import index as index
from ragbench.search.pipeline.pipeline import Pipeline as Pipeline
from ragbench.search.pipeline.read import load_pipeline as load_pipeline
from ragbench.search.pipeline.search_engine import open_engine as open_engine
from ragbench.search.pipeline.stages import PipelineRAG as PipelineRAG
from ragbench.search.stores.attached import attach as attach
from ragbench.search.stores.database import open_store as open_store
from ragbench.verbs.ablate import ablate as ablate

# isort: split

# Panel: Maintain

from ragbench.io.labels import read_labels as read_labels
from ragbench.io.people import LabelBook as LabelBook
from ragbench.verbs.calibrate import calibrate_dump as calibrate_dump
from ragbench.verbs.judge_card import judge_card as judge_card
from ragbench.verbs.label import corrected_report as corrected_report
from ragbench.verbs.label import with_labels as with_labels
