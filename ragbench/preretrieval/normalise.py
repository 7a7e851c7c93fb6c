"""Queries in one form: Unicode, white space, on request case."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import Literal

from ragbench.errors import ConfigError
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.preretrieval.transform import Transformed

__all__ = ["Normalise"]

_FORMS = ("NFC", "NFKC")
# What no reader sees and what splits words in two: soft hyphens, zero-width spaces, marks of
# direction and of byte order. Joiners stay: Persian and Indic words, and emoji, need them.
_INVISIBLE = dict.fromkeys(
    [0x00AD, 0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Normalise:
    """Brings a query into one form; no model is needed.

    Invisible characters and control characters go, runs of white space become one space, and what
    is left is normalised by Unicode (Unicode Standard Annex 15). Full-width letters and digits
    become plain ones under ``NFKC``. A query that holds nothing else stays as it was.

    Raises:
        ConfigError: ``form`` is neither NFC nor NFKC.
    """

    form: Literal["NFC", "NFKC"] = "NFKC"
    """``NFKC`` also makes one of full-width and plain characters, ligatures and letters, raised and
    plain digits; ``NFC`` only of the ways to write an accent."""
    casefold: bool = False
    """Whether upper and lower case become one. Off, because names tell by their case what they are
    to a model; the BM25 of ragbench looks at no case either way."""

    def __post_init__(self) -> None:
        """Checks the form."""
        if self.form not in _FORMS:
            raise ConfigError(f"form must be one of {', '.join(_FORMS)}, not {self.form!r}")

    @property
    def name(self) -> str:
        """See `QueryTransform.name`."""
        return "normalise"

    def transform(self, query: SearchQuery) -> Transformed:
        """See `QueryTransform.transform`."""
        text = unicodedata.normalize(self.form, query.text.translate(_INVISIBLE))
        if self.casefold:
            # Folding may leave what is not normalised (Unicode Standard, section 5.18).
            text = unicodedata.normalize(self.form, text.casefold())
        kept = "".join(" " if _is_control(letter) else letter for letter in text)
        text = " ".join(kept.split())
        return Transformed(queries=(replace(query, text=text or query.text),))


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) == "Cc"
