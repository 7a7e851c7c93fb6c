"""Language models from Python: one to ask, and one that judges."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from decimal import Decimal

from ragbench.llm.budget import Budget, amount_of
from ragbench.llm.session import Chat, LLMSession, chat_of, open_models
from ragbench.llm.settings import LLMSettings, resolve, resolve_embeddings
from ragbench.stages.judge import Judging


def open_chat(*, max_cost: str | Decimal | None = None, **settings: object) -> Chat:
    """Opens a language model for rerankers, operators, validators and transforms.

    It connects when it is first asked; as a context manager it is closed at the end of the block.

    Example:
        >>> with open_chat(model="qwen3", base_url="http://localhost:8000/v1") as chat:
        ...     judge = build_validator("llm", chat=chat)  # doctest: +SKIP

    Args:
        max_cost: the most that it may cost, in the currency of its price.
        **settings: which model, and how it is asked: the settings of the section ``llm`` of
            ragbench.yaml (docs/llm.md). What is not given comes from the environment.

    Raises:
        ConfigError: a setting is unknown or wrong, or a cost is capped that nobody can know.
        NoModelError: no model is named.
    """
    return chat_of(resolve(settings, os.environ), budget=_budget_of(max_cost))


@contextmanager
def open_judge(
    *,
    embeddings: Mapping[str, object] | None = None,
    repeats: int = 1,
    preflight: bool = True,
    max_cost: str | Decimal | None = None,
    **settings: object,
) -> Generator[Judging]:
    """Opens the models that judge, for `evaluate` and other verbs that take ``judging=``.

    They are connected to when the first case is judged, and closed at the end of the block. What
    they cost is ``judge.session.receipt()``.

    Example:
        >>> with open_judge(model="qwen3", base_url="http://localhost:8000/v1") as judge:
        ...     report = evaluate(cases, rag, out=folder, judging=judge)  # doctest: +SKIP

    Args:
        embeddings: the same settings for the model that gives vectors, for metrics that need one.
        repeats: how often each case is judged; its score is the mean.
        preflight: whether the models are tried before the first judgement.
        max_cost: the most that the models may cost together, in the currency of their price.
        **settings: which model judges, and how it is asked; see `open_chat`.

    Yields:
        Who judges.

    Raises:
        ConfigError: a setting is unknown or wrong, or a cost is capped that nobody can know.
        NoModelError: no model is named.
    """
    chat = resolve(settings, os.environ)
    vectors: LLMSettings | None = None
    if embeddings is not None:
        vectors = resolve_embeddings(os.environ, section=embeddings, chat=chat)
    budget = _budget_of(max_cost)
    with LLMSession(lambda: open_models(chat, vectors, budget=budget)) as session:
        yield Judging(
            session=session, chat=chat, embeddings=vectors, repeats=repeats, preflight=preflight
        )


def _budget_of(max_cost: str | Decimal | None) -> Budget | None:
    """The budget that the calls of models are counted against; None where no cost is capped.

    Args:
        max_cost: the most that the models may cost together, in the currency of their price.
    """
    if max_cost is None:
        return None
    return Budget(amount_of(max_cost, "max_cost"))
