"""Whether a pipeline's file is in order, and whether what it describes answers."""

from __future__ import annotations

import os
from pathlib import Path

from ragbench.errors import DataError, RagbenchError
from ragbench.interface.masking import mask_text
from ragbench.pipeline import Pipeline, load_pipeline
from ragbench_cli.checks.check import Check
from ragbench_cli.checks.rag import ask_rag
from ragbench_cli.llm_options import llm_section

__all__ = ["check_pipeline"]


def check_pipeline(path: Path, question: str) -> list[Check]:
    """Reads a pipeline and, where it names its corpus, asks it; each problem is a check."""
    try:
        pipeline = load_pipeline(path, environ=os.environ, llm=llm_section())
    except DataError as error:
        return [_failed("pipeline", str(problem)) for problem in error.problems]
    except RagbenchError as error:
        return [_failed("pipeline", str(error))]
    checks = [Check(name="pipeline", state="ok", detail=f"{path} is in order")]
    if pipeline.corpus is None and pipeline.indexing.is_in_memory:
        told = "not asked: it names no corpus and is given that of the dataset"
        return [*checks, Check(name="pipeline answers", state="ok", detail=told)]
    return [*checks, *_asked(pipeline, question)]


def _asked(pipeline: Pipeline, question: str) -> list[Check]:
    try:
        with pipeline.open() as opened:
            told = "; ".join(opened.notes)
            read = [Check(name="pipeline reads", state="ok", detail=told)] if told else []
            return [*read, *ask_rag(opened.rag, question)]
    except RagbenchError as error:
        return [_failed("pipeline opens", str(error))]


def _failed(name: str, told: str) -> Check:
    return Check(name=name, state="failed", detail=mask_text(told))
