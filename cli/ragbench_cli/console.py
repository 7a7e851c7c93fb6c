"""What goes to stdout and stderr, exit codes, progress.

Everything that ragbench prints passes here. Credentials are masked, and letters that would move
the cursor, plant a link or turn the direction of writing are spelled by their numbers: case ids,
answers and error messages are other people's texts. Only what rich has laid out may carry escape
sequences of its own, over texts that `output.styled` escaped before.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from _thread import interrupt_main
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from importlib import import_module
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NoReturn, TextIO, cast

from ragbench.errors import RunError
from ragbench.masking import hidden, hidden_bytes, hidden_in_document, mask_text
from ragbench.safe_text import shown_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from ragbench.stages.stage import Progress as StageProgress


def say(text: str) -> None:
    """Prints a message on standard error; never part of a command's output.

    Programs read standard output; people read this. Letters that act on a terminal are spelled out.
    """
    text = shown_text(text)  # also while a user's code may draw on standard error
    sys.stdout.flush()  # where both go to one file, they stand in the order of what happened
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def print_line(text: str) -> None:
    """Prints a line on standard output as it is, such as a path for another program.

    It must hold nothing else, since a script reads it.
    """
    sys.stdout.write(f"{shown_text(text)}\n")


def print_json(value: object, *, in_lines: bool = True) -> None:
    """Prints a value as JSON on standard output: indented over many lines, or in a single one.

    Large objects are written in pieces; the result is the same.
    """
    import msgspec
    import orjson

    # Only objects are long: their lists hold a run's cases.
    if in_lines and isinstance(value, dict):
        write_json(_json_lines(cast("dict[str, object]", value)))
    else:
        # In a single line it is one of many objects, as of a list.
        options = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if in_lines else 0)
        write_json([orjson.dumps(msgspec.to_builtins(value), option=options)])


def _indented_json(part: object, indent: bytes) -> bytes:
    """A value as indented JSON, whose lines after the first are moved right by ``indent``.

    So it fits into the middle of a larger JSON text that is written in pieces.
    """
    import msgspec
    import orjson

    text = orjson.dumps(msgspec.to_builtins(part), option=orjson.OPT_INDENT_2)
    return text.replace(b"\n", b"\n" + indent)


def _json_lines(value: dict[str, object]) -> Iterator[bytes]:
    """The bytes of a JSON object in pieces, one for each entry of its lists.

    As a single text a large result would take much memory. The pieces together are indented JSON.
    """
    import orjson

    if not value:
        yield b"{}\n"
        return
    # The separator goes before each entry but the first, so that no look ahead is needed.
    before_key = b"{\n  "
    for key, part in value.items():
        yield before_key + orjson.dumps(key) + b": "
        before_key = b",\n  "
        # By exact type: a record that is a tuple is written as one value.
        is_list = type(part) in (list, tuple)
        entries = cast("Sequence[object]", part) if is_list else ()
        # An empty list and any other value are small enough for one piece.
        if not entries:
            yield _indented_json(part, b"  ")
            continue
        before_entry = b"[\n    "
        for entry in entries:
            yield before_entry + _indented_json(entry, b"    ")
            before_entry = b",\n    "
        yield b"\n  ]"
    yield b"\n}\n"


def write_json(blocks: Iterable[bytes]) -> None:
    """Writes blocks of JSON on standard output as UTF-8, whatever encoding the terminal has.

    What was printed before is flushed first, so that the order stays.
    """
    sys.stdout.flush()
    for block in blocks:
        sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


def data_console() -> Console:
    """The rich console for results on standard output; plain where that is not a terminal.

    In a file or a pipe the width is that of the variable COLUMNS, or 100.
    """
    import shutil

    from rich.console import Console

    # rich asks the terminal itself; a pipe has none to ask.
    width = None if sys.stdout.isatty() else shutil.get_terminal_size((100, 24)).columns
    return Console(
        file=styled_stream(sys.stdout), width=width, highlight=False, markup=False, emoji=False
    )


@contextmanager
def users_code() -> Generator[None]:
    """Keeps what a user's code does to the process within a block.

    Standard output is the command's own: what the code prints there goes to standard error, also
    from programs that it starts and from libraries that are not Python. It may draw bars and
    colours; credentials are masked in what Python prints. Both streams are open again behind the
    block, even if the code has closed them. ``os._exit()`` raises SystemExit: as an end of the
    process it would leave no results, and exit code 0.
    """
    # Processes that the code forks inherit the changed `os._exit`: the number tells them from this
    # one.
    process = os.getpid()
    exit_at_once = os._exit

    errors: TextIO = styled_stream(sys.stderr)
    # What was printed so far must come before the user's output.
    sys.stdout.flush()
    # The real streams of the process, since programs that the code starts write there.
    copies: dict[int, int] = {}
    with contextlib.suppress(OSError):  # one of the streams is closed
        copies[_ERRORS] = os.dup(_ERRORS)
        copies[_OUTPUT] = os.dup(_OUTPUT)
        os.dup2(_ERRORS, _OUTPUT)
    try:
        os._exit = partial(_raise_exit, exit_at_once, process)
        with contextlib.redirect_stdout(errors), contextlib.redirect_stderr(errors):
            yield
    except SystemExit as error:
        raise RunError(
            f"code that is yours ended the command before it was done: SystemExit: {error}"
        ) from error
    finally:
        os._exit = exit_at_once
        _flush_held_back()
        # Put back even where the code has closed or replaced the streams.
        for number, copy in copies.items():
            with contextlib.suppress(OSError):  # the code has closed all files of the process
                os.dup2(copy, number)
                os.close(copy)


def _raise_exit(exit_at_once: Callable[[int], NoReturn], process: int, status: int) -> NoReturn:
    """Takes the place of ``os._exit`` while a user's code runs, and raises SystemExit instead.

    A call of the code would end the command at once, without results and with exit code 0.

    Args:
        exit_at_once: the function itself; a child that was forked ends by it, as it means to.
        process: the number of the command's own process.
    """
    if os.getpid() != process:
        exit_at_once(status)
    raise SystemExit(f"os._exit({status})")


def _flush_held_back() -> None:
    """Writes the texts that Python and C still hold back of a user's code, to standard error.

    They were meant for it, too, and would else come out on standard output, which is the command's.
    """
    if sys.__stdout__ is not None:
        with contextlib.suppress(OSError, ValueError):  # the code has closed the stream
            sys.__stdout__.flush()
    # Some systems have no C library to load this way.
    with contextlib.suppress(OSError, TypeError, AttributeError):
        import_module("ctypes").CDLL(None).fflush(None)


_OUTPUT = 1
_ERRORS = 2
"""The numbers of standard output and standard error, for programs that are not Python as well."""


@contextmanager
def stop_on_signal() -> Generator[Callable[[], bool]]:
    """Turns the first SIGINT or SIGTERM into a request to stop.

    Calls in flight have a moment to finish and be recorded; then the command ends whatever it waits
    for, since containers and CI send one signal and kill soon after. A second signal ends it at
    once, and so does the first as long as ``stopped`` has not been called: the command has not come
    to its calls yet, and would not heed the request.
    """
    is_requested = False
    is_heeded = False

    def stopped() -> bool:
        """Whether the user wants the command to stop; from the first call on, it is heeded.

        ``is_requested`` is set by the handler of signals in the enclosing function.
        """
        nonlocal is_heeded
        is_heeded = True
        return is_requested

    # The end after a moment comes from a thread of its own: the main one may wait for a call.
    deadline = threading.Timer(_LAST_SECONDS, _interrupt, [threading.get_ident()])
    # The timer must not keep Python alive once the command is through.
    deadline.daemon = True

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        """Python's handler of SIGINT and SIGTERM: asks to stop, and ends the command if repeated.

        ``deadline`` ends it after a moment in any case. A signal that ``stopped`` has not been
        asked about yet would not be heeded, and ends the command at once.
        """
        nonlocal is_requested
        if is_requested or not is_heeded:
            raise KeyboardInterrupt
        is_requested = True
        deadline.start()
        new_line = "\n" if sys.stderr.isatty() else ""  # the terminal shows ^C
        with contextlib.suppress(RuntimeError):  # the signal came in the middle of another message
            say(
                f"{new_line}Stopping: calls in flight have {_LAST_SECONDS:g} s. "
                "Once more stops at once."
            )

    # Put back at the end, since pytest and notebooks have handlers of their own.
    earlier_handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    }
    for number in earlier_handlers:
        signal.signal(number, on_signal)
    try:
        yield stopped
    finally:
        deadline.cancel()
        for number, handler in earlier_handlers.items():
            signal.signal(number, handler)


def _interrupt(main_thread: int) -> None:
    """Interrupts the command's main thread as Ctrl-C would, also where it waits for a lock.

    It is the last way to end a command whose calls do not finish in time.

    Args:
        main_thread: the number of that thread.
    """
    if hasattr(signal, "pthread_kill"):  # wakes a main thread that waits for a lock
        signal.pthread_kill(main_thread, signal.SIGINT)
    else:
        interrupt_main()


_LAST_SECONDS = 0.5
"""That calls in flight have after the first signal."""


class ExitCode(IntEnum):
    """The ways in which a command can end."""

    PASSED = 0
    FAILED = 1
    CANNOT_RUN = 2
    """It could not run: bad usage, bad input, a missing package, or a bug."""
    INCONCLUSIVE = 3
    INTERRUPTED = 130
    NOT_READ = 141
    """Whoever read the output went away, as ``head`` does; 128 and the number of SIGPIPE."""


@dataclass(kw_only=True, slots=True)
class Invocation:
    """The command line of this process, to propose a next one."""

    arguments: tuple[str, ...] = ()
    """The command line without the program's name."""
    traceback: bool = False

    def again(self, *more: str, first: str = "", without: str = "") -> str:
        """This command line with changes, for the user to run next; credentials in URLs are masked.

        Users paste it, so that it must be the same command in all but the change.

        Args:
            more: options that it ends with, each once.
            first: an option that comes before the name of the command.
            without: an option that is left out.
        """
        import shlex

        words = ["ragbench"]
        if first:
            words.append(first)
        # An option that is added must not be there twice.
        words += [argument for argument in self.arguments if argument not in (without, *more)]
        words += more
        return mask_text(shlex.join(words))


def searching(*, quiet: bool) -> Callable[[str], None]:
    """The function that reports each search by name as it begins; silent where ``quiet``.

    Tuning calls the function; a search of a large store takes a while.
    """
    return partial(_say_search, quiet)


def _say_search(quiet: bool, name: str) -> None:
    """Reports a search by name as it begins, unless the user wants quiet: tuning makes dozens."""
    if not quiet:
        say(f"searching: {name}")


StageAdvance = Callable[["StageProgress"], None]


@contextmanager
def progress(*, shown: bool) -> Generator[StageAdvance | None]:
    """Shows the progress of a run's stages, with rate, failures and time left, while a block runs.

    It gives the function that takes each event; None when nothing is shown. The bars are wiped when
    the run is through, and stay when it ends early.
    """
    # Nothing to show, a log, or a terminal: a log has lines, since bars would fill it.
    if not shown:
        yield None
    elif not sys.stderr.isatty():
        yield Lines(print=say, now=time.monotonic).advance
    else:
        from rich import progress
        from rich.console import Console

        bars = progress.Progress(
            progress.TextColumn("{task.description:<8}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]:>9}", style="dim"),
            progress.TimeRemainingColumn(compact=True),
            progress.TextColumn("{task.fields[note]}", markup=False),
            console=Console(file=styled_stream(sys.stderr)),
        )
        with bars:
            yield _Bars(bars).advance
            # Set only where the block ends without an error: an error leaves the bars to be read.
            bars.live.transient = True


_WORDS = {"failed": "failed", "reused": "from before", "recorded": "recorded"}
"""Counts of a stage that are shown beside its bar, with their words there."""


def _note_on_counts(counts: Counter[str]) -> str:
    """The counts of a stage's cases that are not as expected, beside its bar; empty for none.

    Args:
        counts: of the stage so far, by the names in `_WORDS`.
    """
    parts: list[str] = []
    for name, word in _WORDS.items():
        # Zeros are left out: most runs have no failures.
        if counts[name]:
            parts.append(f"{counts[name]:,} {word}")
    return ", ".join(parts)


@dataclass(slots=True)
class Lines:
    """A line every half minute, for logs: a job that says nothing looks like one that hangs."""

    print: Callable[[str], None]
    now: Callable[[], float]
    """Seconds on a clock that only moves forward."""
    # Short enough that no log looks hung, and long enough that none is flooded.
    every: float = 30.0
    _counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    _last: float | None = None

    def advance(self, event: StageProgress) -> None:
        """Counts the cases of a stage's event, and prints a line where half a minute has passed.

        It replaces bars where there is no terminal, such as in a log of CI.
        """
        counts = self._counts[event.stage]
        # `_WORDS` are the fields of the event that have a word in a line.
        counts.update(done=event.done, **{name: getattr(event, name) for name in _WORDS})
        now = self.now()
        # The first event starts the clock and prints nothing: short stages need no line.
        if self._last is None:
            self._last = now
        elif now - self._last >= self.every:
            self._last = now
            text = f"{event.stage} {counts['done']:,}"
            if event.cases is not None:
                text += f"/{event.cases:,}"
            note = _note_on_counts(counts)
            if note:
                text += f" ({note})"
            self.print(text)


_ANSWERS_BEFORE_A_HINT = 10
"""Answers by which the time of one is known well enough."""
_LEAST_SECONDS = 30.0
"""Left at that rate, below which nobody minds to wait."""
_SUGGESTED = 8
"""Calls in flight that most systems bear."""


@dataclass(slots=True)
class InTurn:
    """Says once how long a system takes that is asked in turn, and what several calls would take.

    A plain function or class may not bear several calls: only its user knows.
    """

    print: Callable[[str], None]
    now: Callable[[], float]
    """Seconds on a clock that only moves forward."""
    inner: StageAdvance | None = None
    """Is told everything, too."""
    # By stage: answers that were asked for now, and all that are settled, from before too.
    _asked: Counter[str] = field(default_factory=Counter[str])
    _settled: Counter[str] = field(default_factory=Counter[str])
    _began: dict[str, float] = field(default_factory=dict[str, float])
    """When each stage had its first answer."""
    # The advice is given once in a command, for whichever stage needs it first.
    _has_spoken: bool = False

    def advance(self, event: StageProgress) -> None:
        """Counts the answers of a stage, hands the event on, and once advises several calls.

        The advice comes where a system asked one call after the other will take long.
        """
        # First: the event is shown even where no advice is given.
        if self.inner is not None:
            self.inner(event)
        stage = event.stage
        self._settled[stage] += event.done
        # Stored and recorded answers take no time: they would make the system look quick.
        asked = event.done - event.reused - event.recorded
        if self._has_spoken or event.cases is None or stage not in _OF_SYSTEM or asked <= 0:
            return
        now = self.now()
        began = self._began.setdefault(stage, now)
        self._asked[stage] += asked
        # The first answer only starts the clock, so that there is an interval less than answers.
        intervals = self._asked[stage] - 1
        if intervals < _ANSWERS_BEFORE_A_HINT:
            return
        seconds = (now - began) / intervals
        remaining = seconds * (event.cases - self._settled[stage])
        if remaining >= _LEAST_SECONDS:
            self._has_spoken = True
            self.print(
                f"{stage} takes {seconds:.1f} s a case, one after the other: {remaining:,.0f} s "
                f"more. --concurrency {_SUGGESTED} needs about {remaining / _SUGGESTED:,.0f} s, "
                "if your RAG allows several calls"
            )


_OF_SYSTEM = ("retrieve", "generate")
"""The stages in which the user's system is asked."""


class _Bars:
    """A bar for each stage in a terminal."""

    def __init__(self, bars: Progress) -> None:
        """Begins without a bar: each stage's bar is added with its first event.

        A run knows its stages only as they come.
        """
        self._bars = bars
        # By stage: its bar, and the counts of its cases so far.
        self._tasks: dict[str, TaskID] = {}
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)

    def advance(self, event: StageProgress) -> None:
        """Moves the bar of a stage on by an event.

        The bar is added with the stage's first event. The counts beside it are the cases that are
        not as expected.
        """
        stage = event.stage
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=event.cases, rate="", note="")
        task = self._tasks[stage]
        counts = self._counts[stage]
        counts.update({name: getattr(event, name) for name in _WORDS})
        # None until the second event: rich needs two for a speed.
        speed = self._bars.tasks[task].speed
        rate = f"{speed:,.1f}/s" if speed else ""
        self._bars.update(task, advance=event.done, rate=rate, note=_note_on_counts(counts))


@dataclass(eq=False, slots=True)
class _Stream:
    """A text stream that shows what is written to it in its own way.

    Standard output and standard error are such: what a RAG or a model writes can neither steer the
    terminal nor show a key.
    """

    plain: TextIO
    shown: Callable[[str], str]

    def __getattr__(self, name: str) -> Any:
        """Anything else of the guarded stream, such as its encoding, from the stream behind it.

        The guard must look like the stream to any library.
        """
        return getattr(self.plain, name)

    def write(self, text: str) -> int:
        """Writes a text to the guarded stream, masked and escaped.

        The length of the text itself counts as written, as callers check that.
        """
        if not isinstance(cast("object", text), str):
            raise TypeError(f"write() takes a text, not {type(text).__name__}")
        self.plain.write(self.shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes lines to the guarded stream as `write` does.

        The plain stream's own method would write past the guard.
        """
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Leaves the guarded stream open.

        The command writes on after a user's code has closed what it takes for standard output.
        """

    @property
    def buffer(self) -> _Bytes:
        """The bytes behind the guarded stream, guarded too: JSON is written to them.

        Without it, a library could write past the guard.
        """
        return _Bytes(self.plain)


_ACTING_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Letters that JSON may hold as they are, and that a terminal obeys."""


@dataclass(eq=False, slots=True)
class _Bytes:
    """Bytes of UTF-8, such as JSON: masked; for a terminal also escaped, as JSON writes it."""

    plain: TextIO

    def __getattr__(self, name: str) -> Any:
        """Anything else of the guarded bytes, such as ``flush``, from the buffer behind them.

        The guard must look like the buffer to any library.
        """
        return getattr(self.plain.buffer, name)

    def write(self, block: bytes) -> int:
        """Writes bytes to the guarded stream, masked; for a terminal with acting letters escaped.

        The length of the block counts as written.
        """
        # Masked as a whole block: a key may not be cut by the caller.
        data = hidden_bytes(bytes(block))
        if self.plain.isatty():
            # Bytes that are no text go through unchanged.
            text = data.decode("utf-8", "surrogateescape")
            escaped = _ACTING_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
            data = escaped.encode("utf-8", "surrogateescape")
        self.plain.buffer.write(data)
        return len(block)


@contextmanager
def guarded_streams() -> Generator[None]:
    """Puts guards before standard output and standard error for the length of a block.

    A guard masks keys, and spells out letters that would act on the terminal.
    """
    # Put back in any case: pytest and notebooks have streams of their own.
    plain_output = sys.stdout
    plain_errors = sys.stderr
    sys.stdout = cast("TextIO", _Stream(plain_output, _masked_and_escaped))
    sys.stderr = cast("TextIO", _Stream(plain_errors, _masked_and_escaped))
    try:
        yield
    finally:
        sys.stdout = plain_output
        sys.stderr = plain_errors


def _masked_and_escaped(text: str) -> str:
    """A text without keys and passwords, in which no letter acts on a terminal.

    Texts of datasets, models and errors pass here before they are shown.
    """
    return shown_text(hidden_in_document(text))


def styled_stream(stream: IO[str]) -> TextIO:
    """A stream that masks but lets escape sequences pass: for rich, and a user's own code.

    Colours of rich are escape sequences; texts within were escaped before.
    """
    if isinstance(stream, _Stream):
        return cast("TextIO", _Stream(stream.plain, hidden))
    return cast("TextIO", stream)
