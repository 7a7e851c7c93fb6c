"""RAGAS' two interfaces to models, over the judging that runs in the current task."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NamedTuple

from ragbench.extras import require
from ragbench.scoring.asking import Asking

__all__ = ["ASKING", "RagasModels", "ragas_models"]

ASKING: ContextVar[Asking] = ContextVar("ragbench-asking")
"""The judging that a task works on. RAGAS' objects hold their model: with this, one object serves
all cases at once."""


class RagasModels(NamedTuple):
    """What RAGAS' metrics are built with."""

    llm: Any
    embeddings: Any


def ragas_models() -> RagasModels:
    """Makes both. ragas must have been imported through `ragbench.extras_ragas`."""
    llms = require("ragas.llms.base", extra="ragas")
    embeddings = require("ragas.embeddings.base", extra="ragas")
    own: Any = llms.InstructorBaseRagasLLM
    other: Any = embeddings.BaseRagasEmbedding
    return RagasModels(
        llm=type("RagbenchLLM", (_LLM, own), {})(),
        embeddings=type("RagbenchEmbeddings", (_Embeddings, other), {})(),
    )


class _LLM:
    """``InstructorBaseRagasLLM``: prompt and pydantic model in, instance out."""

    is_async = True

    def generate(self, prompt: str, response_model: type[Any]) -> Any:
        """RAGAS asks through it only where there is no event loop."""
        raise RuntimeError("this judge answers coroutines only")

    async def agenerate(self, prompt: str, response_model: type[Any]) -> Any:
        """Asks the judge."""
        return await ASKING.get().ask(prompt, response_model)


class _Embeddings:
    """``BaseRagasEmbedding``. Inside of a loop RAGAS' own blocking call would start another one."""

    def embed_text(self, text: str, **_: Any) -> list[float]:
        """A vector that was asked for before."""
        return ASKING.get().embedded(text)

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        """A vector."""
        return (await ASKING.get().embed([text]))[0]

    async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        """Several vectors, by one request."""
        return await ASKING.get().embed(texts)
