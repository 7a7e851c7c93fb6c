"""The app, and the one place where errors become exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ragbench_cli import console
from ragbench_cli.commands import (
    ablate,
    baseline,
    cache,
    calibrate,
    compare,
    doctor,
    evaluate,
    export,
    flaky,
    gate,
    index,
    init,
    judge_card,
    report,
    search,
    show,
    validate,
)
from ragbench_cli.exit_codes import ExitCode
from ragbench_cli.invocation import Invocation

__all__ = ["app", "main", "run"]

# Plain help: rich's takes twice as long to come up.
app = typer.Typer(
    name="ragbench",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in (
    ("eval", evaluate.command),
    ("validate", validate.command),
    ("calibrate", calibrate.command),
    ("report", report.command),
    ("gate", gate.command),
    ("compare", compare.command),
    ("flaky", flaky.command),
    ("export", export.command),
    ("ablate", ablate.command),
    ("index", index.command),
    ("search", search.command),
    ("judge-card", judge_card.command),
    ("init", init.command),
    ("doctor", doctor.command),
):
    _settings = {"auto_envvar_prefix": f"RAGBENCH_{_name.upper().replace('-', '_')}"}
    app.command(_name, context_settings=_settings)(_command)
for _name, _group in (("baseline", baseline.app), ("cache", cache.app), ("show", show.app)):
    app.add_typer(
        _group, name=_name, context_settings={"auto_envvar_prefix": f"RAGBENCH_{_name.upper()}"}
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"ragbench {version('ragbench')}")
        except PackageNotFoundError:
            typer.echo("ragbench (run from its source, not installed)")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback",
            envvar="RAGBENCH_TRACEBACK",
            show_envvar=False,
            help="Show where in the code an error came from.",
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Evaluate a RAG system: what it retrieves, what it answers, what that is worth.

    \b
    Examples:
      ragbench eval datasets/pellorin
      ragbench eval cases.jsonl --rag my_module:MyRAG --out run
      ragbench report run
      ragbench gate run --baseline auto

    Each option is an environment variable too: --batch-size of eval is RAGBENCH_EVAL_BATCH_SIZE.

    \b
    Exit codes:
      0    done
      1    done, and what was judged failed
      2    cannot run: bad usage, bad input, something missing, or a bug
      3    done, and cannot tell
      130  interrupted; the same command continues
    """
    if isinstance(context.obj, Invocation):
        context.obj.traceback = traceback


def main(arguments: Sequence[str]) -> int:
    """Runs a command.

    Args:
        arguments: the command line without the program's name.

    Returns:
        The exit code; see `ExitCode`.
    """
    invocation = Invocation(arguments=tuple(arguments))
    try:
        code = app(list(arguments), prog_name="ragbench", standalone_mode=False, obj=invocation)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001  # exit code 1 would mean a failed judgement
        return _code_of(error, invocation)
    if code == ExitCode.INTERRUPTED:  # how Typer passes a KeyboardInterrupt on
        console.say("Interrupted.")
    return code if isinstance(code, int) else ExitCode.PASSED


def _code_of(error: BaseException, invocation: Invocation) -> ExitCode:
    """Tells the user what went wrong, in one line where the user can mend it."""
    from ragbench.errors import InterruptedRunError, RagbenchError

    if isinstance(error, BrokenPipeError):  # the reader of our output went away: nobody to tell
        _leave_stdout()
        return ExitCode.CANNOT_RUN
    if isinstance(error, SystemExit):
        return ExitCode.CANNOT_RUN if error.code else ExitCode.PASSED
    if isinstance(error, (KeyboardInterrupt, InterruptedRunError, typer.Abort)):
        console.say(f"Interrupted: {error}" if str(error) else "Interrupted.")
        return ExitCode.INTERRUPTED
    show = getattr(error, "show", None)
    if callable(show):  # bad usage: Typer's releases have no public base class for it in common
        show()
        return ExitCode.CANNOT_RUN
    if isinstance(error, (RagbenchError, OSError)):
        if invocation.traceback:
            _print_traceback(error)
        console.say(f"Error: {_told(error)}")
        if not invocation.traceback and _is_of_the_user(error.__cause__):
            console.say(f"Where: {invocation.before('--traceback')}")
        return ExitCode.CANNOT_RUN
    _print_traceback(error)
    console.say("This is a bug in ragbench. Please report it with the lines above.")
    return ExitCode.CANNOT_RUN


def _told(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    return str(error) or type(error).__name__


def _is_of_the_user(cause: BaseException | None) -> bool:
    """Whether an exception came out of the user's own code, whose lines are worth seeing."""
    if cause is None:
        return False
    import traceback

    names = [
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(cause.__traceback__)
    ]
    ours = ("ragbench", "ragbench_cli", *sys.stdlib_module_names)
    return any(str(name).partition(".")[0] not in ours for name in names)


def _print_traceback(error: BaseException) -> None:
    import traceback

    console.say("".join(traceback.format_exception(error)).rstrip())


def _leave_stdout() -> None:
    """Keeps the interpreter from flushing into the closed pipe when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except io.UnsupportedOperation:  # it is no file
        return


def run() -> None:
    """Entry point of the installed command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter is no error
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main(sys.argv[1:]))
