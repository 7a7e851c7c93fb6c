"""Groups of lost cases that share a document, operator, tag or language, the largest first."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ragbench.core.attribution import ESTIMATES, LOSSES, Attribution, Cause
from ragbench.core.report import CaseRow
from ragbench.metrics.summary import most_frequent

_MOST_GROUPS = 3
_FEWEST_CASES = 2
_LEAST_SHARE = 0.2
"""Share of all lost cases that a group has at least: a smaller one is not where to begin."""
_MOST_TAGS = 15
_OF_STAGES = ("operator", "stage")
"""Kinds of what cases share that lie in the system, and not in the questions."""
_COMMON = 0.8
"""Share of a group from which on something is said to be common to it."""
_WORDS = {
    "operator": "dropped by {}",
    "stage": "failed in {}",
    "tag": "with the tag “{}”",
    "language": "in the language “{}”",
    "document": "with evidence in “{}”",
}
_Key = tuple[str, str]
"""Something that cases share: its kind, as in `_WORDS`, and its value."""


class _LostCase(NamedTuple):
    id: str
    badness: tuple[bool, float]
    """By which the worst case of a group is found; smaller is worse."""
    cause: Cause
    is_estimate: bool
    keys: Collection[_Key]
    """What it has that others may share."""


@dataclass(slots=True)
class LostCases:
    """Collects what the cases of a run have in common, and which of them are lost."""

    total: int = 0
    cases: Counter[_Key] = field(default_factory=Counter[_Key])
    """How many cases have it, lost or not."""
    causes: dict[str, Counter[Cause]] = field(default_factory=lambda: defaultdict(Counter[Cause]))
    """By tag."""
    lost: list[_LostCase] = field(default_factory=list[_LostCase])

    def add(self, row: CaseRow, attribution: Attribution, badness: tuple[bool, float]) -> None:
        """Takes in a case of the run, lost or not."""
        cause = attribution.cause
        # A dictionary is a set that keeps the order: the page must be the same each time.
        keys = {("document", id): None for id in row.reference_ids or ()}
        for tag in row.tags:
            keys["tag", tag] = None
            self.causes[tag][cause] += 1
        if row.language:
            keys["language", row.language] = None
        if attribution.stage and cause is Cause.DROPPED:
            keys["operator", attribution.stage] = None
        elif attribution.stage and cause is Cause.FAILED:
            keys["stage", attribution.stage] = None
        self.total += 1
        for key in keys:
            self.cases[key] += 1
        if cause in LOSSES:
            is_estimate = attribution.basis in ESTIMATES
            self.lost.append(_LostCase(row.id, badness, cause, is_estimate, keys.keys()))

    def groups(self) -> list[dict[str, Any]]:
        """Cases lost in one way that share something, the largest group first."""
        return sorted(self._telling_groups(), key=lambda group: -group["lost"])

    def _telling_groups(self) -> Iterator[dict[str, Any]]:
        """Groups of which no case is in two, the most telling first.

        Each time the group with the most more cases than would be lost so at the rate of all the
        others; where nothing is shared that the others lack, all that are lost in one way.
        """
        fewest = max(_FEWEST_CASES, _LEAST_SHARE * len(self.lost))
        lost_by_way = _count_by_way(self.lost)
        lost_by_cause = Counter(case.cause for case in self.lost)
        ungrouped = self.lost
        for _ in range(_MOST_GROUPS):
            if not ungrouped:
                break
            excess: dict[tuple[Cause, _Key], float] = {}
            for way, count in _count_by_way(ungrouped).items():
                cause, key = way
                # What more than half of all cases have tells nothing, unless the system did it.
                is_telling = key[0] in _OF_STAGES or 2 * self.cases[key] <= self.total
                if count < fewest or not is_telling:
                    continue
                lost_elsewhere = lost_by_cause[cause] - lost_by_way[way]
                cases_elsewhere = max(self.total - self.cases[key], 1)
                expected = self.cases[key] * lost_elsewhere / cases_elsewhere
                excess[way] = count - expected
            # Of equal ones the first in order, so that the page is the same each time.
            best = max(sorted(excess), key=excess.__getitem__, default=None)
            if best is not None and excess[best] >= 1:
                cause, key = best
                members = [case for case in ungrouped if case.cause is cause and key in case.keys]
                yield self._group(cause, key, members, round(excess[best]))
            else:
                counts = Counter(case.cause for case in ungrouped)
                cause = max(counts, key=counts.__getitem__)
                members = [case for case in ungrouped if case.cause is cause]
                group = self._group(cause, None, members, None)
                if len(members) < lost_by_cause[cause]:
                    group["what"] = "in no other group"
                yield group
            grouped = {case.id for case in members}
            ungrouped = [case for case in ungrouped if case.id not in grouped]

    def _group(
        self, cause: Cause, key: _Key | None, members: Sequence[_LostCase], excess: int | None
    ) -> dict[str, Any]:
        """A group as the page shows it, with the command that tells more of it.

        Args:
            key: what all of the members share; None where that is the cause alone.
            excess: how many more they are than at the rate of all other cases.
        """
        counts: Counter[_Key] = Counter()
        for case in members:
            counts.update(case.keys)
        shared: list[str] = []
        for (name, text), count in sorted(counts.items()):
            is_common = count >= _COMMON * len(members)
            if (name, text) != key and is_common and 2 * self.cases[name, text] <= self.total:
                shared.append(_WORDS[name].format(text))

        kind, value = key or ("", "")
        worst = min(members, key=lambda case: (*case.badness, case.id))
        command = f"ragbench cases RUN --cause {cause.value}"
        if kind == "tag":
            command += f" --tag {shlex.quote(value)}"
        elif key:
            command = f"ragbench explain RUN {shlex.quote(worst.id)}"
            if kind == "operator":
                command += " --replay"

        filters = {"cause": cause.value}
        if kind in _OF_STAGES:
            filters["stage"] = value
        elif kind == "tag":
            filters["tag"] = value
        elif key:
            filters["tag"] = f"{kind}:{value}"
        return {
            "what": _WORDS[kind].format(value) if key else "",
            "cause": cause.label,
            "remedy": cause.remedy,
            "lost": len(members),
            "cases": self.cases[key] if key and kind not in _OF_STAGES else None,
            "share": len(members) / self.total,
            "excess": excess,
            "estimated": sum(case.is_estimate for case in members),
            "shared": shared[:3],
            "command": command,
            "filter": urlencode(filters),
        }

    def heat(self, causes: Sequence[Cause]) -> list[dict[str, Any]]:
        """Of the tags with most lost cases, how many cases have which cause."""
        lost_by_tag: Counter[str] = Counter()
        for case in self.lost:
            for kind, value in case.keys:
                if kind == "tag":
                    lost_by_tag[value] += 1
        rows: list[dict[str, Any]] = []
        for tag, _ in most_frequent(lost_by_tag)[:_MOST_TAGS]:
            total = self.cases["tag", tag]
            cells: list[tuple[int, int, str]] = []
            for cause in causes:
                count = self.causes[tag][cause]
                # Six shades, by the share of the tag's cases: only none at all is the lightest.
                shade = -(-5 * count // total)
                cells.append((count, shade, urlencode({"cause": cause.value, "tag": tag})))
            rows.append({"tag": tag, "cases": total, "cells": cells})
        return rows


def _count_by_way(cases: Iterable[_LostCase]) -> Counter[tuple[Cause, _Key]]:
    """How many cases were lost by each cause, for each of what they may share."""
    counts: Counter[tuple[Cause, _Key]] = Counter()
    for case in cases:
        for key in case.keys:
            counts[case.cause, key] += 1
    return counts
