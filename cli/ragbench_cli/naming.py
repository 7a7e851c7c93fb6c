"""What a dataset and a run are called when the user does not say."""

from __future__ import annotations

from pathlib import Path

from ragbench.runs.fingerprint import fingerprint
from ragbench.runs.folder import run_name

__all__ = ["collection_name", "dataset_name", "default_folder", "rag_name"]

_GENERIC = ("cases", "queries", "test", "dev", "train", "questions")
"""File names that say nothing: the folder's name says more."""


def dataset_name(source: str) -> str:
    """A short name of a dataset, from how the user names it."""
    if source == "-":
        return "stdin"
    if source.startswith("hf:"):
        return source[3:]
    path = Path(source)
    name = path.name.split(".")[0]
    if name in _GENERIC or not name:
        name = path.resolve().parent.name if name else path.resolve().name
    return name or "dataset"


def rag_name(spec: str) -> str:
    """A short name of a RAG, from how the user names it; without credentials."""
    from ragbench.interface.masking import mask_url

    if "://" in spec:
        return mask_url(spec).split("://", 1)[1]
    return spec.rpartition(":")[2]


def default_folder(dataset: str, rag: str, identity: object) -> Path:
    """The run folder that the same command always arrives at.

    Args:
        dataset: the dataset, as the user names it.
        rag: the RAG's short name.
        identity: what else distinguishes the run from others.
    """
    name = run_name(dataset_name(dataset), rag, fingerprint((dataset, identity)))
    return Path("reports") / name


def collection_name(source: str) -> str:
    """A name for a collection that every store takes, from how the user names the corpus."""
    import re

    path = Path(source)
    name = path.name.split(".")[0] or path.resolve().name
    if name in ("corpus", "documents"):
        name = path.resolve().parent.name
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return cleaned if cleaned[:1].isalpha() else f"corpus_{cleaned}".rstrip("_")
