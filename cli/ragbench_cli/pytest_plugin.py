"""The pytest plugin: a gate's checks and a run's cases as tests, a fixture that evaluates a RAG.

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
    """Adds the options of ragbench's gate to pytest's command line.

    pytest calls this at its start, in every environment that holds ragbench, so it must be quick.
    """
    group = parser.getgroup("ragbench", "ragbench: the checks of a gate as tests")
    # Only texts: the modules of the gate are imported once an option is given.
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
    cases = "Add a test for each case of this run: a lost case fails with its cause."
    group.addoption("--ragbench-cases", metavar="RUN", help=cases)
    strict = "Fail inconclusive checks, too: for releases."
    group.addoption("--ragbench-strict", action="store_true", help=strict)


def pytest_configure(config: pytest.Config) -> None:
    """Refuses options of a gate without a run: without it, they would be ignored without a word."""
    is_used = (
        bool(config.getoption("--ragbench-strict"))
        or config.getoption("--ragbench-baseline") is not None
        or config.getoption("--ragbench-config") is not None
    )
    # These options only say how a run is judged: without --ragbench there is none to judge.
    if is_used and config.getoption("--ragbench") is None:
        raise pytest.UsageError("the options of ragbench need a run: --ragbench RUN")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Adds the checks of a run's gate, and the cases of a run, behind pytest's other tests.

    pytest calls it once it has collected all tests. Without ragbench's options it does nothing, and
    imports nothing.
    """
    is_used = (
        session.config.getoption("--ragbench") is not None
        or session.config.getoption("--ragbench-cases") is not None
    )
    if is_used:
        from ragbench_cli.pytest_checks import tests_of

        items += tests_of(session)


@pytest.fixture
def ragbench_eval(tmp_path: Path) -> Evaluation:
    """The fixture that evaluates a RAG on a dataset, in the folder of the test that asks for it.

    The folder goes with the test; `Evaluation.folder` names the last run's.
    """
    from ragbench_cli.pytest_checks import Evaluation

    return Evaluation(tmp_path)
