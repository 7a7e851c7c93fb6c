"""What datasets, RAGs, runs and collections are called where the user does not say."""

from __future__ import annotations

import re
from pathlib import Path

from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import run_name
from ragbench.masking import mask_url
from ragbench_cli import console

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
    if "://" in spec:
        return mask_url(spec).split("://", 1)[1]
    return spec.rpartition(":")[2]


def run_folder(dataset: str, rag: str, identity: object, *, stay: bool, quiet: bool) -> Path:
    """The folder that the same command always arrives at; another where something changed since."""
    from ragbench.stages.reuse import run_version

    name = run_name(dataset_name(dataset), rag, fingerprint((dataset, identity)))
    version = run_version(Path("reports") / name, leaving_out=[dataset])
    if version.earlier is None or stay:
        return version.earlier or version.folder
    if not quiet:
        reasons = [*version.because[:3], *(["..."] if len(version.because) > 3 else [])]
        known = "changed since" if version.is_changed else "no telling what changed since"
        console.say(f"{known} {version.earlier}: {'; '.join(reasons)}")
        console.say(f"This run goes to {version.folder}; --reuse keeps the stored answers instead.")
        console.say(f"Compare them with: ragbench compare {version.earlier} {version.folder}")
    return version.folder


def collection_name(source: str) -> str:
    """A name for a collection that every store takes, from how the user names the corpus."""
    path = Path(source)
    name = path.name.split(".")[0] or path.resolve().name
    if name in ("corpus", "documents"):
        name = path.resolve().parent.name
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return cleaned if cleaned[:1].isalpha() else f"corpus_{cleaned}".rstrip("_")
