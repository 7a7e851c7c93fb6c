"""Options that commands share, and how every option is declared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["JsonOption", "RunArgument", "argument", "option"]


def option(
    name: str,
    *names: str,
    help: str,
    metavar: str | None = None,
    min: int | None = None,
    show_default: bool = False,
    complete: Callable[[str], list[str]] | None = None,
) -> Any:
    """An option in this program's manner.

    Its value may also come from an environment variable, which the program's own help explains
    once, instead of every option for itself.

    Args:
        name: how it is spelled, dashes included; some releases of Typer derive it wrongly.
        *names: how else it is spelled.
        help: what it does, in one or two sentences.
        metavar: what stands for its value in the help.
        min: the smallest number that it takes.
        show_default: whether the help names the default.
        complete: gives the values that a shell offers for what was typed so far.
    """
    return typer.Option(
        name,
        *names,
        help=help,
        metavar=metavar,
        min=min,
        show_default=show_default,
        show_envvar=False,
        autocompletion=complete,
    )


def argument(*, metavar: str, help: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    """A positional argument in this program's manner; see `option`."""
    return typer.Argument(
        metavar=metavar,
        help=help,
        show_default=False,
        show_envvar=False,
        autocompletion=complete,
    )


JsonOption = Annotated[
    bool, option("--json", help="Print JSON to standard output instead of text.")
]
RunArgument = Annotated[Path, argument(metavar="RUN", help="Folder of a run.")]
