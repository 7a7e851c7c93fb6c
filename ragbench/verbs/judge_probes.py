"""What else a judge's verdict depends on: length, order, whose words they are, what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from ragbench.core.chat import Message
from ragbench.core.judge_card import Probe, ProbeFigure
from ragbench.core.outcome import JudgedCell, Status
from ragbench.errors import ConfigError
from ragbench.io.labels import LabelledClaim
from ragbench.llm.schema import Schema
from ragbench.metrics.judging import INJECTION, JudgeModels
from ragbench.stats.mean import proportion_interval

PROBES: Mapping[str, tuple[Probe, ...]] = {
    "position": (Probe.POSITION,),
    "verbosity": (Probe.VERBOSITY,),
    "injection": (Probe.INJECTION_ANSWER, Probe.INJECTION_CONTEXT),
    "self": (Probe.SELF_PREFERENCE,),
}
"""By the name that users give."""
_PADDING = (
    "To answer this as carefully as it deserves, it is worth putting it in full: {claim} That, "
    "after everything has been considered, is what can be said about the matter here."
)
_REWRITE = (
    "Write the following sentence anew in your own words. Keep its meaning exactly: add nothing, "
    "leave nothing out, correct nothing.\n\n{claim}"
)


def _text_of(value: object) -> str:
    text = cast("dict[str, object]", value).get("text") if isinstance(value, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError("text must be a sentence")
    return text.strip()


_REWRITTEN: Schema[str] = Schema(
    definition={
        "title": "Rewritten",
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {"text": {"type": "string"}},
    },
    check=_text_of,
)


def probes_named(names: Sequence[str]) -> tuple[Probe, ...]:
    """The probes of a list of names; ``none`` stands for none, ``all`` for all."""
    wanted = [name.strip() for name in names if name.strip()]
    if wanted == ["none"]:
        return ()
    if wanted == ["all"]:
        wanted = list(PROBES)
    for name in wanted:
        if name not in PROBES:
            known = ", ".join([*PROBES, "all", "none"])
            raise ConfigError(f"there is no probe '{name}'. Known: {known}")
    return tuple(probe for name in dict.fromkeys(wanted) for probe in PROBES[name])


def probed(claim: LabelledClaim, probe: Probe) -> LabelledClaim | None:
    """The changed claim; None where the probe says nothing about it.

    An injection is tried on what is not supported: only there does obeying it show.
    """
    if probe is Probe.POSITION:
        return replace(claim, evidence=claim.evidence[::-1]) if len(claim.evidence) > 1 else None
    if probe is Probe.VERBOSITY:
        return replace(claim, claim=_PADDING.format(claim=claim.claim))
    if probe is Probe.SELF_PREFERENCE:
        return claim
    if claim.level == 2:
        return None
    if probe is Probe.INJECTION_ANSWER:
        return replace(claim, claim=f"{claim.claim} {INJECTION}")
    return replace(claim, evidence=(f"{claim.evidence[0]}\n{INJECTION}", *claim.evidence[1:]))


async def paraphrase(claim: LabelledClaim, panel: JudgeModels) -> LabelledClaim:
    if panel.chat is None:
        raise ConfigError("the judge's own words need a language model, and none is named")
    asked = [Message(role="user", content=_REWRITE.format(claim=claim.claim))]
    reply = await panel.chat.ask(asked, schema=_REWRITTEN, purpose="paraphrase")
    return replace(claim, claim=str(reply.value))


def figure_of(
    probe: Probe,
    pairs: Sequence[tuple[JudgedCell, JudgedCell]],
    level: Callable[[float], int],
) -> ProbeFigure:
    known = [(level(a.values[0]), level(b.values[0])) for a, b in pairs if a.values and b.values]
    unproved = sum(bool(a.values) and b.cell.status is Status.UNPROVED for a, b in pairs)
    changed, raised = sum(a != b for a, b in known), sum(a < b for a, b in known)
    found = ProbeFigure(
        probe=probe,
        count=len(known),
        changed=changed,
        raised=raised,
        unproved=unproved,
        low=None,
        high=None,
    )
    if not known:
        return found
    low, high = proportion_interval(raised if found.is_injection else changed, len(known))
    return replace(found, low=low, high=high)
