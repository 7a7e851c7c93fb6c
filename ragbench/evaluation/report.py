"""From a stored run to its report: a pure function of the run's folder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ragbench.evaluation.traces import StoredTrace, stored_traces
from ragbench.records.cells import Cell, Failure, Status
from ragbench.records.metrics import Metric
from ragbench.records.reports import CaseRow, FailureGroup, Latency, Report, StageCount
from ragbench.runs.folder import RunFolder
from ragbench.runs.journal import Journal
from ragbench.runs.manifest import Manifest, read_manifest
from ragbench.scoring.registry import parse_metrics
from ragbench.scoring.summary import Summaries

__all__ = ["report_of"]
