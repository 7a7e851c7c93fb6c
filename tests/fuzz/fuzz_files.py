"""Damages valid files of every format, and lets the commands that read them read the damage.

    python -m tests.fuzz.fuzz_files --seed 2026-11-29 --count 5000

A damaged file may be read or refused. A failure is: a traceback or "This is a bug in ragbench", ten
seconds without an end, a gigabyte of memory, or a record that is neither read nor reported. The
same seed gives the same damage on any machine; ``--only NUMBER`` repeats one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path
from random import Random
from typing import NamedTuple

from ragbench.errors import RagbenchError
from ragbench_cli.main import main
from tests.fuzz.targets import ANSWER_KEYS, Arguments, Target, targets, write_all
from tests.unit.llm.builders import reply

MOST_SECONDS = 10.0
"""Seconds of the processor's time: those of the clock depend on what else the machine does."""
LONGEST_WAIT = 120
"""Seconds of the clock, after which a command waits for something that does not come."""
MOST_BYTES = 1 << 30
BATCH = 20
"""Damaged files that one process reads: to start one takes longer than to read a file."""
LOADED_ONCE = [
    "docx",
    "numpy",
    "openpyxl",
    "pyarrow.parquet",
    "ragbench.gate.gate",
    "ragbench.io.detect",
    "ragbench.metrics.registry",
    "ragbench.search.pipeline.search_engine",
    "ragbench.validators.local",
    "ragbench.verbs.evaluate",
    "ragbench.views.html.page",
    "ragbench_cli.commands.evaluate",
    "ragbench_cli.commands.report",
    "trafilatura",
    "yaml",
]
"""Modules that each process would load: they are in memory before the first one is forked."""
BUG = "This is a bug in ragbench"


class Damage(NamedTuple):
    """A file, what is done to it, and the command that reads it: all by chance, from a seed."""

    target: Target
    content: bytes
    mutation: str
    command: Arguments


class Failure(NamedTuple):
    number: int
    damage: str
    """The file, the mutation and the command."""
    reason: str


def damage(seed: str, number: int, families: Sequence[Sequence[Target]], folder: Path) -> Damage:
    """The damage of a number, independent of all others."""
    chance = Random(f"{seed}:{number}")
    target = chance.choice(families[number % len(families)])
    content = (folder / target.file).read_bytes()
    mutation = chance.choice(target.mutations)
    content = mutation(content, chance)
    if chance.random() < 0.2:  # damage seldom comes alone
        with contextlib.suppress(Exception):  # what is damaged may no longer be JSON
            content = chance.choice(target.mutations)(content, chance)
    return Damage(target, content, mutation.__name__, chance.choice(target.commands))


def lay_out(damaged: Damage, folder: Path, scratch: Path) -> None:
    """Makes the scratch folder the working directory, with the damaged file and what it needs."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    os.chdir(scratch)
    for name in damaged.target.beside:
        if (folder / name).is_dir():
            shutil.copytree(folder / name, name)
        else:
            shutil.copy(folder / name, name)
    path = Path(damaged.target.file)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(damaged.content)


# --- reading


def read(damaged: Damage) -> str:
    """Why the reading failed; empty where it went well, or the file was refused."""
    file = damaged.target.file
    name, *arguments = [file if word == "FILE" else word for word in damaged.command]
    try:
        if name == "cases":
            return _unaccounted(damaged, arguments[0])
        if name in READERS:
            READERS[name](arguments[0])
            return ""
    except RagbenchError:
        return ""
    except Exception:  # noqa: BLE001  # what is looked for
        return traceback.format_exc()
    with printed() as text:
        main([name, *arguments])
    shown = text()
    return shown if BUG in shown or "Traceback (most recent" in shown else ""


@contextlib.contextmanager
def printed() -> Generator[Callable[[], str]]:
    """Holds back what a command prints; gives the function that tells what it was."""
    content = io.BytesIO()
    out = io.TextIOWrapper(content, "utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        yield lambda: content.getvalue().decode("utf-8", "replace")
    out.detach()  # else the content is closed with it, before it is asked for


def _documents(path: str) -> None:
    from ragbench.io.read import read_documents

    list(read_documents(path))


def _dump(path: str) -> None:
    from ragbench import open_dump

    with open_dump(path) as dump:
        list(dump)


def _labels(path: str) -> None:
    from ragbench.io.people import read_people

    read_people(path)


def _answers(path: str) -> None:
    from ragbench.llm.cache import ResponseCache

    with ResponseCache(Path(path)) as cache:
        for name in ANSWER_KEYS:
            cache.get(reply(name).key)
        cache.dialect("j")


READERS = {"answers": _answers, "documents": _documents, "dump": _dump, "labels": _labels}
"""What is read by the library, as the commands that read them take far longer."""


def _unaccounted(damaged: Damage, path: str) -> str:
    """Reads cases; says how many records of the file were neither read nor reported."""
    from ragbench.io.read import read_cases
    from ragbench.io.source import Problems

    problems = Problems()
    count = sum(1 for _ in read_cases(path, problems=problems))
    expected = _records(damaged)
    places = {problem.line for problem in problems}
    if expected is None or None in places or problems.count > len(problems.items):
        return ""  # what concerns the whole file refuses all of it
    if count + len(places) < expected:
        shown = "\n".join(map(str, problems))
        return f"{expected} records, {count} read, {len(places)} reported:\n{shown}"
    return ""


def _records(damaged: Damage) -> int | None:
    """How many records a damaged file holds; None where that cannot be known."""
    if damaged.target.file == "cases.jsonl":
        try:
            text = damaged.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        return sum(bool(line.strip()) for line in text.split("\n"))
    if damaged.target.file == "cases.json":
        try:
            return len(json.loads(damaged.content)["cases"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    return None


# --- processes


def fuzz(seed: str, numbers: Sequence[int], folder: Path) -> Iterator[Failure]:
    """Reads the damages of these numbers, batch by batch in processes of their own."""
    os.chdir(folder)
    families = targets()
    for name in LOADED_ONCE:
        import_module(name)
    numbers_left = list(numbers)
    while numbers_left:
        batch = numbers_left[:BATCH]
        done, failures = _in_a_process(seed, batch, families, folder)
        yield from failures
        numbers_left = numbers_left[done:]


def _in_a_process(
    seed: str, batch: Sequence[int], families: Sequence[Sequence[Target]], folder: Path
) -> tuple[int, list[Failure]]:
    """How many damages of a batch were read, and the failures; an end of the process is one."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            with os.fdopen(write_end, "w") as results, tempfile.TemporaryDirectory() as scratch:
                _read_all(seed, batch, families, folder, Path(scratch) / "x", results)
        except BaseException:  # noqa: BLE001  # the parent's code must never run in a child
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as results:
        reasons = [json.loads(line) for line in results]
    _, status = os.waitpid(pid, 0)
    failures: list[Failure] = []
    for number, reason in zip(batch, reasons, strict=False):
        if reason:
            shown = described(damage(seed, number, families, folder))
            failures.append(Failure(number, shown, reason))
    if len(reasons) < len(batch):
        number = batch[len(reasons)]
        shown = described(damage(seed, number, families, folder))
        failures.append(Failure(number, shown, f"the process ended: {end_of_process(status)}"))
        return len(reasons) + 1, failures
    return len(reasons), failures


def end_of_process(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return str(status)


def described(damaged: Damage) -> str:
    return f"{damaged.target.file}: {damaged.mutation}: {' '.join(damaged.command)}"


def _read_all(
    seed: str,
    batch: Sequence[int],
    families: Sequence[Sequence[Target]],
    folder: Path,
    scratch: Path,
    results: io.TextIOBase,
) -> None:
    """Reads each damage, and writes a line of JSON with what went wrong; an alarm ends a hang."""
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, signal.SIG_DFL)
    for number in batch:
        damaged = damage(seed, number, families, folder)
        lay_out(damaged, folder, scratch)
        signal.alarm(LONGEST_WAIT)
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        reason = read(damaged)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if not reason and peak > MOST_BYTES:
            reason = f"{peak >> 20} MB of memory"
        results.write(json.dumps(reason) + "\n")
        results.flush()
        os.chdir(folder)


def valid_files(folder: Path) -> None:
    """Writes the valid files in a process of its own: one with threads cannot be forked."""
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        code = 1
        with printed() as text:
            try:
                write_all()
                code = 0
            except Exception:  # noqa: BLE001  # the exit code says so
                traceback.print_exc()
        if code != 0:
            print(text())
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError("the valid files cannot be written")


def run() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", default=date.today().isoformat(), help="by default today's date")
    parser.add_argument("--count", type=int, default=5000, help="damaged files")
    parser.add_argument("--only", type=int, help="the number of a single one")
    parser.add_argument("--keep", type=Path, help="folder for the files of --only")
    options = parser.parse_args()
    numbers = range(options.count) if options.only is None else [options.only]
    began = time.monotonic()
    failures: list[Failure] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        valid_files(folder)
        for failure in fuzz(options.seed, numbers, folder):
            failures.append(failure)
            print(f"--- {failure.number}: {failure.damage}\n{failure.reason}", flush=True)
        if options.keep is not None and options.only is not None:
            lay_out(damage(options.seed, options.only, targets(), folder), folder, options.keep)
        os.chdir("/")
    seconds = time.monotonic() - began
    print(
        f"seed {options.seed}: {len(numbers):,} damaged files, {len(failures)} failures, "
        f"{seconds:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run())
