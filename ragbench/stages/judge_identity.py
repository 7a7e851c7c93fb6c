"""Who judges a run: for the manifest, and for the keys that judged cells are kept under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ragbench.core.metric import Metric, Need
from ragbench.errors import ConfigError
from ragbench.ledger.fingerprint import fingerprint

if TYPE_CHECKING:
    from ragbench.llm.endpoint import Endpoint, Price
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
    asked = chat if plan.needs_chat else None
    embedding = embeddings if plan.needs_embeddings else None
    identity: dict[str, Any] = {
        "chat": None if asked is None else asked.identity(),
        "embeddings": None if embedding is None else embedding.identity(),
        "scorers": plan.identities,
    }
    if plan.panel and plan.needs_chat:
        identity["panel"] = [juror.identity() for juror in plan.panel]
    price = None if asked is None else msgspec.to_builtins(price_for(asked))
    if price is not None:
        del price["long_prompt"]  # it is one call's; what reads this adds up many
    return {
        **identity,
        "fingerprint": fingerprint(identity),
        "repeats": plan.repeats,
        "prompts": plan.prompts,
        "keys": {m.name: _key(m, plan, asked, embedding) for m in plan.metrics},
        "price": price,
    }


def judge_key(info: Mapping[str, Any] | None, metric: Metric) -> bytes:
    """What a metric's cells depend on beside the case, empty for one that nobody judges."""
    if not metric.is_judged:
        return b""
    key = None if info is None else info["keys"].get(metric.name)
    if key is None:
        raise ConfigError(f"the run does not say who judged {metric.name}")
    return bytes.fromhex(key)


def price_of(info: Mapping[str, Any]) -> Price | None:
    """The price that a manifest's ``judge`` names."""
    from ragbench.llm.endpoint import Price

    return msgspec.convert(info["price"], Price | None)


def _key(
    metric: Metric, plan: JudgePlan, chat: Endpoint | None, embeddings: Endpoint | None
) -> str:
    needs = metric.definition.needs
    known: tuple[object, ...] = (
        chat.identity() if chat is not None and Need.LLM in needs else None,
        embeddings.identity() if embeddings is not None and Need.EMBEDDINGS in needs else None,
        plan.prompts[metric.name],
        plan.repeats,
    )
    if plan.panel and Need.LLM in needs:
        known = (*known, [juror.identity() for juror in plan.panel])
    return fingerprint(known)
