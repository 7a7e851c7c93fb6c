"""Who judges a run: for the manifest, and for the keys that judged cells are kept under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ragbench.core.chat import Price
from ragbench.core.metric import Metric, Need
from ragbench.errors import ConfigError
from ragbench.ledger.fingerprint import fingerprint

if TYPE_CHECKING:
    from ragbench.llm.endpoint import Endpoint
    from ragbench.metrics.judging import JudgePlan


def judge_info(
    plan: JudgePlan, chat: Endpoint | None, embeddings: Endpoint | None
) -> dict[str, Any]:
    """Everything that judgements depend on, as JSON holds it.

    The fingerprint is over endpoint, model, parameters, prompts and the versions of what makes
    them: two runs compare when it is the same. How often a case is judged and what tokens cost is
    not part of it.
    """
    from ragbench.llm.budget import price_for

    plan.check(chat, embeddings)
    asked = chat.identity() if chat is not None and plan.needs_chat else None
    embedding = embeddings.identity() if embeddings is not None and plan.needs_embeddings else None
    identity: dict[str, Any] = {"chat": asked, "embeddings": embedding, "scorers": plan.identities}
    panel = [juror.identity() for juror in plan.panel]
    if panel and plan.needs_chat:
        identity["panel"] = panel
    keys: dict[str, str] = {}
    for metric in plan.metrics:
        needs = metric.definition.needs
        is_chat = Need.LLM in needs
        known: tuple[object, ...] = (
            asked if is_chat else None,
            embedding if Need.EMBEDDINGS in needs else None,
            plan.prompts[metric.name],
            plan.repeats,
        )
        keys[metric.name] = fingerprint((*known, panel) if panel and is_chat else known)
    price = None if asked is None or chat is None else msgspec.to_builtins(price_for(chat))
    if price is not None:
        del price["long_prompt"]  # it is one call's; what reads this adds up many
    return {
        **identity,
        "fingerprint": fingerprint(identity),
        "repeats": plan.repeats,
        "prompts": plan.prompts,
        "keys": keys,
        "price": price,
    }


def judge_key(info: Mapping[str, Any] | None, metric: Metric) -> bytes:
    """What a metric's cells depend on beside the case, empty for one that nobody judges."""
    if not metric.is_judged:
        return b""
    key = None if info is None else info["keys"].get(metric.name)
    if key is None:
        raise ConfigError(f"the run does not record its judge {metric.name}")
    return bytes.fromhex(key)


def price_of(info: Mapping[str, Any]) -> Price | None:
    """The price that a manifest's ``judge`` names."""
    return msgspec.convert(info["price"], Price | None)
