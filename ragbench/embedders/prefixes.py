"""What models want before questions and passages, where their name tells.

Sources: the model cards of intfloat/e5-* and multilingual-e5-*, BAAI/bge-*-en and -zh,
nomic-ai/nomic-embed-text, mixedbread-ai/mxbai-embed-large, Snowflake/snowflake-arctic-embed and
google/embeddinggemma.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Prefixes(NamedTuple):
    """What stands before each text; empty for nothing."""

    query: str
    passage: str


_SEARCH = "Represent this sentence for searching relevant passages: "
_KNOWN = (
    (r"(multilingual-)?e5-(small|base|large)(-v2)?", Prefixes("query: ", "passage: ")),
    (r"bge-(small|base|large)-en(-v1\.5)?", Prefixes(_SEARCH, "")),
    (
        r"bge-(small|base|large)-zh(-v1\.5)?",
        Prefixes("为这个句子生成表示以用于检索相关文章：", ""),
    ),
    (r"nomic-embed-text(-v\d+(\.\d+)?)?", Prefixes("search_query: ", "search_document: ")),
    (r"mxbai-embed-(large|xsmall)(-v1)?", Prefixes(_SEARCH, "")),
    (r"snowflake-arctic-embed(-xs|-s|-m|-l)?(-v1\.5)?", Prefixes(_SEARCH, "")),
    (
        r"embeddinggemma(-300m)?",
        Prefixes("task: search result | query: ", "title: none | text: "),
    ),
)


def known_prefixes(model: str) -> Prefixes:
    """The prefixes of a model by its name; empty ones where nothing is known.

    Example:
        >>> known_prefixes("intfloat/multilingual-e5-small")
        Prefixes(query='query: ', passage='passage: ')
    """
    name = model.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    found = (prefixes for pattern, prefixes in _KNOWN if re.fullmatch(pattern, name))
    return next(found, Prefixes("", ""))
