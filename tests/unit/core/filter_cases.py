"""Filters and metadata of every shape, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ragbench.core.filters import And, Equals, Exists, Filter, In, Not, Or, Prefix, Range

# Few fields and values, so that filters and metadata meet.
PLAIN_FIELDS = ["year", "source", "any", "document_id", "a"]
# A dot leads into a nested mapping.
NESTED_FIELDS = ["a.b", "a.b.k", "year.k", "document_id.k"]
# What a query language may read as its own.
ODD_FIELDS = ['o\'brien "x"', "über", "", "a%b", "half\ud83c", "it's", "--"]
FIELDS = [*PLAIN_FIELDS, *NESTED_FIELDS, *ODD_FIELDS]

NUMBERS: list[Any] = [-1.5, 0, 1, 1.0, 2022.5, 2023, 2**53]
DATES = ["2022", "2023", "2023-05", "2023-05-01", "2023-05-01T10:00:00Z", "2024-01-01"]

PLAIN_SCALARS: list[Any] = [0, 1, 1.0, -1.5, 2023, True, False, "1", "true", "2023"]
MOMENTS = ["2023-05-01", "2023-05-01T12:00:00+02:00"]
# Numbers that no float holds exactly, and a zero with a sign.
ODD_NUMBERS = [2**53 + 1, 2**70, -0.0]
# Texts that must be quoted, and halves of characters.
ODD_TEXTS = ["", "a'b\"c\\", "x\x00y", "苹果", "a_b", "a%b", "\ud83c", "\ufdd0d83c"]
# Around the lengths at which stores cut texts.
LONG_TEXTS = ["x" * 300, "x" * 499, "x" * 500, "x" * 501]
SCALARS: list[Any] = [*PLAIN_SCALARS, *MOMENTS, *ODD_NUMBERS, *ODD_TEXTS, *LONG_TEXTS]

SHORT_PREFIXES = ["", "2023", "2023-05", "a'b", "a'b\"c\\", "x\x00", "苹", "x", "%", "_"]
PREFIXES = [*SHORT_PREFIXES, "x" * 299, "x" * 500, "x" * 501]

fields = st.sampled_from(FIELDS)
scalars = st.sampled_from(SCALARS)
scalars_or_none = scalars | st.none()
values = st.one_of(
    scalars_or_none,
    st.just(10**400),  # no float, and so no number in comparisons
    st.lists(scalars_or_none | st.lists(scalars, max_size=2), max_size=3),
    st.dictionaries(st.sampled_from(["k", "b", "2023"]), scalars_or_none, max_size=2),
    st.fixed_dictionaries({"b": st.dictionaries(st.just("k"), scalars)}),
)
metadata = st.dictionaries(fields, values, max_size=4)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    """A range with any of the bounds, of one kind."""
    bounds = st.sampled_from(draw(st.sampled_from([NUMBERS, DATES])))
    names = draw(st.sets(st.sampled_from(["gt", "gte", "lt", "lte"]), min_size=1))
    bound_of: dict[str, Any] = {}
    for name in sorted(names):
        bound_of[name] = draw(bounds)
    return Range(field=draw(fields), **bound_of)


conditions: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equals, field=fields, value=scalars),
    st.builds(In, field=fields, values=st.lists(scalars, max_size=3).map(tuple)),
    ranges(),
    st.builds(Prefix, field=fields, prefix=st.sampled_from(PREFIXES)),
    st.builds(Exists, field=fields),
)


def combined(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    """Any filter that is made of up to three such parts."""
    several = st.lists(parts, max_size=3).map(tuple)
    return st.one_of(
        st.builds(And, filters=several),
        st.builds(Or, filters=several),
        st.builds(Not, filter=parts),
    )


filters: st.SearchStrategy[Filter] = st.recursive(conditions, combined, max_leaves=6)
