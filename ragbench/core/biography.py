"""How post-retrieval changed the chunks of a case, and where gold contexts were lost.

A pipeline of operators leaves a `Step` per operator in its result. From these a `Biography` is made
of each case, and an `OperatorTable` of all cases of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ragbench.core.outcome import Failure
from ragbench.core.record import Record

if TYPE_CHECKING:
    from ragbench.core.result import RetrievalResult

POST_RETRIEVE = "post_retrieve"
"""The stage's name, and the key of its steps in its result's metadata."""


class Step(Record):
    """The chunks before and after one operator, with what it reported."""

    operator: str
    """Its name."""
    given: tuple[tuple[str, float | None], ...]
    """Id and score of each chunk before the operator, in order."""
    left: tuple[tuple[str, float | None], ...]
    """Id and score of each chunk after the operator, in order."""
    notes: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    rewrote: tuple[tuple[str, str | None], ...] = ()
    """Id and new text of each chunk whose text it changed. In a stored step the text is None where
    it follows from other texts: it is the chunk's final one, or contains the one before it."""
    made: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Id of each chunk that it added, and the ids of the chunks that this one was made of; no ids
    where it was retrieved from elsewhere."""
    wrote_text: bool = False
    """Whether it wrote the text for generation."""

    @property
    def acted(self) -> bool:
        """Whether the operator of this step changed chunks, their order or their texts.

        New scores alone, with the same order, change nothing for generation: reports call such a
        step idle.
        """
        if self.rewrote or self.made or self.wrote_text:
            return True
        ids_before = [id_ for id_, _ in self.given]
        ids_after = [id_ for id_, _ in self.left]
        return ids_before != ids_after

    @property
    def dropped(self) -> tuple[str, ...]:
        """Ids of the chunks that the operator of this step removed, in their order before it.

        Each may have held the answer: reports show by it which operator took what away.
        """
        ids_after = {id_ for id_, _ in self.left}
        return tuple(id_ for id_, _ in self.given if id_ not in ids_after)


def written_text(result: RetrievalResult[Any]) -> str | None:
    """The text that a format operator wrote in place of the contexts; None when none did.

    Generation is given this text then, and not the chunks.
    """
    text: str | None = record_of(result, POST_RETRIEVE).get("text")
    return text


def steps_of(result: RetrievalResult[Any]) -> tuple[Step, ...]:
    """The steps of the operators, in order, read from a post-retrieval result.

    A stored step leaves out what the step before it has; here each step is whole again.
    """
    record = record_of(result, POST_RETRIEVE)
    steps: list[Step] = []
    # A stored step has no "given", which is what the step before it left, and no "left" where the
    # operator left the chunks as they were.
    chunks = record.get("given", ())
    for stored_step in record.get("steps", ()):
        chunks_after = stored_step.get("left", chunks)
        values = {**stored_step, "given": chunks, "left": chunks_after}
        steps.append(msgspec.convert(values, Step))
        chunks = chunks_after
    return tuple(steps)


def record_of(result: RetrievalResult[Any], stage: str) -> Mapping[str, Any]:
    """What a stage noted in its result's metadata, under its name; empty where it noted nothing.

    Post-retrieval's steps and the queries that pre-retrieval sent are noted there: so they come
    along with a result, and are stored with it. The metadata are the user's: they may be of any
    kind, and hold anything under that name.
    """
    metadata: object = result.metadata
    if not isinstance(metadata, Mapping):
        return {}
    # Under the stage's own name, which is stored: readers of runs find it by that.
    record = cast("Mapping[str, Any]", metadata).get(stage)
    if not isinstance(record, Mapping):
        return {}
    return cast("Mapping[str, Any]", record)


class ChunkLife(Record):
    """One chunk on its way through the operators."""

    id: str
    """Its id; its position, from ``"0"``, where retrieval gave no ids."""
    ranks: tuple[int | None, ...]
    """Its rank from 1 as retrieved, then after each operator; None where it is not there."""
    rewritten: tuple[int, ...] = ()
    """Positions, from 0, of the operators that changed its text."""
    made_from: tuple[str, ...] = ()
    """Ids of the chunks that an operator made it of; empty for a retrieved one."""
    gold: tuple[int, ...] = ()
    """Positions in `Biography.gold` of the gold contexts in it when it first appeared."""

    @property
    def dropped_by(self) -> int | None:
        """Position of the operator after which the chunk is gone; None if generation got the chunk.

        Operators count from 0. A chunk that was dropped and came back was not lost by that
        operator.
        """
        if self.ranks[-1] is not None:
            return None
        # The ranks begin with retrieval, before the first operator: the last position with a rank
        # is that of the operator behind it.
        return max(position for position, rank in enumerate(self.ranks) if rank is not None)


class GoldFate(Record):
    """One gold context of a case on its way to generation, and the operator that lost it."""

    gold: str
    """Its id, or its text where texts are compared."""
    ranks: tuple[int | None, ...]
    """The rank from 1 of the first chunk that holds it, as retrieved, then after each operator;
    None where no chunk holds it."""
    chunk: str | None
    """Id of the last chunk that contained it; None when none ever did."""
    lost_by: int | None
    """Position of the operator after which no chunk contains it any more; None when it was never
    retrieved, or reached generation."""


class Biography(Record):
    """The way of each chunk and of each gold context of one case through the operators."""

    operators: tuple[str, ...]
    """Their names, in order. Positions elsewhere count them from 0."""
    lives: tuple[ChunkLife, ...]
    """Retrieved chunks in retrieval's order, then those that operators added."""
    gold: tuple[GoldFate, ...] = ()
    """The gold contexts, in the case's order; empty when none is known."""
    no_gold: str | None = None
    """Why ``gold`` is empty; None when it is not."""
    acted: tuple[bool, ...] = ()
    """By operator: whether it dropped, moved, added or rewrote a chunk, or wrote the text."""
    notes: tuple[tuple[str, ...], ...] = ()
    """By operator: what it reported about this case."""

    def lost_by(self, gold: GoldFate) -> str | None:
        """Name of the operator that lost a gold context, as `step` gives it; None when none did.

        A gold context is a text that holds the answer: who lost it is to be mended.
        """
        if gold.lost_by is None:
            return None
        return self.step(gold.lost_by)

    def step(self, position: int) -> str:
        """The name of the operator at a position, from 0.

        If others share the name, with its number: ``"rerank (step 2)"``.
        Operators are named so in reports, where a stage may have one twice.
        """
        name = self.operators[position]
        if self.operators.count(name) == 1:
            return name
        return f"{name} (step {position + 1})"


class OperatorEffect(Record):
    """One operator over all cases of a run, or of a variant."""

    operator: str
    cases: int
    acted: int
    """Of those, in which it changed something."""
    given: int
    dropped: int
    moved: int
    """Chunks that it kept, whose rank among the kept ones changed."""
    added: int
    rewritten: int
    gold_given: int
    """Gold contexts that a chunk contained before it."""
    gold_lost: int
    """Of those, how many no chunk contained after it."""
    gold_added: int
    """Gold contexts that no chunk contained before it, and one did after it."""
    gold_up: int
    """Gold contexts that it kept, at a better rank than before."""
    gold_down: int
    """Gold contexts that it kept, at a worse rank than before."""
    notes: tuple[tuple[str, int], ...] = ()
    """What it reported, with the number of cases, the most frequent first. Notes that differ only
    in their numbers are counted together, under the first one."""
    examples: tuple[str, ...] = ()
    """Ids of the first cases in which it lost a gold context for good."""
    lost_for_good: int = 0
    """Gold contexts that it lost and that generation was not given: `GoldFate.lost_by` names it."""


class OperatorTable(Record):
    """The effects of the operators, over all cases with a biography."""

    operators: tuple[OperatorEffect, ...]
    cases: int
    judged: int
    """Cases whose gold contexts are known: all counts of gold are over these."""
    gold: int
    """Gold contexts of these cases."""
    found: int
    """Of those, how many a chunk contained before the first operator, or after one."""
    kept: int
    """Of those, how many generation was given."""
    no_gold: tuple[tuple[str, int], ...] = ()
    """Why the gold of the other cases is unknown, with counts, the most frequent first."""

    @property
    def losers(self) -> Sequence[OperatorEffect]:
        """The operators that lost gold contexts for good, the worst first.

        A gold context is a text that holds the answer: reports warn of the operators that took it
        away.
        """
        losers = [effect for effect in self.operators if effect.lost_for_good]
        return sorted(losers, key=lambda effect: -effect.lost_for_good)
