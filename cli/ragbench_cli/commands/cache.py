"""``ragbench cache``: the answers of language models that are kept."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.record import Record
from ragbench.errors import ConfigError
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
    with ResponseCache(_path(cache), must_exist=cache is not None) as opened:
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


class PruneAsked(Record):
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
def prune(asked: PruneAsked, cache: _CacheOption = None) -> None:
    """Remove cached answers. A removed answer is paid for again if it is needed.

    Each option removes on its own; without any, nothing is removed and the exit code is 2.

    \b
    Examples:
      ragbench cache prune --unused-days 90
      ragbench cache prune --max-mb 200
      ragbench cache prune --model gpt-4o-mini
    """
    from ragbench.llm.cache import ResponseCache

    if asked == PruneAsked():
        raise ConfigError("choose the entries to remove: --max-mb, --unused-days, --model or --all")
    with ResponseCache(_path(cache), must_exist=True) as opened:
        removed = opened.prune(
            max_bytes=None if asked.max_mb is None else asked.max_mb * 1_000_000,
            unused_days=asked.unused_days,
            model=asked.model,
            everything=asked.everything,
        )
        left = opened.stats()
    console.say(f"{removed:,} answers removed, {left.entries:,} left: {left.path}")


def _path(given: Path | None) -> Path:
    from ragbench.llm.settings import DEFAULT_CACHE

    if given is not None:
        return given
    named = os.environ.get("RAGBENCH_LLM_CACHE", DEFAULT_CACHE)
    if named == "off":
        raise ConfigError("RAGBENCH_LLM_CACHE is off: name a file with --cache")
    return Path(named).expanduser()


def _size(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB"


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
