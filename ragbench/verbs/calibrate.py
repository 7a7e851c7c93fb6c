"""calibrate_dump(): a labelled dump through a validator, to a calibration of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from ragbench.core.validation import RetrievalDump, Verdict
from ragbench.errors import (
    ConfigError,
    DataError,
    InterruptedRunError,
    LLMStoppedError,
    MissingExtraError,
    Problem,
)
from ragbench.io.dumps.read import OpenDump
from ragbench.validators.calibrate import CalibrationReport, Label, calibrate
from ragbench.validators.validator import Validator
from ragbench.workers.open import opened_engine
from ragbench.workers.pool import WorkerPool, one_by_one


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpCalibration:
    """A calibration learned from a dump, and what of the dump it was learned from."""

    report: CalibrationReport
    labelled: int
    """Queries with a label and a verdict."""
    unlabelled: int
    """Queries that do not say whether the answer is present: passed over."""
    failed: int
    """Queries for which the validator raised: passed over."""
    malformed: int
    """Records that could not be read."""


def calibrate_dump(
    dump: OpenDump,
    make: Callable[[], Validator],
    *,
    precision: float = 0.98,
    error: float | None = None,
    seed: int = 7,
    engine: str = "processes",
    workers: int | None = 1,
    stopped: Callable[[], bool] = lambda: False,
    advance: Callable[[int], None] | None = None,
) -> DumpCalibration:
    """Learns how a validator's probabilities fit the labels of a dump.

    Args:
        dump: its queries say whether the answer is present (``answer_present``), its chunks whether
            they are relevant (``relevant``), where that was judged.
        make: makes the validator, uncalibrated; with several workers a function of a module, or a
            partial of one.
        precision: what a Yes should reach, in (0, 1).
        error: instead of it, the share of queries without the answer that may be called Yes.
        seed: of the folds of cross-validation.
        engine: where they are judged; see `ragbench.workers.open.opened_engine`.
        workers: processes that judge; None for one per processor, 1 for this process.
        stopped: asked between queries.
        advance: told how many queries were judged.

    Raises:
        DataError: no query has a label.
        InputError: too few labels of either kind, or a precision that is none.
        InterruptedRunError: `stopped` said so; nothing is kept.
    """
    verdicts: list[Verdict] = []
    labels: list[Label] = []
    counts = {"unlabelled": 0, "failed": 0}

    def labelled() -> Iterator[RetrievalDump]:
        for retrieval in dump:
            if retrieval.answer_present is None:
                counts["unlabelled"] += 1
            else:
                yield retrieval

    judge = partial(one_by_one, partial(_judge_with, make))
    with (
        opened_engine(engine, workers=workers) as where,
        WorkerPool(judge, where, stopped=stopped) as pool,
    ):
        for verdict, label in pool.map(labelled()):
            if verdict is None:
                counts["failed"] += 1
            else:
                name = str(len(labels))  # ids of a dump may stand more than once
                verdicts.append(replace(verdict, query_id=name))
                labels.append(replace(label, query_id=name))
            if advance is not None:
                advance(1)
    if stopped():
        raise InterruptedRunError("the labels were not all judged; nothing was written")
    if not labels:
        raise DataError(dump.problems.items or [_unlabelled(dump.name)])
    report = calibrate(
        verdicts,
        labels,
        precision=precision,
        error=error,
        validator=make().name,
        seed=seed,
    )
    return DumpCalibration(report=report, labelled=len(labels), malformed=dump.malformed, **counts)


def _unlabelled(name: str) -> Problem:
    message = (
        "no query says whether its answer is present: give each record answer_present (true or "
        "false), or name the field with --map answer_present=FIELD"
    )
    return Problem(message=message, path=name, field="answer_present")


def _judge_with(
    make: Callable[[], Validator],
) -> Callable[[RetrievalDump], tuple[Verdict | None, Label]]:
    validator = make()

    def judge(dump: RetrievalDump) -> tuple[Verdict | None, Label]:
        label = Label(
            query_id=dump.query_id,
            answer_present=bool(dump.answer_present),
            relevant_chunk_ids=dump.relevant_ids,
        )
        try:
            return validator.validate(dump.query, dump.chunks), label
        except (ConfigError, MissingExtraError, LLMStoppedError):
            raise  # every other query would fail alike
        except Exception:  # noqa: BLE001  # counted; one query's failure is no other's
            return None, label

    return judge
