"""A baseline file: the last runs of main, with what each case scored in each of them.

A line a case, sorted by id, so that a version control shows which cases changed. A score stands as
the shortest number that reads back as the same one; a case that was abstained or failed holds the
word. What came out alike in all runs stands once, anything else as a list with an entry a run,
oldest first. Of runs that are too old to be compared with, the means are kept.
"""

from __future__ import annotations

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
from ragbench.core.record import replace
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


def facts_of(runs: Sequence[MainRun], kept: int, cases: int) -> dict[str, Any]:
    """What a baseline of so many cases says of its runs, of which the newest are kept."""
    made_of = tuple(run for run in runs if not run.aside)[-kept:]
    newest = made_of[-1]
    return {
        "runs": tuple(runs),
        "made_of": made_of,
        "date": newest.date,
        "commit": newest.commit,
        "dirty": any(run.dirty for run in made_of),
        # Of each stage the median of the runs, which one slow machine does not move.
        "latencies": tuple(
            Latency(stage=stage, count=cases, mean=mean, p50=None, p95=None, longest=None)
            for stage in newest.seconds
            for mean in [median(one.seconds[stage] for one in made_of if stage in one.seconds)]
        ),
    }


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
    cells = {column.name: baseline.cells(column.name) for column in columns}
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
    ids = baseline.table.ids
    places = sorted(range(len(ids)), key=ids.__getitem__)
    entries = (f"{_json(ids[at])}: {_json(_case(baseline.cases[at], at, cells))}" for at in places)
    lines.append(_block("cases", "{}", entries))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


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
    facts = facts_of(runs, kept, len(content["cases"]))
    return Baseline(
        source=source,
        is_old=content[_MARK] == _OLD_FORMAT,
        judge=content.get("judge", ""),
        dataset=content["dataset"],
        rag=content["rag"],
        matching=content["matching"],
        fingerprints=content["fingerprints"],
        metrics=metrics,
        stages=tuple(StageCount(**stage) for stage in content["stages"]),
        cases=_read_cases(content["cases"], metrics, sum(run.repeats for run in facts["made_of"])),
        drift=_drift(content) if "drift" in content else None,
        origins=tuple(map(Origin.from_json, content["origins"])) if "origins" in content else None,
        **facts,
    )


def _block(key: str, brackets: str, entries: Iterable[str]) -> str:
    inner = ",\n".join(f"    {entry}" for entry in entries)
    middle = f"\n{inner}\n  " if inner else ""
    return f"  {_json(key)}: {brackets[0]}{middle}{brackets[1]}"


_UNSAID = asdict(MainRun(date="", commit=""))
"""What a run does not say where it is so."""


def _run(run: MainRun) -> dict[str, Any]:
    known = asdict(replace(run, scores=_short(dict(sorted(run.scores.items())))))
    known["seconds"] = {stage: float(f"{time:.3g}") for stage, time in run.seconds.items()}
    return {key: value for key, value in known.items() if _UNSAID[key] != value}


def _metric(column: MetricColumn) -> dict[str, Any]:
    known = {"metric": column.name, **asdict(column)}
    seen = ("is_judged", "reads_answer", "reads_contexts")  # the run says what labels of it rest on
    left_out = ("name", "has_cells", *seen)
    rare = ("digest", "probability")
    found = {key: value for key, value in known.items() if key not in left_out}
    return _short({key: value for key, value in found.items() if value or key not in rare})


def _column(stored: Json) -> MetricColumn:
    known: dict[str, Any] = {**stored, "direction": Direction(stored["direction"])}
    return MetricColumn(name=known.pop("metric"), **known)


def _case(case: ScoredCase, at: int, cells: Mapping[str, Cells]) -> dict[str, Any]:
    scores = {name: _scores(one.asked(at).cells) for name, one in cells.items()}
    known = {
        "fingerprint": case.fingerprint,
        "cluster": case.cluster,
        "language": case.language,
        "tags": sorted(case.tags) or None,
        "scores": {name: score for name, score in scores.items() if score is not None},
    }
    return {key: value for key, value in known.items() if value is not None}


def _scores(cells: Sequence[Cell | None]) -> object:
    """One entry where all are alike, and a list where not; None where there is nothing to say."""
    known = [None if cell is None or cell.status is Status.SKIPPED else cell for cell in cells]
    found = [c and (c.status.value if c.value is None else _number(c.value)) for c in known]
    return found[0] if all(one == found[0] for one in found) else found


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


def _read_cases(cases: Json, metrics: Sequence[MetricColumn], asked: int) -> CaseTable:
    rows: list[Json] = [*cases.values()]
    known = {name: [row.get(name) for row in rows] for name in ("cluster", "language")}
    known["tags"] = [tuple(row.get("tags", ())) for row in rows]
    return CaseTable(
        ids=[*cases],
        fingerprints=np.array([row["fingerprint"].encode() for row in rows], np.bytes_),
        facts={name: found for name, found in known.items() if any(found)},
        cells={
            one.name: Cells.repeated(
                [tuple(_cells(row["scores"].get(one.name), asked)) for row in rows]
            )
            for one in metrics
        },
    )


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
