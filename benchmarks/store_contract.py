"""The table of what every store promises, from a run of the contract suite.

    python -m benchmarks.store_contract

A line a test of ``tests/contract/test_stores.py``, a column an engine: ``yes`` when the test
passes, ``-`` when the store cannot do it and says so, ``NO`` when the test fails.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.contract.store_engines import ENGINES

SUITE = Path(__file__).parents[1] / "contract" / "test_stores.py"
_TEST = re.compile(r"::test_(?P<name>\w+)\[(?P<parameters>.*)\]$")


class Outcomes:
    """What pytest reports, by test and engine."""

    def __init__(self) -> None:
        """Knows nothing yet."""
        self.found: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes one report; of several with the same test and engine the worst counts."""
        match = _TEST.search(report.nodeid)
        if match is None or (report.when != "call" and report.passed):
            return
        parameters = match["parameters"]
        engine = next(each.name for each in ENGINES if parameters.startswith(each.name))
        said = "yes" if report.passed else "-" if report.skipped else "NO"
        row = self.found.setdefault(match["name"].replace("_", " "), {})
        row[engine] = "NO" if "NO" in (said, row.get(engine)) else said


def table(found: dict[str, dict[str, str]]) -> Sequence[str]:
    """The lines of the table."""
    names = [engine.name for engine in ENGINES]
    lines = [f"| behaviour | {' | '.join(names)} |", f"|---|{':---:|' * len(names)}"]
    for behaviour, row in found.items():
        cells = [row.get(name, "not run") for name in names]
        lines.append(f"| {behaviour} | {' | '.join(cells)} |")
    return lines


def main() -> int:
    """Runs the suite and prints the table."""
    outcomes = Outcomes()
    code = pytest.main(["-q", "--no-header", "--no-summary", str(SUITE)], plugins=[outcomes])
    print("\n".join(table(outcomes.found)))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
