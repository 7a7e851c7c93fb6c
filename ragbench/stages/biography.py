"""Who lost a gold context: what the operators did to each chunk, by case and over a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.core.biography import (
    Biography,
    ChunkLife,
    GoldFate,
    OperatorEffect,
    OperatorTable,
    Step,
    steps_of,
)
from ragbench.core.fusion import best_ranks
from ragbench.core.metric import Skip
from ragbench.core.outcome import Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.metrics.matching import Gold, Matching, gold_of
from ragbench.metrics.summary import most_frequent

_Held = dict[str, tuple[int, ...]]
"""By chunk id: positions of the gold contexts that it holds."""


def biography_of(trace: Trace, matching: Matching) -> Biography | None:
    """What post-retrieval did to the chunks of a case.

    None where no post-retrieval ran, or where it failed.
    """
    before = trace.retrieval.value
    after = None if trace.post_retrieval is None else trace.post_retrieval.value
    if before is None or after is None:
        return None
    steps = steps_of(after)
    if not steps:
        return None
    # Not the first step's: of an id that retrieval repeats, the first place counts.
    orders = [[id for id, _ in steps[0].given], *([id for id, _ in step.left] for step in steps)]
    states = [best_ranks(order) for order in orders]
    gold = gold_of(trace.case, after, matching)
    held = None if isinstance(gold, Skip) else _held(gold, before, after, steps)
    return Biography(
        operators=tuple(step.operator for step in steps),
        lives=_lives(states, steps, held),
        gold=() if isinstance(gold, Skip) or held is None else _fates(gold, states, held),
        no_gold=gold.reason if isinstance(gold, Skip) else None,
        acted=tuple(step.acted for step in steps),
        notes=tuple(step.notes for step in steps),
    )


def _held(
    gold: Gold, before: RetrievalResult[Any], after: RetrievalResult[Any], steps: Sequence[Step]
) -> list[_Held]:
    known: _Held = {}
    for chunk in before.to_chunks():
        known.setdefault(chunk.id, gold.held_by(chunk.id, chunk.metadata, chunk.text))
    final = {chunk.id: chunk for chunk in after.to_chunks()}
    last = {id: at for at, step in enumerate(steps) for id, _ in (*step.rewrote, *step.made)}
    states = [known]
    for at, step in enumerate(steps):
        known = dict(known)
        for id, text in (*step.rewrote, *((id, None) for id, _ in step.made)):
            is_final = last[id] == at and id in final
            if is_final:
                chunk = final[id]
                known[id] = gold.held_by(id, chunk.metadata, chunk.text)
            elif text is not None and gold.matching is Matching.TEXT:
                known[id] = gold.held_by(id, {}, text)
            elif id not in known:  # added and dropped again: its text is not stored
                known[id] = () if gold.matching is Matching.TEXT else gold.held_by(id, {}, "")
        states.append(known)
    return states


def _fates(
    gold: Gold, states: Sequence[Mapping[str, int]], held: Sequence[_Held]
) -> tuple[GoldFate, ...]:
    fates: list[GoldFate] = []
    for label, number in gold.labels.items():
        # The first chunk that holds it, as retrieved and after each operator.
        chunks = [
            next((id for id in state if number in holds.get(id, ())), None)
            for state, holds in zip(states, held, strict=True)
        ]
        there = [at for at, chunk in enumerate(chunks) if chunk is not None]
        ranks = (None if id is None else at[id] for id, at in zip(chunks, states, strict=True))
        fates.append(
            GoldFate(
                gold=label,
                ranks=tuple(ranks),
                chunk=chunks[there[-1]] if there else None,
                lost_by=there[-1] if there and chunks[-1] is None else None,
            )
        )
    return tuple(fates)


def _lives(
    states: Sequence[Mapping[str, int]], steps: Sequence[Step], held: Sequence[_Held] | None
) -> tuple[ChunkLife, ...]:
    rewritten: dict[str, list[int]] = {}
    origins: dict[str, tuple[str, ...]] = {}
    for at, step in enumerate(steps):
        for id, _ in step.rewrote:
            rewritten.setdefault(id, []).append(at)
        origins.update((id, ids) for id, ids in step.made)
    lives: list[ChunkLife] = []
    for id in dict.fromkeys(id for state in states for id in state):
        entered = next(at for at, state in enumerate(states) if id in state)
        lives.append(
            ChunkLife(
                id=id,
                ranks=tuple(state.get(id) for state in states),
                rewritten=tuple(rewritten.get(id, ())),
                made_from=origins.get(id, ()),
                gold=() if held is None else held[entered].get(id, ()),
            )
        )
    return tuple(lives)


def best_order(trace: Trace, matching: Matching) -> Trace | None:
    """The case with its retrieved chunks in the best order, as post-retrieval's outcome.

    First the chunk that brings most of what no chunk before it held (by grade), and so on; the
    others behind them in their order. Where a chunk is one gold context at most, no order scores
    more.

    None where nothing was retrieved, or gold contexts are not known.
    """
    result = trace.retrieval.value
    if result is None:
        return None
    gold = gold_of(trace.case, result, matching)
    if isinstance(gold, Skip):
        return None
    grades = [(trace.case.judgements or {}).get(label, 1) for label in gold.labels]
    chunks = result.to_chunks()
    left = {
        at: found
        for at, chunk in enumerate(chunks)
        if (found := gold.held_by(chunk.id, chunk.metadata, chunk.text))
    }
    order: list[int] = []
    held: set[int] = set()
    while left:
        best = max(left, key=lambda at: (sum(grades[g] for g in left[at] if g not in held), -at))
        held.update(left.pop(best))
        order.append(best)
    order += [at for at in range(len(chunks)) if at not in set(order)]
    ids, scores, known = result.context_ids, result.scores, result.context_metadata
    ordered: RetrievalResult[Any] = RetrievalResult(
        [result.contexts[at] for at in order],
        context_ids=None if ids is None else [ids[at] for at in order],
        scores=None if scores is None else [scores[at] for at in order],
        context_metadata=None if known is None else [known[at] for at in order],
    )
    return replace(trace, post_retrieval=Outcome(status=Status.MEASURED, value=ordered))


_EXAMPLES = 5
_COUNTED = tuple(name for name, kind in OperatorEffect.__annotations__.items() if kind == "int")


@dataclass(slots=True)
class _Effect:
    operator: str
    counts: Counter[str] = field(default_factory=Counter[str])
    notes: Counter[str] = field(default_factory=Counter[str])
    wordings: dict[str, str] = field(default_factory=dict[str, str])
    examples: list[str] = field(default_factory=list[str])

    def add(self, biography: Biography, at: int, case: str) -> None:
        """Counts a case; ``at`` is the operator's position."""
        count = self.counts
        count["cases"] += 1
        count["acted"] += biography.acted[at]
        count["rewritten"] += sum(at in life.rewritten for life in biography.lives)
        kept = self._count(biography.lives, at, ("given", "dropped", "added"))
        # Closing ranks behind a dropped chunk moves nothing.
        order = [after for _, after in sorted(kept)]
        places = zip(order, sorted(order), strict=True)
        count["moved"] += sum(is_at != would_be for is_at, would_be in places)
        kept = self._count(biography.gold, at, ("gold_given", "gold_lost", "gold_added"))
        count["gold_up"] += sum(after < before for before, after in kept)
        count["gold_down"] += sum(after > before for before, after in kept)
        lost = sum(fate.lost_by == at for fate in biography.gold)
        count["lost_for_good"] += lost
        if lost and len(self.examples) < _EXAMPLES:
            self.examples.append(case)
        for note in biography.notes[at]:
            key = re.sub(r"\d+", "#", note)
            self.wordings.setdefault(key, note)
            self.notes[key] += 1

    def _count(
        self, of: Iterable[ChunkLife | GoldFate], at: int, names: tuple[str, str, str]
    ) -> list[tuple[int, int]]:
        """Counts what was there before, lost and added; the ranks of what stayed."""
        changes = [(one.ranks[at], one.ranks[at + 1]) for one in of]
        given, lost, added = names
        self.counts[given] += sum(before is not None for before, _ in changes)
        self.counts[lost] += sum(a is None and b is not None for b, a in changes)
        self.counts[added] += sum(b is None and a is not None for b, a in changes)
        return [(b, a) for b, a in changes if b is not None and a is not None]

    def record(self) -> OperatorEffect:
        return OperatorEffect(
            operator=self.operator,
            **{name: self.counts[name] for name in _COUNTED},
            notes=tuple((self.wordings[key], number) for key, number in most_frequent(self.notes)),
            examples=tuple(self.examples),
        )


@dataclass(slots=True)
class BiographyTally:
    """Counts what the operators did, over cases."""

    _effects: dict[tuple[int, str], _Effect] = field(default_factory=dict[tuple[int, str], _Effect])
    _counts: Counter[str] = field(default_factory=Counter[str])
    _no_gold: Counter[str] = field(default_factory=Counter[str])

    def add(self, case: str, biography: Biography | None) -> None:
        if biography is None:
            return
        gold = biography.gold
        self._counts.update(
            cases=1,
            judged=int(biography.no_gold is None),
            gold=len(gold),
            found=sum(fate.chunk is not None for fate in gold),
            kept=sum(fate.ranks[-1] is not None for fate in gold),
        )
        if biography.no_gold is not None:
            self._no_gold[biography.no_gold] += 1
        for at, name in enumerate(biography.operators):
            effect = self._effects.setdefault((at, name), _Effect(operator=biography.step(at)))
            effect.add(biography, at, case)

    def table(self) -> OperatorTable | None:
        """The counts; None when no case went through an operator."""
        if not self._effects:
            return None
        return OperatorTable(
            operators=tuple(effect.record() for _, effect in sorted(self._effects.items())),
            no_gold=most_frequent(self._no_gold),
            **self._counts,
        )
