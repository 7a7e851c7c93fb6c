"""Stage 6: the stages of a RAG, composed; and the RAG that ragbench brings."""

from ragbench.pipeline.baseline import BaselineRAG, BaselineSettings
from ragbench.pipeline.pipeline import Pipeline
from ragbench.pipeline.rag import PipelineRAG
from ragbench.pipeline.read import load_pipeline

__all__ = ["BaselineRAG", "BaselineSettings", "Pipeline", "PipelineRAG", "load_pipeline"]
