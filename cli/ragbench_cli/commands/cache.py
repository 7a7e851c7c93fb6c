"""``ragbench cache``: the answers of language models that are kept."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.safe_text import counted
from ragbench_cli import console
from ragbench_cli.options import JsonOption, option, subcommands, takes_records

app = subcommands("Inspect and prune the cache of model responses.")

_CacheOption = Annotated[
    Path | None,
    option(
        "FILE", help="The cache's file. By default RAGBENCH_LLM_CACHE, or reports/llm-cache.sqlite."
    ),
]


@app.command("stats")
def stats(cache: _CacheOption = None, json: JsonOption = False) -> None:
    """Show how many answers are cached, by model and purpose.

    \b
    Examples:
      ragbench cache stats
      ragbench cache stats --json
    """
    from ragbench.llm.cache import ResponseCache

    # An empty default cache is made: 0 answers are no error in a script.
    with ResponseCache(_cache_path(cache), must_exist=cache is not None) as opened:
        cached = opened.stats()
    if json:
        console.print_json(cached)
        return
    answers = counted(cached.entries, "answer")
    typer.echo(f"{cached.path}: {answers}, {_size_text(cached.file_bytes)} on disk")
    if cached.oldest is not None and cached.newest is not None:
        typer.echo(f"stored from {_day_of_time(cached.oldest)} to {_day_of_time(cached.newest)}")
    for line in cached.lines:
        purpose = line.purpose or "(no purpose)"
        typer.echo(f"  {line.entries:>9,}  {_size_text(line.bytes):>9}  {line.model}  {purpose}")


class PruneOptions(Record):
    """Which answers are removed."""

    max_mb: Annotated[int | None, option(min=0)] = None
    """Keep at most N megabytes, the most recently used."""
    unused_days: Annotated[int | None, option(min=0)] = None
    """Remove answers not used for N days."""
    model: str | None = None
    """Remove the answers of this model."""
    everything: Annotated[bool, option("--all", envvar="RAGBENCH_CACHE_PRUNE_EVERYTHING")] = False
    """Remove all answers."""


@app.command("prune")
@takes_records
def prune(options: PruneOptions, cache: _CacheOption = None) -> None:
    """Remove cached answers. A removed answer is paid for again if it is needed.

    Each option removes on its own; without any, nothing is removed and the exit code is 2.

    \b
    Examples:
      ragbench cache prune --unused-days 90
      ragbench cache prune --max-mb 200
      ragbench cache prune --model gpt-4o-mini
    """
    from ragbench.llm.cache import ResponseCache

    # Compared with the defaults, so that an option added later counts here, too.
    if options == PruneOptions():
        raise ConfigError("choose the entries to remove: --max-mb, --unused-days, --model or --all")
    # A new cache would be an empty file where the user has mistyped its path.
    with ResponseCache(_cache_path(cache), must_exist=True) as opened:
        removed = opened.prune(
            # In millions of bytes, as disks are labelled.
            max_bytes=None if options.max_mb is None else options.max_mb * 1_000_000,
            unused_days=options.unused_days,
            model=options.model,
            everything=options.everything,
        )
        remaining = opened.stats()
    console.say(
        f"{counted(removed, 'answer')} removed, {remaining.entries:,} left: {remaining.path}"
    )


def _cache_path(cache: Path | None) -> Path:
    """The path of the cache's file: that of ``--cache``, of the environment, or the default.

    Where the environment switches the cache off, a file has to be named: deleting from the default
    one would be a surprise.
    """
    from ragbench.llm.settings import DEFAULT_CACHE

    if cache is not None:
        return cache
    # The variable of the evaluations, so that both mean the same file.
    setting = os.environ.get("RAGBENCH_LLM_CACHE", DEFAULT_CACHE)
    if setting == "off":
        raise ConfigError("RAGBENCH_LLM_CACHE is off: name a file with --cache")
    return Path(setting).expanduser()


def _size_text(count: int) -> str:
    """A number of bytes as text, in megabytes.

    Entries are some kilobytes, and a cache up to a gigabyte: one unit keeps the column readable.
    """
    return f"{count / 1_000_000:,.1f} MB"


def _day_of_time(seconds: int) -> str:
    """The day (UTC) of a time in seconds since 1970, such as ``2026-11-29``.

    UTC, so that the same file shows the same day on every machine.
    """
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
