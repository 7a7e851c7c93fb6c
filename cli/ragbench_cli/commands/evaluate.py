"""``ragbench eval``: a dataset through a RAG, to a scored report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.console import ExitCode, Invocation
from ragbench_cli.eval_options import EvalOptions
from ragbench_cli.options import JsonOption, json_object, mapping, takes_records

if TYPE_CHECKING:
    from ragbench.core.report import Report, Summary
    from ragbench.core.roles import FieldRole
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.judge import Judging
    from ragbench.stages.on_workers import Workers
    from ragbench.validators.validator import Validator
    from ragbench.verbs.evaluate import Collect
    from ragbench_cli.models import ModelsInUse


@takes_records
def command(context: typer.Context, asked: EvalOptions, json: JsonOption = False) -> None:
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

    _check(asked)
    book = asked.labelled.book  # labels that cannot be read are an error before anything is asked
    with CaseFiles() as files:
        report, folder, models, is_asked = _evaluated(asked, files.begin)
        if (counted := models.dry_run) is not None:
            from ragbench_cli.models import show_estimate

            show_estimate(counted.estimate(), counted.cases, as_json=json)
            return
        if book is not None:
            from ragbench.verbs.label import corrected_report

            report = corrected_report(report, folder, book)
        # Where no case was told, the run stood as it was.
        if files.count or not are_written(report, folder):
            write_reports(report, folder, files)
    if json:
        console.write_json([(folder / "report.json").read_bytes()])
    else:
        print_report(report, is_full=False)
    invocation = context.ensure_object(Invocation)
    again = partial(invocation.again, "--retry-failed", without="--fresh")
    code, problem = _ending(report, asked.asking.max_error_rate, again)
    if not asked.quiet:
        console.say("")
        console.say(f"report  {folder / 'report.html'} (also report.md, report.json, cases.csv)")
        if "--retry-failed" not in problem:
            _say_next(report, shlex.quote(str(folder)), again, is_asked=is_asked)
    if problem:
        console.say(f"Error: {problem}")
    if code:
        raise typer.Exit(code)


def _check(asked: EvalOptions) -> None:
    system, asking, measuring = asked.system, asked.asking, asked.measuring
    timeout, share, is_repeated = asking.timeout, asking.max_error_rate, asking.repeats > 1
    validates = measuring.validate is not None
    unused = "is for a validator: name one with --validate"
    refusals = {
        "--post-retrieval and --pipeline cannot be combined: the file describes the whole system": (
            system.pipeline is not None and system.operators is not None
        ),
        f"--timeout must be more than 0 seconds, not {timeout or 0:g}": (
            timeout is not None and not timeout > 0
        ),
        f"--max-error-rate must be between 0 and 1, not {share or 0:g}": (
            share is not None and not 0 <= share <= 1
        ),
        f"--calibration {unused}": not validates and measuring.calibration is not None,
        f"--validator-args {unused}": not validates and measuring.validator_args is not None,
        "--rag-repeats needs --rag: recorded answers are the same each time, and so are the cached "
        "answers of a pipeline's models": is_repeated and system.rag is None,
        "--dry-run cannot be combined with --rag-repeats: estimate one repeat and multiply": (
            is_repeated and asked.models.dry_run
        ),
    }
    for refusal, is_so in refusals.items():
        if is_so:
            raise ConfigError(refusal)


def _ending(report: Report, most: float | None, again: Callable[[], str]) -> tuple[ExitCode, str]:
    """The exit code that says how far the numbers can be used, and what is wrong with them.

    Args:
        most: the largest share of cases in which a stage may fail.
    """
    from ragbench.metrics.matching import NOT_COMPARABLE

    if all(stage.measured + stage.abstained == 0 for stage in report.stages):
        return ExitCode.CANNOT_RUN, "no call succeeded, so nothing was measured."
    dead = [
        one.stage
        for one in report.stages
        # An answer that came without contexts is one of a retrieval that did not fail.
        if one.failed > one.recorded and not one.measured + one.abstained + one.skipped
    ]
    if dead:
        return ExitCode.CANNOT_RUN, f"no call of {' and '.join(dead)} succeeded."
    if scoring := [group for group in report.failures if group.stage == "score"]:
        lost = [
            one.metric.name
            for one in report.summaries
            if one.failed and not one.measured + one.abstained + one.unproved
        ]
        worst = max(scoring, key=lambda group: group.count)
        if lost:
            return ExitCode.CANNOT_RUN, (
                f"{', '.join(lost)} failed for every case, so that there is no value. "
                f"{worst.type}, {worst.count:,} times: {worst.message.rstrip('.')}. Once that is "
                f"mended: {again()}"
            )
    cases = report.manifest["dataset"]["cases"]
    failing = [one for one in report.stages if most is not None and one.failed > most * cases]
    if failing:
        counts = ", ".join(f"{one.stage} {one.failed:,} of {cases:,}" for one in failing)
        return ExitCode.FAILED, f"too many cases failed: {counts} (--max-error-rate {most:g})."
    # A metric that was asked for needed the gold contexts, and could not be computed.
    if not report.is_comparable and any(
        reason == NOT_COMPARABLE for summary in report.summaries for reason, _ in summary.reasons
    ):
        return ExitCode.INCONCLUSIVE, ""
    return ExitCode.PASSED, ""


def _say_next(report: Report, place: str, again: Callable[[], str], *, is_asked: bool) -> None:
    from ragbench.core.attribution import LOSSES
    from ragbench.core.metric import Need

    gold = {
        *(Need.JUDGEMENTS, Need.REFERENCE, Need.REFERENCE_CONTEXTS, Need.REFERENCE_CONTEXT_IDS),
        *(Need.GRADES, Need.EVIDENCE, Need.ANSWERABLE, Need.RUBRICS, Need.EXPECTATIONS),
    }
    if any(one.stage == "generate" and one.skipped for one in report.stages):
        gold -= {Need.REFERENCE, Need.ANSWERABLE, Need.RUBRICS}  # an answer was missing
    compared = [one for one in report.summaries if one.metric.definition.needs & gold]
    if any(is_asked or group.stage == "score" for group in report.failures):
        console.say(f"retry   {again()}")
    elif report.is_comparable and compared and all(one.skipped == one.total for one in compared):
        console.say(f"Nothing to compare with: {_lacking(report, compared)}.")
        if not _is_known(report, "retrieve"):
            console.say(f"next    ragbench report {place}")
        elif report.validation:
            more = "-m support --llm-model MODEL --dry-run"
            console.say(f"next    ragbench eval {place} {more}")
        else:
            console.say(f"next    ragbench eval {place} --validate lexical")
    elif any(count.cause in LOSSES for count in report.causes):
        console.say(f"next    ragbench explain {place}")
    else:
        console.say(f"next    ragbench report {place}")


def _is_known(report: Report, stage: str) -> bool:
    """Whether a stage gave a result for any case."""
    return any(one.measured + one.abstained for one in report.stages if one.stage == stage)


def _lacking(report: Report, compared: Sequence[Summary]) -> str:
    """Why no metric that needs labels has a value: results that are missing, and labels."""
    from ragbench.metrics.matching import NO_GOLD
    from ragbench.metrics.plan import NO_REFERENCE

    reasons = {reason for summary in compared for reason, _ in summary.reasons}
    missing: list[str] = []
    if not _is_known(report, "generate"):
        missing.append("no answer is known")
    if not _is_known(report, "retrieve"):
        missing.append("no retrieval is known")
    labels: list[str] = []
    if NO_REFERENCE in reasons:
        labels.append("a reference answer")
    if NO_GOLD in reasons:
        labels.append("relevant contexts")
    if labels:
        missing.append(f"no case has {' or '.join(labels)}")
    return ", and ".join(missing) or "; ".join(sorted(reasons))


def _evaluated(options: EvalOptions, collect: Collect) -> tuple[Report, Path, ModelsInUse, bool]:
    """Opens what the options name, runs it in its folder, and books what it cost.

    Gives the report, the folder, the models, and whether a RAG was asked.
    """
    from ragbench.stages.reuse import project_of
    from ragbench_cli.models import booked_run
    from ragbench_cli.systems import run_folder

    keeping, quiet = options.keeping, options.quiet
    with ExitStack() as stack:
        opened = _Opened(options, stack)
        system = opened.system
        project = partial(
            project_of, system.rag, opened.operators, opened.validator, metrics=opened.metrics,
            watch=opened.watch, leaving_out=[options.cases.dataset],
        )  # fmt: skip
        folder = run_folder(keeping, opened.run_name, project, quiet=quiet)
        for info in (opened.source.info, opened.source.info.answers):
            is_run = info is not None and info.form == "run" and folder.exists()
            if info is not None and is_run and folder.samefile(info.path):
                raise ConfigError(f"--out {folder} is the run that is read: choose another folder")
        with booked_run(opened.models, system.chats, folder, quiet=quiet):
            report = opened.run(folder, collect)
    return report, folder, opened.models, system.rag is not None


class _Opened:
    """What the options of an evaluation name, there as long as the stack is."""

    def __init__(self, options: EvalOptions, stack: ExitStack) -> None:
        from ragbench.io.only import Selection
        from ragbench.ledger.watch import Watch
        from ragbench.metrics.registry import default_metrics, parse_metrics
        from ragbench_cli.models import ModelsInUse
        from ragbench_cli.systems import (
            DocumentsBeside,
            chosen_system,
            no_system,
            opened_source,
            say_source,
        )

        cases, system, measuring = options.cases, options.system, options.measuring
        self.options = options
        stack.enter_context(console.users_code())  # a file of the user's own may print
        spelled = measuring.spelled
        self.metrics = default_metrics() if spelled is None else parse_metrics(spelled)
        if not self.metrics:
            raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
        self.watch = stack.enter_context(Watch())
        self.stopped = stack.enter_context(console.stop_on_signal())
        self.source = stack.enter_context(opened_source(cases, system, options.taken.only))
        if spelled is None and self.source.info.has_expectations:
            self.metrics = default_metrics(has_expectations=True)
        held = self.source.info
        is_recorded = bool(held.recorded) and not cases.ask_again
        if system.rag is None and system.pipeline is None and not is_recorded:
            raise no_system(cases, held)
        self.models = models = ModelsInUse(options.models, self.metrics, stack)
        self.validator: Validator | None = None
        self.make_validator: Callable[[], Validator] | None = None
        """Makes one more on a worker; None where there may be one only."""
        self._import_packages(stack)  # a pipeline's index may be paid for when it opens
        chosen = chosen_system(
            system.rag, system.pipeline, system.rag_args,
            DocumentsBeside(cases.dataset, cases.corpus, cases.format),
            recorded=cases.answers or "" if is_recorded else None,
            config=options.models.llm.config, budget=models.budget,
        )  # fmt: skip
        self.system = stack.enter_context(chosen)
        self.operators = self.system.post_retrieval
        if system.operators is not None:
            self.operators = self._operators(system.operators)
        self.bars = stack.enter_context(console.progress(shown=not options.quiet))
        if not options.quiet:
            say_source(held, cases, self.system)
            if not options.labelled.labels:
                for hint in held.all_hints:
                    console.say(hint)
        self.selection = Selection(
            limit=measuring.limit, sample=measuring.sample, seed=measuring.seed
        )

    def _import_packages(self, stack: ExitStack) -> None:
        """Imports what metrics, validator and engine need: what is missing is an error at once."""
        from ragbench.plugins import import_packages_of
        from ragbench.verbs.evaluate import import_for_metrics
        from ragbench.workers.engines import import_engine

        import_for_metrics(self.metrics, self.models.judging)
        import_engine(self.options.asking.on.engine)
        if self.options.measuring.validate is not None:
            self._open_validator(self.options.measuring.validate, stack)
            import_packages_of(self.validator)

    def _operators(self, file: Path) -> PostRetrieval:
        from ragbench.post.build import Resources, load_post_retrieval
        from ragbench.stages.rag import chunk_service

        rag, chat = self.system.rag, self.models.chat("post_retrieve")
        service = None if rag is None else chunk_service(rag)
        return load_post_retrieval(file, Resources(service=service, chat=chat))

    def _open_validator(self, name: str, stack: ExitStack) -> None:
        from ragbench_cli.validator_options import CalibratedChoice, validator_maker

        measuring = self.options.measuring
        choice = CalibratedChoice(
            name=name, validator_args=measuring.validator_args, calibration=measuring.calibration
        )
        making = validator_maker(choice.named, self.models.chat("validate"))
        make, may_be_many = stack.enter_context(making)
        self.validator, self.make_validator = make(), make if may_be_many else None

    def run_name(self) -> str:
        """What distinguishes this command's run from others of the same dataset and system.

        An edited pipeline is another version of the same system.
        """
        from ragbench.ledger.fingerprint import fingerprint
        from ragbench.ledger.folder import run_name
        from ragbench.verbs.evaluate import dataset_name

        choice, source, taken = self.options.system, self.options.cases, self.options.taken
        from ragbench_cli.systems import BASELINE

        named: object = (choice.rag, choice.rag_args)
        if choice.rag is None or choice.rag == BASELINE:
            named = self.system.description
        fields = mapping(source.field or (), "--field")
        paths = [None if path is None else str(path) for path in (source.queries, source.qrels)]
        of_source = (
            *(source.format, sorted(fields.items()), source.split, *paths),
            *(source.answers, source.answers_format, source.ask_again),
            *(taken.since, taken.until, *(taken.where or ())),
        )
        given, asking = tuple(value for value in of_source if value), self.options.asking
        identity = (
            named if choice.pipeline is None else str(choice.pipeline),
            self.selection,
            asking.top_k,
            *([given] if given else []),
            *([asking.turns] if asking.turns != "recorded" else []),
            *([str(choice.operators)] if choice.operators is not None else []),
        )
        digest = fingerprint((source.dataset, identity))
        return run_name(dataset_name(source.dataset), self.system.name, digest)

    def _roles(self) -> tuple[FieldRole, ...]:
        """Where what is measured was read from; asking again, nothing recorded is measured."""
        from ragbench.io.roles import case_roles

        roles = self.source.info.roles
        return case_roles(roles) if self.options.cases.ask_again else roles

    def run(self, folder: Path, collect: Collect) -> Report:
        """Asks as often as is wanted, scores, and puts canaries to the judge."""
        from ragbench.metrics.matching import Matching
        from ragbench.stages.stage import CallSettings
        from ragbench.stages.system import EvalSettings
        from ragbench.verbs.evaluate import RunRequest, dataset_name, evaluate_repeatedly

        options, system, judging = self.options, self.system, self.models.judging
        cases, asking, keeping = options.cases, options.asking, options.keeping
        settings = EvalSettings(
            name=dataset_name(cases.dataset), source=cases.dataset, rag_name=system.name,
            rag_description=system.description, top_k=asking.top_k, turns=asking.turns,
            notes=(*(() if cases.ask_again else self.source.info.notes), *system.notes),
            roles=self._roles(),
            selection=self.selection, matching=Matching(options.measuring.matched),
            corpus=system.documents, locator=system.locator,
            trust_stored=keeping.reuse, retry_failed=keeping.retry_failed,
            limits=CallSettings(
                batch_size=asking.batch_size, concurrency=asking.concurrency or system.concurrency,
                timeout=asking.timeout, give_up_after=asking.give_up_after,
            ),
        )  # fmt: skip
        request = RunRequest(
            out=folder,
            rag=system.rag,
            metrics=self.metrics,
            post_retrieval=self.operators,
            validator=self.validator,
            judging=judging,
            settings=settings,
            workers=None if asking.on.engine == "local" else self._workers(),
            fresh=keeping.fresh,
            advance=self.bars,
            watch=self.watch,
            stopped=self.stopped,
            collect=collect,
        )
        entries = (entry.case for entry in self.source) if cases.ask_again else self.source
        report = evaluate_repeatedly(entries, request, asking.repeats)
        if not options.measuring.canaries or judging is None:
            return report
        return self._with_canaries(report, judging, folder)

    def _with_canaries(self, report: Report, judging: Judging, folder: Path) -> Report:
        from ragbench.stages.canaries import judge_canaries, plant
        from ragbench.verbs.report import open_traces, report_of

        count, seed = self.options.measuring.canaries, self.options.measuring.seed
        planted = plant((case.trace for case in open_traces(folder)), count, seed=seed)
        if self.models.dry_run is not None:
            traces = [canary.trace for canary in planted]
            self.models.dry_run.count(judging, report.metrics, traces)
            return report
        if len(planted) < count:
            console.say(f"canaries: the run's contexts give {len(planted):,} of {count:,}")
        run = report.manifest["fingerprints"]
        judge_canaries(planted, report.metrics, judging, folder, run=run, stopped=self.stopped)
        return report_of(folder)

    def _workers(self) -> Workers:
        from ragbench.rag.load import load_rag, may_be_on_workers
        from ragbench.stages.on_workers import Workers
        from ragbench.workers.engines import check_engine

        on, system = self.options.asking.on, self.options.system
        check_engine(on.engine)
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
