"""ragbench: what a RAG system retrieves, what it answers, and what that is worth.

The names here are what a RAG implementation needs. Everything else is imported from its module,
for example ``from ragbench.evaluation.evaluate import evaluate``.
"""

from ragbench.interface.base import AsyncRAGInterface, RAGInterface
from ragbench.interface.config import RAGConfig
from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cases import Case, Evidence
from ragbench.records.corpus import Chunk, Document, Node

__all__ = [
    "AsyncRAGInterface",
    "Case",
    "Chunk",
    "Document",
    "Evidence",
    "GenerationResult",
    "Node",
    "RAGConfig",
    "RAGInterface",
    "RetrievalResult",
]
