"""What the operators of post-retrieval did: rows, remarks and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragbench.core.biography import Biography, OperatorEffect, OperatorTable

OPERATOR_COLUMNS = (
    "operator", "acted", "chunks", "dropped", "moved", "rewrote", "added", "gold", "lost", "up",
    "down",
)  # fmt: skip
"""Cases in which it changed something; chunks that it was given, dropped, moved, rewrote, added;
gold contexts that it was given, lost, and moved up and down."""
_NOTES = 3
"""How many notes are shown of each operator."""


def operator_rows(table: OperatorTable) -> Iterator[tuple[str, ...]]:
    """A row an operator, under `OPERATOR_COLUMNS`."""
    for one in table.operators:
        counts = (
            *(one.given, one.dropped, one.moved, one.rewritten, one.added),
            *(one.gold_given, one.gold_lost, one.gold_up, one.gold_down),
        )
        shown = (f"{count:,}" if count else "-" for count in counts)
        yield (one.operator, f"{one.acted:,} of {one.cases:,}", *shown)


def operator_remarks(table: OperatorTable) -> Iterator[str]:
    """What a reader should know of the operators, a sentence each: the losses first."""
    for one in table.losers:
        examples = ", ".join(one.examples[:3])
        yield (
            f"{one.operator} lost {_golds(one.lost_for_good)} that generation was not given "
            f"(as in {examples})."
        )
    if table.gold:
        missing = table.gold - table.found
        never = f" {_golds(missing)} never found." if missing else ""
        yield (
            f"Of {_golds(table.found)} that were found, generation was given {table.kept:,}.{never}"
        )
    for reason, cases in table.no_gold:
        yield f"Nothing is said of the gold of {cases:,} cases: {reason}."
    for one in table.operators:
        if not one.acted:
            yield f"{one.operator} did not act in any of {one.cases:,} cases.{_why(one)}"
        else:
            for note, cases in one.notes[:_NOTES]:
                yield f"{one.operator}: {note} ({cases:,} of {one.cases:,} cases)."


def _why(effect: OperatorEffect) -> str:
    return " ".join(f" It said: {note} ({cases:,} cases)." for note, cases in effect.notes[:_NOTES])


def _golds(count: int) -> str:
    return "1 gold context" if count == 1 else f"{count:,} gold contexts"


def operator_object(table: OperatorTable) -> dict[str, Any]:
    return {
        "cases": table.cases,
        "judged": table.judged,
        "gold": table.gold,
        "found": table.found,
        "kept": table.kept,
        "no_gold": [{"reason": reason, "cases": count} for reason, count in table.no_gold],
        "operators": [_effect(one) for one in table.operators],
    }


def _effect(one: OperatorEffect) -> dict[str, Any]:
    return {
        "operator": one.operator,
        "cases": one.cases,
        "acted": one.acted,
        "chunks": {
            "given": one.given,
            "dropped": one.dropped,
            "moved": one.moved,
            "rewritten": one.rewritten,
            "added": one.added,
        },
        "gold": {
            "given": one.gold_given,
            "lost": one.gold_lost,
            "lost_for_good": one.lost_for_good,
            "added": one.gold_added,
            "up": one.gold_up,
            "down": one.gold_down,
        },
        "notes": [{"note": note, "cases": count} for note, count in one.notes],
        "examples": list(one.examples),
    }


def biography_object(biography: Biography) -> dict[str, Any]:
    """What became of a case's gold contexts; what became of its other chunks is in the journal."""
    return {
        "no_gold": biography.no_gold,
        "gold": [
            {
                "gold": fate.gold,
                "chunk": fate.chunk,
                "ranks": list(fate.ranks),
                "lost_by": biography.lost_by(fate),
            }
            for fate in biography.gold
        ],
    }
