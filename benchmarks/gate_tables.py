"""Tables of the gate's error rates: drawn row by row, printed as Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

Generator = np.random.Generator
Rows = Callable[[Generator, int], Iterator[list[str]]]
"""The rows of a table, each from so many draws."""
Table = tuple[str, Sequence[str], Rows]
"""Title, header and rows."""


def percent(hits: Iterable[bool]) -> str:
    seen = list(hits)
    return f"{100.0 * sum(seen) / len(seen):.1f}%"


def print_tables(
    about: str | None, tables: Mapping[str, Table], *, drawn: str, default: int
) -> None:
    """Prints the tables that the command line names; each has a seed of its own.

    Args:
        about: what the command does.
        tables: by name.
        drawn: the option that says how many draws make a row.
        default: how many, where it is not given.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(drawn, dest="draws", type=int, default=default)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(tables), default=None)
    options = parser.parse_args()
    for number, (name, (title, header, rows)) in enumerate(tables.items()):
        if options.only in (None, name):
            print(f"\n### {title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
            for row in rows(np.random.default_rng([options.seed, number]), options.draws):
                print(f"| {' | '.join(row)} |", flush=True)
