"""How options are declared, and what their values stand for; imports nothing of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer


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


def _engines(typed: str) -> list[str]:
    return [name for name in ("local", "processes", "ray", "ray://") if name.startswith(typed)]


EngineOption = Annotated[
    str,
    option(
        "--engine",
        help="Where the work is done: local (this process), processes (of this machine), ray (the "
        "cluster that RAY_ADDRESS names or this machine belongs to, else a Ray of its own) or "
        "ray://HOST:PORT. See docs/cluster.md.",
        metavar="ENGINE",
        show_default=True,
        complete=_engines,
    ),
]
EngineWorkersOption = Annotated[
    int | None,
    option(
        "--workers",
        help="Workers of --engine processes or ray; by default one per processor of the machine "
        "or cluster.",
        metavar="N",
        min=1,
    ),
]
EncodingOption = Annotated[
    str | None,
    option(
        "--encoding",
        help="How text files are encoded, such as cp1252, gb18030 or shift_jis. By default UTF-8, "
        "or UTF-16 with a byte order mark; else guessed, and the guess is said.",
        metavar="NAME",
    ),
]
RunArgument = Annotated[Path, argument(metavar="RUN", help="Folder of a run.")]


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """The arguments that an option gives as a JSON object; none when it is not given."""
    import orjson

    from ragbench.errors import ConfigError
    from ragbench.masking import hide_arguments

    if text is None:
        return {}
    try:
        value = cast("object", orjson.loads(text))
        hide_arguments(value)
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            f'{option} is not JSON: {error}. Expected an object such as {{"top_k": 3}}, in single '
            "quotes for the shell"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(f'{option} must be a JSON object such as {{"top_k": 3}}, not {text}')
    return cast("dict[str, Any]", value)


def mapping(entries: Iterable[str] | None, option: str) -> dict[str, str] | None:
    """What a repeated option of the form TARGET=SOURCE says; None when it is not given."""
    from ragbench.errors import ConfigError

    found: dict[str, str] = {}
    for entry in entries or ():
        target, equals, source = entry.partition("=")
        if not equals or not target:
            raise ConfigError(f"{option} {entry}: expected TARGET=SOURCE, such as query=Frage")
        found[target] = source
    return found or None


def one_of(value: str, choices: Sequence[str], option: str) -> str:
    from ragbench.errors import ConfigError

    if value not in choices:
        raise ConfigError(f"{option} must be one of {', '.join(choices)}, not '{value}'")
    return value
