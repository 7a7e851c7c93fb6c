"""Groups of lost cases that share a document, operator, tag or language, the largest first.

The page of a run begins with them: "12 of the 20 lost cases have evidence in one document" says
where to look, which a list of 20 cases does not. `LostCases` collects the cases while the page is
written, and then groups those that were lost.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ragbench.core.attribution import ESTIMATES, LOSSES, Attribution, Cause
from ragbench.core.report import CaseRow
from ragbench.metrics.summary import most_frequent

_MOST_GROUPS = 3
"""Groups that a page shows: places to begin, and no list to work through."""
_FEWEST_CASES = 2
"""Cases of a group at least: a single case shares nothing."""
_LEAST_SHARE = 0.2
"""Share of all lost cases that a group has at least: a smaller one is not where to begin."""
_MOST_TAGS = 15
"""Rows of the table of tags and causes."""
_SHADES = 5
"""Shades of a cell of that table, besides the lightest one, which is for no case."""
_OF_STAGES = ("operator", "stage")
"""Kinds of what cases share that lie in the system, and not in the questions."""
_COMMON = 0.8
"""Share of a group from which on something is said to be common to it."""
_MOST_SHARED = 3
"""Further things in common that are named for a group."""
_WORDS = {
    "operator": "dropped by {}",
    "stage": "failed in {}",
    "tag": "with the tag “{}”",
    "language": "in the language “{}”",
    "document": "with evidence in “{}”",
}
_Key = tuple[str, str]
"""Something that cases share: its kind, as in `_WORDS`, and its value."""
_Way = tuple[Cause, _Key]
"""How a group of cases was lost: by which cause, and what they share."""


class _LostCase(NamedTuple):
    """A lost case as its group needs it: the page's memory must not hold whole cases."""

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
    """Cases of the run, lost or not."""
    cases: Counter[_Key] = field(default_factory=Counter[_Key])
    """How many cases have it, lost or not."""
    causes: dict[str, Counter[Cause]] = field(default_factory=lambda: defaultdict(Counter[Cause]))
    """By tag, how many of its cases have which cause."""
    lost: list[_LostCase] = field(default_factory=list[_LostCase])

    def add(self, row: CaseRow, attribution: Attribution, badness: tuple[bool, float]) -> None:
        """Takes in a case of the run, lost or not.

        Groups of lost cases are judged against the rate of all.

        Args:
            badness: by which the worst case of a group is found; smaller is worse.
        """
        cause = attribution.cause
        # A dictionary is a set that keeps the order: the page must be the same each time.
        keys: dict[_Key, None] = {}
        for document_id in row.reference_ids or ():
            keys["document", document_id] = None
        for tag in row.tags:
            keys["tag", tag] = None
            self.causes[tag][cause] += 1
        if row.language:
            keys["language", row.language] = None
        # The stage matters where the system itself has lost the case there.
        if attribution.stage and cause is Cause.DROPPED:
            keys["operator", attribution.stage] = None
        elif attribution.stage and cause is Cause.FAILED:
            keys["stage", attribution.stage] = None
        # All cases count, also those that are not lost: the rates are compared.
        self.total += 1
        for key in keys:
            self.cases[key] += 1
        if cause in LOSSES:
            is_estimate = attribution.basis in ESTIMATES
            self.lost.append(_LostCase(row.id, badness, cause, is_estimate, keys.keys()))

    def groups(self) -> list[dict[str, Any]]:
        """The groups of cases lost in one way that share something, the largest group first.

        They are found in another order, by how much is explained; a reader begins with the most
        cases.
        """
        return sorted(self._telling_groups(), key=lambda group: -group["lost"])

    def _telling_groups(self) -> Iterator[dict[str, Any]]:
        """The groups of lost cases, of which no case is in two, the most telling first.

        Each time it is the group with most cases beyond those that would be lost anyway, at the
        rate of all cases outside it. Where that is less than one case, what cases share explains
        nothing, and the group is all that are lost by the most frequent cause.
        """
        lost_by_way = _count_by_way(self.lost)
        lost_by_cause = Counter(case.cause for case in self.lost)
        ungrouped = self.lost
        for _ in range(_MOST_GROUPS):
            if not ungrouped:
                break
            excess = self._excess_by_way(ungrouped, lost_by_way, lost_by_cause)
            # Of equal ones the first in order, so that the page is the same each time.
            best = max(sorted(excess), key=excess.__getitem__, default=None)
            # One case more than expected is the least that a group explains.
            if best is not None and excess[best] >= 1:
                cause, key = best
                members = [case for case in ungrouped if case.cause is cause and key in case.keys]
                yield self._group_values(cause, key, members, round(excess[best]))
            else:
                counts = Counter(case.cause for case in ungrouped)
                cause = max(counts, key=counts.__getitem__)
                members = [case for case in ungrouped if case.cause is cause]
                group = self._group_values(cause, None, members, None)
                # Other cases of this cause are in groups above.
                if len(members) < lost_by_cause[cause]:
                    group["what"] = "in no other group"
                yield group
            grouped = {case.id for case in members}
            ungrouped = [case for case in ungrouped if case.id not in grouped]

    def _excess_by_way(
        self,
        ungrouped: Sequence[_LostCase],
        lost_by_way: Mapping[_Way, int],
        lost_by_cause: Mapping[Cause, int],
    ) -> dict[_Way, float]:
        """The number of cases by which each possible group is larger than chance would make it.

        A document of which 9 of 10 cases are lost is where to look; one with 9 of 90, where a
        tenth of all cases is lost, is not. Groups that are too small, or shared by most cases of
        the run, are left out.

        Args:
            ungrouped: the lost cases that are in no group so far.
            lost_by_way: of all lost cases, how many each group could have.
            lost_by_cause: of all lost cases, how many each cause has.
        """
        fewest = max(_FEWEST_CASES, _LEAST_SHARE * len(self.lost))
        excess: dict[_Way, float] = {}
        for way, count in _count_by_way(ungrouped).items():
            if count < fewest:
                continue
            cause, key = way
            kind, _ = key
            # What more than half of all cases share tells nothing, unless it is a stage or operator
            # of the system.
            if kind not in _OF_STAGES and not self._is_rare(key):
                continue
            # Lost cases outside of the group, and all cases outside: their rate is what to expect
            # within.
            lost_elsewhere = lost_by_cause[cause] - lost_by_way[way]
            cases_elsewhere = max(self.total - self.cases[key], 1)
            expected = self.cases[key] * lost_elsewhere / cases_elsewhere
            excess[way] = count - expected
        return excess

    def _is_rare(self, key: _Key) -> bool:
        """Whether at most half of a run's cases share something (a key): it sets a group apart.

        A key is a document, tag, language, operator or stage that cases share.
        """
        return 2 * self.cases[key] <= self.total

    def _group_values(
        self, cause: Cause, key: _Key | None, members: Sequence[_LostCase], excess: int | None
    ) -> dict[str, Any]:
        """A group of lost cases as the page's template shows it, with a command for more.

        A group is cases that were lost in one way and share something, such as a document: a place
        to begin. The template reads these names.

        Args:
            key: what all of the members share; None where that is the cause alone.
            excess: how many more the members are than at the rate of all other cases.
        """
        kind, value = "", ""
        description = ""
        # How many cases have what the members share, lost or not. Of a stage that is every case:
        # nothing to compare.
        cases_with_key: int | None = None
        if key is not None:
            kind, value = key
            description = _WORDS[kind].format(value)
            if kind not in _OF_STAGES:
                cases_with_key = self.cases[key]
        return {
            "what": description,
            "cause": cause.label,
            "remedy": cause.remedy,
            "lost": len(members),
            "cases": cases_with_key,
            "share": len(members) / self.total,
            "excess": excess,
            "estimated": sum(case.is_estimate for case in members),
            "shared": self._further_texts(key, members),
            "command": _command_for_group(cause, kind, value, members),
            "filter": _page_filter(cause, kind, value),
        }

    def _further_texts(self, key: _Key | None, members: Sequence[_LostCase]) -> list[str]:
        """What nearly all members of a group share beside its key, as the page words it.

        It is a hint at the reason: cases "with evidence in a.pdf" that are all "in the language
        de", too.
        """
        # How many members have each key: a case may have several.
        counts: Counter[_Key] = Counter()
        for case in members:
            counts.update(case.keys)
        texts: list[str] = []
        # In order of the keys, so that the page is the same for the same run.
        for shared_key, count in sorted(counts.items()):
            is_common = count >= _COMMON * len(members)
            # Nearly all members, but rare in the run: what all cases share explains nothing.
            if is_common and shared_key != key and self._is_rare(shared_key):
                kind, value = shared_key
                texts.append(_WORDS[kind].format(value))
        return texts[:_MOST_SHARED]

    def heat(self, causes: Sequence[Cause]) -> list[dict[str, Any]]:
        """The rows of the page's table of tags and causes: tags with most lost cases first.

        Each cell has its number of cases, its shade, and the filter that shows these cases.
        """
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
                # By the share of the tag's cases, rounded up: only none at all is the lightest.
                shade = math.ceil(_SHADES * count / total)
                cells.append((count, shade, _page_filter(cause, "tag", tag)))
            rows.append({"tag": tag, "cases": total, "cells": cells})
        return rows


def _count_by_way(cases: Iterable[_LostCase]) -> Counter[_Way]:
    """The number of lost cases for each way: a cause of loss, with one thing that such cases share.

    These are the groups that a page could show.
    """
    counts: Counter[_Way] = Counter()
    for case in cases:
        for key in case.keys:
            # A case counts in each of its groups: they overlap.
            counts[case.cause, key] += 1
    return counts


def _command_for_group(cause: Cause, kind: str, value: str, members: Sequence[_LostCase]) -> str:
    """The command that shows more of a group of lost cases, with RUN for the run's folder.

    ``ragbench cases`` filters by cause and tag, and lists the group. By documents, languages and
    stages it does not: there the worst case is explained in place of all.

    Args:
        kind: of what the members share; empty where that is the cause alone.
    """
    if kind == "":
        return f"ragbench cases RUN --cause {cause.value}"
    if kind == "tag":
        return f"ragbench cases RUN --cause {cause.value} --tag {shlex.quote(value)}"
    worst = min(members, key=lambda case: (*case.badness, case.id))
    command = f"ragbench explain RUN {shlex.quote(worst.id)}"
    if kind == "operator":
        # --replay asks the RAG again with the dropped chunks put back: is the operator to blame?
        command += " --replay"
    return command


def _page_filter(cause: Cause, kind: str, value: str) -> str:
    """The part of a link that makes the page's script show the cases of one group alone.

    The script reads these names: cause, stage and tag.

    Args:
        kind: of what the cases share; empty where that is the cause alone.
    """
    filters = {"cause": cause.value}
    if kind in _OF_STAGES:
        filters["stage"] = value
    elif kind == "tag":
        filters["tag"] = value
    elif kind:
        # The page gives a case's documents and language among its tags, as "language:de".
        filters["tag"] = f"{kind}:{value}"
    return urlencode(filters)
