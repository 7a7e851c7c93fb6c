"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from msgspec import structs

from ragbench.errors import ConfigError
from ragbench.safe_text import counted
from ragbench_cli import console
from ragbench_cli.console import ExitCode, Invocation
from ragbench_cli.eval_options import EvalOptions
from ragbench_cli.options import JsonOption, json_object, mapping, takes_records
from ragbench_cli.services import configured_rag, with_mapping

if TYPE_CHECKING:
    from ragbench.core.case import Case
    from ragbench.core.metric import Metric
    from ragbench.core.report import Report, Summary
    from ragbench.core.roles import FieldRole
    from ragbench.core.trace import Entry, Trace
    from ragbench.io.entries import SourceInfo
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.judge import Judging
    from ragbench.stages.on_workers import Workers
    from ragbench.stages.system import EvalSettings
    from ragbench.validators.validator import Validator
    from ragbench.verbs.evaluate import Collect
    from ragbench_cli.models import ModelChoice, ModelsInUse


class Evaluated(NamedTuple):
    """What an evaluation leaves."""

    report: Report
    folder: Path
    models: ModelsInUse
    asked_a_rag: bool


@takes_records
def command(context: typer.Context, options: EvalOptions, json: JsonOption = False) -> None:
    """Evaluate a RAG on a dataset, or recorded answers.

    Asks the RAG every question, scores the answers and writes a report. Recorded answers are not
    asked for again. The same command resumes an interrupted run, and computes only the changes.

    \b
    Examples:
      ragbench eval datasets/pellorin --rag baseline
      ragbench eval answers.jsonl
      ragbench eval cases.jsonl --outputs results.json
      ragbench eval cases.jsonl --rag my_module:MyRAG -m recall@5,nDCG@10,token_f1
      ragbench eval squad.json --rag http://localhost:8000 --limit 100 --out run
      ragbench eval cases.jsonl --rag my_module:MyRAG -m ragas:faithfulness --dry-run
    """
    from ragbench.views.write import CaseFiles, are_written, write_reports
    from ragbench_cli.report_tables import print_report
    from ragbench_cli.systems import fields_of

    system = options.system
    named = with_mapping(system.rag, system.rag_args, system.service)
    system = structs.replace(system, rag=named.spec, rag_args=named.arguments)
    options = structs.replace(options, system=system)
    _check_options(options)
    # Labels that cannot be read are an error before anything is asked.
    fields, answer_fields = fields_of(options.cases)
    book = options.labelled.book_by({**fields, **answer_fields})
    with CaseFiles() as files:
        evaluated = _evaluate_options(options, files.begin)
        report = evaluated.report
        folder = evaluated.folder
        dry_run = evaluated.models.dry_run
        # The estimate is the result: nothing was asked, so there is no report.
        if dry_run is not None:
            from ragbench_cli.models import show_estimate

            show_estimate(dry_run.estimate(), dry_run.cases, as_json=json)
            return
        notes_on_labels: Sequence[str] = ()
        if book is not None:
            from ragbench.verbs.label import corrected_report

            corrected = corrected_report(report, folder, book)
            # Notes that the labels added, for standard error: the report has all notes.
            notes_on_labels = corrected.notes[len(report.notes) :]
            report = corrected
        # Without a case in the files the run was complete before, and so may its reports be.
        if files.count or not are_written(report, folder):
            # Cases were collected without labels: what the labels decide is read from the run.
            write_reports(report, folder, None if book is not None else files)
    # The file that was just written, byte for byte, so that both are the same.
    if json:
        console.write_json([(folder / "report.json").read_bytes()])
    elif options.quiet:
        console.print_line(str(folder))
    else:
        print_report(report, is_full=False)
    invocation = context.ensure_object(Invocation)
    # The failed cases of this run: --fresh would throw the others away.
    retry_command = partial(invocation.again, "--retry-failed", without="--fresh")
    code, problem = _exit_code_and_problem(report, options.asking.max_error_rate, retry_command)
    if not options.quiet:
        _say_of_labels(notes_on_labels)
        _say_places(report, folder)
        # The problem names the same command already.
        if "--retry-failed" not in problem:
            place = shlex.quote(str(folder))
            _say_next_step(report, place, retry_command, is_asked=evaluated.asked_a_rag)
    if problem:
        console.say(f"Error: {problem}")
    if code:
        raise typer.Exit(code)


def _say_of_labels(notes: Sequence[str]) -> None:
    """Reports how many labels of people count, in lines of their own.

    The short screen leaves other notes out.
    """
    for note in notes:
        console.say(f"labels: {note}")


def _check_options(options: EvalOptions) -> None:
    """Refuses options of ``ragbench eval`` that do not go together, or have a value out of range.

    It comes before anything is asked or paid.
    """
    system = options.system
    if system.pipeline is not None and system.operators is not None:
        raise ConfigError(
            "--post-retrieval and --pipeline cannot be combined: the file describes the whole "
            "system"
        )
    _check_asking(options)
    measuring = options.measuring
    if measuring.validate is None:
        for flag, value in (
            ("--calibration", measuring.calibration),
            ("--validator-args", measuring.validator_args),
        ):
            if value is not None:
                raise ConfigError(f"{flag} is for a validator: name one with --validate")
    # The RAG of ragbench.yaml counts as well: repeats are for any that is asked.
    _check_repeats(options, system.rag or configured_rag(options.models.llm.config).spec)


def _check_repeats(options: EvalOptions, rag: str | None) -> None:
    """Refuses repeated asking where every repeat would be the same: where no RAG is asked.

    They would cost time, and show a noise of 0 that is none.

    Args:
        rag: the RAG that is asked; None where answers are recorded.
    """
    if options.asking.repeats == 1:
        return
    if rag is None:
        raise ConfigError(
            "--rag-repeats needs --rag: recorded answers are the same each time, and so are "
            "the cached answers of a pipeline's models"
        )
    # A dry run asks nothing: how the repeats differ cannot be estimated.
    if options.models.dry_run:
        raise ConfigError(
            "--dry-run cannot be combined with --rag-repeats: estimate one repeat and multiply"
        )


def _check_asking(options: EvalOptions) -> None:
    """Refuses limits on how the system is asked (time, calls, errors) that are out of range.

    A wrong limit is refused before the dataset is read, which may take long.
    """
    # Written so that a number that is not one (nan) is refused as well: it is above nothing.
    timeout = options.asking.timeout
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"--timeout must be more than 0 seconds, not {timeout:g}")
    _calls_in_flight(options.asking.concurrency, None)
    share = options.asking.max_error_rate
    if share is not None and not 0 <= share <= 1:
        raise ConfigError(f"--max-error-rate must be between 0 and 1, not {share:g}")


def _calls_in_flight(option: str | None, of_system: int | None) -> int | None:
    """The number of calls in flight; None where it follows what the system bears.

    "auto" lets the number follow the answers, also where a pipeline's file names one.

    Args:
        option: as the user gives it.
        of_system: as the system's description has it.

    Raises:
        ConfigError: the option is no number above zero.
    """
    # The user's number goes before the system's own.
    if option is None:
        return of_system
    if option == "auto":
        return None
    calls = 0
    # `isdecimal` alone would take digits of other scripts, which `int` reads but no user means.
    if option.isascii() and option.isdecimal():
        calls = int(option)
    if calls < 1:
        raise ConfigError(f"--concurrency must be a number from 1 on, or 'auto', not {option!r}")
    return calls


def _exit_code_and_problem(
    report: Report, max_error_rate: float | None, retry_command: Callable[[], str]
) -> tuple[ExitCode, str]:
    """The exit code of an evaluation, by how far its numbers can be used, and the problem.

    Scripts rely on the codes: they are documented in the program's help.

    Args:
        max_error_rate: the largest share of cases in which a stage may fail.
    """
    from ragbench.metrics.matching import NOT_COMPARABLE

    # Without a value at all nothing else matters.
    problem = _dead_stages_problem(report) or _valueless_metrics_problem(report, retry_command)
    if problem:
        return ExitCode.CANNOT_RUN, problem
    if max_error_rate is not None:
        # Of all cases of the dataset, also those that no stage was asked about.
        cases = report.manifest["dataset"]["cases"]
        failing = [stage for stage in report.stages if stage.failed > max_error_rate * cases]
        if failing:
            counts = ", ".join(f"{stage.stage} {stage.failed:,} of {cases:,}" for stage in failing)
            limit = f"--max-error-rate {max_error_rate:g}"
            return ExitCode.FAILED, f"too many cases failed: {counts} ({limit})."
    if not report.is_comparable:
        for summary in report.summaries:
            # A metric that was asked for needed the gold contexts, and could not be computed.
            if any(reason == NOT_COMPARABLE for reason, _ in summary.reasons):
                return ExitCode.INCONCLUSIVE, ""
    return ExitCode.PASSED, ""


def _dead_stages_problem(report: Report) -> str:
    """The problem of a run in which nothing was measured, or a stage gave no result; else empty.

    Scores of the remaining stages would look like a result: the command ends with an error instead.
    """
    if all(stage.measured + stage.abstained == 0 for stage in report.stages):
        return "no call succeeded, so nothing was measured."
    dead_stages: list[str] = []
    for stage in report.stages:
        # Skipped cases did not fail: retrieval skips a case whose answer came without contexts.
        ended_otherwise = stage.measured + stage.abstained + stage.skipped
        # A failure that was recorded is no call of this command.
        has_failed_calls = stage.failed > stage.recorded
        if has_failed_calls and not ended_otherwise:
            dead_stages.append(stage.stage)
    if dead_stages:
        return f"no call of {' and '.join(dead_stages)} succeeded."
    return ""


def _valueless_metrics_problem(report: Report, retry_command: Callable[[], str]) -> str:
    """The problem of metrics that failed for every case, with the error; empty where none did.

    A report without these metrics must not end as a success.

    Args:
        retry_command: gives the command that tries again.
    """
    scoring_failures = [group for group in report.failures if group.stage == "score"]
    lost_metrics: list[str] = []
    for summary in report.summaries:
        # A declined or unproved answer is a result: the metric has worked.
        with_result = summary.measured + summary.abstained + summary.unproved
        if summary.failed and not with_result:
            lost_metrics.append(summary.metric.name)
    if not scoring_failures or not lost_metrics:
        return ""
    # The most frequent error alone: a reader mends one thing at a time.
    worst = max(scoring_failures, key=lambda group: group.count)
    return (
        f"{', '.join(lost_metrics)} failed for every case, so that there is no value. "
        f"{worst.type}, {worst.count:,} times: {worst.message.rstrip('.')}. Once that is "
        f"mended: {retry_command()}"
    )


def _say_places(report: Report, folder: Path) -> None:
    """Reports where the files of the report are, and the command that shows its notes.

    The screen is short: notes on the figures are shown by the command alone.
    """
    console.say("")
    console.say(f"report  {folder / 'report.html'} (also report.md, report.json, cases.csv)")
    notes = len(report.notes)
    if not report.is_comparable:
        notes -= 1  # the first one is above the report already
    if notes:
        place = shlex.quote(str(folder))
        console.say(f"more    {counted(notes, 'note')}: ragbench report {place}")


def _say_next_step(
    report: Report, place: str, retry_command: Callable[[], str], *, is_asked: bool
) -> None:
    """Reports the command that helps most after this run.

    It is one line: retry what failed, label what cannot be compared, or look at what was lost.

    Args:
        is_asked: whether a RAG is asked, whose failures another try may mend; recorded ones stay.
    """
    from ragbench.core.attribution import LOSSES

    # Recorded answers that failed stay so; scores and a RAG may succeed the second time.
    if any(is_asked or group.stage == "score" for group in report.failures):
        console.say(f"retry   {retry_command()}")
        return
    labelled_summaries = _summaries_that_need_labels(report)
    # `all` of no summaries is true, too: the condition below asks first whether there are any.
    has_no_labels = all(summary.skipped == summary.total for summary in labelled_summaries)
    if report.is_comparable and labelled_summaries and has_no_labels:
        console.say(f"Nothing to compare with: {_lacking_text(report, labelled_summaries)}.")
        if not _has_results(report, "retrieve"):
            # Nothing was retrieved, so neither a validator nor a judge has chunks to look at.
            console.say(f"next    ragbench report {place}")
        # The validator has judged already: the next better yardstick is a language model.
        elif report.validation:
            judge_options = "-m support --llm-model MODEL --dry-run"
            console.say(f"next    ragbench eval {place} {judge_options}")
        else:
            console.say(f"next    ragbench eval {place} --validate lexical")
    elif any(count.cause in LOSSES for count in report.causes):
        console.say(f"next    ragbench explain {place}")
    else:
        console.say(f"next    ragbench report {place}")


def _summaries_that_need_labels(report: Report) -> list[Summary]:
    """The figures of metrics that compare with something that people labelled, such as a reference.

    Where all were skipped, the dataset has no labels, and other commands help.
    """
    from ragbench.core.metric import Need

    labels = {
        Need.JUDGEMENTS,
        Need.REFERENCE,
        Need.REFERENCE_CONTEXTS,
        Need.REFERENCE_CONTEXT_IDS,
        Need.GRADES,
        Need.EVIDENCE,
        Need.ANSWERABLE,
        Need.RUBRICS,
        Need.EXPECTATIONS,
    }
    # Where answers are missing, a metric that compares answers says nothing about labels.
    if any(stage.stage == "generate" and stage.skipped for stage in report.stages):
        labels -= {Need.REFERENCE, Need.ANSWERABLE, Need.RUBRICS}
    return [summary for summary in report.summaries if summary.metric.definition.needs & labels]


def _has_results(report: Report, stage: str) -> bool:
    """Whether a stage of the run gave a result for any case.

    An abstention is a result, too. Where none did, the advice for the next step is another one.
    """
    for counts in report.stages:
        if counts.stage == stage and counts.measured + counts.abstained:
            return True
    return False


def _lacking_text(report: Report, summaries: Sequence[Summary]) -> str:
    """The reasons why no metric that needs labels has a value: missing results and missing labels.

    A user reads it before the command that helps on; labels are reference answers and relevant
    contexts.
    """
    from ragbench.metrics.matching import NO_GOLD
    from ragbench.metrics.plan import NO_REFERENCE

    reasons: set[str] = set()
    # The reasons are texts of skipped cells, known by the constants that they were made of.
    for summary in summaries:
        reasons.update(reason for reason, _ in summary.reasons)
    missing: list[str] = []
    if not _has_results(report, "generate"):
        missing.append("no answer is known")
    if not _has_results(report, "retrieve"):
        missing.append("no retrieval is known")
    labels: list[str] = []
    if NO_REFERENCE in reasons:
        labels.append("a reference answer")
    if NO_GOLD in reasons:
        labels.append("relevant contexts")
    if labels:
        missing.append(f"no case has {' or '.join(labels)}")
    # Metrics may skip for reasons that have no words above: then those reasons are shown as they
    # are.
    return ", and ".join(missing) or "; ".join(sorted(reasons))


def _evaluate_options(options: EvalOptions, collect: Collect) -> Evaluated:
    """Opens everything that options name, runs the evaluation in its folder, and books its cost.

    The folder is chosen after all is open, since its name depends on the system.

    Args:
        collect: takes each case as it is finished, for the files of the report.
    """
    from ragbench.stages.reuse import project_of
    from ragbench_cli.models import booked_run
    from ragbench_cli.systems import run_folder

    # Closes models, source and validator in the reverse order, also after an error.
    with ExitStack() as stack:
        opened = _Opened(options, stack)
        system = opened.system
        project = partial(
            project_of,
            system.rag,
            opened.operators,
            opened.validator,
            metrics=opened.metrics,
            watch=opened.watch,
            # The dataset is data: an edit of it makes no other version of the project's code.
            leaving_out=[options.cases.dataset],
        )
        folder = run_folder(options.keeping, opened.run_name, project, quiet=options.quiet)
        # Before the first call: a folder of another dataset must not be written over.
        _check_output(folder, opened.source.info)
        with booked_run(opened.models, system.chats, folder, quiet=options.quiet):
            report = opened.run(folder, collect)
    return Evaluated(report, folder, opened.models, asked_a_rag=system.rag is not None)


def _check_output(folder: Path, info: SourceInfo) -> None:
    """Refuses to write into a run that is also read: it would be changed while it is read."""
    if not folder.exists():
        return
    # The cases and their answers may be of two sources, of which either may be a run.
    for source in (info, info.answers):
        if source is not None and source.form == "run" and folder.samefile(source.path):
            raise ConfigError(f"--out {folder} is the run that is read: choose another folder")


def _chosen_metrics(
    metric_list: str | None, models: ModelChoice, *, has_expectations: bool = False
) -> tuple[Metric, ...]:
    """The metrics of an evaluation: those that options name, or the usual ones, and the judge's.

    Whether answers are right, by a judge, leads the table where a judge is named.

    Args:
        metric_list: the option ``--metrics``.
        models: with the judge of answers, if one is named.
        has_expectations: whether cases say what an answer has to contain.

    Raises:
        ConfigError: a metric is wrong, or none is named.
    """
    from ragbench.core.metric import CORRECTNESS, RUBRIC
    from ragbench.metrics.registry import default_metrics, parse_metrics
    from ragbench_cli.models import configured_rubrics

    if metric_list is None:
        metrics = default_metrics(has_expectations=has_expectations)
    else:
        rubrics: dict[str, str] = {}
        if RUBRIC in metric_list:  # a mistake in the file's rubrics stops only who uses them
            rubrics = configured_rubrics(models.llm.config)
        metrics = parse_metrics(metric_list, rubrics=rubrics)
        if not metrics:
            raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
    if models.judge is not None:
        metrics = parse_metrics((CORRECTNESS, *metrics))  # whoever decides leads the table
    return metrics


def _stored_traces(folder: Path) -> Iterator[Trace]:
    """The traces of a run's stored cases: what was asked, retrieved and answered in each.

    Canaries are made of their texts, once for each metric, so they are read anew each time.
    """
    from ragbench.verbs.report import open_traces

    return (case.trace for case in open_traces(folder))


class _Opened:
    """What the options of an evaluation name, open as long as the stack is."""

    def __init__(self, options: EvalOptions, stack: ExitStack) -> None:
        """Opens all that an evaluation needs, so that mistakes show before anything is paid for.

        The order matters: cases, models and packages are checked before a pipeline builds its
        index.

        Args:
            stack: closes all of it at the end.
        """
        from ragbench.io.only import Selection
        from ragbench.ledger.watch import Watch
        from ragbench_cli.models import ModelsInUse, with_judge
        from ragbench_cli.systems import (
            DocumentsBeside,
            chosen_system,
            no_system,
            opened_source,
            say_source,
        )

        cases = options.cases
        system = options.system
        measuring = options.measuring
        stack.enter_context(console.users_code())  # a file of the user's own may print
        # First of all: the metrics decide which packages and models are needed.
        models = with_judge(options.models)
        self.metrics = _chosen_metrics(measuring.metrics, models)
        # Entered before anything is opened, since the watch notes the files that the system reads.
        self.watch = stack.enter_context(Watch())
        self.stopped = stack.enter_context(console.stop_on_signal())
        self.source = stack.enter_context(opened_source(cases, system, options.records.only))
        info = self.source.info
        # Known only once the dataset is read: expectations add their metric.
        if info.has_expectations:
            self.metrics = _chosen_metrics(measuring.metrics, models, has_expectations=True)
        is_recorded = bool(info.recorded) and not cases.ask_again
        # No system and no answers: ragbench.yaml may describe a service.
        if system.rag is None and system.pipeline is None and not is_recorded:
            named = configured_rag(models.llm.config)
            system = structs.replace(system, rag=named.spec, rag_args=named.arguments)
            if system.rag is None:
                raise no_system(cases, info)
        self.options = structs.replace(options, system=system)
        # Again, as the RAG of the configuration is known only now.
        _check_repeats(self.options, system.rag)
        self.models = ModelsInUse(models, self.metrics, stack)
        # None without --validate.
        self.validator: Validator | None = None
        self.make_validator: Callable[[], Validator] | None = None
        """Makes one more validator on a worker; None where there may be one only."""
        # Before the pipeline, whose index may be paid for when it opens.
        self._import_packages(stack)
        chosen = chosen_system(
            system.rag,
            system.pipeline,
            system.rag_args,
            DocumentsBeside(cases.dataset, cases.corpus, cases.format),
            recorded=(cases.answers or "") if is_recorded else None,
            config=options.models.llm.config,
            budget=self.models.budget,
        )
        self.system = stack.enter_context(chosen)
        self.operators = self.system.post_retrieval
        if system.operators is not None:
            self.operators = self._read_operators(system.operators)
        self.bars = stack.enter_context(console.progress(shown=not options.quiet))
        # A RAG that is asked one question after the other: the progress says once how long that
        # takes, and what several calls at once would take.
        rag = self.system.rag
        is_in_turn = rag is not None and not rag.bears_calls and options.asking.concurrency is None
        is_plain_run = options.asking.on.engine == "local" and self.system.concurrency is None
        if is_in_turn and is_plain_run and not options.quiet:
            self.bars = console.InTurn(console.say, time.monotonic, self.bars).advance
        if not options.quiet:
            say_source(info, cases, self.system)
            if not options.labelled.labels:
                for hint in info.all_hints:
                    console.say(hint)
        self.selection = Selection(
            limit=measuring.limit, sample=measuring.sample, seed=measuring.seed
        )

    def _import_packages(self, stack: ExitStack) -> None:
        """Imports the packages of metrics, validator and engine: a missing one is an error at once.

        It comes before anything is asked: a run must not fail after hours for want of a package.

        Args:
            stack: closes the validator at the end.
        """
        from ragbench.plugins import import_packages_of
        from ragbench.verbs.evaluate import import_for_metrics

        import_for_metrics(self.metrics, self.models.judging)
        engine = self.options.asking.on.engine
        if engine != "local":
            from ragbench.workers.engines import import_engine

            import_engine(engine)
        # Built first: only the validator itself can name the packages that it needs.
        if self.options.measuring.validate is not None:
            self._open_validator(self.options.measuring.validate, stack)
            import_packages_of(self.validator)

    def _read_operators(self, file: Path) -> PostRetrieval:
        """The operators of a post-retrieval file, with the RAG and the model that they may need.

        Operators change the chunks between retrieval and generation; some of them rerank by a
        model.
        """
        from ragbench.post.build import Resources, load_post_retrieval
        from ragbench.stages.rag import chunk_service

        rag = self.system.rag
        # For operators that look for further chunks; not every RAG can be searched so.
        service = None
        if rag is not None:
            service = chunk_service(rag)
        chat = self.models.chat("post_retrieve")
        return load_post_retrieval(file, Resources(service=service, chat=chat))

    def _open_validator(self, name: str, stack: ExitStack) -> None:
        """Builds the validator that ``--validate`` names, for this process and for workers.

        A validator that asks a language model is made once: one rate limit and one budget hold
        then.
        """
        from ragbench_cli.validator_options import CalibratedChoice, validator_maker

        measuring = self.options.measuring
        choice = CalibratedChoice(
            name=name, validator_args=measuring.validator_args, calibration=measuring.calibration
        )
        chat = self.models.chat("validate")
        # `may_be_many` is False for a model that is asked: then workers share this one.
        make, may_be_many = stack.enter_context(validator_maker(choice.named, chat))
        self.validator = make()
        if may_be_many:
            self.make_validator = make

    def run_name(self) -> str:
        """The name of the run's folder, by what distinguishes the run from others of its system.

        Another name for the same options would begin every run anew, without its stored answers.

        An edited pipeline is another version of the same system. An option that has its default
        is not part of the name, so that a new option leaves the names of older runs as they are.
        """
        from ragbench.ledger.fingerprint import fingerprint
        from ragbench.ledger.folder import run_name
        from ragbench.verbs.evaluate import dataset_name
        from ragbench_cli.systems import BASELINE

        choice = self.options.system
        system: object = (choice.rag, choice.rag_args)
        if choice.pipeline is not None:
            system = str(choice.pipeline)
        # Recorded answers and the baseline are told apart by what they read.
        elif choice.rag is None or choice.rag == BASELINE:
            system = self.system.description
        asking = self.options.asking
        # Order and conditions below make the digest: with another order every run would get a new
        # name.
        identity: list[object] = [system, self.selection, asking.top_k]
        source_options = self._source_options()
        if source_options:
            identity.append(source_options)
        if asking.turns != "recorded":
            identity.append(asking.turns)
        if choice.operators is not None:
            identity.append(str(choice.operators))
        dataset = self.options.cases.dataset
        digest = fingerprint((dataset, tuple(identity)))
        return run_name(dataset_name(dataset), self.system.name, digest)

    def _source_options(self) -> tuple[object, ...]:
        """The options on how the cases are read and which are taken, as far as they are set.

        They are part of the run's name: their order must stay.
        """
        source = self.options.cases
        records = self.options.records
        fields = mapping(source.field or (), "--field")
        values = (
            source.format,
            sorted(fields.items()),
            source.split,
            # As a text: the digest of a Path would depend on the system.
            None if source.queries is None else str(source.queries),
            None if source.qrels is None else str(source.qrels),
            source.answers,
            source.answers_format,
            source.ask_again,
            records.since,
            records.until,
            *(records.where or ()),
        )
        # Unset options are left out, so that an option that is added later changes no name.
        return tuple(value for value in values if value)

    def _field_roles(self) -> tuple[FieldRole, ...]:
        """The fields that the measured values were read from.

        Fields of recorded answers are among them only where these are measured.
        """
        from ragbench.io.roles import case_roles

        roles = self.source.info.roles
        # Asked again: the recorded answers are not measured.
        if self.options.cases.ask_again:
            return case_roles(roles)
        return roles

    def run(self, folder: Path, collect: Collect) -> Report:
        """Asks the system as often as wanted, scores answers, and tries the judge with canaries.

        Canaries are claims of known truth.

        Args:
            folder: of the run.
            collect: takes each case as it is finished.
        """
        from ragbench.verbs.evaluate import RunRequest, evaluate_repeatedly

        options = self.options
        judging = self.models.judging
        # None asks in this process.
        workers: Workers | None = None
        if options.asking.on.engine != "local":
            workers = self._engine_workers()
        request = RunRequest(
            out=folder,
            rag=self.system.rag,
            metrics=self.metrics,
            post_retrieval=self.operators,
            validator=self.validator,
            judging=judging,
            settings=self._eval_settings(),
            workers=workers,
            fresh=options.keeping.fresh,
            advance=self.bars,
            watch=self.watch,
            stopped=self.stopped,
            collect=collect,
        )
        # Entries have recorded answers, cases alone have none and are asked anew.
        entries: Iterable[Case | Entry] = self.source
        if options.cases.ask_again:
            entries = (entry.case for entry in self.source)
        report = evaluate_repeatedly(entries, request, options.asking.repeats)
        # Without a judge there is nobody to try.
        if not options.measuring.canaries or judging is None:
            return report
        return self._with_canaries(report, judging, folder)

    def _eval_settings(self) -> EvalSettings:
        """The options of the command as the settings of an evaluation.

        Notes on the dataset's answers are left out where the system is asked again.
        """
        from ragbench.metrics.matching import Matching
        from ragbench.stages.stage import CallSettings
        from ragbench.stages.system import EvalSettings
        from ragbench.verbs.evaluate import dataset_name

        system = self.system
        cases = self.options.cases
        asking = self.options.asking
        keeping = self.options.keeping
        notes = system.notes
        if not cases.ask_again:
            notes = (*self.source.info.notes, *system.notes)
        return EvalSettings(
            name=dataset_name(cases.dataset),
            source=cases.dataset,
            rag_name=system.name,
            rag_description=system.description,
            top_k=asking.top_k,
            turns=asking.turns,
            notes=notes,
            roles=self._field_roles(),
            selection=self.selection,
            matching=Matching(self.options.measuring.matching),
            corpus=system.documents,
            locator=system.locator,
            trust_stored=keeping.reuse,
            retry_failed=keeping.retry_failed,
            limits=CallSettings(
                batch_size=asking.batch_size,
                concurrency=_calls_in_flight(asking.concurrency, system.concurrency),
                timeout=asking.timeout,
                give_up_after=asking.give_up_after,
            ),
        )

    def _with_canaries(self, report: Report, judging: Judging, folder: Path) -> Report:
        """The report of a run whose judge was also asked about canaries: claims of known truth.

        The report then says how often the judge is wrong.
        """
        from ragbench.stages.canaries import (
            canaries_of,
            has_canaries,
            judge_canaries,
            plant_for,
        )
        from ragbench.verbs.report import report_of

        measuring = self.options.measuring
        # Read from the folder, since a run of any length does not fit into memory.
        traces = partial(_stored_traces, folder)
        canaries = plant_for(report.metrics, traces, measuring.canaries, seed=measuring.seed)
        dry_run = self.models.dry_run
        for metric in filter(has_canaries, report.metrics):
            canaries_of_metric = canaries_of(metric, canaries)
            # A dry run counts the calls that the canaries would cost, and asks nothing.
            if dry_run is not None:
                dry_run.count(judging, metric, [canary.trace for canary in canaries_of_metric])
            elif len(canaries_of_metric) < measuring.canaries:
                console.say(
                    f"canaries: the run's texts give {len(canaries_of_metric):,} of "
                    f"{measuring.canaries:,} for {metric.name}"
                )
        if dry_run is not None:
            return report
        run = report.manifest["fingerprints"]
        judge_canaries(canaries, report.metrics, judging, folder, run=run, stopped=self.stopped)
        # Read anew: the judge's answers to the canaries are in the folder only now.
        return report_of(folder)

    def _engine_workers(self) -> Workers:
        """The workers of an engine, with what builds the RAG and the validator on each of them.

        A RAG that must not be on several processes is asked by this one, which is reported.
        """
        from ragbench.rag.load import load_rag, may_be_on_workers
        from ragbench.stages.on_workers import Workers
        from ragbench.workers.engines import check_engine

        on = self.options.asking.on
        system = self.options.system
        check_engine(on.engine)
        # None: then no worker needs the RAG.
        make_rag = None
        if system.rag is not None and may_be_on_workers(system.rag):
            arguments = json_object(system.rag_args or "{}", "--rag-args")
            make_rag = partial(load_rag, system.rag, arguments)
        elif system.rag is not None and not self.options.quiet:
            console.say(
                "the RAG is asked by this process; on_workers = True on its class or factory has "
                "it built on workers"
            )
        return Workers(
            engine=on.engine,
            count=on.workers,
            make_rag=make_rag,
            make_validator=self.make_validator,
        )
