"""A baseline file: the last runs of main, with what each case scored in each of them.

A line a case, sorted by id, so that a version control shows which cases changed. A score stands as
the shortest number that reads back as the same one; a case that was abstained or failed holds the
word. What came out alike in all runs stands once, anything else as a list with an entry a run,
oldest first. Of runs that are too old to be compared with, the means are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, cast

from ragbench.core.history import Drift, MainRun
from ragbench.core.metric import Direction
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.errors import RunMismatchError
from ragbench.io.atomic import written_whole
from ragbench.io.limits import ReadLimits
from ragbench.ledger.origin import without_texts

FORMAT = 3
"""Version of the file format."""
_OLD_FORMAT = 2
"""Its fingerprints of cases hold their ids, so that none is equal to one of today."""

_MARK = "ragbench_baseline"
Json = Mapping[str, Any]


def kept_case(case: ScoredCase, cells: Mapping[str, tuple[Cell | None, ...]]) -> ScoredCase:
    """A case by what each metric gave, oldest first, each time that the kept runs asked.

    None where the case was not asked, or the metric did not apply.
    """
    asked = {name: Repeats(cells=each) for name, each in cells.items()}
    bare = replace(case, stages={}, cause=None, labels={}, judged=None)
    return replace(
        bare,
        scores={name: repeats.mean for name, repeats in asked.items()},
        repeats=asked if any(len(each) > 1 for each in cells.values()) else {},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    dataset: str
    rag: str
    matching: str
    fingerprints: Mapping[str, str]
    """Of the newest run."""
    metrics: tuple[MetricColumn, ...]
    stages: tuple[StageCount, ...]
    """Of the newest run."""
    runs: tuple[MainRun, ...]
    """All that are remembered, oldest first; at least one."""
    kept: int
    """How many of the newest runs the scores of the cases are from."""
    cases: tuple[ScoredCase, ...]
    """By id; with what the kept runs gave each time as repeats, where they asked more than once."""
    drift: Drift | None = None
    """Main over all its merges; None in files of earlier versions."""
    origins: tuple[Origin, ...] | None = None
    """What the outcomes of the newest run came from; None where nobody said."""
    judge: str = ""
    """The models that judged; empty without a judge."""
    is_old: bool = False
    """Whether an earlier version wrote it, whose cases are not recognised."""

    @property
    def kept_runs(self) -> tuple[MainRun, ...]:
        return tuple(run for run in self.runs if not run.aside)[-self.kept :]

    def scores(self, source: str) -> RunScores:
        """The mean of the kept runs, as a gate compares with it."""
        newest = self.kept_runs[-1]
        return RunScores(
            source=source,
            dataset=self.dataset,
            rag=self.rag,
            fingerprints=self.fingerprints,
            matching=self.matching,
            commit=newest.commit,
            dirty=any(run.dirty for run in self.kept_runs),
            metrics=self.metrics,
            cases=self.cases,
            stages=self.stages,
            date=newest.date,
            made_of=self.kept_runs,
            origins=self.origins,
            judge=self.judge,
            is_old=self.is_old,
            drift=self.drift,
            latencies=tuple(self._latencies()),
        )

    def _latencies(self) -> Iterator[Latency]:
        """Of each stage the median of the kept runs, which one slow machine does not move."""
        for stage in self.kept_runs[-1].seconds:
            known = [run.seconds[stage] for run in self.kept_runs if stage in run.seconds]
            mean, count = median(known), len(self.cases)
            yield Latency(stage=stage, count=count, mean=mean, p50=None, p95=None, longest=None)


_NOT_MERGED = {
    rb"^<{7} ": (
        "has a conflict of a merge in it. Take one side, such as: git checkout --theirs {path}; "
        "then add main's run with: ragbench baseline add RUN"
    ),
    rb"\Aversion https://git-lfs": (
        "is a pointer of Git LFS, not the file itself. Fetch it with: git lfs pull --include {path}"
    ),
}
"""What version control leaves in the place of a file."""


def read_baseline(path: Path, *, otherwise: str = "") -> Baseline:
    """The baseline in a file; ``otherwise`` is what is said of a file that is none."""
    import orjson

    data = b""
    try:
        data = ReadLimits().read_data(path)
        content = orjson.loads(data)
    except OSError as error:
        raise RunMismatchError(f"{path} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        for sign, what in _NOT_MERGED.items():
            if re.search(sign, data, re.MULTILINE):
                raise RunMismatchError(f"{path} {what.format(path=path)}") from error
        raise RunMismatchError(
            f"{path} is not JSON, so neither a run nor a baseline file: {error}. Answers that it "
            f"records are scored by: ragbench eval {path}"
        ) from error
    if not isinstance(content, dict):
        raise RunMismatchError(f"{path} holds no JSON object, so ragbench did not write it")
    if _MARK not in content:
        none = f"is not a baseline file. One is made with: ragbench baseline set RUN -o {path}"
        raise RunMismatchError(f"{path} {otherwise or none}")
    try:
        return baseline_from(cast("Json", content))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RunMismatchError(
            f"{path} is not a baseline of this ragbench: {problem}. If another version wrote it, "
            "make it anew with: ragbench baseline set RUN"
        ) from error


def write_baseline(baseline: Baseline, path: Path) -> None:
    with written_whole(path) as file:
        file.write(baseline_bytes(baseline))


def baseline_bytes(baseline: Baseline) -> bytes:
    """The content of a baseline file. The same runs give the same bytes."""
    head: dict[str, Any] = {
        _MARK: FORMAT,
        "dataset": baseline.dataset,
        "rag": baseline.rag,
        "matching": baseline.matching,
        "fingerprints": dict(sorted(baseline.fingerprints.items())),
        **({"judge": baseline.judge} if baseline.judge else {}),
        "kept": baseline.kept,
    }
    lines = [f"  {_json(key)}: {_json(value)}" for key, value in head.items()]
    columns = sorted(baseline.metrics, key=lambda column: column.name)
    names = [column.name for column in columns]
    if baseline.origins is not None:
        found = [
            (one, [[*part] for part in one.parts]) for one in map(without_texts, baseline.origins)
        ]
        origins = (
            _json({"stage": one.stage, "reach": one.reach, "parts": parts}) for one, parts in found
        )
        lines.append(_block("origins", "[]", origins))
    lines.append(_block("runs", "[]", (_json(_run(run)) for run in baseline.runs)))
    lines.append(_block("stages", "[]", (_json(asdict(stage)) for stage in baseline.stages)))
    lines.append(_block("metrics", "[]", (_json(_metric(column)) for column in columns)))
    if (drift := baseline.drift) is not None:
        lines.append(_block("drift", "[]", (_json(asdict(one)) for one in drift.metrics)))
        known = (
            f"{_json(id_)}: "
            + _json({name: list(map(_number, sums)) for name, sums in sorted(one.items())})
            for id_, one in sorted(drift.cases.items())
        )
        lines.append(_block("sums", "{}", known))
        lines.append(f'  "followed": {drift.runs}')
    cases = sorted(baseline.cases, key=lambda case: case.id)
    entries = (f"{_json(case.id)}: {_json(_case(case, names))}" for case in cases)
    lines.append(_block("cases", "{}", entries))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def baseline_from(content: Json) -> Baseline:
    if content[_MARK] not in (_OLD_FORMAT, FORMAT):
        raise ValueError(
            f"its format is {content[_MARK]}, this ragbench reads {FORMAT}: install the version "
            "that wrote it, or make it anew with ragbench baseline set RUN"
        )
    metrics = tuple(_column(metric) for metric in content["metrics"])
    runs = tuple(MainRun(**run) for run in content["runs"])
    kept = content["kept"]
    if not 1 <= kept <= len(runs):
        raise ValueError(f"it keeps {kept} of {len(runs)} runs")
    asked = sum(run.repeats for run in [run for run in runs if not run.aside][-kept:])
    names = [column.name for column in metrics]
    return Baseline(
        is_old=content[_MARK] == _OLD_FORMAT,
        judge=content.get("judge", ""),
        dataset=content["dataset"],
        rag=content["rag"],
        matching=content["matching"],
        fingerprints=content["fingerprints"],
        metrics=metrics,
        stages=tuple(StageCount(**stage) for stage in content["stages"]),
        runs=runs,
        kept=kept,
        cases=tuple(_read_case(id_, case, names, asked) for id_, case in content["cases"].items()),
        drift=_drift(content) if "drift" in content else None,
        origins=tuple(map(Origin.from_json, content["origins"])) if "origins" in content else None,
    )


def _block(key: str, brackets: str, entries: Iterable[str]) -> str:
    inner = ",\n".join(f"    {entry}" for entry in entries)
    middle = f"\n{inner}\n  " if inner else ""
    return f"  {_json(key)}: {brackets[0]}{middle}{brackets[1]}"


def _run(run: MainRun) -> dict[str, Any]:
    known = asdict(replace(run, scores=_short(dict(sorted(run.scores.items())))))
    known["seconds"] = {stage: float(f"{time:.3g}") for stage, time in run.seconds.items()}
    defaults: dict[str, Any] = {
        "dirty": False,
        "judge": None,
        "linked": {},
        "people": {},
        "matching": None,
        "repeats": 1,
        "aside": False,
        "seconds": {},
    }
    return {key: value for key, value in known.items() if defaults.get(key, ...) != value}


def _metric(column: MetricColumn) -> dict[str, Any]:
    known = {"metric": column.name, **asdict(column)}
    seen = ("is_judged", "reads_answer", "reads_contexts")  # the run says what labels of it rest on
    left_out = ("name", "has_cells", *seen, "digest" if not column.digest else "")
    return _short({key: value for key, value in known.items() if key not in left_out})


def _column(stored: Json) -> MetricColumn:
    known: dict[str, Any] = {**stored, "direction": Direction(stored["direction"])}
    return MetricColumn(name=known.pop("metric"), **known)


def _case(case: ScoredCase, names: Sequence[str]) -> dict[str, Any]:
    scores = {name: _written(case.asked(name).cells) for name in names}
    known = {
        "fingerprint": case.fingerprint,
        "cluster": case.cluster,
        "language": case.language,
        "tags": sorted(case.tags) or None,
        "scores": {name: score for name, score in scores.items() if score is not None},
    }
    return {key: value for key, value in known.items() if value is not None}


def _written(cells: Sequence[Cell | None]) -> object:
    """One entry where all are alike, and a list where not; None where there is nothing to say."""
    entries = [_entry(cell) for cell in cells]
    first = entries[0]
    return first if all(entry == first for entry in entries) else entries


def _entry(cell: Cell | None) -> float | str | None:
    if cell is None or cell.status is Status.SKIPPED:
        return None
    return _number(cell.value) if cell.value is not None else cell.status.value


def _drift(content: Json) -> Drift:
    import msgspec

    known = {"runs": content["followed"], "metrics": content["drift"], "cases": content["sums"]}
    try:
        drift = msgspec.convert(known, Drift)
    except msgspec.ValidationError as error:
        raise ValueError(f"its record of main's drift: {error}") from error
    for id_, sums in drift.cases.items():
        if not all(0 <= first <= drift.runs for first, *_ in sums.values()):
            raise ValueError(f"its record of main's drift: {id_} began after the last run")
    return drift


def _read_case(id_: str, case: Json, names: Sequence[str], asked: int) -> ScoredCase:
    scores: Mapping[str, Any] = case["scores"]
    bare = ScoredCase(
        id=id_,
        fingerprint=case["fingerprint"],
        scores={},
        cluster=case.get("cluster"),
        tags=tuple(case.get("tags", ())),
        language=case.get("language"),
    )
    return kept_case(bare, {name: tuple(_cells(scores.get(name), asked)) for name in names})


def _cells(written: object, asked: int) -> Iterator[Cell | None]:
    is_list = isinstance(written, list)
    entries: list[object] = cast("list[object]", written) if is_list else [written] * asked
    if len(entries) != asked:
        raise ValueError(f"{len(entries)} scores are listed of {asked} runs")
    for entry in entries:
        if entry is None:
            yield None
        elif isinstance(entry, str):
            yield Cell(status=Status(entry))
        elif isinstance(entry, (int, float)) and not isinstance(entry, bool):
            yield Cell.measured(float(entry))
        else:
            raise ValueError(f"{entry!r} is not a score")


def _short(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: _number(one) if isinstance(one, float) else one for key, one in facts.items()}


def _number(value: float) -> float:
    """Whole numbers without a decimal point."""
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()
