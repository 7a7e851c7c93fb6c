"""Vectors from Cohere, Voyage and Jina, which embed a question otherwise than what answers it.

Each asks in a field of its own which of the two a text is. It follows from the method that is
called and is no setting: it cannot be forgotten. Requests and answers are as documented:
https://docs.cohere.com/reference/embed, https://docs.voyageai.com/reference/embeddings-api,
https://jina.ai/embeddings
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

from ragbench.embedders.embedder import unit_rows
from ragbench.errors import ConfigError, InterfaceError, warn
from ragbench.io.http import HTTPRagError, JsonEndpoint
from ragbench.io.settings import from_settings
from ragbench.safe_text import shortened_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shape: TypeAlias = Literal["cohere", "voyage", "jina"]
_PROBE = "dimension"


class _Form(NamedTuple):
    """How one service is asked."""

    url: str
    keys: tuple[str, ...]
    """Environment variables that may hold the key."""
    texts: str
    """The field of the texts."""
    role: str
    """The field that says what the texts are."""
    query: str
    passage: str
    size: str
    """The field of the vectors' length."""
    fixed: Mapping[str, Any]
    refuse: Mapping[str, Any]
    """What has the service refuse texts that are too long for the model."""
    cut: Mapping[str, Any]
    """What has it cut them."""
    most: int
    """Texts that a request may hold."""


FORMS: Mapping[Shape, _Form] = {
    "cohere": _Form(
        url="https://api.cohere.com/v2/embed",
        keys=("COHERE_API_KEY", "CO_API_KEY"),
        texts="texts",
        role="input_type",
        query="search_query",
        passage="search_document",
        size="output_dimension",
        fixed={"embedding_types": ["float"]},
        refuse={"truncate": "NONE"},
        cut={"truncate": "END"},
        most=96,
    ),
    "voyage": _Form(
        url="https://api.voyageai.com/v1/embeddings",
        keys=("VOYAGE_API_KEY",),
        texts="input",
        role="input_type",
        query="query",
        passage="document",
        size="output_dimension",
        fixed={},
        refuse={"truncation": False},
        cut={"truncation": True},
        most=128,
    ),
    "jina": _Form(
        url="https://api.jina.ai/v1/embeddings",
        keys=("JINA_API_KEY",),
        texts="input",
        role="task",
        query="retrieval.query",
        passage="retrieval.passage",
        size="dimensions",
        fixed={},
        refuse={"truncate": False},
        cut={"truncate": True},
        most=128,
    ),
}
_REFUSED = frozenset({400, 413, 422})
_SYMMETRIC = re.compile(r"jina-embeddings-v2.*|jina-clip-v1")
"""Models that embed both alike, and refuse to be told which of them a text is."""


@dataclass(frozen=True, kw_only=True)
class HttpEmbedder:
    """A model of one of these services, or of what speaks like it.

    Texts that are too long for the model are cut by the service, with one warning. What is refused
    as too many requests is tried again after 1, 2, 4, ... seconds.
    """

    asks_endpoint: ClassVar[bool] = True
    """It waits for answers: workers would only share out its rate limit."""

    shape: Shape
    """Whose form requests and answers have."""
    model: str
    """The service's name of it, such as ``embed-v4.0``, ``voyage-3.5``, ``jina-embeddings-v3``."""
    dimensions: int | None = None
    """How long vectors are to be; None for what the model gives."""
    url: str | None = None
    """The whole URL, where it is not the service's own."""
    api_key_env: str | None = None
    """The environment variable with the key; None for ``COHERE_API_KEY`` (or ``CO_API_KEY``),
    ``VOYAGE_API_KEY``, ``JINA_API_KEY``. They are sent to the service's own address alone."""
    batch_size: int | None = None
    """Texts in a request; None for 96 (Cohere's most), else 128."""
    timeout: float = 60.0
    """Seconds for connecting and for each read."""
    retries: int = 5
    """How often a request is repeated that the server could not take."""
    sleep: Callable[[float], None] = field(
        default=time.sleep, compare=False, metadata={"setting": False}
    )
    """Waits between attempts; a test passes its own."""

    _cuts: list[bool] = field(default_factory=list[bool], init=False, repr=False, compare=False)
    """Not empty once the service has refused a text for its length."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError(f"the embedder {self.shape} needs a model: {self.shape}:MODEL")
        for name in ("dimensions", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{self.shape}: {name} must be at least 1, not {value}")
        self._authorization()

    @property
    def identity(self) -> Mapping[str, object]:
        """See `Embedder`; the address is not part of it: a model may be served anywhere."""
        return {
            "embedder": self.shape,
            "model": self.model,
            "dimensions": self.dimensions,
            "query": self._role("query"),
            "passage": self._role("passage"),
        }

    @cached_property
    def dimension(self) -> int:
        """See `Embedder`; asks for the vector of a word where no setting says it."""
        return self.dimensions or int(self._embed([_PROBE], "query").shape[1])

    @property
    def hybrid_weight(self) -> float:
        return 1.0

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(texts, "query")

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(texts, "passage")

    def close(self) -> None:
        if "_endpoint" in self.__dict__:
            self._endpoint.close()

    @cached_property
    def _endpoint(self) -> JsonEndpoint:
        return JsonEndpoint(
            self.url or FORMS[self.shape].url,
            headers=self._authorization(),
            timeout=self.timeout,
            retries=self.retries,
            sleep=self.sleep,
        )

    def _role(self, kind: Literal["query", "passage"]) -> str | None:
        form = FORMS[self.shape]
        if self.shape == "jina" and _SYMMETRIC.fullmatch(self.model):
            return None
        return form.query if kind == "query" else form.passage

    def _embed(
        self, texts: Sequence[str], kind: Literal["query", "passage"]
    ) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        form = FORMS[self.shape]
        size = min(self.batch_size or form.most, form.most)
        role = self._role(kind)
        asked: dict[str, Any] = {"model": self.model, **form.fixed}
        asked |= {} if role is None else {form.role: role}
        asked |= {} if self.dimensions is None else {form.size: self.dimensions}
        rows: list[NDArray[np.float32]] = []
        for first in range(0, len(texts), size):
            part = list(texts[first : first + size])
            answer = self._answer({**asked, form.texts: part})
            rows.append(self._checked(_vectors(answer), part))
        if len({one.shape[1] for one in rows}) > 1:
            raise InterfaceError(f"{self._endpoint.url}: vectors of two answers differ in length")
        return unit_rows(np.concatenate(rows))

    def _answer(self, asked: Mapping[str, Any]) -> Any:
        """The answer to a request; texts are cut once whole ones were refused."""
        form = FORMS[self.shape]
        if self._cuts:
            return self._endpoint.post("", {**asked, **form.cut})
        try:
            return self._endpoint.post("", {**asked, **form.refuse})
        except HTTPRagError as error:
            if error.status not in _REFUSED:
                raise
            refusal = error
        try:
            answer = self._endpoint.post("", {**asked, **form.cut})
        except HTTPRagError:
            raise refusal from None  # it was not for the length
        self._cuts.append(True)
        warn(
            f"'{self.model}' reads less than some of the texts: {self.shape} cuts them, and what "
            "is behind the cut is in no vector. Cut smaller chunks (--chunk-size), or search by "
            "words as well (hybrid)"
        )
        return answer

    def _checked(self, vectors: list[Any], texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        where = f"{self._endpoint.url}: the model '{self.model}'"
        try:
            rows: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError):
            rows = np.zeros((0, 0), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise InterfaceError(f"{where} gave no answer with one vector for each of {len(texts)}")
        if self.dimensions not in (None, rows.shape[1]):
            raise InterfaceError(
                f"{where} gave {rows.shape[1]} dimensions, {self.dimensions} were asked for"
            )
        if not np.isfinite(rows).all():
            raise InterfaceError(f"{where} gave a vector with numbers that are not finite")
        empty = next((at for at, row in enumerate(rows) if not row.any()), None)
        if empty is not None:
            raise InterfaceError(
                f"{where} gave a vector of zeros for '{shortened_line(texts[empty])}': it would be "
                "similar to nothing"
            )
        return rows

    def _authorization(self) -> dict[str, str]:
        if self.api_key_env is not None:
            names: tuple[str, ...] = (self.api_key_env,)
        elif self.url is not None:
            return {}  # a key must not travel to a host that it is not for
        else:
            names = FORMS[self.shape].keys
        key = next((found for name in names if (found := os.environ.get(name))), None)
        if key is None:
            raise ConfigError(f"{self.shape}: the environment variable {names[0]} is not set")
        return {"Authorization": f"Bearer {key}"}


def _vectors(answer: Any) -> list[Any]:
    """The vectors of an answer, in the order of the texts; none where there is no such list."""
    if not isinstance(answer, Mapping):
        return []
    fields = cast("Mapping[str, Any]", answer)
    if "embeddings" in fields:  # Cohere's, by type
        found = fields["embeddings"]
        lists = cast("Mapping[str, Any]", found).get("float") if isinstance(found, dict) else None
        return cast("list[Any]", lists) if isinstance(lists, list) else []
    data = fields.get("data")
    entries = cast("list[Any]", data) if isinstance(data, list) else []
    by_index: dict[int, Any] = {}
    for entry in entries:
        if isinstance(entry, dict):
            known = cast("dict[str, Any]", entry)
            by_index[known.get("index", -1)] = known.get("embedding")
    whole = by_index.keys() == set(range(len(entries)))
    return [by_index[at] for at in range(len(entries))] if whole else []


def _from_name(shape: Shape, model: str, settings: Mapping[str, Any]) -> HttpEmbedder:
    given = {"shape": shape, "model": model, **settings}
    return cast("HttpEmbedder", from_settings(HttpEmbedder, given, where=f"embedder {shape}"))


def cohere_from_name(model: str, settings: Mapping[str, Any]) -> HttpEmbedder:
    """See `ragbench.embedders.embedder.EMBEDDERS`; the model is Cohere's name of it."""
    return _from_name("cohere", model, settings)


def voyage_from_name(model: str, settings: Mapping[str, Any]) -> HttpEmbedder:
    """See `ragbench.embedders.embedder.EMBEDDERS`; the model is Voyage's name of it."""
    return _from_name("voyage", model, settings)


def jina_from_name(model: str, settings: Mapping[str, Any]) -> HttpEmbedder:
    """See `ragbench.embedders.embedder.EMBEDDERS`; the model is Jina's name of it."""
    return _from_name("jina", model, settings)
