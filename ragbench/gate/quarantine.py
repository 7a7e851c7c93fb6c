"""The quarantine file: unstable cases that a gate leaves out, each with its evidence.

A line a case, so that a review sees which ones come and go. A case is meant only as long as it is
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.data.atomic import written_whole
from ragbench.errors import RunMismatchError
from ragbench.gate.stored_report import Json, read_json
from ragbench.records.flakiness import Flakiness, Quarantine, QuarantinedCase, UnstableCase
from ragbench.records.run_scores import RunScores

__all__ = [
    "FORMAT",
    "quarantine_bytes",
    "quarantine_notes",
    "read_quarantine",
    "without_cases",
    "without_quarantined",
    "write_quarantine",
]

FORMAT = 1
"""Version of the file format."""

_MARK = "ragbench_quarantine"


def write_quarantine(flakiness: Flakiness, path: Path) -> None:
    """Writes the unstable cases as a quarantine file, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    with written_whole(path) as file:
        file.write(quarantine_bytes(flakiness))


def quarantine_bytes(flakiness: Flakiness) -> bytes:
    """The unstable cases as a quarantine file. The same cases give the same bytes."""
    head: dict[str, Any] = {
        _MARK: FORMAT,
        "dataset": flakiness.dataset,
        "rag": flakiness.rag,
        "runs": list(flakiness.sources),
        "fingerprints": dict(flakiness.fingerprints),
        "threshold": flakiness.threshold,
    }
    lines = [f"  {_json(key)}: {_json(value)}" for key, value in head.items()]
    cases = sorted(flakiness.unstable, key=lambda case: case.id)
    entries = ",\n".join(f"    {_json(case.id)}: {_json(_case(case))}" for case in cases)
    lines.append(f'  "cases": {{\n{entries}\n  }}' if entries else '  "cases": {}')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read_quarantine(path: Path) -> Quarantine:
    """Reads a quarantine file. Lines of it may have been deleted by hand.

    Raises:
        RunMismatchError: it is none, or another version of ragbench wrote it.
    """
    content = read_json(path)
    try:
        return _quarantine(content, str(path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        told = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RunMismatchError(
            f"{path} is no quarantine file that this ragbench reads: {told}. Write one with: "
            f"ragbench flaky RUN RUN --write-quarantine {path}"
        ) from error


def without_quarantined(
    run: RunScores, quarantine: Quarantine
) -> tuple[RunScores, tuple[QuarantinedCase, ...]]:
    """A run without the cases in quarantine, and those cases.

    A case whose fingerprint is another one than the evidence was found on stays in the run.
    """
    left_out = tuple(
        QuarantinedCase(id=case.id, evidence=quarantine.evidence[case.id])
        for case in run.cases
        if quarantine.fingerprints.get(case.id) == case.fingerprint
    )
    return without_cases(run, left_out), tuple(sorted(left_out, key=lambda case: case.id))


def without_cases(run: RunScores, left_out: Sequence[QuarantinedCase]) -> RunScores:
    """A run without these cases."""
    ids = {case.id for case in left_out}
    return replace(run, cases=tuple(case for case in run.cases if case.id not in ids))


def quarantine_notes(
    run: RunScores, left_out: Sequence[QuarantinedCase], source: str
) -> Iterator[str]:
    """What a verdict has to say of the cases that it leaves out."""
    if not left_out:
        yield f"No case of this run is in quarantine ({source})."
        return
    verb = "is" if len(left_out) == 1 else "are"
    names = ", ".join(case.id for case in left_out)
    yield (
        f"{len(left_out):,} of {len(run.cases):,} cases {verb} in quarantine ({source}) and left "
        f"out: {names}."
    )
    figures = [column.name for column in run.metrics if column.aggregate or not column.has_cells]
    if figures:
        yield f"Figures that are no mean over cases still hold them: {', '.join(figures)}."


def _case(case: UnstableCase) -> dict[str, Any]:
    return {
        "fingerprint": case.fingerprint,
        "flips": round(case.flips, 4),
        "evidence": {
            found.subject: {"passed": found.passed, "failed": found.failed}
            for found in case.subjects
        },
    }


def _quarantine(content: Json, source: str) -> Quarantine:
    if _MARK not in content:
        raise KeyError(_MARK)
    if content[_MARK] != FORMAT:
        raise ValueError(f"its format is {content[_MARK]}, this ragbench reads {FORMAT}")
    cases: Mapping[str, Json] = content["cases"]
    return Quarantine(
        source=source,
        fingerprints={id_: str(case["fingerprint"]) for id_, case in cases.items()},
        evidence={id_: _told(case["evidence"]) for id_, case in cases.items()},
    )


def _told(evidence: Json) -> str:
    parts = [
        f"{subject} passed in {int(counts['passed'])} and failed in {int(counts['failed'])} runs"
        for subject, counts in evidence.items()
    ]
    if not parts:
        raise ValueError("a case has no evidence: each names what passed and failed, and how often")
    return "; ".join(parts)


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()
