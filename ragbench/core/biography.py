"""What post-retrieval did to each chunk of a case, and where gold contexts were lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ragbench.core.outcome import Failure
from ragbench.core.record import Record

if TYPE_CHECKING:
    from ragbench.core.result import RetrievalResult

POST_RETRIEVE = "post_retrieve"
"""The stage's name, and the key of what it did in its result's metadata."""


class Step(Record):
    """What one operator made of what stood before it."""

    operator: str
    """Its name."""
    given: tuple[tuple[str, float | None], ...]
    """Id and score of each chunk that it was given, in order."""
    left: tuple[tuple[str, float | None], ...]
    """Id and score of each chunk that it left, in order."""
    notes: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    rewrote: tuple[tuple[str, str | None], ...] = ()
    """Id and new text of each chunk whose text it changed. In a stored step the text is None where
    it is known without it: it is the chunk's final one, or holds the one before whole."""
    made: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Id of each chunk that it added, and the ids of the chunks that it was made of; none for one
    that was found elsewhere."""
    wrote_text: bool = False
    """Whether it wrote the text for generation."""

    @property
    def acted(self) -> bool:
        """Whether it changed anything for generation: chunks, their order or texts.

        New scores alone, with the same order, change nothing.
        """
        if self.rewrote or self.made or self.wrote_text:
            return True
        return [id for id, _ in self.given] != [id for id, _ in self.left]

    @property
    def dropped(self) -> tuple[str, ...]:
        left = {id for id, _ in self.left}
        return tuple(id for id, _ in self.given if id not in left)


def written_text(result: RetrievalResult[Any]) -> str | None:
    """What a format operator wrote in place of the contexts; None when none did."""
    written: str | None = record_of(result, POST_RETRIEVE).get("text")
    return written


def steps_of(result: RetrievalResult[Any]) -> tuple[Step, ...]:
    """What each operator did, out of a post-retrieval result."""
    record = record_of(result, POST_RETRIEVE)
    before = record.get("given", ())
    steps: list[Step] = []
    for kept in record.get("steps", ()):
        left = kept.get("left", before)
        steps.append(msgspec.convert({**kept, "given": before, "left": left}, Step))
        before = left
    return tuple(steps)


def record_of(result: RetrievalResult[Any], stage: str) -> Mapping[str, Any]:
    metadata: object = result.metadata
    if not isinstance(metadata, Mapping):
        return {}
    found = cast("Mapping[str, Any]", metadata).get(stage)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


class ChunkLife(Record):
    """One chunk on its way through the operators."""

    id: str
    """Its id; its position, from ``"0"``, where retrieval gave no ids."""
    ranks: tuple[int | None, ...]
    """Its rank from 1 as retrieved, then after each operator; None where it is not there."""
    rewritten: tuple[int, ...] = ()
    """Positions, from 0, of the operators that changed its text."""
    made_from: tuple[str, ...] = ()
    """Ids of the chunks that an operator made it of; empty for one that was found."""
    gold: tuple[int, ...] = ()
    """Positions in `Biography.gold` of the gold contexts that it held when it entered."""

    @property
    def dropped_by(self) -> int | None:
        """Position of the operator after which it is gone for good; None when it was kept."""
        if self.ranks[-1] is not None:
            return None
        return max(at for at, rank in enumerate(self.ranks) if rank is not None)


class GoldFate(Record):
    """One gold context of a case: whether generation was given it, and if not, who lost it."""

    gold: str
    """Its id, or its text where texts are compared."""
    ranks: tuple[int | None, ...]
    """The rank from 1 of the first chunk that holds it, as retrieved, then after each operator;
    None where no chunk holds it."""
    chunk: str | None
    """Id of the last chunk known to hold it; None when none ever did."""
    lost_by: int | None
    """Position of the operator after which no chunk holds it any more; None when it was never
    found, or reached generation."""


class Biography(Record):
    """What each operator did to each chunk of one case."""

    operators: tuple[str, ...]
    """Their names, in order. Positions elsewhere count them from 0."""
    lives: tuple[ChunkLife, ...]
    """Retrieved chunks in retrieval's order, then those that operators added."""
    gold: tuple[GoldFate, ...] = ()
    """The gold contexts, in the case's order; empty when none is known."""
    no_gold: str | None = None
    """Why nothing is said about gold contexts; None when it is."""
    acted: tuple[bool, ...] = ()
    """By operator: whether it dropped, moved, added or rewrote a chunk, or wrote the text."""
    notes: tuple[tuple[str, ...], ...] = ()
    """By operator: what it said about this case."""

    def lost_by(self, gold: GoldFate) -> str | None:
        """Name of the operator that lost a gold context, see `step`; None when none did."""
        return None if gold.lost_by is None else self.step(gold.lost_by)

    def step(self, at: int) -> str:
        """What an operator is called: its name, and its place from 1 where others share that.

        Args:
            at: its position, from 0.
        """
        name = self.operators[at]
        return name if self.operators.count(name) == 1 else f"{name} (step {at + 1})"


class OperatorEffect(Record):
    """One operator over all cases of a run, or of a variant."""

    operator: str
    cases: int
    acted: int
    """Of those, in which it changed something."""
    given: int
    dropped: int
    moved: int
    """Chunks that it kept, at another rank among those that it kept."""
    added: int
    rewritten: int
    gold_given: int
    """Gold contexts that some chunk held before it."""
    gold_lost: int
    """Of those, that no chunk held after it."""
    gold_added: int
    """Gold contexts that no chunk held before it, and some chunk after it."""
    gold_up: int
    """Gold contexts that it kept, at a better rank than before."""
    gold_down: int
    """Gold contexts that it kept, at a worse rank than before."""
    notes: tuple[tuple[str, int], ...] = ()
    """What it said, with the number of cases, the most frequent first. Notes that differ in
    numbers alone are counted together, by the first one."""
    examples: tuple[str, ...] = ()
    """Ids of the first cases in which it lost a gold context for good."""
    lost_for_good: int = 0
    """Gold contexts that it lost and that generation was not given: these are in `GoldFate`."""


class OperatorTable(Record):
    """What the operators did, over all cases with a biography."""

    operators: tuple[OperatorEffect, ...]
    cases: int
    judged: int
    """Of those, with gold contexts that are known: what is said of gold covers only these."""
    gold: int
    found: int
    """Of those, that some chunk held before the first operator, or after one."""
    kept: int
    """Of those, that generation was given."""
    no_gold: tuple[tuple[str, int], ...] = ()
    """Why nothing is known of the other cases' gold, with counts, the most frequent first."""

    @property
    def losers(self) -> Sequence[OperatorEffect]:
        """The operators that lost gold contexts for good, the worst first."""
        found = [one for one in self.operators if one.lost_for_good]
        return sorted(found, key=lambda one: -one.lost_for_good)
