"""The RAG that a command asks, from what its options say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.errors import ConfigError
from ragbench.interface.identity import describe_rag
from ragbench_cli.naming import rag_name

if TYPE_CHECKING:
    from ragbench.evaluation.rag_stages import RAG
    from ragbench.pipeline import BaselineRAG

__all__ = ["System", "baseline", "user_rag"]


class System(NamedTuple):
    """A RAG with what reports say of it."""

    rag: RAG
    name: str
    description: dict[str, Any]
    """What distinguishes it from others; the same description may reuse its results."""


def user_rag(spec: str, arguments: dict[str, Any]) -> System:
    """The RAG that the user names.

    Raises:
        ConfigError: it cannot be loaded or built.
    """
    from ragbench.interface.load import load_rag

    rag = load_rag(spec, arguments)
    return System(rag, rag_name(spec), dict(describe_rag(rag, spec, arguments)))


def baseline(
    arguments: dict[str, Any], *, dataset: str, corpus: str | None, format: str | None
) -> System:
    """The RAG that ragbench brings, over the documents that belong to a dataset.

    Args:
        arguments: its settings.
        dataset: where the cases come from.
        corpus: where the documents come from, when the user says.
        format: the dataset's format, when the user says.

    Raises:
        ConfigError: a setting is wrong, or there are no documents to look for.
        DataError: the documents have problems.
    """
    rag = _baseline_over(
        corpus or _documents_beside(dataset), arguments, None if corpus else format
    )
    return System(rag, "baseline", dict(describe_rag(rag, "baseline", arguments)))


def _baseline_over(source: str, arguments: dict[str, Any], format: str | None) -> BaselineRAG:
    from ragbench.data.read import read_documents
    from ragbench.pipeline import BaselineRAG, BaselineSettings

    known = sorted(BaselineSettings.__annotations__)
    unknown = sorted(set(arguments).difference(known))
    if unknown:
        raise ConfigError(
            f"--rag-args: the baseline RAG has no setting {', '.join(unknown)}. It has "
            f"{', '.join(known)}"
        )
    documents = list(read_documents(source, format=format))
    try:
        return BaselineRAG(documents, **arguments)
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
