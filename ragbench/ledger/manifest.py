"""The manifest: what a run is a run of.

Same inputs, same bytes: it holds no time and no path of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import orjson

from ragbench.core.metric import Metric, metric_of, stored_definition
from ragbench.errors import RunMismatchError
from ragbench.ledger.content import distributions
from ragbench.ledger.fingerprint import always_jsonable, fingerprint
from ragbench.masking import hidden_bytes

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetInfo:
    name: str
    source: str
    """The dataset as the user named it."""
    fingerprint: str
    """Changes with any case, or with their order."""
    cases: int
    limit: int | None = None
    """Only the first so many cases were taken."""
    sample: int | None = None
    """Only so many cases were drawn."""
    seed: int | None = None
    """Seed of that draw."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RagInfo:
    name: str
    description: Mapping[str, Any]
    """What distinguishes it: class, source, arguments, configuration."""
    stages: Mapping[str, str]
    """Fingerprint of each of its stages: results are reused while it stays the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricInfo:
    """Which metric, in which version of its formula."""

    name: str
    version: int
    definition: Mapping[str, Any]
    """All that is known of the metric, with its parameters."""

    @classmethod
    def of(cls, metric: Metric) -> MetricInfo:
        return cls(
            name=metric.name,
            version=metric.definition.version,
            definition=stored_definition(metric),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What a run is a run of."""

    dataset: DatasetInfo
    rag: RagInfo
    metrics: tuple[MetricInfo, ...]
    settings: Mapping[str, Any]
    """Settings that influence results: top_k, how gold is matched."""
    packages: Mapping[str, str]
    """Versions of the packages that compute something."""
    git: Mapping[str, Any] | None = None
    """Commit of the working folder and whether it had changes; None outside a repository."""
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """Stages that nobody could be asked for, and why: only what the source recorded is there."""
    notes: tuple[str, ...] = ()
    """What a reader of scores must know of the source: answers that belong to no case ..."""
    judge: Mapping[str, Any] | None = None
    """Who judged: see `ragbench.stages.judge_identity`; None when no metric asked a model."""
    schema_version: int = SCHEMA_VERSION
    fingerprints: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fingerprint of each part that two runs must share to be compared."""

    def with_fingerprints(self) -> Manifest:
        """The same manifest with the fingerprints of its parts filled in."""
        stages = dict(self.rag.stages)
        # The verdicts of a validator change nothing of what the system does.
        validator = stages.pop("validate", None)
        # A summary that is worded better does not make it another metric.
        metrics = [
            {"name": one.name, "version": one.version}
            | ({"digest": digest} if (digest := one.definition["digest"]) else {})
            for one in self.metrics
        ]
        fingerprints = {
            "dataset": self.dataset.fingerprint,
            "metrics": fingerprint(metrics),
            "packages": fingerprint(self.packages),
            "rag": fingerprint((self.rag.description, stages)),
            "settings": fingerprint(self.settings),
        }
        if self.judge is not None:
            fingerprints["judge"] = str(self.judge["fingerprint"])
        if validator is not None:
            fingerprints["validate"] = validator
        return replace(self, fingerprints=fingerprints)


def metrics_of(manifest: Manifest) -> tuple[Metric, ...]:
    """A stored run's metrics, as they were when it was scored."""
    return tuple(metric_of(info.definition) for info in manifest.metrics)


def write_manifest(manifest: Manifest, path: Path) -> Manifest:
    """Writes the file, and gives the manifest as its readers find it."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    plain = orjson.loads(hidden_bytes(always_jsonable(asdict(manifest))))
    write_atomic(path, orjson.dumps(plain, option=options))
    return msgspec.convert(plain, Manifest)


def read_manifest(path: Path) -> Manifest:
    try:
        raw = orjson.loads(path.read_bytes())
        if raw["schema_version"] != SCHEMA_VERSION:
            raise RunMismatchError(
                f"{path} has schema version {raw['schema_version']}, this ragbench reads "
                f"{SCHEMA_VERSION}"
            )
        manifest = msgspec.convert(raw, Manifest)
        metrics_of(manifest)  # a definition that cannot be read is reported here
        return manifest
    except FileNotFoundError as error:
        raise RunMismatchError(
            f"{path.parent} is not a run folder: it has no {path.name}"
        ) from error
    except NotADirectoryError as error:
        raise RunMismatchError(
            f"{path.parent} is a file, not the folder of a run. Answers that it records are scored "
            f"by: ragbench eval {path.parent}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RunMismatchError(f"{path} is not a manifest of ragbench: {error}") from error


def write_atomic(path: Path, content: bytes) -> None:
    """Writes a file so that a reader sees the old content or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(hidden_bytes(content))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def package_versions(names: Iterable[str]) -> dict[str, str]:
    known = {name: version for name, version, _ in distributions()}
    return {name: known[name] for name in sorted(names) if name in known}


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the repository around a folder, and whether tracked files had changes."""
    git = ["git", "--no-optional-locks", "-C", str(folder)]
    asked = (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    try:
        commit, changes = (
            subprocess.run([*git, *one], capture_output=True, text=True, check=True, timeout=5)
            for one in asked
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.stdout.strip(), "dirty": bool(changes.stdout.strip())}
