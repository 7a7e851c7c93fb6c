"""calibrate_dump(): a labelled dump through a validator, to a calibration of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from ragbench.core.outcome import Outcome
from ragbench.core.record import Record
from ragbench.core.validation import RetrievalDump, Verdict
from ragbench.errors import ConfigError, DataError, InterruptedRunError, Problem
from ragbench.io.dumps.read import OpenDump
from ragbench.ledger.journal import Journal
from ragbench.plugins import import_packages_of
from ragbench.stages.stage import CallSettings, Running
from ragbench.stages.validate import dump_stage, judge_here, judge_on_workers, validator_call
from ragbench.validators.calibrate import CalibrationReport, Labelled, calibrate
from ragbench.validators.calibration import DecisionRule
from ragbench.validators.validator import Validator
from ragbench.workers.engines import opened_engine
from ragbench.workers.pool import WorkerPool


class DumpCalibration(Record):
    """The calibration that a labelled dump gave, and the rows that could not be used."""

    report: CalibrationReport
    labelled: int
    """Queries with a label and a verdict."""
    unlabelled: int
    """Queries that do not say whether the answer is present: skipped."""
    failed: int
    """Queries for which the validator raised: skipped."""
    malformed: int
    """Records that could not be read."""


def calibrate_dump(
    dump: OpenDump,
    make: Callable[[], Validator],
    *,
    precision: float | None = None,
    error: float | None = None,
    seed: int = 7,
    engine: str = "processes",
    workers: int | None = 1,
    stopped: Callable[[], bool] = lambda: False,
    advance: Callable[[int], None] = lambda _: None,
) -> DumpCalibration:
    """Learns how a validator's probabilities fit the labels of a dump.

    Args:
        dump: its queries say whether the answer is present (``answer_present``), its chunks whether
            they are relevant (``relevant``), where that was judged.
        make: makes the validator, uncalibrated; with several workers a function of a module, or a
            partial of one.
        precision: what a Yes should reach, in (0, 1); None for 0.98, where it costs no F1.
        error: instead of it, the share of queries without the answer that may be called Yes.
        seed: of the folds of cross-validation.
        engine: where they are judged; see `ragbench.workers.engines.opened_engine`.
        workers: processes that judge; None for one per processor, 1 for this process. Of the engine
            ``local`` concurrent calls, for a validator that waits (``bears_calls``).
        stopped: asked between queries.
        advance: called with 1 for each judged query.

    Raises:
        ConfigError: the validator takes no calibration.
        DataError: no query has a label.
        InputError: too few labels of either kind, or a precision out of range.
        InterruptedRunError: `stopped` said so; nothing is kept.
    """
    validator = make()
    import_packages_of(validator)
    # The rule that a calibration replaces: a validator without one decides in a way of its own.
    rule = getattr(validator, "limits", None)
    if not isinstance(rule, DecisionRule):
        raise ConfigError(f"the validator '{validator.name}' takes no calibration")
    judged: list[Labelled] = []
    skipped: Counter[str] = Counter()
    tally = partial(_keep_verdict, judged, skipped, advance)
    queries = _labelled_queries(dump, skipped)
    stage = dump_stage(validator, b"")  # nothing is kept under its identity
    # Of other engines the number of workers is that of processes, and no limit of calls.
    concurrency = workers if engine == "local" and stage.bears_calls else None
    # A journal in memory: verdicts are only needed until the calibration is learned.
    with opened_engine(engine, workers=workers) as opened, Journal(None) as journal:
        run = Running(
            journal=journal,
            calls=CallSettings(concurrency=concurrency),
            retry_failed=True,
            stopped=stopped,
            report=lambda _: None,
        )
        try:
            # None: an engine without workers judges in this process.
            if opened.fewest is None:
                judge_here(queries, stage, run, tally)
            else:
                call = partial(validator_call, make)
                with WorkerPool(call, opened, stopped=stopped) as pool:
                    judge_on_workers(queries, stage, pool, run, tally)
        except (InterruptedRunError, KeyboardInterrupt):
            # Of workers and flows comes an InterruptedRunError, of Ctrl-C in this thread the other.
            if not stopped():  # Ctrl-C in a notebook, which nobody has turned into a request
                raise
            message = "the labels were not all judged; nothing was written"
            raise InterruptedRunError(message) from None
    if not judged:
        message = (
            "no query is labelled for whether its answer is present: give each record "
            "answer_present (true or false), or name the field with --field answer_present=FIELD"
        )
        no_label = Problem(message=message, path=dump.name, field="answer_present")
        # Problems of reading come first: they may be why no label was found.
        raise DataError(dump.problems.items or [no_label])
    report = calibrate(
        judged,
        validator.name,
        precision=precision,
        error=error,
        seed=seed,
        shipped=rule.thresholds,
        # A calibration holds for the model that it was learned with.
        model=getattr(validator, "model_digest", ""),
    )
    return DumpCalibration(
        report=report,
        labelled=len(judged),
        unlabelled=skipped["unlabelled"],
        failed=skipped["failed"],
        malformed=dump.malformed,
    )


def _keep_verdict(
    judged: list[Labelled],
    skipped: Counter[str],
    advance: Callable[[int], None],
    query: RetrievalDump,
    outcome: Outcome[Verdict],
) -> None:
    """Keeps the verdict on a labelled query beside its labels, to learn from the two.

    Args:
        judged: gets the verdict with the labels.
        skipped: counts a query that the validator failed on.
        advance: called with 1, whatever the verdict.
    """
    if outcome.value is None:
        skipped["failed"] += 1
    else:
        is_present = bool(query.answer_present)
        judged.append(Labelled(outcome.value, is_present, query.relevant_ids))
    advance(1)


def _labelled_queries(dump: OpenDump, skipped: Counter[str]) -> Iterator[RetrievalDump]:
    """The queries of a dump that are labelled for whether their answer is present.

    Only from those can a validator's probabilities be calibrated.

    Args:
        skipped: counts the queries without that label, for the report.
    """
    for retrieval in dump:
        if retrieval.answer_present is None:
            skipped["unlabelled"] += 1
        else:
            yield retrieval
