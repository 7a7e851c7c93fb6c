"""A baseline file: the last runs of main, with what each case scored in each of them.

A line a case, sorted by id, so that a version control shows which cases changed. A score stands as
the shortest number that reads back as the same one; a case that was abstained or failed holds the
word. What came out alike in all runs stands once, anything else as a list with an entry a run,
oldest first. Of runs that are too old to be compared with, the means are kept.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

from ragbench.core.case_table import CaseTable, Cells, ScoredCase
from ragbench.core.history import Drift, MainRun
from ragbench.core.metric import Direction
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import RunMismatchError
from ragbench.io.atomic import written_whole
from ragbench.io.limits import ReadLimits
from ragbench.ledger.origin import without_texts
from ragbench.plugins import np

FORMAT = 3
"""Version of the file format."""
_OLD_FORMAT = 2
"""Its fingerprints of cases hold their ids, so that none is equal to one of today."""

_MARK = "ragbench_baseline"
Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline(RunScores):
    """The mean of the newest runs of main, those of `made_of`, as a gate compares with it.

    Fingerprints, stages and origins are of the newest run.
    """

    runs: tuple[MainRun, ...]
    """All that are remembered, oldest first; at least one."""

    @property
    def kept(self) -> int:
        """How many of the newest runs the scores of the cases are from."""
        return len(self.made_of)


def runs_kept(runs: Sequence[MainRun], kept: int) -> tuple[MainRun, ...]:
    """The newest runs of main, of which the scores of the cases are the means."""
    return tuple(run for run in runs if not run.aside)[-kept:]


def with_runs(baseline: Baseline, runs: Sequence[MainRun], kept: int) -> Baseline:
    """A baseline with what it says of its runs, of which the newest are kept."""
    made_of = runs_kept(runs, kept)
    newest = made_of[-1]
    latencies: list[Latency] = []
    for stage in newest.seconds:
        # The median of the runs, which one slow machine does not move.
        mean = median(run.seconds[stage] for run in made_of if stage in run.seconds)
        latencies.append(
            Latency(
                stage=stage, count=len(baseline.cases), mean=mean, p50=None, p95=None, longest=None
            )
        )
    return dataclasses.replace(
        baseline,
        runs=tuple(runs),
        made_of=made_of,
        date=newest.date,
        commit=newest.commit,
        dirty=any(run.dirty for run in made_of),
        latencies=tuple(latencies),
    )


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
        made = f"{path} -o FILE" if path.is_dir() else f"RUN -o {path}"
        hint = "" if otherwise else f". A baseline file is made with: ragbench baseline add {made}"
        raise RunMismatchError(f"{path} cannot be read: {error.strerror}{hint}") from error
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
        return baseline_from(cast("Json", content), str(path))
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
    head: dict[str, object] = {
        _MARK: FORMAT,
        "dataset": baseline.dataset,
        "rag": baseline.rag,
        "matching": baseline.matching,
        "fingerprints": dict(sorted(baseline.fingerprints.items())),
    }
    if baseline.judge:
        head["judge"] = baseline.judge
    head["kept"] = baseline.kept
    lines = [f"  {_json(key)}: {_json(value)}" for key, value in head.items()]
    columns = sorted(baseline.metrics, key=lambda column: column.name)
    if baseline.origins is not None:
        lines.append(_block("origins", "[]", map(_origin_text, baseline.origins)))
    lines.append(_block("runs", "[]", (_json(_run(run)) for run in baseline.runs)))
    lines.append(_block("stages", "[]", (_json(asdict(stage)) for stage in baseline.stages)))
    lines.append(_block("metrics", "[]", (_json(_metric(column)) for column in columns)))
    drift = baseline.drift
    if drift is not None:
        lines.append(_block("drift", "[]", (_json(asdict(metric)) for metric in drift.metrics)))
        lines.append(_block("sums", "{}", _sums_texts(drift)))
        lines.append(f'  "followed": {drift.runs}')
    lines.append(_block("cases", "{}", _case_texts(baseline, columns)))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _origin_text(origin: Origin) -> str:
    public = without_texts(origin)
    parts = [[*part] for part in public.parts]
    return _json({"stage": public.stage, "reach": public.reach, "parts": parts})


def _sums_texts(drift: Drift) -> Iterator[str]:
    for id_, sums_of in sorted(drift.cases.items()):
        numbers = {name: [_number(each) for each in sums] for name, sums in sorted(sums_of.items())}
        yield f"{_json(id_)}: {_json(numbers)}"


def _case_texts(baseline: Baseline, columns: Sequence[MetricColumn]) -> Iterator[str]:
    cells = {column.name: baseline.cells(column.name) for column in columns}
    ids = baseline.table.ids
    for place in sorted(range(len(ids)), key=ids.__getitem__):
        yield f"{_json(ids[place])}: {_json(_case(baseline.cases[place], place, cells))}"


def baseline_from(content: Json, source: str = "baseline") -> Baseline:
    if content[_MARK] not in (_OLD_FORMAT, FORMAT):
        raise ValueError(
            f"its format is {content[_MARK]}, this ragbench reads {FORMAT}: install the version "
            "that wrote it, or make it anew with ragbench baseline set RUN"
        )
    metrics = tuple(_column(metric) for metric in content["metrics"])
    runs, kept = [MainRun(**run) for run in content["runs"]], content["kept"]
    if not 1 <= kept <= len(runs):
        raise ValueError(f"it keeps {kept} of {len(runs)} runs")
    made_of = runs_kept(runs, kept)
    times = sum(run.repeats for run in made_of)
    baseline = Baseline(
        source=source,
        is_old=content[_MARK] == _OLD_FORMAT,
        judge=content.get("judge", ""),
        dataset=content["dataset"],
        rag=content["rag"],
        commit=made_of[-1].commit,
        dirty=made_of[-1].dirty,
        matching=content["matching"],
        fingerprints=content["fingerprints"],
        metrics=metrics,
        stages=tuple(StageCount(**stage) for stage in content["stages"]),
        cases=_read_cases(content["cases"], metrics, times),
        drift=_drift(content) if "drift" in content else None,
        origins=tuple(map(Origin.from_json, content["origins"])) if "origins" in content else None,
        runs=(),
    )
    return with_runs(baseline, runs, kept)


def _block(key: str, brackets: str, entries: Iterable[str]) -> str:
    inner = ",\n".join(f"    {entry}" for entry in entries)
    middle = f"\n{inner}\n  " if inner else ""
    return f"  {_json(key)}: {brackets[0]}{middle}{brackets[1]}"


_USUAL_RUN = asdict(MainRun(date="", commit=""))
"""What a run does not say where it is so."""


def _run(run: MainRun) -> dict[str, object]:
    stored = asdict(run)
    stored["scores"] = {name: _number(score) for name, score in sorted(run.scores.items())}
    stored["seconds"] = {stage: float(f"{time:.3g}") for stage, time in run.seconds.items()}
    return {key: value for key, value in stored.items() if value != _USUAL_RUN[key]}


_NOT_OF_METRICS = ("name", "has_cells", "is_judged", "reads_answer", "reads_contexts")
"""Facts of a metric that a file leaves out: what labels rest on, the run says."""
_RARE = ("digest", "probability")
"""Facts that are left out where they are empty."""


def _metric(column: MetricColumn) -> dict[str, object]:
    stored: dict[str, object] = {"metric": column.name}
    for key, value in asdict(column).items():
        if key in _NOT_OF_METRICS or (key in _RARE and not value):
            continue
        stored[key] = _number(value) if isinstance(value, float) else value
    return stored


def _column(stored: Json) -> MetricColumn:
    facts: dict[str, Any] = {**stored, "direction": Direction(stored["direction"])}
    return MetricColumn(name=facts.pop("metric"), **facts)


def _case(case: ScoredCase, place: int, cells: Mapping[str, Cells]) -> dict[str, object]:
    scores: dict[str, object] = {}
    for name, column in cells.items():
        score = _scores(column.asked(place).cells)
        if score is not None:
            scores[name] = score
    stored: dict[str, object] = {"fingerprint": case.fingerprint}
    if case.cluster is not None:
        stored["cluster"] = case.cluster
    if case.language is not None:
        stored["language"] = case.language
    if case.tags:
        stored["tags"] = sorted(case.tags)
    stored["scores"] = scores
    return stored


def _scores(cells: Sequence[Cell | None]) -> object:
    """One entry where all are alike, and a list where not; None where there is nothing to say."""
    entries: list[float | str | None] = []
    for cell in cells:
        if cell is None or cell.status is Status.SKIPPED:
            entries.append(None)
        elif cell.value is None:
            entries.append(cell.status.value)
        else:
            entries.append(_number(cell.value))
    if all(entry == entries[0] for entry in entries):
        return entries[0]
    return entries


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


def _read_cases(cases: Json, metrics: Sequence[MetricColumn], times: int) -> CaseTable:
    rows: list[Json] = [*cases.values()]
    labels: dict[str, Sequence[Any]] = {
        "cluster": [row.get("cluster") for row in rows],
        "language": [row.get("language") for row in rows],
        "tags": [tuple(row.get("tags", ())) for row in rows],
    }
    cells: dict[str, Cells] = {}
    for column in metrics:
        asks = [tuple(_cells(row["scores"].get(column.name), times)) for row in rows]
        cells[column.name] = Cells.repeated(asks)
    return CaseTable(
        ids=[*cases],
        fingerprints=np.array([row["fingerprint"].encode() for row in rows], np.bytes_),
        facts={name: values for name, values in labels.items() if any(values)},
        cells=cells,
    )


def _cells(stored: object, times: int) -> Iterator[Cell | None]:
    """What a case scored each time, of an entry of the file."""
    entries: list[object] = [stored] * times
    if isinstance(stored, list):
        entries = cast("list[object]", stored)
    if len(entries) != times:
        raise ValueError(f"{len(entries)} scores are listed of {times} runs")
    for entry in entries:
        if entry is None:
            yield None
        elif isinstance(entry, str):
            yield Cell(status=Status(entry))
        elif isinstance(entry, (int, float)) and not isinstance(entry, bool):
            yield Cell.measured(float(entry))
        else:
            raise ValueError(f"{entry!r} is not a score")


def _number(value: float) -> float:
    """Whole numbers without a decimal point."""
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()
