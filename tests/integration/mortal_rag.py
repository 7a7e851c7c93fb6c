"""A RAG that can end its own process. What it is to do stands in the environment, so that it is
the same RAG whatever it does."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from ragbench import RAGInterface

WORK = float(os.environ.get("MORTAL_WORK", "0.006"))
"""Seconds of work a call: more than a crash may cost, so that each finished call is kept."""


class Mortal(RAGInterface):
    """Logs every call that it finishes; dies, or is interrupted, in the one that it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.fate = os.environ.get("MORTAL_FATE", "")
        self.calls: dict[str, int] = {}
        """The number of calls of each stage."""

    def stage_identity(self, stage: str) -> object:
        return "mortal, whatever its environment says"

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        self.work("retrieve", query)
        return [f"context of {query}", "something else"]

    def generate(self, query: str, contexts: list[str]) -> str:
        self.work("generate", query)
        if "bad" in query:
            raise ValueError(f"no answer to {query}")
        return f"answer to {query}"

    def work(self, stage: str, query: str) -> None:
        started = time.perf_counter()
        number = self.calls.get(stage, 0) + 1
        self.calls[stage] = number
        if self.fate == f"{stage} {number}":
            deadly = getattr(signal, os.environ["MORTAL_SIGNAL"])
            os.kill(os.getpid(), deadly)
        time.sleep(WORK)  # in place of work outside of Python, such as a request
        log = Path(os.environ["MORTAL_LOG"])
        with log.open("a", encoding="utf-8") as file:
            seconds = time.perf_counter() - started
            file.write(f"{stage}\t{query}\t{seconds}\n")


class Poisoned(Mortal):
    """A question that takes the process down, whenever it is asked."""

    def work(self, stage: str, query: str) -> None:
        if query == "question 7" and stage == os.environ.get("MORTAL_POISON"):
            ctypes.string_at(0)
        super().work(stage, query)


class MortalBatch(Mortal):
    """The same, several queries a call."""

    def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> list[list[str]]:
        return [self.retrieve(query) for query in queries]

    def batch_generate(self, queries: list[str], contexts_list: list[list[str]]) -> list[str]:
        return [self.generate(query, []) for query in queries]
