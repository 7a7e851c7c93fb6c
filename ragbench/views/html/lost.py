"""Groups of lost cases that share a document, operator, tag or language, the most telling first."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ragbench.core.attribution import ESTIMATES, LOSSES, Attribution, Cause
from ragbench.core.report import CaseRow
from ragbench.metrics.summary import most_frequent

_GROUPS, _LEAST = 3, 2
_TAGS = 15
_OF_STAGES = ("operator", "stage")
_SHARED = 0.8
"""Share of a group from which on something is said to be common to it."""
_WORDS = {
    "operator": "dropped by {}",
    "stage": "failed in {}",
    "tag": "with the tag “{}”",
    "language": "in the language “{}”",
    "document": "whose evidence is in “{}”",
}
_Key = tuple[str, str]


class _Lost(NamedTuple):
    case: str
    badness: tuple[bool, float]
    cause: Cause
    is_estimate: bool
    keys: Collection[_Key]


@dataclass(slots=True)
class LostCases:
    """Collects what the cases of a run have in common, and which of them are lost."""

    total: int = 0
    cases: Counter[_Key] = field(default_factory=Counter[_Key])
    causes: dict[str, Counter[Cause]] = field(default_factory=lambda: defaultdict(Counter[Cause]))
    """By tag."""
    lost: list[_Lost] = field(default_factory=list[_Lost])

    def add(self, row: CaseRow, found: Attribution, badness: tuple[bool, float]) -> None:
        keys = {("document", id): None for id in row.reference_ids or ()}
        for tag in row.tags:
            keys["tag", tag] = None
            self.causes[tag][found.cause] += 1
        if row.language:
            keys["language", row.language] = None
        if found.stage and found.cause in (Cause.DROPPED, Cause.FAILED):
            keys["operator" if found.cause is Cause.DROPPED else "stage", found.stage] = None
        self.total += 1
        for key in keys:
            self.cases[key] += 1
        if found.cause in LOSSES:
            is_estimate = found.basis in ESTIMATES
            self.lost.append(_Lost(row.id, badness, found.cause, is_estimate, keys.keys()))

    def groups(self) -> Iterator[dict[str, Any]]:
        """Cases lost in one way that share something; no case is in two of the groups.

        Each time the group with the most more cases than would be lost so at the rate of all the
        others; where nothing is shared that the others lack, all that are lost in one way.
        """
        counts = Counter((one.cause, key) for one in self.lost for key in one.keys)
        ways = Counter(one.cause for one in self.lost)
        left = self.lost
        for _ in range(_GROUPS):
            found = Counter((one.cause, key) for one in left for key in one.keys)
            excess = {
                (cause, key): n
                - self.cases[key]
                * (ways[cause] - counts[cause, key])
                / max(self.total - self.cases[key], 1)
                for (cause, key), n in found.items()
                if n >= _LEAST and (key[0] in _OF_STAGES or 2 * self.cases[key] <= self.total)
            }
            best = max(sorted(excess), key=excess.__getitem__, default=None)
            if best is not None and excess[best] >= 1:
                cause, key = best
                inside = [one for one in left if one.cause is cause and key in one.keys]
                yield self._group(cause, key, inside, round(excess[best]))
            elif left:
                others = Counter(one.cause for one in left)
                cause = max(others, key=others.__getitem__)
                inside = [one for one in left if one.cause is cause]
                rest = self._group(cause, None, inside, None)
                yield rest | {"what": "besides those above" * (len(inside) < ways[cause])}
            else:
                break
            taken = {one.case for one in inside}
            left = [one for one in left if one.case not in taken]

    def _group(
        self, cause: Cause, key: _Key | None, inside: Sequence[_Lost], excess: int | None
    ) -> dict[str, Any]:
        common = Counter(other for one in inside for other in one.keys if other != key)
        shared = [
            _WORDS[name].format(text)
            for (name, text), n in sorted(common.items())
            if n >= _SHARED * len(inside) and 2 * self.cases[name, text] <= self.total
        ]
        kind, value = key or ("", "")
        worst = shlex.quote(min(inside, key=lambda one: (*one.badness, one.case)).case)
        command = f"ragbench cases RUN --cause {cause.value}"
        if kind == "tag":
            command += f" --tag {shlex.quote(value)}"
        elif key:
            command = f"ragbench explain RUN {worst}{' --replay' * (kind == 'operator')}"
        filters = {"cause": cause.value}
        if kind in _OF_STAGES:
            filters["stage"] = value
        elif key:
            filters["tag"] = value if kind == "tag" else f"{kind}:{value}"
        return {
            "what": _WORDS[kind].format(value) if key else "",
            "cause": cause.label,
            "lost": len(inside),
            "cases": self.cases[key] if key and kind not in _OF_STAGES else None,
            "share": len(inside) / self.total,
            "excess": excess,
            "estimated": sum(one.is_estimate for one in inside),
            "shared": shared[:3],
            "command": command,
            "filter": urlencode(filters),
        }

    def heat(self, causes: Sequence[Cause]) -> list[dict[str, Any]]:
        """Of the tags with most lost cases, how many cases have which cause."""
        lost = Counter(value for one in self.lost for kind, value in one.keys if kind == "tag")
        return [
            {
                "tag": tag,
                "cases": self.cases["tag", tag],
                "cells": [
                    (
                        n := self.causes[tag][cause],
                        # Six shades, by the share of the tag's cases.
                        -(-5 * n // self.cases["tag", tag]),
                        urlencode({"cause": cause.value, "tag": tag}),
                    )
                    for cause in causes
                ],
            }
            for tag, _ in most_frequent(lost)[:_TAGS]
        ]
