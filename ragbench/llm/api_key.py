"""Where an API key comes from. The key itself is read when a connection is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragbench.errors import ConfigError

__all__ = ["NO_KEY", "ApiKey"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """The place of an API key: an environment variable, a file, or nowhere."""

    variable: str | None = None
    """Name of the environment variable."""
    file: str | None = None
    """Path of a file whose only content is the key."""

    def __post_init__(self) -> None:
        """Refuses two places."""
        if self.variable and self.file:
            raise ConfigError(
                f"the API key is to come from the variable {self.variable} and from {self.file}: "
                "give one of them"
            )

    def __str__(self) -> str:
        """The place, as messages name it."""
        if self.variable:
            return f"environment variable {self.variable}"
        return f"file {self.file}" if self.file else "none"

    def read(self, environ: Mapping[str, str]) -> str | None:
        """The key.

        Returns:
            The key, or None where none is used.

        Raises:
            ConfigError: the variable is not set, or the file is missing, empty or not one line.
        """
        if self.variable:
            found = environ.get(self.variable, "").strip()
            if not found:
                raise ConfigError(f"the environment variable {self.variable} holds no API key")
        elif self.file:
            try:
                found = Path(self.file).expanduser().read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ConfigError(f"the API key file {self.file}: {reason}") from None
            if not found:
                raise ConfigError(f"the API key file {self.file} is empty")
        else:
            return None
        if not found.isascii() or not found.isprintable() or " " in found:
            raise ConfigError(f"what stands in {self} is no API key: it must be one word in ASCII")
        return found


NO_KEY = ApiKey()
"""For endpoints that ask for none."""
