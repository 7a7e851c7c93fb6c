"""Answers that wait for their generation to be asked for."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ragbench.interface.results import GenerationResult

__all__ = ["AnswerMemo"]


class AnswerMemo:
    """The latest answers by query and contexts, a bounded number of them.

    Contexts are kept as a digest, so that the memo holds no text but the answers. Safe to use
    from several threads.
    """

    def __init__(self, size: int = 4096) -> None:
        """Makes an empty memo.

        Args:
            size: how many answers are kept; the one unused for longest goes first.
        """
        self._size = size
        self._answers: OrderedDict[bytes, GenerationResult[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, query: str, contexts: Sequence[str], answer: GenerationResult[Any]) -> None:
        """Keeps an answer."""
        key = _key(query, contexts)
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > self._size:
                self._answers.popitem(last=False)

    def get(self, query: str, contexts: Sequence[str]) -> GenerationResult[Any] | None:
        """The answer that was given with just these contexts, if it is still there."""
        key = _key(query, contexts)
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer


def _key(query: str, contexts: Sequence[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for text in (query, *contexts):
        # Lone surrogates occur in scraped text and cannot be encoded otherwise.
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()
