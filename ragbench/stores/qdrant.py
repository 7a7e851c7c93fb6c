"""The store ``qdrant``: embedded, or on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from ragbench.errors import ConfigError
from ragbench.extras import require
from ragbench.interface.masking import mask_url
from ragbench.stores.qdrant_embedded import QdrantEmbeddedDatabase
from ragbench.stores.qdrant_server import QdrantServerDatabase

__all__ = ["open_qdrant"]

_TIMEOUT = 60


def open_qdrant(address: str) -> QdrantEmbeddedDatabase | QdrantServerDatabase:
    """The database of an address.

    Args:
        address: ``qdrant:FOLDER``, or ``qdrant+http://HOST:6333`` (or ``https``); a password in
            it, as in ``qdrant+https://:KEY@HOST:6333``, is the server's API key.

    Raises:
        ConfigError: it is no such address.
    """
    if address.startswith("qdrant:") and len(address) > len("qdrant:"):
        return QdrantEmbeddedDatabase(Path(address.removeprefix("qdrant:")))
    url = address.removeprefix("qdrant+")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"'{mask_url(address)}' is no address of Qdrant: write qdrant:FOLDER or "
            "qdrant+http://HOST:6333"
        )

    def open_client() -> Any:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        key = unquote(parts.password) if parts.password else None
        return require("qdrant_client", extra="qdrant").QdrantClient(
            url=urlunsplit(parts._replace(netloc=host)),
            api_key=key,
            timeout=_TIMEOUT,
            check_compatibility=False,
        )

    return QdrantServerDatabase(mask_url(address), open_client)
