"""The pytest plugin: a gate's checks as tests, and a fixture that evaluates a RAG.

It is loaded with every pytest of an environment that holds ragbench. So it imports nothing but
pytest, and does nothing, until one of its options or its fixture is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ragbench_cli.pytest_checks import Evaluation


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ragbench", "ragbench: the checks of a gate as tests")
    for name, metavar, about in (
        ("--ragbench", "RUN", "Judge this run: a test for each check of its gate."),
        (
            "--ragbench-baseline",
            "PATH",
            "What to hold it against: a run folder, a baseline file, or auto.",
        ),
        (
            "--ragbench-config",
            "FILE",
            "YAML file with a section gate. By default ragbench.yaml, where there is one.",
        ),
    ):
        group.addoption(name, metavar=metavar, help=about)
    strict = "Fail inconclusive checks, too: for releases."
    group.addoption("--ragbench-strict", action="store_true", help=strict)


def pytest_configure(config: pytest.Config) -> None:
    """Brings in what makes the tests, when a run was named."""
    run = config.getoption("--ragbench")
    baseline = config.getoption("--ragbench-baseline")
    settings = config.getoption("--ragbench-config")
    strict = bool(config.getoption("--ragbench-strict"))
    if run is not None:
        from ragbench_cli.pytest_checks import GateChecks

        checks = GateChecks(run=run, baseline=baseline, config=settings, strict=strict)
        config.pluginmanager.register(checks, "ragbench-checks")
    elif baseline is not None or settings is not None or strict:
        raise pytest.UsageError("the options of ragbench need a run: --ragbench RUN")


@pytest.fixture
def ragbench_eval(tmp_path: Path) -> Evaluation:
    """What evaluates a RAG on a dataset, in a folder of the test's own."""
    from ragbench_cli.pytest_checks import Evaluation

    return Evaluation(tmp_path)
