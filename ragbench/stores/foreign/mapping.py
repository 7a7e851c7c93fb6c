"""Which field of a collection means what, where ragbench did not fill it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, cast

from ragbench.errors import ConfigError
from ragbench.settings.from_settings import from_settings

__all__ = ["FieldMapping", "MetricName", "field_mapping"]

MetricName: TypeAlias = Literal["cosine", "dot", "euclid", "manhattan"]
"""How two vectors are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldMapping:
    """What is where in a row of a collection. Dots lead into objects, as in ``metadata.source``.

    Raises:
        ConfigError: something is named by an empty text.
    """

    text: str | None = None
    """Field with the text; guessed by its name when it is not given."""
    id: str | None = None
    """Field with the id; the store's own id of a row when it is not given."""
    document_id: str | None = None
    """Field with the id of the document that the text was cut from; guessed by its name when it is
    not given, and none where nothing has such a name."""
    title: str | None = None
    """Field with the title, which is kept in the metadata as ``title``."""
    metadata: str | None = None
    """Fields with the metadata, with commas between them: of an object its fields. All other
    fields when it is not given."""
    vector: str | None = None
    """The vector that is searched, where there are several."""
    metric: MetricName | None = None
    """How vectors are compared, where the store does not tell: cosine, dot, euclid, manhattan."""

    def __post_init__(self) -> None:
        """Refuses empty names."""
        for name, value in asdict(self).items():
            if value is not None and not value.strip(" ,."):
                raise ConfigError(f"map: {name} names no field")

    def described(self) -> str:
        """The mapping in one line, such as ``text=page_content  vector=dense``."""
        known: dict[str, str | None] = asdict(self)
        return "  ".join(f"{name}={value}" for name, value in known.items() if value)

    def places(self) -> dict[str, tuple[str, ...]]:
        """The paths of what is read out of a row, by name; only those that are known."""
        named = {
            "text": self.text,
            "id": self.id,
            "document_id": self.document_id,
            "title": self.title,
        }
        found: dict[str, tuple[str, ...]] = {
            name: (path,) for name, path in named.items() if path is not None
        }
        if self.metadata is not None:
            listed = (path.strip() for path in self.metadata.split(","))
            found["metadata"] = tuple(path for path in listed if path)
        return found


def field_mapping(given: Mapping[str, str], *, where: str = "--map") -> FieldMapping:
    """The mapping that names and fields say.

    Args:
        given: field by name, such as ``{"text": "body"}``.
        where: who says so, for messages.

    Raises:
        ConfigError: there is no such name, or no such metric.
    """
    return cast("FieldMapping", from_settings(FieldMapping, given, where=where))
