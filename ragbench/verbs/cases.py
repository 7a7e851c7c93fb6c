"""The cases of a run that somebody asks for: by cause, tag, id; as a dataset; for other tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from ragbench.core.attribution import Cause
from ragbench.core.biography import POST_RETRIEVE
from ragbench.core.case import Case
from ragbench.core.outcome import Cell
from ragbench.core.record import replace
from ragbench.core.report import CaseRow, IndexedCase, Report, badness, main_metric
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import RunCase, Trace
from ragbench.errors import ConfigError
from ragbench.io.atomic import written_whole
from ragbench.io.export import EXPORTS, Exported, Scores, export, write_cases
from ragbench.io.fields import CASES_FILE
from ragbench.ledger.folder import RunFolder, path_of, read_manifest
from ragbench.ledger.journal import Journal
from ragbench.private_files import make_private_folder
from ragbench.safe_text import as_line, did_you_mean, listed
from ragbench.verbs.report import open_traces

_MOST_IDS = 5
"""Ids of cases that an error names."""


def worst_metric(report: Report, name: str | None = None) -> int | None:
    """The position of the metric by which the worst cases come first; None for a run without any.

    Args:
        name: the metric that a user chose; without one, the run's main metric is taken.
    """
    names = [metric.name for metric in report.metrics]
    if name is None:
        return main_metric(report.metrics)
    if name not in names:
        raise ConfigError(
            f"the run has no metric '{name}'.{did_you_mean(name, names)} It has {', '.join(names)}"
        )
    return names.index(name)


def select_cases(
    report: Report,
    *,
    cause: Cause | None = None,
    tag: str | None = None,
    worst: str | None = None,
    limit: int | None,
) -> tuple[int, list[CaseRow]]:
    """The number of a run's cases that meet all conditions, and the first of them as rows.

    Only the rows that are shown are read whole: a run may have many thousands.

    Args:
        cause: only cases with this cause; None for all.
        tag: only cases with this tag, which some case must have; None for all.
        worst: the metric by which the worst cases come first; else in the run's order.
        limit: how many rows are read; None for all.
    """
    position = None
    if worst is not None:
        position = worst_metric(report, worst)
    cases = list(report.index(position, tag))
    if tag is not None and not cases:
        raise _unknown_tag(report, tag)
    if cause is not None:
        cases = [case for case in cases if case.cause is cause]
    # Only the cases that are shown are read whole: a run may have many thousands.
    ids = ranked(cases, report, position)
    # The whole number is returned beside the rows, so that a reader sees how many are left out.
    return len(ids), list(report.find(ids[:limit]))


def _unknown_tag(report: Report, tag: str) -> ConfigError:
    """The error for a tag that no case of a run has, with the tags that there are.

    An empty list instead would look like a run without such problems.
    """
    tags: set[str] = set()
    for row in report.rows():
        tags.update(row.tags)
    names = sorted(tags)
    existing = "Its cases have no tags"
    if names:
        existing = f"There are {listed(names)}"
    return ConfigError(
        f"no case of the run has the tag '{tag}'.{did_you_mean(tag, names)} {existing}"
    )


def ranked(cases: Iterable[IndexedCase], report: Report, position: int | None) -> list[str]:
    """The ids of cases, the worst first by the metric at a position; in their order without one.

    The caller shows the first few of them.
    """
    if position is not None:
        metric = report.metrics[position]
        cases = sorted(cases, key=lambda case: badness(case.value, metric))
    return [case.id for case in cases]


def write_dataset(run: Path, cases: Iterable[CaseRow], folder: Path) -> Mapping[str, int]:
    """Writes cases of a run as a dataset: cases.jsonl, and in provenance.jsonl where each is from.

    The cases are those of the run, with all that is known of them; one whose gold is not known has
    in its metadata, under ``missing_labels``, which labels it lacks.

    Returns:
        How many cases lack which label.

    Raises:
        ConfigError: the folder holds cases already, and perhaps labels that somebody gave them.
    """
    target = folder / CASES_FILE
    if target.exists():
        raise ConfigError(f"{target} is there already: name another folder with -o")
    # By id, in the order of the cases; the rows themselves are not kept.
    causes = {row.id: row.attribution for row in cases}
    lacking: Counter[str] = Counter()  # filled while the cases are written, one at a time
    make_private_folder(folder)
    with Journal(RunFolder(path=run).journal) as journal:
        write_cases(_cases_with_needs(journal, [*causes], lacking), target)
    # Written whole or not at all; the cases before it, so that a folder is refused by their file.
    with written_whole(folder / "provenance.jsonl") as file:
        for id, attribution in causes.items():
            line = {
                "id": id,
                "run": run.name,
                "cause": attribution.cause.value,
                "detail": attribution.detail,
                "reason": attribution.reason,
            }
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    return lacking


def _cases_with_needs(
    journal: Journal, ids: Sequence[str], lacking: Counter[str]
) -> Iterator[Case]:
    """Cases of a run as a dataset has them, with the labels that each lacks in its metadata.

    A person reads under ``missing_labels`` which labels to add to a case. (``needs`` is a field of
    cases themselves: ``needs: all`` declares that each gold context is needed.)

    Args:
        lacking: counts each missing label, while the cases are taken.
    """
    for window in journal.cases(ids):
        for row in window:
            case = row.case
            missing = _missing_labels(case)
            lacking.update(missing)
            metadata = dict(case.metadata)
            if missing:
                metadata["missing_labels"] = missing
            yield replace(case, metadata=metadata)


def _missing_labels(case: Case) -> list[str]:
    """The labels that a case lacks, by the field's name; without them it cannot fail a test.

    Empty for a case that is labelled as having no answer.
    """
    if case.answerable is False:
        return []
    labels: list[str] = []
    if not case.references:
        labels.append("reference")
    if case.judgements is None and case.reference_contexts is None:
        labels.append("reference_context_ids")
    return labels


def find_case(report: Report, name: str) -> CaseRow:
    """The case with an id, or else the one whose question begins so.

    Raises:
        ConfigError: the run has no such case, or several whose questions begin so.
    """
    # An id comes first, so that every case can be named for sure.
    row = next(report.find([name]), None)
    if row is not None:
        return row
    question = _comparable_question(name)
    matching_ids: list[str] = []
    if question:  # every question begins with an empty one
        for row_of_run in report.rows():
            if _comparable_question(row_of_run.query).startswith(question):
                matching_ids.append(row_of_run.id)
    if not matching_ids:
        ids = [case.id for case in report.index(None, None)]
        near = did_you_mean(name, ids) or " 'ragbench cases RUN' lists them"
        raise ConfigError(f"the run has no case '{name}', and no question that begins so.{near}")
    if len(matching_ids) > 1:
        raise ConfigError(
            f"{len(matching_ids):,} questions of the run begin with '{name}': write more of it, or "
            f"name an id: {as_line(matching_ids, _MOST_IDS)}"
        )
    return next(report.find(matching_ids))


def _comparable_question(question: str) -> str:
    """A question without the spaces and capitals that people change when they copy it.

    Only for comparing it with the questions of a run.
    """
    return " ".join(question.split()).casefold()


def worst_by_cause(report: Report, each: int) -> Iterator[tuple[Cause, Sequence[CaseRow]]]:
    """The worst cases of each cause but `RIGHT`, at most ``each`` of a cause.

    Examples of what goes wrong, in the order of a case's way through the stages.
    """
    position = worst_metric(report)
    by_cause: dict[Cause, list[IndexedCase]] = {}
    for case in report.index(position, None):
        if case.cause is not Cause.RIGHT:
            by_cause.setdefault(case.cause, []).append(case)
    for cause in Cause:  # in the order of a case's way through the stages
        if cause in by_cause:
            ids = ranked(by_cause[cause], report, position)
            yield cause, list(report.find(ids[:each]))


_SUFFIXES = {"ragas": ".ragas.jsonl", "hf": ".hf", "trec": ".run", "labels": ".labels.jsonl"}
"""Endings of exported files by format; any other format's name is its ending."""


def export_run(run: str | Path, to: str, out: str | Path | None = None) -> Exported:
    """Writes a stored run in another tool's format.

    Args:
        run: the run's folder.
        to: a format's name; see `ragbench.io.export`.
        out: the file or folder to write; by default ``samples`` in the run's folder, with the
            format's usual suffix.

    Raises:
        RunMismatchError: there is no run in the folder.
        ConfigError: no such format.
        InputError: the path cannot be written, or a value has no place in the format.
        MissingExtraError: a package that the format needs is not installed.
    """
    run_path = path_of(run)
    EXPORTS.load(to)  # an unknown name is refused before the run is read
    manifest = read_manifest(RunFolder(path=run_path).manifest)
    names = tuple(metric.name for metric in manifest.metrics)
    cases = _CasesToExport(names=names, for_rank_tools=to == "trec")
    if out is None:
        suffix = _SUFFIXES.get(to, f".{to}")
        target = run_path / f"samples{suffix}"
    else:
        # A name that the user gives is taken as it is, without the usual ending.
        target = path_of(out)
    scores = Scores(metrics=names, cells=cases.latest_cells)
    exported = export(to, cases.traces(run_path), target, scores=scores)
    # Known only now: `export` has taken every case.
    exported.unfinished = cases.unfinished
    return exported


@dataclass(kw_only=True, slots=True)
class _CasesToExport:
    """Reads a run's cases for an export, one at a time, with the scores of the latest one."""

    names: Sequence[str]
    """Of the run's metrics."""
    for_rank_tools: bool
    """Whether chunks are named as tools that know ids alone need it."""
    latest_cells: dict[str, dict[str, Cell]] = field(default_factory=dict[str, "dict[str, Cell]"])
    """The scores of the case that was read last, by its id and by metric: an export reads those of
    one case at a time."""
    unfinished: int = 0
    """Cases that some metric has not scored: the run was ended before it."""

    def traces(self, run: Path) -> Iterator[Trace]:
        """The cases of a run's folder, in order, for an export to write.

        While a case is out, `latest_cells` has its scores; `unfinished` is right at the end.
        """
        for row in open_traces(run):
            # A bool counts as 1: one metric without a cell makes the case unfinished.
            self.unfinished += None in row.cells
            cells: dict[str, Cell] = {}
            for name, cell in zip(self.names, row.cells, strict=True):
                if cell is not None:
                    cells[name] = cell
            # Emptied, not replaced: the export holds the same mapping.
            self.latest_cells.clear()
            self.latest_cells[row.trace.case.id] = cells
            if self.for_rank_tools:
                yield _trace_for_rank_tools(row)
            else:
                yield row.trace


def _trace_for_rank_tools(row: RunCase) -> Trace:
    """A case with its chunks named as rank metrics count them, for tools that know ids alone.

    A chunk that was recognised as a relevant document has that document's id, and what has no place
    of its own, such as a further chunk of a document, is left out: over the run and its qrels these
    tools find the figures that the report has.
    """
    trace = row.trace
    result = trace.context.value
    # The matches of the chunks that were shown, as rank metrics read them.
    stage = "retrieve" if trace.post_retrieval is None else POST_RETRIEVE
    matched = row.matches.get(stage)
    # Without ids there is nothing to name; gold that is known by its text has no ids, either.
    if result is None or result.context_ids is None:
        return trace
    if matched is None or not matched.is_by_id:
        return trace
    gold_ids: dict[int, str] = {}
    for match in matched.matches:
        # Of a chunk that is several gold documents, the first counts.
        gold_ids.setdefault(match.rank, matched.golds[match.gold])
    contexts: list[str] = []
    context_ids: list[str] = []
    scores: list[float] = []
    for rank, id in enumerate(result.context_ids, start=1):
        # A further chunk of gold that a chunk before it has: rank metrics pass it over.
        if rank in matched.repeated:
            continue
        contexts.append(result.contexts[rank - 1])
        context_ids.append(gold_ids.get(rank, id))
        if result.scores is not None:
            scores.append(result.scores[rank - 1])
    scores_or_none = None if result.scores is None else scores
    # Metadata are left out: tools for rankings know none.
    ranked_result = RetrievalResult(contexts, context_ids=context_ids, scores=scores_or_none)
    if trace.post_retrieval is None:
        retrieval = replace(trace.retrieval, value=ranked_result)
        return replace(trace, retrieval=retrieval)
    post_retrieval = replace(trace.post_retrieval, value=ranked_result)
    return replace(trace, post_retrieval=post_retrieval)
