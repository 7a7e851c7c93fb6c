"""Engines by name."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ragbench.errors import ConfigError
from ragbench.workers.engine import Engine, available_cpus
from ragbench.workers.processes import Processes, Threads

ENGINES = ("local", "processes", "ray")


def check_engine(text: str) -> str:
    """The kind of engine that a text names: ``local``, ``processes`` or ``ray``."""
    kind, separator, address = text.partition("://")
    if kind not in ENGINES or (separator and (kind != "ray" or not address)):
        raise ConfigError(f"--engine {text}: expected local, processes, ray or ray://HOST:PORT")
    return kind


@contextmanager
def opened_engine(text: str, *, workers: int | None = None, threads: int = 1) -> Generator[Engine]:
    kind = check_engine(text)
    if kind == "ray":
        from ragbench.workers.ray_actors import ray_engine

        with ray_engine(None if text == kind else text, workers) as engine:
            yield engine
    elif kind == "processes":
        count = workers or available_cpus()
        yield Threads(1) if count == 1 else Processes(count)
    else:
        yield Threads(threads)
