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
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar, cast

from ragbench.core.case_table import CaseTable, Cells, ScoredCase
from ragbench.core.history import Drift, MainRun
from ragbench.core.metric import Direction
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Status
from ragbench.core.reading import Reading, words_of
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import RunMismatchError
from ragbench.io.atomic import written_whole
from ragbench.io.limits import ReadLimits
from ragbench.ledger.origin import without_texts
from ragbench.plugins import np
from ragbench.safe_text import counted

FORMAT = 3
"""Version of the file format."""
_OLD_FORMAT = 2
"""Its fingerprints of cases hold their ids, so that none is equal to one of today."""

_FORMAT_KEY = "ragbench_baseline"
"""The first key of a baseline file, by which it is known to be one."""
Json = Mapping[str, Any]
"""An object of a baseline file as it was parsed: nothing of it is checked yet."""


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
    """The newest runs of main, of which the scores of the cases are the means.

    A run that lies aside, because it was worse, is none of them.

    Args:
        kept: how many.
    """
    accepted = tuple(run for run in runs if not run.aside)
    return accepted[-kept:]


def with_runs(baseline: Baseline, runs: Sequence[MainRun], kept: int) -> Baseline:
    """A baseline with what it says of its runs, of which the newest are kept.

    Times are those of runs that asked as many cases at once as the newest one: others waited
    longer, or less, for the same system.
    """
    made_of = runs_kept(runs, kept)
    newest = made_of[-1]
    latencies: list[Latency] = []
    for stage in newest.seconds:
        # The median of the runs, which one slow machine does not move.
        times: list[float] = []
        for run in made_of:
            if stage in run.seconds and run.concurrency == newest.concurrency:
                times.append(run.seconds[stage])
        latency = Latency(
            stage=stage,
            count=len(baseline.cases),
            mean=median(times),
            p50=None,
            p95=None,
            longest=None,
            concurrency=newest.concurrency,
        )
        latencies.append(latency)
    return dataclasses.replace(
        baseline,
        runs=tuple(runs),
        made_of=made_of,
        date=newest.date,
        commit=newest.commit,
        dirty=any(run.dirty for run in made_of),
        latencies=tuple(latencies),
    )


_Stored = TypeVar("_Stored")
_LEFT_BY_VERSION_CONTROL = {
    rb"^<{7} ": (
        "has a conflict of a merge in it. Take one side, such as: git checkout --theirs {path}; "
        "then add main's run with: ragbench baseline add RUN"
    ),
    rb"\Aversion https://git-lfs": (
        "is a pointer of Git LFS, not the file itself. Fetch it with: git lfs pull --include {path}"
    ),
}
"""Beginnings of what version control leaves in the place of a file, with what is said of it."""


def read_baseline(path: Path, *, otherwise: str = "") -> Baseline:
    """The baseline in a file.

    Args:
        otherwise: what is said of a file that is none.

    Raises:
        RunMismatchError: it is none, cannot be read, or is of another version of ragbench.
    """
    import orjson

    data = b""
    try:
        data = ReadLimits().read_data(path)
        content = orjson.loads(data)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        if not otherwise:
            # A folder is a run as a rule, and lacks the file that is made of it.
            arguments = f"{path} -o FILE" if path.is_dir() else f"RUN -o {path}"
            message += f". A baseline file is made with: ragbench baseline add {arguments}"
        raise RunMismatchError(message) from error
    except orjson.JSONDecodeError as error:
        for pattern, message in _LEFT_BY_VERSION_CONTROL.items():
            if re.search(pattern, data, re.MULTILINE):
                raise RunMismatchError(f"{path} {message.format(path=path)}") from error
        raise RunMismatchError(
            f"{path} is not JSON, so neither a run nor a baseline file: {error}. Answers that it "
            f"records are scored by: ragbench eval {path}"
        ) from error
    if not isinstance(content, dict):
        raise RunMismatchError(f"{path} holds no JSON object, so ragbench did not write it")
    if _FORMAT_KEY not in content:
        if not otherwise:
            otherwise = (
                f"is not a baseline file. One is made with: ragbench baseline set RUN -o {path}"
            )
        raise RunMismatchError(f"{path} {otherwise}")
    with Reading(partial(_no_baseline, path)):
        return baseline_from(cast("Json", content), str(path))


def _no_baseline(path: Path, error: Exception) -> RunMismatchError:
    """The error of a file whose parts are not those of a baseline."""
    return RunMismatchError(
        f"{path} is not a baseline of this ragbench: {words_of(error)}. If another version wrote "
        "it, make it anew with: ragbench baseline set RUN"
    )


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Writes the file whole, or leaves what was there."""
    with written_whole(path) as file:
        for piece in _pieces(baseline):
            file.write(piece.encode())


def baseline_bytes(baseline: Baseline) -> bytes:
    """The content of a baseline file. The same runs give the same bytes."""
    return "".join(_pieces(baseline)).encode()


def _pieces(baseline: Baseline) -> Iterator[str]:
    """The content of a file in pieces: of many cases, the whole would take twice their memory.

    The file is committed: it is JSON, laid out by hand, an entry a line, so that a diff shows which
    cases changed.
    """
    before = "{\n"
    for member in _members(baseline):
        yield before
        yield from member
        before = ",\n"
    yield "\n}\n"


def _members(baseline: Baseline) -> Iterator[Iterable[str]]:
    """The members of the file's object, each in pieces."""
    head: dict[str, object] = {
        _FORMAT_KEY: FORMAT,
        "dataset": baseline.dataset,
        "rag": baseline.rag,
        "matching": baseline.matching,
        "fingerprints": dict(sorted(baseline.fingerprints.items())),
    }
    if baseline.judge:
        head["judge"] = baseline.judge
    head["kept"] = baseline.kept
    for key, value in head.items():
        yield [f"  {_member(key, value)}"]
    columns = sorted(baseline.metrics, key=lambda column: column.name)
    if baseline.origins is not None:
        origins = map(_stored_origin, baseline.origins)
        yield _list_block("origins", origins)
    yield _list_block("runs", map(_stored_run, baseline.runs))
    yield _list_block("stages", map(asdict, baseline.stages))
    yield _list_block("metrics", map(_stored_metric, columns))
    drift = baseline.drift
    if drift is not None:
        yield _list_block("drift", map(asdict, drift.metrics))
        yield _object_block("sums", _stored_sums(drift))
        yield [f"  {_member('followed', drift.runs)}"]
    # Last, because they are the longest part.
    yield _object_block("cases", _stored_cases(baseline, columns))


def _member(key: str, value: object) -> str:
    """A key with its value as JSON on one line."""
    return f"{_json(key)}: {_json(value)}"


def _list_block(key: str, entries: Iterable[object]) -> Iterator[str]:
    """A key whose value is a list, with an entry a line."""
    entry_texts = map(_json, entries)
    return _block(key, "[", entry_texts, "]")


def _object_block(key: str, members: Iterable[tuple[str, object]]) -> Iterator[str]:
    """A key whose value is an object, with a member a line."""
    member_texts = (_member(name, value) for name, value in members)
    return _block(key, "{", member_texts, "}")


def _block(key: str, opening: str, texts: Iterable[str], closing: str) -> Iterator[str]:
    """A key and its entries, one a line, between two brackets; without entries, on one line."""
    yield f"  {_json(key)}: {opening}"
    is_empty = True
    for text in texts:
        if not is_empty:
            yield ","
        yield f"\n    {text}"
        is_empty = False
    if not is_empty:
        yield "\n  "
    yield closing


def _stored_origin(origin: Origin) -> dict[str, object]:
    """An origin, which says what a stage's results depend on, as the file has it.

    It is without texts, because the file is committed.
    """
    public = without_texts(origin)
    parts = [[*part] for part in public.parts]
    return {"stage": public.stage, "reach": public.reach, "parts": parts}


def _stored_sums(drift: Drift) -> Iterator[tuple[str, object]]:
    """Of each case the sums by which drift is followed, by metric."""
    for id_, sums_by_metric in sorted(drift.cases.items()):
        stored: dict[str, list[float]] = {}
        for metric, sums in sorted(sums_by_metric.items()):
            stored[metric] = [_shortest_number(number) for number in sums]
        yield id_, stored


def _stored_cases(
    baseline: Baseline, columns: Sequence[MetricColumn]
) -> Iterator[tuple[str, object]]:
    """The cases by id, sorted, so that a diff shows which changed."""
    cells = {column.name: baseline.cells(column.name) for column in columns}
    ids = baseline.table.ids
    places = sorted(range(len(ids)), key=lambda place: ids[place])
    for place in places:
        yield ids[place], _stored_case(baseline.cases[place], place, cells)


def baseline_from(content: Json, source: str = "baseline") -> Baseline:
    """The baseline that a file's JSON holds.

    Raises:
        ValueError: it is of another format, or its parts do not fit together.
        KeyError, TypeError: something is missing, or is not what it should be.
    """
    if content[_FORMAT_KEY] not in (_OLD_FORMAT, FORMAT):
        raise ValueError(
            f"its format is {content[_FORMAT_KEY]}, this ragbench reads {FORMAT}: install the "
            "version that wrote it, or make it anew with ragbench baseline set RUN"
        )
    metrics = tuple(_read_metric(metric) for metric in content["metrics"])
    runs = [_typed(MainRun, run) for run in content["runs"]]
    for key in ("dataset", "rag", "matching"):
        if not isinstance(content[key], str):
            raise ValueError(f"its '{key}' is not a text")
    kept = content["kept"]
    if not 1 <= kept <= len(runs):
        raise ValueError(f"it keeps {kept} of {len(runs)} runs")
    made_of = runs_kept(runs, kept)
    times = sum(run.repeats for run in made_of)
    origins = None
    if "origins" in content:
        origins = tuple(Origin.from_json(origin) for origin in content["origins"])
    baseline = Baseline(
        source=source,
        is_old=content[_FORMAT_KEY] == _OLD_FORMAT,
        judge=content.get("judge", ""),
        dataset=content["dataset"],
        rag=content["rag"],
        commit=made_of[-1].commit,
        dirty=made_of[-1].dirty,
        matching=content["matching"],
        fingerprints=content["fingerprints"],
        metrics=metrics,
        stages=tuple(_typed(StageCount, stage) for stage in content["stages"]),
        cases=_read_cases(content["cases"], metrics, times),
        drift=_read_drift(content) if "drift" in content else None,
        origins=origins,
        runs=(),  # follow with the next call
    )
    return with_runs(baseline, runs, kept)


_DEFAULT_RUN = asdict(MainRun(date="", commit=""))
"""What most runs of main say of themselves: a file leaves out what is equal to it."""


def _stored_run(run: MainRun) -> dict[str, object]:
    """A run of main as the file has it, without what is as in most runs."""
    facts = asdict(run)
    scores: dict[str, float] = {}
    for name, score in sorted(run.scores.items()):
        scores[name] = _shortest_number(score)
    facts["scores"] = scores
    seconds: dict[str, float] = {}
    for stage, time in run.seconds.items():
        seconds[stage] = float(f"{time:.3g}")  # no clock is exact to more digits than that
    facts["seconds"] = seconds
    stored: dict[str, object] = {}
    for name, value in facts.items():
        if value != _DEFAULT_RUN[name]:
            stored[name] = value
    return stored


_FACTS_LEFT_OUT = ("name", "has_cells", "is_judged", "reads_answer", "reads_contexts")
"""Facts of a metric that a file leaves out: the name is its key, and what labels rest on, the run
says."""
_FACTS_LEFT_OUT_IF_EMPTY = ("digest", "probability")
"""Facts that are left out where they are empty."""


def _stored_metric(column: MetricColumn) -> dict[str, object]:
    """A metric as the file has it: what a gate must know of it to compare a run's with it."""
    stored: dict[str, object] = {"metric": column.name}
    for key, value in asdict(column).items():
        if key in _FACTS_LEFT_OUT:
            continue
        if key in _FACTS_LEFT_OUT_IF_EMPTY and not value:
            continue
        if isinstance(value, float):
            value = _shortest_number(value)
        stored[key] = value
    return stored


def _read_metric(stored: Json) -> MetricColumn:
    """A metric of a file, which has its name under another key than the record."""
    facts = dict(stored)
    facts["name"] = facts.pop("metric")
    facts["direction"] = Direction(stored["direction"])
    return _typed(MetricColumn, facts)


def _typed(kind: type[_Stored], stored: Json) -> _Stored:
    """A record of a file, all of whose fields are known and of their types."""
    import msgspec

    # A name that is not known is another version's: the constructor refuses it, and the conversion
    # would leave it out.
    kind(**stored)
    return msgspec.convert(stored, kind)


def _stored_case(case: ScoredCase, place: int, cells: Mapping[str, Cells]) -> dict[str, object]:
    """A case with what each metric gave it in each of the runs."""
    scores: dict[str, object] = {}
    for name, column in cells.items():
        score = _stored_scores(column.asked(place).cells)
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


def _stored_scores(cells: Sequence[Cell | None]) -> object:
    """One entry where all are alike, and a list where not; None where there is nothing to say.

    Most cases score the same in every run: their lines stay short, and so do diffs.
    """
    entries: list[float | str | None] = []
    for cell in cells:
        if cell is None or cell.status is Status.SKIPPED:
            entries.append(None)
        elif cell.value is None:
            entries.append(cell.status.value)
        else:
            entries.append(_shortest_number(cell.value))
    if all(entry == entries[0] for entry in entries):
        return entries[0]
    return entries


def _read_drift(content: Json) -> Drift:
    """What a file says of main's drift."""
    import msgspec

    stored = {"runs": content["followed"], "metrics": content["drift"], "cases": content["sums"]}
    try:
        drift = msgspec.convert(stored, Drift)
    except msgspec.ValidationError as error:
        raise ValueError(f"its record of main's drift: {error}") from error
    for id_, sums_by_metric in drift.cases.items():
        for sums in sums_by_metric.values():
            # The first number is that of the run from which on the case is followed.
            first_run = sums[0]
            if not 0 <= first_run <= drift.runs:
                raise ValueError(f"its record of main's drift: {id_} began after the last run")
    return drift


def _read_cases(cases: Json, metrics: Sequence[MetricColumn], times: int) -> CaseTable:
    """The cases of a file, each of which was asked so many times by all its runs together."""
    rows: list[Json] = [*cases.values()]
    labels: dict[str, Sequence[Any]] = {
        "cluster": [row.get("cluster") for row in rows],
        "language": [row.get("language") for row in rows],
        "tags": [tuple(row.get("tags", ())) for row in rows],
    }
    # A label that no case has is left out: a run that knows none has no such column.
    facts = {name: values for name, values in labels.items() if any(values)}
    fingerprints = [row["fingerprint"].encode() for row in rows]
    cells: dict[str, Cells] = {}
    for column in metrics:
        cells_of_cases: list[tuple[Cell | None, ...]] = []
        for row in rows:
            stored = row["scores"].get(column.name)
            cells_of_cases.append(tuple(_read_cells(stored, times)))
        cells[column.name] = Cells.repeated(cells_of_cases)
    return CaseTable(
        ids=[*cases],
        fingerprints=np.array(fingerprints, np.bytes_),
        facts=facts,
        cells=cells,
    )


def _read_cells(stored: object, times: int) -> Iterator[Cell | None]:
    """What a case scored each time, of an entry of the file: a list, or a score for all times."""
    entries: list[object] = [stored] * times
    if isinstance(stored, list):
        entries = cast("list[object]", stored)
    if len(entries) != times:
        raise ValueError(f"it lists {counted(len(entries), 'score')} of {counted(times, 'run')}")
    for entry in entries:
        if entry is None:
            yield None
        elif isinstance(entry, str):
            yield Cell(status=Status(entry))
        elif isinstance(entry, (int, float)) and not isinstance(entry, bool):
            yield Cell.measured(float(entry))
        else:
            raise ValueError(f"{entry!r} is not a score")


def _shortest_number(value: float) -> float:
    """A number as it is written: a whole one without a decimal point.

    Beyond 1e15 all digits would be written, and the last of them are not known: a float has fifteen
    to seventeen.
    """
    is_whole = value == int(value)
    if is_whole and abs(value) < 1e15:
        return int(value)
    return value


def _json(value: object) -> str:
    """A value as JSON on one line."""
    import orjson

    return orjson.dumps(value).decode()
