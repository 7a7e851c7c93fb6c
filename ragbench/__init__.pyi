"""The public names of ragbench, and the module of each: read by type checkers and at run time.

The panels are those of ``ragbench --help``; docs/python.md lists the names in them.
"""

# Panel: Start

from ragbench.core.case import Case as Case
from ragbench.core.case import Evidence as Evidence
from ragbench.core.case import Expectation as Expectation
from ragbench.core.case import Turn as Turn
from ragbench.core.chunk import Chunk as Chunk
from ragbench.core.chunk import Document as Document
from ragbench.core.chunk import Node as Node
from ragbench.core.result import GenerationResult as GenerationResult
from ragbench.core.result import RetrievalResult as RetrievalResult
from ragbench.core.trace import Entry as Entry
from ragbench.errors import RagbenchError as RagbenchError
from ragbench.io.entries import EntrySource as EntrySource
from ragbench.io.joined import join_answers as join_answers
from ragbench.io.only import Only as Only
from ragbench.io.only import Selection as Selection
from ragbench.io.read import read_cases as read_cases
from ragbench.io.read import read_documents as read_documents
from ragbench.io.source import Problems as Problems
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

from ragbench.core.chat import ChatModel as ChatModel
from ragbench.core.chat import Message as Message
from ragbench.core.metric import Metric as Metric
from ragbench.core.metric import Skip as Skip
from ragbench.core.outcome import Cell as Cell
from ragbench.core.outcome import Failure as Failure
from ragbench.core.outcome import Known as Known
from ragbench.core.outcome import Outcome as Outcome
from ragbench.core.outcome import Status as Status
from ragbench.core.report import Report as Report
from ragbench.core.trace import RunCase as RunCase
from ragbench.core.trace import Trace as Trace
from ragbench.core.validation import DumpSummary as DumpSummary
from ragbench.core.validation import Verdict as Verdict
from ragbench.io.dumps.form import ScoreKind as ScoreKind
from ragbench.io.dumps.read import OpenDump as OpenDump
from ragbench.io.export import Exported as Exported
from ragbench.io.export import write_cases as write_cases
from ragbench.io.joined import open_dump as open_dump
from ragbench.llm.session import Chat as Chat
from ragbench.metrics.matching import Matching as Matching
from ragbench.metrics.metric import MetricOptions as MetricOptions
from ragbench.metrics.metric import metric as metric
from ragbench.metrics.registry import parse_metrics as parse_metrics
from ragbench.metrics.rubric import rubric as rubric
from ragbench.stages.judge import Judging as Judging
from ragbench.stages.on_workers import Workers as Workers
from ragbench.stages.stage import CallSettings as CallSettings
from ragbench.stages.stage import Progress as Progress
from ragbench.stages.system import EvalSettings as EvalSettings
from ragbench.trackers.tracker import Tracked as Tracked
from ragbench.validators.validator import Validator as Validator
from ragbench.validators.validator import build_validator as build_validator
from ragbench.verbs.cases import export_run as export_run
from ragbench.verbs.evaluate import evaluate as evaluate
from ragbench.verbs.models import open_chat as open_chat
from ragbench.verbs.models import open_judge as open_judge
from ragbench.verbs.report import open_traces as open_traces
from ragbench.verbs.report import report_of as report_of
from ragbench.verbs.validate import Demands as Demands
from ragbench.verbs.validate import ValidatedQuery as ValidatedQuery
from ragbench.verbs.validate import validate_dump as validate_dump

# isort: split

# Panel: Decide

from ragbench.core.comparison import Comparison as Comparison
from ragbench.core.gate_result import GateResult as GateResult
from ragbench.core.run_scores import RunScores as RunScores
from ragbench.gate.compare import compare as compare
from ragbench.gate.config import FigureLimits as FigureLimits
from ragbench.gate.config import GateConfig as GateConfig
from ragbench.gate.config import MetricGate as MetricGate
from ragbench.gate.runs import read_run as read_run
from ragbench.stats.decide import Decision as Decision
from ragbench.stats.decide import RegressionQuestion as RegressionQuestion
from ragbench.stats.decide import decide as decide
from ragbench.stats.paired import PairedSample as PairedSample
from ragbench.stats.paired import pair as pair
from ragbench.verbs.gate import gate_run as gate_run

# isort: split

# Panel: Improve

from ragbench.core.ablation import Ablation as Ablation
from ragbench.core.chat import Price as Price
from ragbench.core.search_query import SearchQuery as SearchQuery
from ragbench.core.search_query import Transformed as Transformed
from ragbench.ledger.scores import ScoreStore as ScoreStore
from ragbench.llm.budget import Budget as Budget
from ragbench.post.build import Resources as Resources
from ragbench.post.build import Variant as Variant
from ragbench.post.build import build_operator as build_operator
from ragbench.post.build import build_reranker as build_reranker
from ragbench.post.operator import ChunkNeighbours as ChunkNeighbours
from ragbench.post.operator import ChunkSearch as ChunkSearch
from ragbench.post.operator import Operator as Operator
from ragbench.post.operator import OperatorInput as OperatorInput
from ragbench.post.operator import OperatorOutput as OperatorOutput
from ragbench.post.operator import Query as Query
from ragbench.post.operator import RankedChunk as RankedChunk
from ragbench.post.rerank import IReranker as IReranker
from ragbench.post.rerank import Reranked as Reranked
from ragbench.post.rerank import Reranker as Reranker
from ragbench.post.rerank import rerank as rerank
from ragbench.post.stage import PostRetrieval as PostRetrieval
from ragbench.post.stage import PostRetrieved as PostRetrieved
from ragbench.search.embedders.embedder import Embedder as Embedder
from ragbench.search.embedders.embedder import open_embedder as open_embedder
from ragbench.search.pipeline.documents import Chunker as Chunker
from ragbench.search.pipeline.documents import Piece as Piece
from ragbench.search.pipeline.index import IndexProgress as IndexProgress
from ragbench.search.pipeline.index import IndexResult as IndexResult
from ragbench.search.pipeline.index import index as index
from ragbench.search.pipeline.pipeline import Pipeline as Pipeline
from ragbench.search.pipeline.read import load_pipeline as load_pipeline
from ragbench.search.pipeline.search_engine import RetrievalEngine as RetrievalEngine
from ragbench.search.pipeline.search_engine import open_engine as open_engine
from ragbench.search.pipeline.stages import PipelineRAG as PipelineRAG
from ragbench.search.pipeline.strategies import RetrievalSettings as RetrievalSettings
from ragbench.search.stores.attached import ForeignCollection as ForeignCollection
from ragbench.search.stores.attached import attach as attach
from ragbench.search.stores.collection import OwnCollection as OwnCollection
from ragbench.search.stores.database import open_store as open_store
from ragbench.search.stores.mapping import FieldMapping as FieldMapping
from ragbench.text.token_counter import TokenCounter as TokenCounter
from ragbench.verbs.ablate import ablate as ablate

# isort: split

# Panel: Trust

from ragbench.core.labels import JudgeCard as JudgeCard
from ragbench.core.labels import Probe as Probe
from ragbench.io.labels import LabelledClaim as LabelledClaim
from ragbench.io.labels import read_labels as read_labels
from ragbench.io.people import HumanLabel as HumanLabel
from ragbench.io.people import LabelBook as LabelBook
from ragbench.verbs.calibrate import DumpCalibration as DumpCalibration
from ragbench.verbs.calibrate import calibrate_dump as calibrate_dump
from ragbench.verbs.judge_card import judge_card as judge_card
from ragbench.verbs.label import corrected_report as corrected_report
from ragbench.verbs.label import with_labels as with_labels
from ragbench.verbs.track import track_run as track_run
