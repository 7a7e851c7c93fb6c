"""evaluate(): cases through a RAG, into a journal, under metrics, to a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec import ValidationError

from ragbench.core.case import Case
from ragbench.core.metric import CORRECTNESS, Metric
from ragbench.core.record import Record, replace
from ragbench.core.report import CaseRow, Report
from ragbench.core.scalars import plain_number
from ragbench.core.trace import Entry, RunCase
from ragbench.errors import ConfigError, InterruptedRunError, RunError
from ragbench.io.entries import EntrySource
from ragbench.io.json_files import rows_of_columns
from ragbench.io.only import ALL_CASES
from ragbench.io.read import EntryDecoder
from ragbench.io.source import Problems, Row
from ragbench.ledger.codec import decode_case, encode_case
from ragbench.ledger.folder import RunFolder, forget_repeats, keep_repeats, path_of, repeat_folder
from ragbench.ledger.journal import Journal
from ragbench.ledger.watch import STARTED, Watch
from ragbench.metrics.gold_space import GoldSpace, MatchingTally
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike, default_metrics, parse_metrics
from ragbench.plugins import import_packages_of
from ragbench.stages.begin import (
    BegunRun,
    SelectedCases,
    begin,
    earlier_settings,
    request_digest,
    with_run_date,
)
from ragbench.stages.corpus_gold import CORPUS_GOLD, corpus_gold, write_corpus_gold
from ragbench.stages.score import CellTable, ScoreStage
from ragbench.stages.stage import (
    OWN,
    USUAL_CALLS,
    AbsentStage,
    GivingUp,
    InFlight,
    Progress,
    Running,
    Stage,
    run_stages,
)
from ragbench.stages.stored import OwnTurns, StoredTraces, judge_key, unasked_turns
from ragbench.stages.system import (
    EvalSettings,
    Evaluation,
    check_types,
    evaluation_of,
    kind_of,
)
from ragbench.verbs.report import ReportBuilder, RunCases, report_of

if TYPE_CHECKING:
    from ragbench.core.calling import LoopThread
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.judge import JudgeStage, Judging
    from ragbench.stages.on_workers import Workers
    from ragbench.stages.rag import RAG
    from ragbench.validators.validator import Validator

GivenCases = str | Path | Iterable[Case | Entry | Mapping[str, object]]
"""A path, an address, or records: cases, cases with what is known of them, dicts."""

Collect = Callable[[Sequence[Metric]], Callable[[CaseRow], None]]
"""Is given the metrics of a run, and returns what takes the row of each case."""
_USUAL = EvalSettings()
_MOST_REPEATS = 20
"""A baseline keeps no more."""


def evaluate(
    cases: GivenCases,
    rag: object = None,
    *,
    out: str | Path,
    metrics: str | Sequence[MetricLike] | None = None,
    post_retrieval: PostRetrieval | None = None,
    validator: object = None,
    judging: Judging | None = None,
    judge: str | None = None,
    settings: EvalSettings = _USUAL,
    workers: Workers | None = None,
    version: str | None = None,
    fresh: bool = False,
    advance: Callable[[Progress], None] | None = None,
) -> Report:
    """Evaluates a RAG and leaves everything in a run folder.

    Called again with the same arguments it continues. Outcomes of an earlier run in the folder are
    used again where everything that they came from is the same; the report says so.

    Example:
        >>> evaluate("cases.jsonl", MyRAG(), out="runs/first")  # doctest: +SKIP

    Args:
        cases: the dataset: the path of a file, folder or earlier run, in any form that `ragbench
            eval` reads; or records (`Case`, `Entry`, dicts with the fields of a dataset's line), a
            dict of columns, or a DataFrame of pandas or Polars, which are read once, from front to
            back. A recorded outcome is taken, and its stage is not asked.
        rag: the system: what `as_rag` takes (an object or class with ``retrieve`` and
            ``generate``, a function of the query, a retriever or chain), or a text that names one,
            as ``--rag`` does (``"my_rag.py:MyRAG"``, a URL). None scores what was recorded.
        out: the run folder.
        metrics: what to measure: metrics, their spellings, functions that `ragbench.metric` made
            metrics; `default_metrics` when not given.
        post_retrieval: what happens to chunks between the RAG's retrieval and its generation;
            nothing when not given.
        validator: what judges the chunks that generation is given, and changes nothing of them: a
            validator, or its name; nothing when not given.
        judging: who is asked by metrics that ask models; without it there may be none of those.
        judge: the name of a model that judges whether answers are right, by the metric
            ``correctness``; in place of ``judging``. Its other settings come from the environment,
            as those of `open_judge` do.
        settings: all that is rarely said.
        workers: where the work is done; this process when not given.
        version: what the system is, in your words: outcomes are used again exactly as long as it
            stays the same. Without it, nothing is used again that this process was given before:
            a sweep over a variable, a patched method and a changed closure are no files.
        fresh: forget what an earlier run left in the folder.
        advance: called with progress; without it a notebook shows the progress below the cell.

    Returns:
        The report; a notebook shows it, and `Report.to_pandas` makes it a DataFrame.

    Raises:
        DataError: there are no cases or one cannot be used; nothing is run, and an earlier run in
            the folder is left as it was.
        ConfigError: an argument is of a wrong type, a metric cannot be computed as it is set, or
            post-retrieval or validation is asked for a RAG that gives no room for it.
        InterfaceError: what was given as ``rag`` is no RAG.
        MissingExtraError: a metric needs a package that is not installed.
        RunMismatchError: the folder holds something that is not a run.
        RunError: the folder cannot be written, or a stage has failed for all of the first cases;
            see `CallSettings.give_up_after`.
        RunLockedError: another process works on the folder.
        LLMStoppedError: no model answers any more, or may be asked; the same call continues.
    """
    from ragbench.post.stage import PostRetrieval
    from ragbench.rag.interface import RAGBase
    from ragbench.validators.validator import build_validator

    # Before anything is opened or loaded: a wrong type is a mistake of the call itself.
    check_types(
        "evaluate",
        post_retrieval=(post_retrieval, PostRetrieval),
        version=(version, str),
        judge=(judge, str),
        settings=(settings, EvalSettings),
    )
    if workers is not None or judging is not None:
        from ragbench.stages.judge import Judging
        from ragbench.stages.on_workers import Workers

        check_types("evaluate", workers=(workers, Workers), judging=(judging, Judging))
    # A text names a system as `--rag` does; anything else is made a system by `as_rag`.
    if isinstance(rag, str):
        from ragbench.rag.load import load_rag

        rag = load_rag(rag)
    if rag is not None and not isinstance(rag, RAGBase):
        from ragbench.rag.adapt import as_rag

        rag = as_rag(rag)
    with ExitStack() as stack:
        if advance is None:
            advance = _notebook_advance(stack)
        if judge is not None:
            judging = stack.enter_context(_opened_judge(judge, judging))
        cases, settings = _opened_cases(cases, settings, stack)
        if validator is not None:
            validator = build_validator(validator)
        # The judge's metric comes first, where reports look for the main one.
        if judge is not None:
            if metrics is None:
                # Spelled out here, since naming a metric switches the usual ones off.
                metrics_beside = _default_metrics(cases)
            else:
                metrics_beside = parse_metrics(metrics)
            metrics = (CORRECTNESS, *metrics_beside)
        request = RunRequest(
            out=path_of(out),
            rag=cast("RAG | None", rag),
            metrics=metrics,
            post_retrieval=post_retrieval,
            validator=validator,
            judging=judging,
            settings=settings,
            workers=workers,
            version=version,
            fresh=fresh,
            advance=advance,
        )
        return run_evaluation(cases, request)


def _notebook_advance(stack: ExitStack) -> Callable[[Progress], None] | None:
    """The function that shows progress below the cell of a notebook; None outside of a notebook.

    Args:
        stack: shows the last counts when the stack is closed.
    """
    from ragbench.verbs.notebook_progress import notebook_progress

    progress = notebook_progress()
    if progress is None:
        return None
    stack.callback(progress.finish)
    return progress.advance


def _opened_cases(
    cases: GivenCases, settings: EvalSettings, stack: ExitStack
) -> tuple[Iterable[Case | Entry], EvalSettings]:
    """The cases of a path or of records, and the settings completed from their source.

    A path gives the report its dataset's name, notes and roles of fields, where the user gave none.

    Args:
        stack: closes the source.
    """
    if isinstance(cases, (str, Path)):
        from ragbench.io.sources import open_source

        source = stack.enter_context(open_source(cases))
        # A place that the user gives is shown in place of the path.
        place = settings.source
        if place is None:
            place = str(cases)
        settings = replace(
            settings,
            name=settings.name or dataset_name(str(cases)),
            source=place,
            notes=(*settings.notes, *source.info.notes),
            roles=source.info.roles,
        )
        return source, settings
    if isinstance(cases, Mapping):
        columns = cast("Mapping[str, Any]", cases)
        rows = rows_of_columns(columns)
        if not rows:  # it is a single case, and no list
            _refuse_cases(columns)
        cases = rows
    elif not isinstance(cast("Any", cases), Iterable):
        _refuse_cases(cases)
    if isinstance(cases, EntrySource):
        return cases, settings
    return _entries_of_records(cases), settings


def _opened_judge(model: str, judging: Judging | None) -> AbstractContextManager[Judging]:
    """The judge by a model's name, which metrics ask, to be closed by the caller's stack.

    Refused beside another judge: it would not be clear which of the two judged.
    """
    from ragbench.verbs.models import open_judge

    if judging is not None:
        raise ConfigError("judge= and judging= both name a judge: give one of them")
    return open_judge(model=model)


def _refuse_cases(value: object) -> NoReturn:
    """Raises the error for a value that can be no list of cases, with an example of a list.

    At the start: iterated as cases, such a value would fail with an error about its items.
    """
    raise ConfigError(
        f"cases are a path, or a list of cases or dicts, and not {kind_of(value)}: "
        'give [{"query": ..., "reference": ...}], or the path of a dataset'
    )


class RunRequest(Record):
    """What an evaluation is given beside its cases: `evaluate` and the command fill in the same.

    What `evaluate` takes has its meaning here, too; a system and a validator are built already.
    """

    out: Path
    rag: RAG | None = None
    metrics: str | Sequence[MetricLike] | None = None
    post_retrieval: PostRetrieval | None = None
    validator: Validator | None = None
    judging: Judging | None = None
    settings: EvalSettings = _USUAL
    workers: Workers | None = None
    version: str | None = None
    fresh: bool = False
    advance: Callable[[Progress], None] | None = None
    watch: Watch | None = None
    """Saw the system being loaded, as a command does; see docs/reuse.md. Without one, a watch
    begins with the run."""
    stopped: Callable[[], bool] = lambda: False
    """Asked before each call; once true, what is in flight is finished and the run ends."""
    collect: Collect | None = None
    """Makes the function that gets each case's row once the case is through all stages.

    Where all cases are counted anew, it is made anew, too. A run that stands as it is gives no
    rows."""


def run_evaluation(cases: Iterable[Case | Entry], request: RunRequest) -> Report:
    """Evaluates cases that are opened already with a system that is built already; see `evaluate`.

    Raises:
        InterruptedRunError: `RunRequest.stopped` was true; the same call continues.
    """
    settings = request.settings
    rag = request.rag
    # A call that is in flight may change the working directory while files are written here.
    folder = RunFolder(path=request.out.absolute())
    earlier: Mapping[str, Any] = {}
    # Without an earlier run, or with `fresh`, nothing is kept of it.
    if not request.fresh and folder.manifest.is_file():
        earlier = earlier_settings(folder.manifest)
    # Before the folder is locked: what cannot be computed is an error that leaves no trace.
    evaluation = _evaluation_of_request(cases, request, earlier)
    _import_packages(request, evaluation)
    watch, anew = _watch_of_request(request)
    with ExitStack() as stack:
        stack.enter_context(watch)
        if stack.enter_context(folder.locked()):
            # A folder whose cases never came is not left behind.
            stack.callback(lambda: None if folder.manifest.exists() else folder.discard())

        selected = SelectedCases(
            cases,
            settings.selection or ALL_CASES,
            settings.source or "",
            request.stopped,
            GoldSpace(),
            content=_content_digest(cases, settings),
        )
        loop: LoopThread | None = None
        in_loop = None
        if rag is not None and rag.is_async:
            from ragbench.core.calling import LoopThread

            # One loop for the whole run: connections of a system belong to the loop of its start.
            loop = LoopThread("ragbench-system")
            stack.callback(loop.stop)
            in_loop = loop.run
        begun = begin(
            evaluation,
            folder,
            selected,
            stack,
            watch=watch,
            in_loop=in_loop,
            fresh=request.fresh,
            anew=anew,
        )
        # The stored report stands; only what the outcomes came from is stored again.
        if begun.is_unchanged:
            begun.reuse.keep(is_last=True)
            return report_of(request.out)
        running = _running_of(begun, stack, loop, request)
        score = _score_stage(begun, selected.gold, earlier.get("matching"))
        stages: list[Stage] = [*begun.stages, score]
        if evaluation.judge is not None:
            # The judging stage reads and stores cells by the table of the scoring stage.
            evaluation.judge.table = score.table
            stages.append(evaluation.judge)
        workers = request.workers
        # "local" is this process: nothing is hired.
        if workers is not None and workers.engine != "local":
            from ragbench.stages.on_workers import staffed

            hired = staffed(stages, workers, running, top_k=settings.top_k, rag=rag, watch=watch)
            stages = stack.enter_context(hired)
        builder = _count_cases(stages, score, running, begun, request.collect)
        # Before the report: a run that is reported as finished has its origins stored.
        begun.reuse.keep(is_last=True)
        # Under this digest the same command finds the run finished, and returns its report. A
        # source that changed while it was read has none.
        finished_under = b""
        if selected.content and _content_digest(cases, settings) == selected.content:
            finished_under = request_digest(begun.draft, selected, folder)
        has_files = request.collect is not None
        return builder.report(begun.journal, finished_under, has_files=has_files)


def _evaluation_of_request(
    cases: Iterable[Case | Entry], request: RunRequest, earlier: Mapping[str, Any]
) -> Evaluation:
    """The description of the run that a request asks for: system, stages, metrics and judge.

    Metrics that cannot be computed are an error here, before anything is run.

    Args:
        earlier: settings of the run that the folder holds, of which some are kept.
    """
    settings = request.settings
    if request.metrics is None:
        metrics = _default_metrics(cases)
    else:
        metrics = parse_metrics(request.metrics)
    post_retrieval = request.post_retrieval
    if post_retrieval is not None:
        # A run that goes on keeps the day from which it counts the ages of documents.
        post_retrieval = with_run_date(post_retrieval, earlier)
    return evaluation_of(
        request.rag,
        settings,
        post_retrieval=post_retrieval,
        validator=request.validator,
        version=request.version,
        metrics=metrics,
        judge=_judge_stage(metrics, request.judging, settings.matching),
    )


_asked_here: set[Path] = set()
"""Folders of runs that were begun in this process and no command: nobody saw the system being
loaded, so that what it stored is not used again without a version."""


def _watch_of_request(request: RunRequest) -> tuple[Watch, str]:
    """The watch that sees which files the system reads, and why stored outcomes may not be used.

    The reason is empty where they may. A second run in one process may have a changed object behind
    the same files, which no watch can see: a version has to be named then.
    """
    # A command's watch has seen the system being loaded; each command is a process of its own.
    if request.watch is not None:
        return request.watch, ""
    folder = request.out.resolve()
    why_not = ""
    if folder in _asked_here:
        why_not = "it was asked by this process before, and no version is named"
    # Added whatever comes of the run: its first call may have stored outcomes already.
    _asked_here.add(folder)
    return Watch(since=STARTED), why_not


def _content_digest(cases: Iterable[Case | Entry], settings: EvalSettings) -> str:
    """A digest of the dataset's source as it is now, by which an unchanged run is recognised.

    Empty where a finished run may not be shown as it is: failures are to be tried again, a corpus
    may have changed, or the cases are records without a file.
    """
    # What failed is asked again, and a corpus may have changed: such a run is always gone through.
    if settings.retry_failed or settings.corpus is not None:
        return ""
    if not isinstance(cases, EntrySource):
        return ""  # records of a caller have no file that could be compared
    return cases.content()


def _import_packages(request: RunRequest, evaluation: Evaluation) -> None:
    """Imports the packages that the run needs: a missing one is an error before anything is run.

    Else it would be found after hours, when the first case needs it.
    """
    import_packages_of(request.rag, request.post_retrieval, request.validator)
    if evaluation.judge is not None:
        _import_for_judging(evaluation.judge.judging)
    if request.workers is not None:
        from ragbench.workers.engines import import_engine

        import_engine(request.workers.engine)


def _judge_stage(
    metrics: tuple[Metric, ...], judging: Judging | None, matching: Matching
) -> JudgeStage | None:
    """The stage that has metrics judged; None where no metric asks a model.

    Metrics that cannot be computed are an error here, before anything runs.
    """
    # Made for its checks: the run makes its own once the cases are at hand.
    Plan([metric for metric in metrics if not metric.is_judged], matching=matching)
    if not any(metric.is_judged for metric in metrics):
        return None
    from ragbench.stages.judge import judge_of

    return judge_of(metrics, judging)


def import_for_metrics(metrics: Sequence[Metric], judging: Judging | None) -> None:
    """Imports the packages that a run's metrics need, before the caller pays for anything.

    Raises:
        MissingExtraError: a package of a metric, or of the models that judge, cannot be imported.
    """
    for metric in metrics:
        formula = metric.definition.formula
        if formula is not None and formula.prepare is not None:
            formula.prepare()
    judged = [metric for metric in metrics if metric.is_judged]
    if judged:
        from ragbench.metrics.judging import JudgePlan

        JudgePlan(judged)  # loads the scorers: a package may be missing
    if judging is not None:
        _import_for_judging(judging)


def _import_for_judging(judging: Judging) -> None:
    """Imports the packages of the models that judge; none for a dry run, which asks no model.

    A missing package is so an error before anything is paid.
    """
    if judging.rehearsal is None:  # a dry run asks nobody
        import_packages_of(judging)


def _running_of(
    begun: BegunRun,
    stack: ExitStack,
    loop: LoopThread | None,
    request: RunRequest,
) -> Running:
    """Makes the object that a run's stages share: journal, call settings, event loop, display.

    Before that, all that is known of the run is written down, so that a run that dies can go on.
    If there is a corpus, it is searched here for the gold, and the result is written down, too.
    """
    settings = begun.evaluation.settings
    path = begun.folder.path
    # Before the corpus is searched, which takes long: a run that dies there can go on.
    begun.write_matching(settings.matching)
    if settings.corpus is None:
        # An earlier run's file of gold in its corpus would decide the causes of this run's cases.
        (path / CORPUS_GOLD).unlink(missing_ok=True)
    else:
        # A generator: cases are read as they are needed, since a corpus takes memory already.
        rows = chain.from_iterable(begun.journal.cases())
        cases = (row.case for row in rows)
        gold = corpus_gold(cases, [*settings.corpus()], settings.matching)
        write_corpus_gold(path, begun.manifest.fingerprints, gold)
    calls = settings.limits or USUAL_CALLS
    count = begun.manifest.dataset.cases
    giving_up = GivingUp(after=calls.give_up_after)
    return Running(
        journal=begun.journal,
        calls=calls,
        retry_failed=settings.retry_failed,
        # Also where a stage has only failed so far: then no more calls are begun.
        stopped=lambda: request.stopped() or bool(giving_up.because),
        giving_up=giving_up,
        loop=loop,
        bears_calls=request.rag is not None and request.rag.bears_calls,
        report=request.advance or (lambda _: None),
        # 0 where cases are placed while they are scored: their number is not known yet.
        cases=count or None,
        in_flight=stack.enter_context(InFlight.opened(begun.folder.in_flight, count)),
    )


def _score_stage(begun: BegunRun, gold: GoldSpace, earlier: str | None) -> ScoreStage:
    """The stage that computes a run's metrics, with the way in which gold is matched at first.

    Args:
        earlier: how gold was matched in the folder's latest run; None without one.
    """
    judge = begun.evaluation.judge
    metrics = begun.evaluation.metrics
    judge_keys = [b""] * len(metrics)
    if judge is not None:
        judge_keys = [judge_key(judge.info, metric) for metric in metrics]
    matching = begun.evaluation.settings.matching
    tally: MatchingTally | None = None
    if matching is Matching.AUTO:
        tally = MatchingTally(gold)
        # Not every word of an older manifest is a matching of today.
        if earlier is not None and earlier in [*Matching]:
            # Likely still right: cells that are stored need no work then.
            matching = Matching(earlier)
    table = CellTable(begun.journal, metrics, matching, judge_keys)
    return ScoreStage(table=table, decided=begun.write_matching, tally=tally)


def _count_cases(
    stages: Sequence[Stage],
    score: ScoreStage,
    running: Running,
    begun: BegunRun,
    collect: Collect | None,
) -> ReportBuilder:
    """Takes every case through every stage, and counts it for the report.

    Cases are scored while they are at hand, with gold matched as the first window shows it: what is
    scored stays, wherever the run is stopped. How gold is matched is known for sure once all cases
    are through. Where that is something else, what depends on it is scored and counted again.
    """
    journal = begun.journal
    # An empty setting: the cases are read, placed and scored in one go.
    is_being_placed = not begun.setting
    stages_at_first = [stage.name for stage in begun.stages]
    cases, builder = _through_stages(stages, score, running, begun, collect)
    # The placing has found stages that the source's beginning did not show.
    if is_being_placed and stages_at_first != [stage.name for stage in begun.stages]:
        # The source records more than its beginning shows. Its cases are in the journal now, so
        # that this time all of their stages are known from the first case on.
        is_being_placed = False
        journal.scores.were_empty = False
        if score.tally is not None:
            score.tally = MatchingTally(score.tally.gold)
        # Stages behind generation, such as scoring, stay: they come after those of the run.
        stages = [*begun.stages, *stages[len(stages_at_first) :]]
        cases, builder = _through_stages(stages, score, running, begun, collect)
    # None where the user has chosen how gold is matched: there is nothing to decide.
    if score.tally is not None:
        stored = StoredTraces(
            journal=journal, manifest=begun.manifest, metrics=cases.metrics, with_texts=True
        )
        tally = score.tally
        if is_being_placed and not tally.is_sure:
            # Gold of later cases was not known while the earlier ones were tallied.
            tally = _full_tally(tally.gold, stored)
        matching = _decided_matching(tally, begun)
        # Only what depends on the matching is computed again, and all cases are counted anew.
        if matching is not score.table.matching:
            builder = _report_builder(cases, begun, collect, running)
            for row in score.rematch(map(stored.rows, journal.cases()), matching):
                builder.add(row, matching, journal)
    # The report is made of what every later reader finds in the folder.
    cases.manifest = begun.written_manifest or begun.manifest
    return builder


def _through_stages(
    stages: Sequence[Stage],
    score: ScoreStage,
    running: Running,
    begun: BegunRun,
    collect: Collect | None,
) -> tuple[RunCases, ReportBuilder]:
    """Takes all cases through the stages once, and counts each for the report.

    Several calls are in flight where the system bears them. In conversations with own answers, a
    question waits for the answers before it.
    """
    journal = begun.journal
    table = score.table
    windows = begun.windows
    hears_own_answers = begun.evaluation.settings.turns == OWN
    if hears_own_answers:
        # A question of a conversation waits for the answers to those before it.
        windows = OwnTurns(journal=journal).windows()
        unasked = unasked_turns(journal)
        if unasked:
            begun.write_matching(table.matching, [_RECORDED_STAND.format(unasked)])
    cases = RunCases(begun.folder.path, begun.manifest, begun.evaluation.metrics)
    builder = _report_builder(cases, begun, collect, running)
    tally = partial(_count_case, builder, table)
    try:
        # Closed in any case: a generator of windows may have to end its placing.
        with closing(windows):
            if _has_calls_at_once(begun.stages, running):
                from ragbench.stages.flow import USUAL_WINDOWS, run_flow

                most_windows = USUAL_WINDOWS
                if hears_own_answers:
                    most_windows = 1  # the next questions need the answers of this window
                run_flow(windows, stages, running, tally, most_windows=most_windows)
            else:
                run_stages(windows, stages, running, tally)
    except InterruptedRunError:
        # Giving up stops the run by `stopped`: the error with the reason takes its place.
        if running.giving_up.because:
            raise RunError(running.giving_up.because) from None
        raise
    return cases, builder


def _count_case(builder: ReportBuilder, table: CellTable, row: RunCase) -> None:
    """Counts a case that is through all stages for the report, and frees what was kept of it.

    Args:
        table: the scores of the cases on their way; those of this one are in the journal by then.
    """
    # Counted with the matching of now; `_count_cases` counts anew where that changes.
    builder.add(row, table.matching, table.journal)
    table.forget(row)


def _has_calls_at_once(stages: Sequence[Stage], running: Running) -> bool:
    """Whether several calls of the run's stages may be in flight at once: then they need a flow.

    A run of recorded outcomes asks for nothing, and does not load the modules that ask.
    """
    if all(isinstance(stage, AbsentStage) for stage in stages):
        return False
    from ragbench.stages.call_stage import has_calls_at_once

    return has_calls_at_once(stages, running)


def _report_builder(
    cases: RunCases, begun: BegunRun, collect: Collect | None, running: Running
) -> ReportBuilder:
    """The builder that counts a run's cases for its report.

    If a caller collects the rows of cases, it hands them on, too: but not where own answers in
    conversations have cases asked in another order than the dataset's.
    """
    # Own turns are asked in another order than the dataset's, which collected rows must have.
    if collect is None or begun.evaluation.settings.turns == OWN:
        return ReportBuilder(cases, concurrency=running.concurrency)
    return ReportBuilder(cases, collect(cases.metrics), concurrency=running.concurrency)


def _full_tally(gold: GoldSpace, stored: StoredTraces) -> MatchingTally:
    """How the gold of all stored cases can be matched with chunks, counted from the first case.

    The count made on the way did not know the gold of later cases.
    """
    tally = MatchingTally(gold)
    for window in stored.journal.cases():
        for row in stored.rows(window):
            tally.add(row.trace)
    return tally


def _decided_matching(tally: MatchingTally, begun: BegunRun) -> Matching:
    """Decides from all cases how retrieved chunks are matched with gold; the manifest keeps it.

    By ids or by texts. The corpus, if at hand, shows whether ids that never met are of its kind.
    """
    corpus = begun.evaluation.settings.corpus
    if corpus is None:
        verdict = tally.verdict()
    else:
        # A function, called only where no id has met: reading a corpus takes long.
        verdict = tally.verdict(lambda: [document.id for document in corpus()])
    begun.write_matching(verdict.matching, verdict.notes)
    return verdict.matching


_RECORDED_STAND = (
    "{:,} earlier questions of conversations are no cases: their recorded answers stand in the "
    "history of those that follow"
)


# --- what people give


def _entries_of_records(records: Iterable[object]) -> Iterator[Case | Entry]:
    """Records from Python as cases: those of ragbench as they are, dicts like lines of a dataset.

    Problems are collected and raised at the end, all together. DataFrames give their rows.
    """
    problems = Problems()
    decoder = EntryDecoder(problems=problems, fields={})
    # A DataFrame iterates over its columns.
    frame = cast("Any", records)
    # By their methods: neither package is imported for the question.
    if hasattr(records, "iterrows"):  # of pandas
        records = frame.to_dict("records")
    elif hasattr(records, "iter_rows"):  # of Polars
        records = frame.iter_rows(named=True)
    for number, record in enumerate(records, 1):
        if isinstance(record, (Case, Entry)):
            case = _case_of(record)
            try:  # a record does not check what it is built with
                # Written and read once, as the journal will do: what fails here would fail in the
                # run.
                decode_case(case.id, encode_case(case))
            except (ValidationError, AttributeError, TypeError, ValueError) as error:
                problems.add(f"case {number} ({case.id!a}) cannot be stored: {error}")
            else:
                yield record
        elif isinstance(record, Mapping):
            values = _plain_values(cast("Mapping[str, Any]", record))
            entry = decoder.decode(Row("cases", number, values))
            if entry is not None:
                yield entry
        else:
            raise ConfigError(
                f"case {number} is {kind_of(record)}: a case is a dict such as "
                '{"query": ..., "reference": ...}, or a ragbench.Case'
            )
    # After the last record: a caller sees all mistakes at once.
    problems.raise_if_any()


def _case_of(record: Case | Entry) -> Case:
    """The case of a record from Python: itself, or that of an entry (with recorded outcomes)."""
    if isinstance(record, Case):
        return record
    return record.case


def _plain_values(record: Mapping[Any, Any]) -> dict[str, Any]:
    """The fields of a record in Python's own types, nested ones too: NumPy's cannot be stored.

    Names of fields become texts, as in JSON.
    """
    return {str(name): _plain_value(value) for name, value in record.items()}


def _plain_value(value: Any) -> Any:
    """A value in Python's own types: arrays become lists, as DataFrames give them for Parquet.

    NumPy's numbers become Python's, the only ones that can be written as JSON.
    """
    # NumPy's arrays and numbers, and those of other packages, have this method.
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain_value(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return _plain_values(cast("Mapping[Any, Any]", value))
    return plain_number(value)


_GENERIC = ("cases", "queries", "test", "dev", "train", "questions")
"""File names that say nothing: the folder's name says more."""


def dataset_name(source: str) -> str:
    """The name of a dataset in reports, from the path or address that the user named.

    Of a file called "test.jsonl" or the like, which names no dataset, the name of its folder.
    """
    if source == "-":
        return "stdin"
    if source.startswith("hf:"):
        return source[3:]
    path = Path(source)
    # Up to the first dot: "cases.jsonl.gz" is "cases".
    name = path.name.split(".")[0]
    if not name:  # "." or "..": the folder's own name is in its whole path
        name = path.resolve().name
    elif name in _GENERIC:
        name = path.resolve().parent.name
    return name or "dataset"


# --- the same cases asked several times


def evaluate_repeatedly(cases: Iterable[Case | Entry], request: RunRequest, repeats: int) -> Report:
    """Asks a system several times, retrieval and generation, and reports the mean of each case.

    Each time has a run folder of its own below the run's: an interrupted one goes on, and what one
    was answered is no answer of another. The second time and on take the cases from the first, and
    ask all of them, whatever the source recorded.
    """
    if not 1 <= repeats <= _MOST_REPEATS:
        raise ConfigError(f"the number of repeats is {repeats}: give 1 to {_MOST_REPEATS}")
    out = request.out
    # Old means must not be shown while this run is on its way, or after it with fewer repeats.
    forget_repeats(out)
    if repeats == 1:
        return run_evaluation(cases, request)
    request = replace(request, collect=None)  # rows are of one time, and the report of all
    run_evaluation(cases, request)
    # Cases as the first time took them: a sample or a limit must not be drawn again.
    with Journal(RunFolder(path=out).journal) as journal:
        first_cases: list[Case] = []
        for window in journal.cases():
            first_cases += [row.case for row in window]
    for number in range(2, repeats + 1):
        run_evaluation(first_cases, replace(request, out=repeat_folder(out, number)))
    # Only now: a folder without that mark shows the first time alone.
    keep_repeats(out, repeats)
    return report_of(out)


def _default_metrics(cases: Iterable[Case | Entry]) -> tuple[Metric, ...]:
    """The metrics of a run for which none are named: they depend on what the cases have.

    Cases with hops or expectations get metrics for those, too.
    """
    if isinstance(cases, EntrySource):
        info = cases.info
        return default_metrics(has_hops=info.has_hops, has_expectations=info.has_expectations)
    has_expectations = False
    if isinstance(cases, Sequence):  # others can be read once only, and not here
        has_expectations = any(_case_of(record).expectations for record in cases)
    return default_metrics(has_expectations=has_expectations)
