"""Filters and metadata of every shape, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ragbench.core.filters import And, Equals, Exists, Filter, In, Not, Or, Prefix, Range

# Few fields and values, so that filters and metadata meet.
FIELDS = [
    *("year", "source", "any", "a.b", "year.k", "a", "a.b.k", 'o\'brien "x"', "über", "", "a%b"),
    *("document_id", "document_id.k", "half\ud83c", "it's", "--"),
]
_PLAIN: list[Any] = [0, 1, 1.0, -1.5, 2023, True, False, "1", "true", "", "a'b\"c\\", "x\x00y"]
_ODD: list[Any] = [
    *("2023", "2023-05-01", "2023-05-01T12:00:00+02:00", "苹果", "a_b", "a%b"),
    *(2**53 + 1, 2**70, -0.0, "\ud83c", "\ufdd0d83c"),
    *("x" * length for length in (300, 499, 500, 501)),
]
NUMBERS: list[Any] = [-1.5, 0, 1, 1.0, 2022.5, 2023, 2**53]
DATES = ["2022", "2023", "2023-05", "2023-05-01", "2023-05-01T10:00:00Z", "2024-01-01"]

PREFIXES = [
    *("", "2023", "2023-05", "a'b", "a'b\"c\\", "x\x00", "苹", "x", "%", "_"),
    *("x" * length for length in (299, 500, 501)),
]

fields = st.sampled_from(FIELDS)
scalars = st.sampled_from([*_PLAIN, *_ODD])
values = st.one_of(
    scalars,
    st.none(),
    st.just(10**400),  # no float, and so no number in comparisons
    st.lists(st.one_of(scalars, st.none(), st.lists(scalars, max_size=2)), max_size=3),
    st.dictionaries(st.sampled_from(["k", "b", "2023"]), st.one_of(scalars, st.none()), max_size=2),
    st.fixed_dictionaries({"b": st.dictionaries(st.just("k"), scalars)}),
)
metadata = st.dictionaries(fields, values, max_size=4)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    """A range with any of the bounds, of one kind."""
    bounds = st.sampled_from(draw(st.sampled_from([NUMBERS, DATES])))
    names = draw(st.sets(st.sampled_from(["gt", "gte", "lt", "lte"]), min_size=1))
    return Range(field=draw(fields), **{name: draw(bounds) for name in sorted(names)})


leaves: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equals, field=fields, value=scalars),
    st.builds(In, field=fields, values=st.lists(scalars, max_size=3).map(tuple)),
    ranges(),
    st.builds(Prefix, field=fields, prefix=st.sampled_from(PREFIXES)),
    st.builds(Exists, field=fields),
)
filters: st.SearchStrategy[Filter] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(And, filters=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, filters=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, filter=inner),
    ),
    max_leaves=6,
)
