"""Query transforms by name.

Other packages add theirs through entry points in the group ``ragbench.query_transforms``::

    [project.entry-points."ragbench.query_transforms"]
    glossary = "my_package.glossary:Glossary"
"""

from __future__ import annotations

from ragbench.registry import Registry

__all__ = ["QUERY_TRANSFORMS"]

_HERE = "ragbench.preretrieval"

QUERY_TRANSFORMS = Registry(
    kind="query_transforms",
    builtin={
        "normalise": f"{_HERE}.normalise:Normalise",
        "rewrite": f"{_HERE}.rewrite:Rewrite",
        "multi_query": f"{_HERE}.multi_query:MultiQuery",
        "hyde": f"{_HERE}.hyde:HyDE",
    },
)
