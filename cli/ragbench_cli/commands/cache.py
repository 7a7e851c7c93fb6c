"""``ragbench cache``: the answers of language models that are kept."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ragbench_cli import console
from ragbench_cli.options import JsonOption, option

app = typer.Typer(
    help="Inspect and prune the cache of model responses.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_CacheOption = Annotated[
    Path | None,
    option(
        "--cache",
        help="The cache's file. By default RAGBENCH_LLM_CACHE, or reports/llm-cache.sqlite.",
        metavar="FILE",
    ),
]


@app.command("stats")
def stats(cache: _CacheOption = None, json: JsonOption = False) -> None:
    """Show how many answers are cached, of which models and for what.

    \b
    Examples:
      ragbench cache stats
      ragbench cache stats --json
    """
    from ragbench.llm.cache import ResponseCache

    with ResponseCache(_path(cache), must_exist=True) as opened:
        found = opened.stats()
    if json:
        console.print_json(found)
        return
    typer.echo(f"{found.path}: {found.entries:,} answers, {_size(found.file_bytes)} on disk")
    if found.oldest is not None and found.newest is not None:
        typer.echo(f"stored from {_day(found.oldest)} to {_day(found.newest)}")
    for line in found.lines:
        purpose = line.purpose or "(no purpose)"
        typer.echo(f"  {line.entries:>9,}  {_size(line.bytes):>9}  {line.model}  {purpose}")


@app.command("prune")
def prune(
    cache: _CacheOption = None,
    max_mb: Annotated[
        int | None,
        option(
            "--max-mb", help="Keep at most N megabytes, the most recently used.", metavar="N", min=0
        ),
    ] = None,
    unused_days: Annotated[
        int | None,
        option("--unused-days", help="Remove answers not used for N days.", metavar="N", min=0),
    ] = None,
    model: Annotated[
        str | None, option("--model", help="Remove the answers of this model.", metavar="NAME")
    ] = None,
    everything: Annotated[bool, option("--all", help="Remove all answers.")] = False,
) -> None:
    """Remove cached answers. What is removed is paid for again when it is asked again.

    Each option removes on its own; without any, nothing is removed and the exit code is 2.

    \b
    Examples:
      ragbench cache prune --unused-days 90
      ragbench cache prune --max-mb 200
      ragbench cache prune --model gpt-4o-mini
    """
    from ragbench.llm.cache import ResponseCache

    if max_mb is None and unused_days is None and model is None and not everything:
        from ragbench.errors import ConfigError

        raise ConfigError("say what to remove: --max-mb, --unused-days, --model or --all")
    with ResponseCache(_path(cache), must_exist=True) as opened:
        removed = opened.prune(
            max_bytes=None if max_mb is None else max_mb * 1_000_000,
            unused_days=unused_days,
            model=model,
            everything=everything,
        )
        left = opened.stats()
    console.say(f"{removed:,} answers removed, {left.entries:,} left: {left.path}")


def _path(given: Path | None) -> Path:
    from ragbench.llm.settings import DEFAULT_CACHE

    if given is not None:
        return given
    named = os.environ.get("RAGBENCH_LLM_CACHE", DEFAULT_CACHE)
    if named == "off":
        from ragbench.errors import ConfigError

        raise ConfigError("RAGBENCH_LLM_CACHE is off: name a file with --cache")
    return Path(named).expanduser()


def _size(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB"


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
