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
        """How many of main's newest runs the baseline's scores are the mean of.

        The file stores this number, and the runs of the mean are found again by it.
        """
        return len(self.made_of)


def runs_kept(runs: Sequence[MainRun], kept: int) -> tuple[MainRun, ...]:
    """The newest runs of main, of whose scores the baseline is the mean.

    A run that was worse lies aside: it is remembered, but its scores must not lower what later runs
    are compared with.

    Args:
        kept: how many.
    """
    # A run aside was worse, and is only remembered.
    accepted = tuple(run for run in runs if not run.aside)
    return accepted[-kept:]


def with_runs(baseline: Baseline, runs: Sequence[MainRun], kept: int) -> Baseline:
    """A baseline with the facts that follow from its runs: date, commit, and times of the stages.

    The baseline's scores stay as they are. Times are taken only of runs that asked as many cases at
    once as the newest run did: calls that are made at once wait for each other, so that other runs'
    times do not compare.
    """
    made_of = runs_kept(runs, kept)
    newest = made_of[-1]
    latencies: list[Latency] = []
    # Stages that the newest run lacks are left out.
    for stage in newest.seconds:
        # The median of the runs, which one slow machine does not move.
        times: list[float] = []
        for run in made_of:
            if stage in run.seconds and run.concurrency == newest.concurrency:
                times.append(run.seconds[stage])
        # No percentiles: a baseline keeps only the mean time of each of its runs.
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
        # An unsaved change in any of the runs means that their mean is of no commit.
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
    """The baseline in a file, or an error that names the command that helps.

    A user may name a run's folder, a file with conflict marks, or recorded answers: each has a
    message of its own.

    Args:
        otherwise: the message for a file that holds something else; empty for the usual one.

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
        # Only then is the content looked through: a good file is parsed at once.
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
    # Anything may be missing in a file that a hand or another version wrote.
    with Reading(partial(_damaged_file_error, path)):
        return baseline_from(cast("Json", content), str(path))


def _damaged_file_error(path: Path, error: Exception) -> RunMismatchError:
    """The error of a baseline file with a part that is missing, damaged, or of another version.

    A damaged part must not end in a traceback: the message gives the command that makes the file
    anew.
    """
    return RunMismatchError(
        f"{path} is not a baseline of this ragbench: {words_of(error)}. If another version wrote "
        "it, make it anew with: ragbench baseline set RUN"
    )


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Writes a baseline file whole, or leaves the file that was there.

    A half-written baseline would make every later gate refuse it.
    """
    with written_whole(path) as file:
        for piece in _pieces_of_file(baseline):
            file.write(piece.encode())


def baseline_bytes(baseline: Baseline) -> bytes:
    """The content of a baseline file as bytes, for callers that write several files at once.

    The same runs give the same bytes, so that a file that is made again shows no change in git.
    """
    return "".join(_pieces_of_file(baseline)).encode()


def _pieces_of_file(baseline: Baseline) -> Iterator[str]:
    """The content of a baseline file in pieces of text, to be written one after the other.

    Of many cases, one text of the whole would take twice their memory. The file is committed, so it
    is JSON laid out by hand, with one entry a line: a diff then shows which cases changed.
    """
    # The comma comes before each member but the first: how many there are is not known.
    before = "{\n"
    for member in _members_of_file(baseline):
        yield before
        yield from member
        before = ",\n"
    yield "\n}\n"


def _members_of_file(baseline: Baseline) -> Iterator[Iterable[str]]:
    """The members of a baseline file's JSON object, each as the pieces of its text.

    Keys and their order are a stored form: `baseline_from` reads the keys, and another order would
    show as a change of the whole file in version control.
    """
    head: dict[str, object] = {
        _FORMAT_KEY: FORMAT,
        "dataset": baseline.dataset,
        "rag": baseline.rag,
        "matching": baseline.matching,
        "fingerprints": dict(sorted(baseline.fingerprints.items())),
    }
    # Left out where no metric is judged, so that most files have no such line.
    if baseline.judge:
        head["judge"] = baseline.judge
    head["kept"] = baseline.kept
    for key, value in head.items():
        yield [f"  {_member_text(key, value)}"]
    # By name: the order in which a run measures must not show as a change.
    columns = sorted(baseline.metrics, key=lambda column: column.name)
    if baseline.origins is not None:
        origins = map(_stored_origin, baseline.origins)
        yield _list_block("origins", origins)
    yield _list_block("runs", map(_stored_run, baseline.runs))
    yield _list_block("stages", map(asdict, baseline.stages))
    yield _list_block("metrics", map(_stored_metric, columns))
    # Only a baseline that follows main has sums.
    drift = baseline.drift
    if drift is not None:
        yield _list_block("drift", map(asdict, drift.metrics))
        yield _object_block("sums", _stored_sums(drift))
        yield [f"  {_member_text('followed', drift.runs)}"]
    # Last, because they are the longest part.
    yield _object_block("cases", _stored_cases(baseline, columns))


def _member_text(key: str, value: object) -> str:
    """A key of a baseline file with its value as JSON on one line.

    Lines of a committed file stay short so: a diff shows the whole entry.
    """
    return f"{_json(key)}: {_json(value)}"


def _list_block(key: str, entries: Iterable[object]) -> Iterator[str]:
    """The text of a key whose value is a list, in pieces, with one entry a line.

    In a committed file, a changed entry then shows as one changed line.
    """
    entry_texts = map(_json, entries)
    return _block(key, "[", entry_texts, "]")


def _object_block(key: str, members: Iterable[tuple[str, object]]) -> Iterator[str]:
    """The text of a key whose value is an object, in pieces, with one member a line.

    In a committed file, a changed member then shows as one changed line.
    """
    # A generator, so that cases are written one at a time.
    member_texts = (_member_text(name, value) for name, value in members)
    return _block(key, "{", member_texts, "}")


def _block(key: str, opening: str, texts: Iterable[str], closing: str) -> Iterator[str]:
    """The text of a key with a list or an object as its value, laid out with one entry a line.

    Without entries, both brackets are on one line. JSON libraries indent every level or none: this
    layout keeps a case on one line of a diff.

    Args:
        opening, closing: the two brackets.
        texts: the entries, as JSON.
    """
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
    """An origin, which says on what a stage's results depend, in the form of a baseline file.

    Prompts and other texts are left out, because the file is committed where others can read it.

    Files in users' repositories have these keys: with other ones, `FORMAT` must count up.
    """
    public = without_texts(origin)
    # As a list, since JSON knows no tuples; the order of the fields is stored.
    parts = [[*part] for part in public.parts]
    return {"stage": public.stage, "reach": public.reach, "parts": parts}


def _stored_sums(drift: Drift) -> Iterator[tuple[str, object]]:
    """Each case's id with its sums by metric, by which a gate follows main's slow drift.

    Drift is a loss over many merges, too small to be seen in any of them. Sorted, and with numbers
    as short as they can be, so that a diff of the file shows only changes.

    Files in users' repositories have this form: with another one, `FORMAT` must count up.
    """
    for id_, sums_by_metric in sorted(drift.cases.items()):
        stored: dict[str, list[float]] = {}
        for metric, sums in sorted(sums_by_metric.items()):
            stored[metric] = [_shortest_number(number) for number in sums]
        yield id_, stored


def _stored_cases(
    baseline: Baseline, columns: Sequence[MetricColumn]
) -> Iterator[tuple[str, object]]:
    """Each case's id with the case in the form of a baseline file.

    The cases are sorted by id, so that a diff of the file shows which of them changed.
    """
    cells = {column.name: baseline.cells(column.name) for column in columns}
    ids = baseline.table.ids
    places = sorted(range(len(ids)), key=lambda place: ids[place])
    for place in places:
        yield ids[place], _stored_case(baseline.cases[place], place, cells)


def baseline_from(content: Json, source: str = "baseline") -> Baseline:
    """The baseline that a file's JSON holds.

    A file may come from any version or hand: whatever a gate relies on is checked here.

    Raises:
        ValueError: it is of another format, or its parts do not fit together.
        KeyError, TypeError: a part is missing, or of another type.
    """
    # The older format is still read; its cases equal none of today.
    if content[_FORMAT_KEY] not in (_OLD_FORMAT, FORMAT):
        raise ValueError(
            f"its format is {content[_FORMAT_KEY]}, this ragbench reads {FORMAT}: install the "
            "version that wrote it, or make it anew with ragbench baseline set RUN"
        )
    metrics = tuple(_read_metric(metric) for metric in content["metrics"])
    runs = [_checked_record(MainRun, run) for run in content["runs"]]
    for key in ("dataset", "rag", "matching"):
        if not isinstance(content[key], str):
            raise ValueError(f"its '{key}' is not a text")
    kept = content["kept"]
    if not 1 <= kept <= len(runs):
        raise ValueError(f"it keeps {kept} of {len(runs)} runs")
    made_of = runs_kept(runs, kept)
    # Each run may have asked its cases several times: so many scores a list holds.
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
        stages=tuple(_checked_record(StageCount, stage) for stage in content["stages"]),
        cases=_read_cases(content["cases"], metrics, times),
        drift=_read_drift(content) if "drift" in content else None,
        origins=origins,
        runs=(),  # follow with the next call
    )
    return with_runs(baseline, runs, kept)


_DEFAULT_RUN = asdict(MainRun(date="", commit=""))
"""What most runs of main say of themselves: a file leaves out what is equal to it."""


def _stored_run(run: MainRun) -> dict[str, object]:
    """A run of main in the form of a baseline file, without the facts that are as in most runs.

    The file lists many runs, so that a shorter line is easier to read in a diff. A reader puts the
    default in the place of a fact that is left out: a changed default changes old files.
    """
    facts = asdict(run)
    scores: dict[str, float] = {}
    for name, score in sorted(run.scores.items()):
        # Keys in order, so that equal runs give equal lines.
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
    """A metric in the form of a baseline file: the facts by which a gate compares scores.

    Without the formula's version, direction and scale, scores of two formulas would be compared.

    Files in users' repositories have these keys: with other ones, `FORMAT` must count up.
    """
    stored: dict[str, object] = {"metric": column.name}
    for key, value in asdict(column).items():
        if key in _FACTS_LEFT_OUT:
            continue
        if key in _FACTS_LEFT_OUT_IF_EMPTY and not value:
            continue
        # Whole numbers lose their decimal point here as well.
        if isinstance(value, float):
            value = _shortest_number(value)
        stored[key] = value
    return stored


def _read_metric(stored: Json) -> MetricColumn:
    """A metric as it was read from a baseline file, where its name is under the key ``metric``.

    The stored key differs from the record's field, and files in repositories keep it.
    """
    facts = dict(stored)
    facts["name"] = facts.pop("metric")
    facts["direction"] = Direction(stored["direction"])
    return _checked_record(MetricColumn, facts)


def _checked_record(kind: type[_Stored], stored: Json) -> _Stored:
    """A record read from a baseline file, refused where a field is unknown or of another type.

    Such a field was written by another version of ragbench or by hand: a gate must not guess what
    it means.
    """
    import msgspec

    # A name that is not known is another version's: the constructor refuses it, and the conversion
    # would leave it out.
    kind(**stored)
    return msgspec.convert(stored, kind)


def _stored_case(case: ScoredCase, place: int, cells: Mapping[str, Cells]) -> dict[str, object]:
    """A case in the form of a baseline file: fingerprint, labels, and its scores by metric.

    A metric without anything to say of the case is left out.

    Files in users' repositories have these keys: with other ones, `FORMAT` must count up.

    Args:
        place: the case's position in the cells.
        cells: of each metric the cells of all cases, by the metric's name.
    """
    scores: dict[str, object] = {}
    for name, column in cells.items():
        # All times that the case was asked, over all runs.
        score = _stored_scores(column.asked(place).cells)
        if score is not None:
            scores[name] = score
    stored: dict[str, object] = {"fingerprint": case.fingerprint}
    if case.cluster is not None:
        # A label that the case lacks takes no room in its line.
        stored["cluster"] = case.cluster
    if case.language is not None:
        stored["language"] = case.language
    if case.tags:
        stored["tags"] = sorted(case.tags)
    stored["scores"] = scores
    return stored


def _stored_scores(cells: Sequence[Cell | None]) -> object:
    """A case's scores by one metric over main's runs: one entry if all are alike, else a list.

    Most cases score the same in every run: their lines stay short, and so do diffs. A case that
    abstained or failed has that word as its entry, and None is a run in which the metric did not
    apply.

    Files in users' repositories have this form: with another one, `FORMAT` must count up.
    """
    entries: list[float | str | None] = []
    for cell in cells:
        # A skipped cell and an absent one are both "did not apply".
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
    """The record of main's drift in a baseline file: sums over runs, for the gate's test.

    Raises:
        ValueError: the record has another form, or a case that began after the last run.
    """
    import msgspec

    stored = {"runs": content["followed"], "metrics": content["drift"], "cases": content["sums"]}
    try:
        drift = msgspec.convert(stored, Drift)
    except msgspec.ValidationError as error:
        raise ValueError(f"its record of main's drift: {error}") from error
    for id_, sums_by_metric in drift.cases.items():
        for sums in sums_by_metric.values():
            # The first number is that of the run from which on the case is followed. It may equal
            # the number of runs: such a case joins with the next run.
            first_run = sums[0]
            if not 0 <= first_run <= drift.runs:
                raise ValueError(f"its record of main's drift: {id_} began after the last run")
    return drift


def _read_cases(cases: Json, metrics: Sequence[MetricColumn], times: int) -> CaseTable:
    """The cases of a baseline file as a table, such as a run has it.

    A gate then compares a run with it case by case, as with another run.

    Args:
        times: how often main's runs together asked each case: so many scores a list must have.
    """
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
            # A metric that says nothing of the case has no key: None in each run.
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
    """The cells of a case by one metric, one for each time that main's runs asked it.

    A cell is a metric's result for a case. Scores that were alike in all runs are stored once: here
    they are spread again.

    Args:
        stored: the file's entry: a list with a score for each time, or one score for all times.
    """
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
            # In Python a bool is an int, but true is no score.
            yield Cell.measured(float(entry))
        else:
            raise ValueError(f"{entry!r} is not a score")


def _shortest_number(value: float) -> float:
    """A number in the form in which it is stored: a whole one without a decimal point.

    This keeps lines of a committed file short: 1 instead of 1.0. From 1e15 on, an integer would
    show more digits than a float is exact to.
    """
    # NaN and infinity are stored nowhere: scores are finite.
    is_whole = value == int(value)
    if is_whole and abs(value) < 1e15:
        return int(value)
    return value


def _json(value: object) -> str:
    """A value as compact JSON on one line, the form of every entry of a baseline file.

    Whatever is stored comes through here, so that all files have one form.
    """
    import orjson

    return orjson.dumps(value).decode()
