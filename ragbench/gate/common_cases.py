"""Several runs cut down to the cases that are the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.errors import RunMismatchError
from ragbench.records.run_scores import RunScores

__all__ = ["common_cases"]


def common_cases(
    runs: Sequence[RunScores], *, only_common_cases: bool, hint: str = "--only-common-cases"
) -> tuple[tuple[RunScores, ...], str]:
    """The runs with the cases that all of them have, unchanged.

    A case is the same when its fingerprint is: its question, reference, relevance, tags ...

    Args:
        runs: at least one.
        only_common_cases: leave out what differs, instead of refusing.
        hint: what the caller can do to have the same with ``only_common_cases``.

    Returns:
        The runs, and a sentence about what was left out; empty when nothing was.

    Raises:
        RunMismatchError: the cases differ and shall not be left out, or none is the same.
    """
    known = [{case.id: case.fingerprint for case in run.cases} for run in runs]
    first = known[0]
    same = {
        id_
        for id_, fingerprint in first.items()
        if all(cases.get(id_) == fingerprint for cases in known)
    }
    if all(len(same) == len(cases) for cases in known):
        if not same:
            raise RunMismatchError("the runs hold no cases")
        return tuple(runs), ""
    everywhere = set(first).intersection(*known)
    anywhere = set(first).union(*known)
    changed = len(everywhere) - len(same)
    told = f"{changed:,} have changed and {len(anywhere) - len(everywhere):,} are not in every run"
    sources = ", ".join(run.source for run in runs)
    if not only_common_cases:
        raise RunMismatchError(
            f"the runs {sources} are of different cases: {len(same):,} are the same, {told}. "
            f"Compare those that are the same with {hint}"
        )
    if not same:
        raise RunMismatchError(f"the runs {sources} have no case in common: {told}")
    cut = tuple(
        replace(run, cases=tuple(case for case in run.cases if case.id in same)) for run in runs
    )
    return cut, f"Compared on the {len(same):,} cases that are the same in all runs: {told}."
