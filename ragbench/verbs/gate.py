"""Stored runs to a gate's result; a run scored anew."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ragbench.core.gate_result import GateResult
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, JudgedCell
from ragbench.core.run_scores import RunScores, ScoredCase, clustered_by_gold
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.config import AUTO, GateConfig
from ragbench.gate.find_baseline import age_note, find_baseline
from ragbench.gate.gate import gate
from ragbench.gate.runs import read_origins, read_run
from ragbench.ledger.codec import question_digest
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal
from ragbench.ledger.manifest import read_manifest
from ragbench.metrics.judging import JudgeModels, JudgePlan
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import computable, stored_metrics
from ragbench.metrics.summary import SummaryBuilder
from ragbench.stages.judge import Judging
from ragbench.stages.stored import StoredTraces, TracedCase

_BATCH = 256
"""Cases that are scored at a time."""


def rescore(path: Path, like: RunScores, *, judging: Judging | None = None) -> RunScores:
    """Scores a run's stored outputs with the metrics, the matching and the judge of another run.

    Nothing is stored: the run stays as it is.
    """
    folder = RunFolder(path=path)
    if not folder.exists:
        raise RunMismatchError(
            f"{path} has no {folder.journal.name}: to score outputs again, the folder of the run "
            "that gave them is needed, not its report or a baseline file"
        )
    manifest = read_manifest(folder.manifest)
    columns = [column for column in like.metrics if column.has_cells]
    metrics = tuple(map(computable, stored_metrics(columns)))
    scorer = _Scorer.of(metrics, like, judging)
    builder = SummaryBuilder(metrics)
    with Journal(folder.journal) as journal:
        traces = StoredTraces(journal=journal, manifest=manifest, metrics=(), with_texts=True)
        gold: list[tuple[str, ...] | None] = []
        cases = tuple(_scored(iter(traces), scorer, metrics, builder, gold))
    scores = [summary.score for summary in builder.summaries()]
    git = manifest.git or {}
    return RunScores(
        source=str(path),
        dataset=manifest.dataset.name,
        rag=manifest.rag.name,
        fingerprints={
            **{part: of for part, of in like.fingerprints.items() if part in ("judge", "metrics")},
            **{part: manifest.fingerprints[part] for part in ("dataset", "rag", "settings")},
        },
        origins=read_origins(path),
        matching=like.matching,
        commit=git.get("commit"),
        dirty=bool(git.get("dirty")),
        metrics=tuple(
            replace(
                column,
                version=metric.definition.version,
                digest=metric.definition.digest,
                score=score,
            )
            for column, metric, score in zip(columns, metrics, scores, strict=True)
        ),
        cases=clustered_by_gold(cases, gold),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scorer:
    """Free metrics and judged ones, in one order."""

    free: Plan
    judged: JudgePlan
    places: tuple[int, ...]
    """Where each metric stands: among the free ones from 0, then among the judged ones."""
    judging: Judging | None

    @classmethod
    def of(cls, metrics: Sequence[Metric], like: RunScores, judging: Judging | None) -> _Scorer:
        """Makes both kinds ready."""
        free = [metric for metric in metrics if not metric.is_judged]
        judged = [metric for metric in metrics if metric.is_judged]
        plan = JudgePlan(judged) if judging is None else judging.plan(judged)
        if judging is None:
            plan.check(None, None)  # says what to set, where anything is judged
        elif judged and judging.info(plan)["fingerprint"] != like.fingerprints.get("judge"):
            raise ConfigError(
                f"{like.source} was judged by another model, or with other parameters or prompts, "
                "than are set now: set those of that run, which its manifest names"
            )
        order = {metric.name: place for place, metric in enumerate([*free, *judged])}
        return cls(
            free=Plan(free, matching=Matching(like.matching)),
            judged=plan,
            places=tuple(order[metric.name] for metric in metrics),
            judging=judging,
        )

    def score(self, traces: Sequence[Trace]) -> list[tuple[Cell, ...]]:
        """For each case its cells, in the order of the metrics."""
        judged = self._judged(traces)
        rows = zip(self.free.score(traces), judged, strict=True)
        return [tuple([(*free, *asked)[place] for place in self.places]) for free, asked in rows]

    def _judged(self, traces: Sequence[Trace]) -> list[list[Cell]]:
        count = len(self.judged.metrics)
        found: list[dict[int, Cell]] = [{} for _ in traces]
        jobs = [(row, position) for row in range(len(traces)) for position in range(count)]

        def judge(job: tuple[int, int], panel: JudgeModels) -> Awaitable[JudgedCell]:
            row, position = job
            return self.judged.judge(position, traces[row], panel)

        if self.judging is not None and jobs:
            for batch in self.judging.judged(jobs, judge):
                for (row, position), judged in batch:
                    found[row][position] = judged.cell
        return [[cells[position] for position in range(count)] for cells in found]


def _scored(
    traces: Iterator[TracedCase],
    scorer: _Scorer,
    metrics: Sequence[Metric],
    builder: SummaryBuilder,
    gold: list[tuple[str, ...] | None],
) -> Iterator[ScoredCase]:
    while batch := list(islice(traces, _BATCH)):
        rows = scorer.score([traced.trace for traced in batch])
        for traced, cells in zip(batch, rows, strict=True):
            builder.add(traced.trace.case, cells)
            gold.append(traced.trace.case.reference_context_ids)
            yield _case(traced, metrics, cells)


def _case(traced: TracedCase, metrics: Sequence[Metric], cells: Sequence[Cell]) -> ScoredCase:
    trace = traced.trace
    result, answer = trace.context.value, trace.generation.value
    return ScoredCase(
        id=trace.case.id,
        fingerprint=question_digest(trace.case).hex(),
        scores={metric.name: _as_reason(cell) for metric, cell in zip(metrics, cells, strict=True)},
        cluster=trace.case.cluster,
        tags=trace.case.tags,
        language=trace.case.language,
        query=trace.case.query,
        response=None if answer is None else answer.response,
        retrieved_ids=None
        if result is None or result.context_ids is None
        else tuple(result.context_ids),
        stages={"retrieve": trace.retrieval.status, "generate": trace.generation.status},
    )


def _as_reason(cell: Cell) -> Cell:
    """A failed cell tells why by its reason, as one that was read from a file does."""
    if cell.failure is None:
        return cell
    return Cell(status=cell.status, reason=str(cell.failure))


def gate_run(
    path: Path,
    config: GateConfig,
    *,
    folders: Sequence[Path] = (Path("reports"),),
    rejudge: bool = False,
    judging: Judging | None = None,
) -> GateResult:
    """Judges a stored run.

    Args:
        path: the run's folder, its ``report.json``, or a baseline file.
        config: what is demanded. Its ``baseline`` is a path, `AUTO`, or None.
        folders: where `AUTO` looks for runs, besides the folder that the run lies in.
        rejudge: score the baseline's stored outputs with this run's metrics before comparing.
        judging: who judges then, where this run's metrics ask a model.

    Raises:
        RunMismatchError: a path holds no run; a run without stored outputs cannot be re-scored.
        ConfigError: what is demanded cannot be judged on this run.
    """
    run = read_run(path)
    notes: list[str] = []
    baseline: RunScores | None = None
    if config.baseline == AUTO:
        home = path if path.is_dir() else path.parent
        found = find_baseline(path, run, (home.absolute().parent, *folders))
        if found is None:
            notes.append(
                f"There is no earlier run of {run.rag} on the same dataset with the same metrics "
                f"beside {path}, nor in {', '.join(map(str, folders))}."
            )
        else:
            baseline = _baseline(found, run, rejudge=rejudge, judging=judging)
    elif config.baseline is not None:
        baseline = _baseline(Path(config.baseline), run, rejudge=rejudge, judging=judging)
    if rejudge and baseline is not None:
        notes.append("The baseline's stored outputs were scored anew with this run's metrics.")
    age = None if baseline is None else age_note(run, baseline)
    if age is not None:
        notes.append(age)
    return gate(run, baseline, config, notes=notes)


def _baseline(path: Path, run: RunScores, *, rejudge: bool, judging: Judging | None) -> RunScores:
    if not path.exists():
        raise RunMismatchError(
            f"the baseline {path} does not exist. Keep a run as one with: "
            f"ragbench baseline set RUN -o {path}"
        )
    return rescore(path, run, judging=judging) if rejudge else read_run(path)
