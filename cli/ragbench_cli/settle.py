"""``ragbench gate --rerun-inconclusive`` and ``--reask-baseline``: systems in their checkouts."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ragbench.core.case import Case
from ragbench.core.case_table import CaseTable
from ragbench.core.gate_result import GateResult
from ragbench.core.run_scores import RunScores, unchanged, under_ids_of
from ragbench.errors import ConfigError, InterruptedRunError, RunError, RunMismatchError
from ragbench.gate.cases import main_metrics
from ragbench.gate.checks import ASKS
from ragbench.gate.comparable import system_change
from ragbench.gate.config import GateConfig
from ragbench.gate.gate import PER_CASE
from ragbench.gate.runs import is_finished, read_run
from ragbench.io.export import write_cases
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import Manifest, RunFolder, read_manifest
from ragbench.ledger.journal import Journal
from ragbench.masking import mask_text
from ragbench.private_files import make_private_folder
from ragbench.verbs.gate import Reask, gate_run
from ragbench.verbs.settle import lost_once, open_checks, settle, with_must_pass
from ragbench_cli import console
from ragbench_cli.systems import rag_of

_LAST = 12
"""How many lines of what a system said are shown when it cannot be asked."""
_SHOWN = 3
"""How many parts of a system that differ are named."""
_SET_HERE = ("environment variable PYTHONPATH ", "environment variable RAGBENCH_LLM_CACHE ")
"""How differences begin that asking again makes itself; see `Asking._run_child`."""
_PATIENCE = 0.2
"""Seconds between two looks whether the user wants to stop."""


def settled_gate(
    path: Path, config: GateConfig, *, ask: str | None, max_asked: int | None, reask: Reask | None
) -> GateResult:
    """The result of a gate after its undecided checks were asked again of both systems.

    The gate and the second look are two tests, so each has half of the level.

    Args:
        ask: options of ``ragbench eval`` that ask the system; None takes them from the run.
        max_asked: pairs of questions at most; ten per case when not given.
    """
    # The gate and the settling are two tests: half of the level for each.
    config = replace(config, alpha=config.alpha / 2.0)
    verdict = gate_run(path, config, reask=reask)
    names = [check.subject for check in open_checks(verdict)]
    lost_ids = lost_once(verdict)
    is_settled = not names and not lost_ids
    if verdict.baseline is None or is_settled:
        return verdict
    run = read_run(path)
    # Cases that were renamed since are asked of the baseline's system under the run's ids.
    baseline, _ = under_ids_of(run, read_run(Path(verdict.baseline.source)))
    with _opened_asking(path, "settle", ask, run, baseline, names) as asking:
        most = max_asked
        if most is None:
            most = PER_CASE * len(asking.cases)
        if lost_ids:
            metrics = [column.name for column in main_metrics(run.metrics)]
            scores = asking.again(lost_ids, metrics)
            verdict = with_must_pass(verdict, scores, config)
        return settle(verdict, run, baseline, config, asking, most=most, say=console.say)


def reasked_baseline(path: Path, ask: str | None, run: RunScores, baseline: RunScores) -> RunScores:
    """A baseline with scores for those cases of a run that are new to it or edited.

    Its system is checked out and asked these cases. Without that, only cases that both runs have
    are compared.
    """
    # Datasets may have renamed cases: the baseline gets the ids of the run.
    aligned, _ = under_ids_of(run, baseline)
    unchanged_ids = unchanged(run, aligned)
    new_ids = [case.id for case in run.cases if case.id not in unchanged_ids]
    names: list[str] = []
    for column in run.metrics:
        # Only metrics that the run and the baseline both have: others could not be compared.
        if column.has_cells and baseline.column(column.name):
            names.append(column.name)
    if not new_ids or not names:
        return baseline
    with _opened_asking(path, "reask", ask, run, baseline, names, new_ids) as asking:
        write_cases((asking.cases[id_] for id_ in new_ids), asking.folder / "cases.jsonl")
        # In a folder of the run; `base` is the checkout that the answers come from.
        answered = asking.evaluated(asking.folder, "baseline", asking.base, names, baseline)
    replaced = set(new_ids)
    # The baseline's old answer to an edited case gives way to the new one.
    old_cases = (case for case in aligned.cases if case.id not in replaced)
    cases = CaseTable.of((*old_cases, *answered.cases))
    # The cases are known now, which an old file of a baseline lacks.
    return replace(aligned, cases=cases, is_old=False)


@contextmanager
def _opened_asking(
    path: Path,
    kind: str,
    ask: str | None,
    run: RunScores,
    baseline: RunScores,
    names: Sequence[str],
    new_ids: Sequence[str] = (),
) -> Generator[Asking]:
    """Opens what asks the baseline's and the run's system again.

    The baseline's commit is checked out for the length of the block. Its answers are in a folder
    beside the run, one for each question: another run, baseline, metric or option has another
    folder, and the same command continues in its own.
    """
    folder = RunFolder(path=path)
    if not folder.exists:
        raise ConfigError(f"asking again needs the folder of a run with its cases; {path} is none")
    if ask is None:
        options = eval_options(read_manifest(folder.manifest))
    else:
        options = _split_options(ask)
    # All cases of the run: the caller takes those that it asks by their ids.
    cases: dict[str, Case] = {}
    with Journal(folder.journal) as journal:
        for window in journal.cases():
            for stored in window:
                cases[stored.case.id] = stored.case
    values: list[object] = []
    for name in names:
        values += [run.values(name), baseline.values(name)]
    # All that the answers depend on, in a fixed order: its digest names the folder.
    question = (
        (names, [*options, *new_ids]),
        run.fingerprints,
        baseline.fingerprints,
        baseline.commit,
        values,
    )
    home = path.absolute().with_name(f"{path.name}-{kind}-{fingerprint(question)[:8]}")
    # The folder holds questions and answers, which may be private.
    make_private_folder(home)
    # `stopped` is asked while a child runs, so that Ctrl-C ends both in order.
    with base_checkout(baseline, home) as base, console.stop_on_signal() as stopped:
        yield Asking(home, cases, options, baseline, run, base, stopped)


def _split_options(options: str) -> list[str]:
    """The options of ``--rerun-options``, split as a shell would split them.

    They are passed to ``ragbench eval`` in a child process, without a shell.

    Raises:
        ConfigError: a quote is not closed.
    """
    try:
        return shlex.split(options)
    except ValueError as error:
        message = f"--rerun-options {options}: {error}; quote it as a shell would"
        raise ConfigError(message) from error


@dataclass(slots=True)
class Asking:
    """Asks both systems the same questions in child processes, and reads what they scored."""

    folder: Path
    """Where rounds are kept: the same command continues there."""
    cases: Mapping[str, Case]
    options: Sequence[str]
    """What names the system and how it is asked, for ``ragbench eval``."""
    baseline: RunScores
    run: RunScores
    base: Path
    """Where the baseline's system is at home; the run's is in the working directory."""
    stopped: Callable[[], bool]

    def __call__(
        self, number: int, metrics: Sequence[str], drawn: Sequence[str]
    ) -> tuple[RunScores, RunScores]:
        """The scores of the baseline's system and of the run's on drawn cases, asked anew.

        `settle` draws cases in rounds until the check is decided, and compares the two runs of
        each.

        Args:
            number: of the round, which names its folder: a finished round is read only.
            drawn: ids of cases, some perhaps several times; their ids become "0", "1" ... in order.
        """
        home = self.folder / f"round-{number:03}"
        make_private_folder(home)
        # Written before both systems are asked, so that they get the same cases.
        self._write_cases(drawn, home)
        baseline = self.evaluated(home, "baseline", self.base, metrics, self.baseline)
        # The run's system is that of the working directory.
        run = self.evaluated(home, "run", Path.cwd(), metrics, self.run)
        return baseline, run

    def again(self, ids: Sequence[str], metrics: Sequence[str]) -> RunScores:
        """The scores of the run's system on cases that must pass, each asked `ASKS` times.

        The run itself has asked each once.
        """
        home = self.folder / "must-pass"
        make_private_folder(home)
        repeated: list[str] = []
        for id_ in ids:
            repeated += [id_] * (ASKS - 1)  # the run has asked it once
        self._write_cases(repeated, home)
        return self.evaluated(home, "run", Path.cwd(), metrics, self.run)

    def _write_cases(self, ids: Sequence[str], home: Path) -> None:
        """Writes the cases that a system is asked again into a folder, under their numbers as ids.

        The same case may be among them several times, and ids must differ.
        """
        numbered = (replace(self.cases[id_], id=str(number)) for number, id_ in enumerate(ids))
        write_cases(numbered, home / "cases.jsonl")

    def evaluated(
        self, home: Path, name: str, place: Path, metrics: Sequence[str], like: RunScores
    ) -> RunScores:
        """The scores of one system on the cases of a folder, asked unless that was finished before.

        A finished run in the folder is read, so that an interrupted command does not ask twice.

        Args:
            name: the name of the run's folder within ``home``.
            place: where the system is at home.
            like: an earlier run of the system, which must still be the same.
        """
        out = home / name
        # An unfinished one is continued by the same command, from its journal.
        if not is_finished(out):
            command = [sys.executable, "-m", "ragbench_cli", "eval", str(home / "cases.jsonl")]
            command += ["--quiet", "--out", str(out)]
            command += ["--metrics", ",".join(metrics), "--matching", like.matching]
            # Last, so that options of the user go before those above.
            command += self.options
            self._run_child(command, place, like)
        scores = read_run(out)
        # Also for a finished run: the system may have been another one then.
        _check_same_system(like, scores)
        return scores

    def _run_child(self, command: Sequence[str], place: Path, like: RunScores) -> None:
        """Runs one ``ragbench eval`` to its end in a process of its own.

        If it fails, its last lines of errors are shown. A process of its own, since two versions of
        one module cannot be imported into one.
        """
        # The system's own modules, where projects have them, before those that are installed.
        paths = [str(place), str(place / "src")]
        if os.environ.get("PYTHONPATH"):
            paths.append(os.environ["PYTHONPATH"])
        environment = {
            **os.environ,
            # An answer from a cache would be the same one again, and no new observation.
            "RAGBENCH_LLM_CACHE": "off",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        with subprocess.Popen(
            command,
            cwd=place,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # the terminal's Ctrl-C reaches it once, through this process
        ) as child:
            errors = _errors_of_child(child, self.stopped)
        if self.stopped():
            raise InterruptedRunError("asking again was stopped; the same command continues")
        if child.returncode not in (0, 1):  # 1: too many cases failed, the others have scores
            last_lines = "\n".join(errors.strip().splitlines()[-_LAST:])
            # As a user would type it: without Python and its module.
            command_line = mask_text(shlex.join(["ragbench", *command[3:]]))
            raise RunError(
                f"the system of {like.source} could not be asked again in {place}: "
                f"exit code {child.returncode} of\n{command_line}\n{last_lines}"
            )


def _check_same_system(like: RunScores, scores: RunScores) -> None:
    """Refuses answers of another system than the one that is to be asked again.

    Mixed with scores of a changed system, the new ones would decide the gate wrongly.

    Raises:
        RunMismatchError: what the system is made of has changed since its run.
    """
    changes: list[str] = []
    for change in system_change(like, scores).changes:
        # Differences that asking again makes itself are not the system's.
        if not change.startswith(_SET_HERE):
            changes.append(change)
    if not changes:
        # Nothing that has a name differs; the digest also covers the values of attributes.
        if scores.fingerprints.get("rag") == like.fingerprints.get("rag"):
            return
        changes.append("its class, attributes or arguments differ")
    raise RunMismatchError(
        f"the system at {like.commit or 'the working directory'} differs from the one of "
        f"{like.source}: {'; '.join(changes[:_SHOWN])}. Uncommitted changes, a package that is "
        "installed instead of read from the checkout, an attribute that is another one at each "
        "start, or options of eval that the run does not keep do that: give --rerun-options"
    )


def _errors_of_child(child: subprocess.Popen[str], stopped: Callable[[], bool]) -> str:
    """The text that a child process writes to standard error until it ends.

    Where the user wants to stop, the child is asked to stop once, and ends its run in order.
    """
    is_interrupted = False
    while True:
        # A short wait, since the user's wish to stop is asked for in between.
        try:
            _, errors = child.communicate(timeout=_PATIENCE)
            return errors
        except subprocess.TimeoutExpired:
            # Once: a second signal would end the child in the middle of its writing.
            if stopped() and not is_interrupted:
                is_interrupted = True
                child.send_signal(signal.SIGINT)


def eval_options(manifest: Manifest) -> list[str]:
    """The options of ``ragbench eval`` that ask the system of a stored run again.

    `ragbench gate` reads them from the run, so that a user need not repeat them to have it ask
    again.

    Raises:
        ConfigError: it was asked with a pipeline, a secret or settings that the run does not keep
            in the form of options.
    """
    rag = rag_of(manifest)
    settings = manifest.settings
    # Any other setting has no option of `ragbench eval`: asked without it, the system would be
    # another one.
    further_settings = settings.keys() - {"matching", "top_k"}
    if rag is None or further_settings:
        spec = manifest.rag.description.get("spec") or "a pipeline"
        raise ConfigError(
            f"how to ask the system ({spec}) does "
            "not follow from the run. Give the options of ragbench eval, such as --rerun-options "
            "'--rag app:MyRAG --rag-args \"{}\"' or --rerun-options '--pipeline rag.yaml'"
        )
    spec, arguments = rag
    options = ["--rag", spec]
    # `rag_of` gives "{}" for a RAG without arguments.
    if arguments != "{}":
        options += ["--rag-args", arguments]
    if settings.get("top_k") is not None:
        options += ["--top-k", str(settings["top_k"])]
    return options


@contextmanager
def base_checkout(baseline: RunScores, folder: Path) -> Generator[Path]:
    """The baseline's commit checked out in a git worktree, for the length of a block.

    Gives the folder in it that corresponds to the working directory, which may be below the
    repository's root.
    """
    # Uncommitted changes are in no checkout: it would not have the system that was measured.
    if baseline.commit is None or baseline.dirty:
        why = "knows no commit"
        if baseline.commit:
            why = "had uncommitted changes"
        raise ConfigError(
            f"the baseline {baseline.source} {why}, so its system cannot be asked again: make it "
            "from a commit"
        )
    # One place for each question: two checkouts of it at once would disturb each other.
    place = folder / "base"
    # What a command that was killed left behind would be in the way.
    _git("worktree", "prune")
    if place.exists():
        with suppress(ConfigError):
            _git("worktree", "remove", "--force", str(place))
    # Detached, so that no branch is moved; --force, in case a removed one is still registered.
    _git("worktree", "add", "--detach", "--force", str(place), baseline.commit)
    try:
        # The same folder below the root as the one that the user is in.
        yield place / _git("rev-parse", "--show-prefix")
    finally:
        # What cannot be removed is left for the next command, which prunes it.
        with suppress(ConfigError):
            _git("worktree", "remove", "--force", str(place))


def _git(*arguments: str) -> str:
    """The output of a git command; its failure is an error that names the next step.

    Messages of git alone would not say that a shallow clone is the cause.

    Args:
        arguments: of git, which runs in the working directory.
    """
    try:
        # Without a shell: branch names may hold signs.
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise ConfigError("asking again needs git, to check the baseline's commit out") from error
    except subprocess.CalledProcessError as error:
        raise ConfigError(
            f"git {shlex.join(arguments)}: {error.stderr.strip()}. A shallow clone does not hold "
            "the baseline's commit: fetch it, or clone with fetch-depth: 0"
        ) from error
    return done.stdout.strip()
