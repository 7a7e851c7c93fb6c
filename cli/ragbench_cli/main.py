"""The app, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from ragbench.errors import InterruptedRunError, RagbenchError
from ragbench_cli import console
from ragbench_cli.commands import doctor, evaluate, export, report, show
from ragbench_cli.exit_codes import ExitCode

__all__ = ["app", "main", "run"]

# Plain help: rich's takes twice as long to come up.
app = typer.Typer(
    name="ragbench",
    help="Tells the truth about a RAG system: what it retrieves, what it answers, what changed.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 the judged thing failed, 2 cannot run, 3 cannot tell, "
    "130 interrupted (the same command continues).",
)
app.command("eval")(evaluate.command)
app.command("report")(report.command)
app.command("export")(export.command)
app.add_typer(show.app, name="show")
app.command("doctor")(doctor.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ragbench {version('ragbench')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


def main(arguments: Sequence[str]) -> int:
    """Runs a command.

    Args:
        arguments: the command line without the program's name.

    Returns:
        The exit code; see `ExitCode`.
    """
    try:
        code = app(list(arguments), prog_name="ragbench", standalone_mode=False)
        return int(code or ExitCode.PASSED)
    except typer.TyperException as error:
        show: Callable[[], None] | None = getattr(error, "show", None)
        show() if show is not None else console.say(str(error))
        return ExitCode.CANNOT_RUN
    except (InterruptedRunError, KeyboardInterrupt) as error:
        typer.echo(f"Interrupted: {error}" if str(error) else "Interrupted.", err=True)
        return ExitCode.INTERRUPTED
    except RagbenchError as error:
        typer.echo(f"Error: {error}", err=True)
        return ExitCode.CANNOT_RUN
    except BrokenPipeError:  # the reader of our output went away: nothing to tell anyone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CANNOT_RUN
    except Exception:  # noqa: BLE001  # exit code 1 would mean that the judged thing failed
        import traceback

        traceback.print_exc()
        typer.echo("This is a bug in ragbench. Please report it with the lines above.", err=True)
        return ExitCode.CANNOT_RUN


def run() -> None:
    """Entry point of the installed command."""
    sys.exit(main(sys.argv[1:]))
