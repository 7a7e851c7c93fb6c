"""Who lost a gold context: what the operators did to each chunk, by case and over a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

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

ValueT = TypeVar("ValueT")

_GoldByChunk = dict[str, tuple[int, ...]]
"""By chunk id: positions of the gold contexts that the chunk holds."""
_Ranks = Mapping[str, int]
"""By chunk id its rank, at one time: as retrieved, or after an operator."""


def biography_of(trace: Trace, matching: Matching) -> Biography | None:
    """What the post-retrieval operators did to a case's chunks, and which of them lost its gold.

    From this a report names the operator that dropped the answer, and at which rank. None where no
    post-retrieval ran, or where it failed.
    """
    retrieved = trace.retrieval.value
    result: RetrievalResult[Any] | None = None
    if trace.post_retrieval is not None:
        result = trace.post_retrieval.value
    if retrieved is None or result is None:
        return None
    steps = steps_of(result)
    if not steps:
        return None
    # Of an id that an order repeats, the first place counts: the best rank.
    # The first step's `given` is what retrieval returned: state 0, before any operator.
    states = [best_ranks([id for id, _ in steps[0].given])]
    for step in steps:
        states.append(best_ranks([id for id, _ in step.left]))
    gold = gold_of(trace.case, result, matching)
    gold_states: list[_GoldByChunk] | None = None
    fates: tuple[GoldFate, ...] = ()
    no_gold = None
    if isinstance(gold, Skip):
        no_gold = gold.reason
    else:
        gold_states = _gold_by_chunk_over_time(gold, retrieved, result, steps)
        fates = _fates_of_gold(gold, states, gold_states)
    return Biography(
        operators=tuple(step.operator for step in steps),
        lives=_lives_of_chunks(states, steps, gold_states),
        gold=fates,
        no_gold=no_gold,
        # The three tuples pair by position: one entry for each operator.
        acted=tuple(step.acted for step in steps),
        notes=tuple(step.notes for step in steps),
    )


def _gold_by_chunk_over_time(
    gold: Gold,
    retrieved: RetrievalResult[Any],
    result: RetrievalResult[Any],
    steps: Sequence[Step],
) -> list[_GoldByChunk]:
    """Which gold contexts each chunk holds: one table as retrieved, and one after each operator.

    Operators rewrite and merge chunks, and a rewritten chunk may hold gold no longer: so a chunk is
    compared again after each step that changed it, as far as its text is stored.

    Args:
        retrieved: the chunks before the first operator.
        result: the chunks after the last operator.
    """
    gold_by_chunk: _GoldByChunk = {}
    for chunk in retrieved.to_chunks():
        # The first of chunks with the same id counts, as for the ranks.
        gold_by_chunk.setdefault(chunk.id, gold.held_by(chunk.id, chunk.metadata, chunk.text))
    by_state = [gold_by_chunk]

    # The result has each chunk whole, as the last step that changed it left it. Of what steps
    # before that made of it, only the text is stored, and of a chunk that was made not even that.
    final_chunks = {chunk.id: chunk for chunk in result.to_chunks()}
    last_change: dict[str, int] = {}
    for position, step in enumerate(steps):
        for id, _ in (*step.rewrote, *step.made):
            last_change[id] = position

    for position, step in enumerate(steps):
        # A copy for each time: the tables of earlier times stay as they are.
        gold_by_chunk = dict(gold_by_chunk)
        new_texts: list[tuple[str, str | None]] = [*step.rewrote]
        for id, _ in step.made:
            new_texts.append((id, None))
        for id, text in new_texts:
            if last_change[id] == position and id in final_chunks:
                chunk = final_chunks[id]
                gold_by_chunk[id] = gold.held_by(id, chunk.metadata, chunk.text)
            elif text is not None and gold.matching is Matching.TEXT:
                # Of an earlier step only the text is stored: no metadata, which matter to matching
                # by id alone.
                gold_by_chunk[id] = gold.held_by(id, {}, text)
            elif id not in gold_by_chunk:
                # Made and dropped again: only its id can say what it is.
                by_text = gold.matching is Matching.TEXT
                gold_by_chunk[id] = () if by_text else gold.held_by(id, {}, "")
        by_state.append(gold_by_chunk)
    return by_state


def _fates_of_gold(
    gold: Gold, states: Sequence[_Ranks], gold_states: Sequence[_GoldByChunk]
) -> tuple[GoldFate, ...]:
    """What became of each gold context: its rank at each time, and the operator that lost it.

    Args:
        states: the rank of each chunk by its id, as retrieved and after each operator.
        gold_states: which gold contexts each chunk holds, at the same times.
    """
    fates: list[GoldFate] = []
    for label, number in gold.labels.items():
        ranks: list[int | None] = []
        last_chunk: str | None = None
        last_state: int | None = None
        for position, (state, gold_by_chunk) in enumerate(zip(states, gold_states, strict=True)):
            chunk = _first_holding(number, state, gold_by_chunk)
            if chunk is None:
                ranks.append(None)
            else:
                ranks.append(state[chunk])
                last_chunk = chunk
                last_state = position
        # The operator behind a state has the state's position: the first state is retrieval's.
        lost_by: int | None = None
        if ranks[-1] is None:
            lost_by = last_state
        fates.append(
            GoldFate(
                gold=label,
                ranks=tuple(ranks),
                chunk=last_chunk,
                lost_by=lost_by,
            )
        )
    return tuple(fates)


def _first_holding(number: int, state: _Ranks, gold_by_chunk: _GoldByChunk) -> str | None:
    """The id of the best-ranked chunk that holds a gold context at one time; None without one.

    The rank of this chunk is the rank of the gold context: generation meets the gold there first.

    Args:
        state: the chunks at that time, in their order.
    """
    for id in state:
        if number in gold_by_chunk.get(id, ()):
            return id
    return None


def _lives_of_chunks(
    states: Sequence[_Ranks], steps: Sequence[Step], gold_states: Sequence[_GoldByChunk] | None
) -> tuple[ChunkLife, ...]:
    """What became of each chunk, in the order in which chunks came in: ranks, changes, gold.

    Args:
        states: the rank of each chunk by its id, as retrieved and after each operator.
        gold_states: which gold contexts each chunk holds, at the same times; None where that is not
            known.
    """
    rewritten: dict[str, list[int]] = {}
    origins: dict[str, tuple[str, ...]] = {}
    for position, step in enumerate(steps):
        for id, _ in step.rewrote:
            rewritten.setdefault(id, []).append(position)
        origins.update(step.made)
    entered: dict[str, int] = {}
    for position, state in enumerate(states):
        for id in state:
            entered.setdefault(id, position)
    lives: list[ChunkLife] = []
    # Gold is taken at the time when the chunk came in: later texts may have lost it.
    for id, position in entered.items():
        gold: tuple[int, ...] = ()
        if gold_states is not None:
            gold = gold_states[position].get(id, ())
        life = ChunkLife(
            id=id,
            ranks=tuple(state.get(id) for state in states),
            rewritten=tuple(rewritten.get(id, ())),
            made_from=origins.get(id, ()),
            gold=gold,
        )
        lives.append(life)
    return tuple(lives)


def best_order(trace: Trace, matching: Matching) -> Trace | None:
    """The case with its retrieved chunks in the best order, as if post-retrieval had sorted them.

    Scored like any case, it shows how much a perfect reranker could gain. First the chunk that
    brings most of what no chunk before it held (by grade), and so on; the others behind them in
    their order. Where a chunk is one gold context at most, no order scores more.

    None where nothing was retrieved, or gold contexts are not known.
    """
    result = trace.retrieval.value
    if result is None:
        return None
    gold = gold_of(trace.case, result, matching)
    if isinstance(gold, Skip):
        return None
    judgements = trace.case.judgements or {}
    # A gold context that the case does not grade counts 1, as metrics count it.
    grades = [judgements.get(label, 1) for label in gold.labels]
    order = _greedy_order(gold, grades, result)
    ordered: RetrievalResult[Any] = RetrievalResult(
        [result.contexts[position] for position in order],
        context_ids=_in_order(result.context_ids, order),
        scores=_in_order(result.scores, order),
        context_metadata=_in_order(result.context_metadata, order),
    )
    # As a stage of post-retrieval: metrics of the retriever read the last ordering of a case.
    return replace(trace, post_retrieval=Outcome(status=Status.MEASURED, value=ordered))


def _in_order(values: Sequence[ValueT] | None, order: Sequence[int]) -> list[ValueT] | None:
    """One value for each chunk (its id, score or metadata) in another order of the chunks.

    A retrieval whose chunks are sorted anew keeps its optional values so. None where it has none.
    """
    if values is None:
        return None
    return [values[position] for position in order]


def _greedy_order(gold: Gold, grades: Sequence[int], result: RetrievalResult[Any]) -> list[int]:
    """Positions of all chunks in the order that scores best: next the chunk that adds most gold.

    How much a chunk adds depends on the chunks before it, since they may hold the same gold: so the
    next one is looked for anew each time. Chunks without gold follow in retrieval's order.
    """
    held_by_chunk: dict[int, tuple[int, ...]] = {}
    chunks = result.to_chunks()
    for position, chunk in enumerate(chunks):
        labels = gold.held_by(chunk.id, chunk.metadata, chunk.text)
        if labels:
            held_by_chunk[position] = labels
    order: list[int] = []
    covered: set[int] = set()
    # Also chunks that add nothing new are taken here, before any chunk without gold.
    while held_by_chunk:
        best = _most_gaining(held_by_chunk, grades, covered)
        covered.update(held_by_chunk.pop(best))
        order.append(best)
    without_gold = sorted({*range(len(chunks))} - {*order})
    return order + without_gold


def _most_gaining(
    held_by_chunk: Mapping[int, Sequence[int]], grades: Sequence[int], covered: Set[int]
) -> int:
    """The position of the chunk that adds the most gold, by grade, to what is covered already.

    Of two chunks that add the same, the one that was retrieved earlier is taken.

    Args:
        held_by_chunk: by position of a chunk, the numbers of the gold contexts that it holds.
        grades: how relevant each gold context is, by its number.
        covered: numbers of the gold contexts that the chunks taken so far hold.
    """
    gains: dict[int, int] = {}
    for position, held in held_by_chunk.items():
        gains[position] = sum(grades[label] for label in held if label not in covered)
    return max(gains, key=lambda position: (gains[position], -position))


_MOST_EXAMPLES = 5
"""How many ids of cases stand beside an operator that lost their gold."""


@dataclass(slots=True)
class _Effect:
    """Counts what one operator did, over cases."""

    operator: str
    """With its step where several share the name."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """By field of an `OperatorEffect`."""
    notes: Counter[str] = field(default_factory=Counter[str])
    """Notes of the operator, numbers in them left out."""
    wordings: dict[str, str] = field(default_factory=dict[str, str])
    """The first note of each such wording, as it was."""
    examples: list[str] = field(default_factory=list[str])
    """Ids of the first cases in which it lost gold for good."""

    def add(self, biography: Biography, position: int, case: str) -> None:
        """Counts a case for one operator: the chunks and gold that it got, lost, added and moved.

        The names of the counts are fields of `OperatorEffect`, which `record` fills from them.

        Args:
            biography: what the operators did to the case's chunks.
            position: the operator's place among those that the case went through.
            case: the case's id, for the examples.
        """
        counts = self.counts
        counts["cases"] += 1
        counts["acted"] += biography.acted[position]
        counts["rewritten"] += sum(position in life.rewritten for life in biography.lives)
        stayed = self._count(biography.lives, position, ("given", "dropped", "added"))
        # A chunk that only closes up behind a dropped one has not moved: those that stay are
        # compared with the order that they had among themselves.
        ranks_after = [after for _, after in sorted(stayed)]
        for rank, rank_unmoved in zip(ranks_after, sorted(ranks_after), strict=True):
            # A bool adds 0 or 1, here and below.
            counts["moved"] += rank != rank_unmoved
        stayed_gold = self._count(
            biography.gold, position, ("gold_given", "gold_lost", "gold_added")
        )
        for before, after in stayed_gold:
            counts["gold_up"] += after < before
            counts["gold_down"] += after > before
        lost = sum(fate.lost_by == position for fate in biography.gold)
        counts["lost_for_good"] += lost
        if lost and len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(case)
        for note in biography.notes[position]:
            # "Dropped 3 chunks" and "Dropped 4 chunks" are one note.
            wording = re.sub(r"\d+", "#", note)
            self.wordings.setdefault(wording, note)
            self.notes[wording] += 1

    def _count(
        self, fates: Iterable[ChunkLife | GoldFate], position: int, names: tuple[str, str, str]
    ) -> list[tuple[int, int]]:
        """Counts the chunks (or gold contexts) before one operator, lost by it and added by it.

        Returns the ranks, before and after the operator, of those that stayed: from them the caller
        counts which have moved.

        Args:
            names: under which the three are counted.
        """
        before_name, lost_name, added_name = names
        stayed: list[tuple[int, int]] = []
        for fate in fates:
            # A rank of None: at that step it is not among the chunks.
            before = fate.ranks[position]
            after = fate.ranks[position + 1]
            if before is not None:
                self.counts[before_name] += 1
                if after is None:
                    self.counts[lost_name] += 1
                else:
                    stayed.append((before, after))
            elif after is not None:
                self.counts[added_name] += 1
        return stayed

    def record(self) -> OperatorEffect:
        """One operator's counts over all cases, as the row of the report's table of operators.

        Notes come with their first wording and the most frequent one first.
        """
        counts = self.counts
        notes = [(self.wordings[wording], count) for wording, count in most_frequent(self.notes)]
        return OperatorEffect(
            operator=self.operator,
            cases=counts["cases"],
            acted=counts["acted"],
            given=counts["given"],
            dropped=counts["dropped"],
            moved=counts["moved"],
            added=counts["added"],
            rewritten=counts["rewritten"],
            gold_given=counts["gold_given"],
            gold_lost=counts["gold_lost"],
            gold_added=counts["gold_added"],
            gold_up=counts["gold_up"],
            gold_down=counts["gold_down"],
            notes=tuple(notes),
            examples=tuple(self.examples),
            lost_for_good=counts["lost_for_good"],
        )


@dataclass(slots=True)
class BiographyTally:
    """Counts what the operators did, over cases."""

    _effects: dict[tuple[int, str], _Effect] = field(default_factory=dict[tuple[int, str], _Effect])
    """By the position and the name of the operator: a case may have been through others."""
    _no_gold: Counter[str] = field(default_factory=Counter[str])
    """Why gold contexts are not known, where they are not."""
    _cases: int = 0
    """Cases that went through at least one operator."""
    _judged: int = 0
    """Cases whose gold contexts are known."""
    _gold: int = 0
    """Gold contexts of these cases."""
    _found: int = 0
    """Of these, those that a chunk held at some time."""
    _kept: int = 0
    """Of these, those that generation was given."""

    def add(self, case: str, biography: Biography | None) -> None:
        """Counts a case for the table of operators; does nothing where no operator ran on the case.

        Args:
            case: the case's id, of which an operator that lost its gold keeps a few as examples.
            biography: what the operators did to the case's chunks; None where no operator ran.
        """
        if biography is None:
            return
        self._cases += 1
        if biography.no_gold is None:
            self._judged += 1
        else:
            self._no_gold[biography.no_gold] += 1
        for fate in biography.gold:
            self._gold += 1
            self._found += fate.chunk is not None
            self._kept += fate.ranks[-1] is not None
        for position, name in enumerate(biography.operators):
            effect = self._effects.get((position, name))
            # Named with its step, such as "rerank (step 2)", where two operators share a name.
            if effect is None:
                effect = _Effect(operator=biography.step(position))
                self._effects[position, name] = effect
            effect.add(biography, position, case)

    def table(self) -> OperatorTable | None:
        """The report's table of operators over all cases; None when no operator ran on a case.

        It shows which operator lost gold, and in which cases to look at it.
        """
        if not self._effects:
            return None
        # Sorted by position: in the order in which operators act.
        return OperatorTable(
            operators=tuple(effect.record() for _, effect in sorted(self._effects.items())),
            cases=self._cases,
            judged=self._judged,
            gold=self._gold,
            found=self._found,
            kept=self._kept,
            no_gold=most_frequent(self._no_gold),
        )
