"""Canaries: claims of known truth, made of a run's own texts, that its judge has to distinguish.

Nobody labels them. A sentence copied from a case's own contexts is supported; one out of another
case's contexts is not, nor is a copied one with another number in it; and an instruction to call a
claim supported changes nothing of it. How often the judge is wrong about them stands in the report.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from hashlib import blake2b
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from msgspec import MsgspecError, json

from ragbench.core.case import Case
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, JudgedCell, Outcome, Status
from ragbench.core.record import Record
from ragbench.core.report import CanaryLine
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import write_atomic
from ragbench.llm.session import ModelClients
from ragbench.metrics.judging import INJECTION, reads_canaries
from ragbench.stages.judge import Judging
from ragbench.text.quotes import find_quote
from ragbench.text.sentences import split_sentences
from ragbench.text.tokens import multilingual_tokens


class CanaryKind(StrEnum):
    """How a canary was made, and so whether it is supported."""

    COPIED = "copied"
    """A sentence of the case's own contexts: supported."""
    FOREIGN = "foreign"
    """A sentence of another case's contexts: not supported."""
    ALTERED = "altered"
    """A sentence of the case's own contexts with another number: contradicted."""
    INJECTED = "injected"
    """A foreign sentence, with an instruction to call it supported."""


class Canary(NamedTuple):
    id: str
    kind: CanaryKind
    question: str
    claim: str
    contexts: tuple[str, ...]

    @property
    def trace(self) -> Trace:
        """The claim as a case's answer."""
        answer = GenerationResult(self.claim, abstained=False)  # however it reads
        found = RetrievalResult(list(self.contexts))
        return Trace(
            case=Case(id=self.id, query=self.question),
            retrieval=Outcome(status=Status.MEASURED, value=found),
            generation=Outcome(status=Status.MEASURED, value=answer),
        )


class _Source(NamedTuple):
    id: str
    question: str
    contexts: tuple[str, ...]
    sentences: tuple[str, ...]


_POOL = 20
"""Cases that are kept for each canary that is wanted: not all of them can carry one."""
_WORDS = (5, 60)
"""The fewest and the most words of a sentence that is taken."""
_SHARED = 0.3
"""A foreign sentence shares less of its own words with the contexts: of those that do not stand in
most cases anyway."""
_FEWEST_OWN = 2


def plant(traces: Iterable[Trace], count: int, *, seed: int = 0) -> list[Canary]:
    """Makes canaries of a run's own texts; the same run and seed give the same ones."""
    # By a digest of seed and id: which cases are drawn does not depend on their order.
    ranked = heapq.nsmallest(count * _POOL, _usable(traces, seed), key=lambda item: item[0])
    sources, held = [source for _, source in ranked], Counter[str]()
    for source in sources:
        held.update(_words_of(source.contexts))
    common = frozenset(word for word, cases in held.items() if 2 * cases > len(sources))
    made = [[*_made(kind, sources, -(-count // len(CanaryKind)), common)] for kind in CanaryKind]
    turns = (canary for turn in zip_longest(*made) for canary in turn if canary is not None)
    return [*islice(turns, count)]


def _usable(traces: Iterable[Trace], seed: int) -> Iterator[tuple[bytes, _Source]]:
    for trace in traces:
        result = trace.context.value
        contexts = () if result is None else tuple(text for text in result.contexts if text.strip())
        spans = (text[span.start : span.end] for text in contexts for span in split_sentences(text))
        sentences = tuple(
            sentence
            for sentence in (" ".join(text.split()) for text in spans)
            if _WORDS[0] <= len(multilingual_tokens(sentence)) <= _WORDS[1]
        )
        if sentences:
            rank = blake2b(f"{seed} {trace.case.id}".encode("utf-8", "replace")).digest()
            yield rank, _Source(trace.case.id, trace.case.query, contexts, sentences)


def _words_of(texts: Sequence[str]) -> set[str]:
    return {word for text in texts for word in multilingual_tokens(text)}


def _made(
    kind: CanaryKind, sources: Sequence[_Source], count: int, common: frozenset[str]
) -> Iterator[Canary]:
    left = count
    for place, source in enumerate(sources):
        if not left:
            return
        others = [sources[(place + step) % len(sources)] for step in range(1, min(8, len(sources)))]
        claim = _claim(kind, source, others, common)
        if claim is not None:
            left -= 1
            contexts = source.contexts
            if kind is CanaryKind.INJECTED and left % 2:
                contexts = (f"{contexts[0]}\n{INJECTION}", *contexts[1:])
            elif kind is CanaryKind.INJECTED:
                claim = f"{claim} {INJECTION}"
            yield Canary(f"{kind}: {source.id}", kind, source.question, claim, contexts)


def _claim(
    kind: CanaryKind, source: _Source, others: Sequence[_Source], common: frozenset[str]
) -> str | None:
    if kind is CanaryKind.COPIED:
        return max(source.sentences, key=len)
    if kind is CanaryKind.ALTERED:
        return next(filter(None, (_altered(s, source.contexts) for s in source.sentences)), None)
    known = _words_of(source.contexts)
    for sentence in (sentence for other in others for sentence in other.sentences):
        own = _words_of([sentence]) - common
        if len(own) >= _FEWEST_OWN and len(own & known) < _SHARED * len(own):
            return sentence
    return None


_NUMBER = re.compile(r"(?<![\w.,])\d{1,4}(?![\w]|[.,]\d)")


def _altered(sentence: str, contexts: Sequence[str]) -> str | None:
    """The sentence with another number, if that stands in no context."""
    found = _NUMBER.search(sentence)
    if found is None:
        return None
    number = int(found[0])
    other = str(number + 37 if number < 1000 else number - 37)
    changed = f"{sentence[: found.start()]}{other}{sentence[found.end() :]}"
    held = any(re.search(rf"(?<!\d){other}(?!\d)", text) for text in contexts)
    return None if held or find_quote(changed, contexts) is not None else changed


def _is_wrong(kind: CanaryKind, cell: Cell) -> bool:
    """Whether a value contradicts what is known of the claim.

    Of an altered sentence a part may be supported: only calling all of it so is wrong.
    """
    value = cell.value
    if value is None:  # a verdict without proof: of a true claim it is a miss
        return kind is CanaryKind.COPIED
    if kind is CanaryKind.COPIED:
        return value < 0.5
    return value > 0.99 if kind is CanaryKind.ALTERED else value > 0.5


def judge_canaries(
    canaries: Sequence[Canary],
    metrics: Sequence[Metric],
    judging: Judging,
    folder: Path,
    *,
    run: Mapping[str, str],
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Has canaries judged by a run's metrics and leaves what came of it in the run's folder.

    Nobody is asked again whom the same canaries were put to before.
    """
    asked = [metric for metric in metrics if reads_canaries(metric)]
    basis = fingerprint(([tuple(canary) for canary in canaries], [m.name for m in asked]))
    known = _stored(folder)
    if known is not None and (known.run, known.basis) == (_asked_of(run), basis):
        return
    plan = judging.plan(asked)
    cells: dict[tuple[str, CanaryKind], list[Cell]] = defaultdict(list)
    jobs = [(metric, canary) for metric in asked for canary in canaries]

    def judge(job: tuple[Metric, Canary], panel: ModelClients) -> Awaitable[JudgedCell]:
        metric, canary = job
        return plan.judge(metric, canary.trace, panel)

    for batch in judging.judged(jobs, judge, stopped):
        for (metric, canary), judged in batch:
            cells[metric.name, canary.kind].append(judged.cell)
    each = [(metric.name, kind) for metric in asked for kind in CanaryKind]
    lines = [_line(*one, cells[one]) for one in each if cells[one]]
    stored = _Stored(_asked_of(run), basis, tuple(lines))
    write_atomic(folder / CANARIES, json.format(json.encode(stored)) + b"\n")


def _line(metric: str, kind: CanaryKind, cells: Sequence[Cell]) -> CanaryLine:
    counted = [c for c in cells if c.status in (Status.MEASURED, Status.UNPROVED)]
    return CanaryLine(
        metric=metric,
        kind=kind.value,
        planted=len(cells),
        judged=len(counted),
        wrong=sum(_is_wrong(kind, cell) for cell in counted),
        unproved=sum(cell.status is Status.UNPROVED for cell in counted),
    )


# --- in the run's folder

CANARIES = "canaries.json"
"""The file in a run's folder."""


def _asked_of(run: Mapping[str, str]) -> dict[str, str | None]:
    return {name: run.get(name) for name in ("dataset", "judge", "rag")}


class _Stored(Record, kw_only=False):
    run: dict[str, str | None]
    basis: str
    lines: tuple[CanaryLine, ...]


def _stored(folder: Path) -> _Stored | None:
    """What is kept of a run's canaries; None where there is nothing, or nothing readable."""
    with suppress(OSError, MsgspecError):
        return json.decode((folder / CANARIES).read_bytes(), type=_Stored)
    return None


def read_canaries(folder: Path, run: Mapping[str, str]) -> tuple[CanaryLine, ...]:
    """What a run's judge made of its canaries; nothing where they are of another run or judge."""
    found = _stored(folder)
    return found.lines if found is not None and found.run == _asked_of(run) else ()
