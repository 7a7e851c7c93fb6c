"""The RAG that a command asks, from what its options say."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.errors import ConfigError
from ragbench.interface.identity import describe_rag
from ragbench.records.corpus import Document
from ragbench_cli import console
from ragbench_cli.naming import rag_name

if TYPE_CHECKING:
    from ragbench.evaluation.rag_stages import RAG
    from ragbench.llm.budget import Budget
    from ragbench.llm.late_chat import LateChat
    from ragbench.llm.ledger import Receipt
    from ragbench.pipeline import BaselineRAG
    from ragbench.postretrieval.operator import PostRetrieval

__all__ = [
    "DocumentsBeside",
    "PipelineFile",
    "System",
    "baseline",
    "chosen_system",
    "open_pipeline",
    "user_rag",
]


class System(NamedTuple):
    """A RAG with what reports say of it."""

    rag: RAG
    name: str
    description: dict[str, Any]
    """What distinguishes it from others; the same description may reuse its results."""
    post_retrieval: PostRetrieval | None = None
    """What stands between its retrieval and its generation."""
    concurrency: int = 1
    """Calls in flight when the user does not say."""
    chats: tuple[LateChat, ...] = ()
    """Language models of its own."""

    def receipts(self) -> list[Receipt]:
        """What its own language models took so far; of each that was asked."""
        return [found for chat in self.chats if (found := chat.receipt()) is not None]


def user_rag(spec: str, arguments: dict[str, Any]) -> System:
    """The RAG that the user names.

    Raises:
        ConfigError: it cannot be loaded or built.
    """
    from ragbench.interface.load import load_rag

    rag = load_rag(spec, arguments)
    return System(rag, rag_name(spec), dict(describe_rag(rag, spec, arguments)))


class DocumentsBeside(NamedTuple):
    """The documents of a command that brings none of its own."""

    dataset: str
    """Where the cases come from."""
    corpus: str | None = None
    """Where the documents come from, when the user says."""
    format: str | None = None
    """The dataset's format, when the user says."""

    def read(self) -> Iterable[Document]:
        """The documents.

        Raises:
            ConfigError: standard input brings none.
            DataError: they have problems.
        """
        from ragbench.data.read import read_documents

        source = self.corpus or _documents_beside(self.dataset)
        return read_documents(source, format=None if self.corpus else self.format)


class PipelineFile(NamedTuple):
    """A file that describes a RAG, and what a command says of it."""

    path: Path
    config: Path | None = None
    """Where settings of language models stand that the file does not give."""
    budget: Budget | None = None
    """The cap on the command's cost."""


@contextmanager
def chosen_system(
    *,
    rag: str | None,
    pipeline: PipelineFile | None,
    arguments: dict[str, Any],
    documents: DocumentsBeside,
) -> Generator[System]:
    """The RAG that options choose, for the length of a block; without any, the baseline.

    Args:
        rag: a user's RAG.
        pipeline: a file that describes one.
        arguments: of the user's RAG or the baseline.
        documents: for RAGs that bring none.

    Raises:
        ConfigError: it cannot be loaded or built, or there are no documents.
        DataError: the pipeline's file or the documents have problems.
    """
    if pipeline is not None:
        with open_pipeline(pipeline, documents) as system:
            yield system
    elif rag is not None:
        yield user_rag(rag, arguments)
    else:
        yield baseline(arguments, documents)


def baseline(arguments: dict[str, Any], documents: DocumentsBeside) -> System:
    """The RAG that ragbench brings, over the documents that belong to a dataset.

    Args:
        arguments: its settings.
        documents: what it searches.

    Raises:
        ConfigError: a setting is wrong, or there are no documents to look for.
        DataError: the documents have problems.
    """
    rag = _baseline_over(documents, arguments)
    return System(rag, "baseline", dict(describe_rag(rag, "baseline", arguments)))


@contextmanager
def open_pipeline(file: PipelineFile, documents: DocumentsBeside) -> Generator[System]:
    """The RAG that a file describes, open for the length of a block.

    Args:
        file: the file.
        documents: what it searches when the file names no corpus.

    Raises:
        DataError: the file or the documents have problems.
        ConfigError: the documents are named twice, or nowhere.
    """
    import os

    from ragbench.pipeline import load_pipeline
    from ragbench_cli.llm_options import llm_section

    path = file.path
    pipeline = load_pipeline(
        path, environ=os.environ, llm=llm_section(file.config), budget=file.budget
    )
    if documents.corpus is not None and pipeline.corpus is not None:
        raise ConfigError(f"--corpus has no use: {path} names its corpus, {pipeline.corpus}")
    with pipeline.open(documents.read) as opened:
        told = [*opened.notes]
        for line in told:
            console.say(line)
        rag, stage = opened.staged()
        yield System(
            rag,
            pipeline.name,
            dict(describe_rag(rag, "pipeline", {"pipeline": opened.identity})),
            stage,
            pipeline.orchestration.concurrency,
            pipeline.chats,
        )
        for line in opened.notes[len(told) :]:
            console.say(line)


def _baseline_over(documents: DocumentsBeside, arguments: dict[str, Any]) -> BaselineRAG:
    from ragbench.pipeline import BaselineRAG, BaselineSettings

    known = sorted(BaselineSettings.__annotations__)
    unknown = sorted(set(arguments).difference(known))
    if unknown:
        raise ConfigError(
            f"--rag-args: the baseline RAG has no setting {', '.join(unknown)}. It has "
            f"{', '.join(known)}"
        )
    read = list(documents.read())
    try:
        return BaselineRAG(read, **arguments)
    except TypeError as error:
        raise ConfigError(f"--rag-args: a setting has the wrong type: {error}") from error


def _documents_beside(dataset: str) -> str:
    """The source that the documents of a dataset are read from."""
    if dataset == "-":
        raise ConfigError(
            "standard input brings cases alone, and the baseline RAG needs documents: name them "
            "with --corpus, or your own RAG with --rag"
        )
    path = Path(dataset)
    if path.is_file():
        beside = sorted(path.parent.glob("corpus.*"))
        if beside and path.stem.split(".")[0] != "corpus":
            return str(beside[0])
    return dataset
