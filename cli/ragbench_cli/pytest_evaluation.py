"""What the fixture ``ragbench_eval`` is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path

from ragbench.data.read import read_cases
from ragbench.evaluation.evaluate import evaluate
from ragbench.evaluation.stage import Limits
from ragbench.interface.adapt import as_rag
from ragbench.interface.load import load_rag
from ragbench.records.cases import Case
from ragbench.records.reports import Report
from ragbench.reports.write import write_reports
from ragbench.scoring.matching import Matching
from ragbench.scoring.registry import default_metrics, parse_metrics
from ragbench_cli.naming import dataset_name

__all__ = ["Evaluation"]


class Evaluation:
    """Evaluates RAGs inside of a test."""

    def __init__(self, home: Path) -> None:
        """Has evaluated nothing yet.

        Args:
            home: where run folders are made.
        """
        self._home = home
        self.folder: Path | None = None
        """The last run's folder; it holds report.json and all that ``ragbench eval`` writes."""

    def __call__(
        self,
        rag: object,
        cases: str | Path | Iterable[Case],
        *,
        metrics: str | Iterable[str] | None = None,
        top_k: int | None = None,
        limits: Limits | None = None,
    ) -> Report:
        """Asks a RAG every question and scores what it says.

        Args:
            rag: an instance, a class, whatever `ragbench.interface.adapt.as_rag` takes, or a text
                such as ``"my_rag.py:MyRAG"`` as ``ragbench eval --rag`` takes it.
            cases: a dataset as ``ragbench eval`` takes it, or cases.
            metrics: names of metrics; the default ones when not given.
            top_k: how many contexts to ask for.
            limits: batch size, calls in flight, time limit.

        Returns:
            The report; ``report.summaries`` holds a figure a metric.

        Raises:
            RagbenchError: the RAG, the dataset or a metric cannot be used.
        """
        is_path = isinstance(cases, (str, Path))
        system = load_rag(rag, {}) if isinstance(rag, str) else as_rag(rag)
        folder = next(path for n in count(1) if not (path := self._home / f"ragbench-{n}").exists())
        report = evaluate(
            read_cases(str(cases)) if isinstance(cases, (str, Path)) else cases,
            system,
            out=folder,
            metrics=default_metrics() if metrics is None else parse_metrics(metrics),
            name=dataset_name(str(cases)) if is_path else "dataset",
            source=str(cases) if is_path else "",
            top_k=top_k,
            limits=limits,
            matching=Matching.AUTO,
        )
        write_reports(report, folder)
        self.folder = folder
        return report
