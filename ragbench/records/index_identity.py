"""What a collection's vectors were made by and of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ragbench.errors import StoreError

__all__ = ["IndexIdentity"]

_FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexIdentity:
    """Written by an indexing, kept by the store, read by a search."""

    embedder: Mapping[str, Any]
    """Identity of the embedder; vectors of another one are never compared with these."""
    embedder_name: str
    """What opens that embedder again, such as ``"onnx:models/bge-small"``."""
    embedder_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The settings that it was opened with; no credentials."""
    calibration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The embedder's measured scale, as `ragbench.embedders.calibration` writes it."""
    chunker: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How documents were cut."""
    digest: str = ""
    """Of all chunks, once the indexing is complete; empty before."""

    def to_json(self) -> dict[str, Any]:
        """As a store keeps it."""
        return {"ragbench_index": _FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, collection: str) -> IndexIdentity:
        """What `to_json` gave.

        Raises:
            StoreError: it is something else; names the collection.
        """
        fields = {name: value[name] for name in value if name != "ragbench_index"}
        try:
            if value["ragbench_index"] != _FORMAT:
                raise TypeError
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"the collection '{collection}' was not made by 'ragbench index', or by another "
                "release of it: index it anew under another name"
            ) from error
