"""Filters in Qdrant's terms: over the payload that ragbench writes, and over any other.

Qdrant means the same by a value as ragbench's filters do, but for three things. Each has its guard
in what ragbench writes: a list lies in a range where any of its items does (``lists`` names those
fields), an empty list does not exist, and a key with dots is not reached by them (``fields``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import ModuleType
from typing import Any

from ragbench.core.filters import Dialect, Filter, Range, Scalar, number
from ragbench.core.record import Record, field
from ragbench.errors import ConfigError
from ragbench.plugins import np
from ragbench.search.stores.record import field_key, straight_path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""From which the milliseconds of a filter's dates are counted."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that a path holds without quotes."""


class _Tests(Record):
    """What must and what must not hold; flat, as what is nested is planned less well."""

    must: list[Any] = field(default_factory=list[Any])
    must_not: list[Any] = field(default_factory=list[Any])

    def filter(self, models: ModuleType) -> Any:
        """Both lists of tests as one filter of Qdrant; an empty list is left out.

        Qdrant takes an absent list for no condition.
        """
        tests: dict[str, list[Any]] = {}
        if self.must:
            tests["must"] = self.must
        if self.must_not:
            tests["must_not"] = self.must_not
        return models.Filter(**tests)

    def as_test(self, models: ModuleType) -> Any:
        """The tests as one that can be part of another filter.

        The only test itself, or a filter of all. A lone test in a filter of its own would be nested
        for nothing.
        """
        if len(self.must) == 1 and not self.must_not:
            return self.must[0]
        return self.filter(models)


def written_path(keys: Sequence[str]) -> str:
    """A path of keys into a payload, as Qdrant reads it in filters and indexes.

    A key is quoted where it holds more than letters and digits: a dot would divide it.
    """
    parts: list[str] = []
    for key in keys:
        # Other characters, dots above all, would end the key.
        if _BARE.fullmatch(key):
            parts.append(key)
        else:
            parts.append(f'"{key}"')
    return ".".join(parts)


def _all_hold(parts: Iterable[_Tests]) -> _Tests:
    """Tests that hold where all of these do: their lists one after the other, nothing nested.

    Qdrant plans nested filters less well.
    """
    must: list[Any] = []
    must_not: list[Any] = []
    for part in parts:
        must += part.must
        must_not += part.must_not
    return _Tests(must=must, must_not=must_not)


def _any_holds(parts: Iterable[_Tests], models: ModuleType) -> _Tests:
    """Tests that hold where at least one of these does: one nested filter, Qdrant's ``should``.

    Two such parts could not share one list. `models` are the client's or the engine's.
    """
    tests = [part.as_test(models) for part in parts]
    return _Tests(must=[models.Filter(should=tests)])


class PayloadFilters:
    """Folded filters over the payload of any program.

    The models are the client's, or the embedded engine's, which has names of its own for a few.
    """

    def __init__(self, models: ModuleType) -> None:
        """A translator of filters into Qdrant's, by the client's models or the engine's.

        A search makes its filters with it, once for all queries.
        """
        self.models = models
        # The embedded engine calls it RangeFloat.
        self._range = getattr(models, "RangeFloat", None) or models.Range

    def __call__(self, filters: Filter) -> Any:
        """A folded filter as one of Qdrant's.

        The `Dialect` walks it, and calls a method for each test.
        """
        dialect = Dialect(
            both=_all_hold,
            either=lambda parts: _any_holds(parts, self.models),
            denied=lambda part: _Tests(must_not=[part.as_test(self.models)]),
            equal=self.equal,
            within=self.within,
            exists=self.exists,
            prefix=self.prefix,
        )
        tests = dialect(filters)
        return tests.filter(self.models)

    def native(self, given: object) -> Any:
        """A filter in Qdrant's own JSON, checked by the client's models before it is sent.

        A wrong one is so an error of the user's filter, not of the server.

        Raises:
            ConfigError: the models refuse it.
        """
        try:
            return self.models.Filter.model_validate(given)
        except ValueError as error:
            # Pydantic's errors have a line for each model that was tried: their beginning tells.
            problem = " ".join(str(error).split())[:200]
            raise ConfigError(
                "the native filter of Qdrant is a JSON object, such as "
                f'{{"must": [...]}}: {problem}'
            ) from error

    def equal(self, key: str, values: Sequence[Scalar]) -> _Tests:
        """A payload field equals one of the values.

        All texts are in one test together; each value of another type has a test of its own.
        """
        models = self.models
        parts: list[_Tests] = []
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) == 1:
            is_text = models.MatchValue(value=texts[0])
            parts.append(self._field_test(key, match=is_text))
        elif texts:
            is_any_text = models.MatchAny(any=texts)
            parts.append(self._field_test(key, match=is_any_text))
        for value in values:
            if isinstance(value, bool):
                is_flag = models.MatchValue(value=self._flag_value(value))
                parts.append(self._field_test(key, match=is_flag))
            elif not isinstance(value, str):
                # Qdrant's match knows whole numbers only, and 1.0 is 1.
                exactly = number(value)
                is_number = self._range(gte=exactly, lte=exactly)
                parts.append(self._field_test(key, range=is_number))
        if len(parts) == 1:
            return parts[0]
        return _any_holds(parts, models)

    def _field_test(self, key: str, **condition: Any) -> _Tests:
        """A single test of the payload field at a path.

        Qdrant calls a test of one field a condition.

        Args:
            condition: the arguments of Qdrant's ``FieldCondition``, such as ``match``.
        """
        return _Tests(must=[self.models.FieldCondition(key=key, **condition)])

    def within(self, range_: Range) -> _Tests:
        """A payload field is a number in a range, or a text that reads as a date in it.

        Qdrant compares dates as times, so that a bound is made one.
        """
        limits: Mapping[str, Any] = range_.limits()
        if not range_.of_dates:
            return self._field_test(range_.field, range=self._range(**limits))
        dates: dict[str, datetime] = {}
        for word, limit in limits.items():
            # With a zone, as `_EPOCH` has one: without it the time could be read as local.
            dates[word] = _EPOCH + timedelta(milliseconds=limit)
        return self._field_test(range_.field, range=self.models.DatetimeRange(**dates))

    def exists(self, key: str) -> _Tests:
        """A payload field is there, and neither null nor an empty list.

        Qdrant calls all three empty, but its two packages name the test otherwise.
        """
        payload_field = getattr(self.models, "PayloadField", None)
        if payload_field is None:  # the embedded engine's models
            is_empty = self.models.IsEmptyCondition(key=key)
        else:
            is_empty = self.models.IsEmptyCondition(is_empty=payload_field(key=key))
        return _Tests(must_not=[is_empty])

    def prefix(self, key: str, prefix: str) -> _Tests:
        """A payload field is a text with this beginning, or a list with such a text.

        Qdrant has a match of its own for that.
        """
        return self._field_test(key, match=self.models.MatchPrefix(prefix=prefix))

    def _flag_value(self, value: bool) -> Any:
        """A flag (true or false) in a type that the models do not take for a number.

        The embedded engine's models take Python's own flags for numbers, and NumPy's not.
        """
        is_embedded = hasattr(self.models, "RangeFloat")
        return np.bool_(value) if is_embedded else value


class OwnFilters(PayloadFilters):
    """Folded filters over the plain fields of `ragbench.search.stores.record`.

    A field is named as in the metadata that ragbench was given; each test is made at the places
    where `_at_either_place` says that its value may be.
    """

    def equal(self, key: str, values: Sequence[Scalar]) -> _Tests:
        """A chunk's field equals one of the values, wherever ragbench has written it.

        A field whose name has dots may be in either of two places; `_at_either_place` tries both.
        """
        test_at_path = partial(super().equal, values=values)
        return self._at_either_place(key, test_at_path)

    def prefix(self, key: str, prefix: str) -> _Tests:
        """A chunk's field is a text with this beginning, wherever ragbench has written it.

        A field whose name has dots may be in either of two places; `_at_either_place` tries both.
        """
        test_at_path = partial(super().prefix, prefix=prefix)
        return self._at_either_place(key, test_at_path)

    def exists(self, key: str) -> _Tests:
        """A chunk's field has a value; an empty list is one to ragbench, and none to Qdrant.

        So fields that are lists pass by their names, which ragbench writes into ``lists``.
        """
        is_list = _Tests(must=[self._names_field("lists", key)])
        # Taken outside the lambda: inside, a bare `super()` would take `path` for `self`.
        is_not_empty = super().exists
        return self._at_either_place(
            key, lambda path: _any_holds([is_not_empty(path), is_list], self.models)
        )

    def within(self, range_: Range) -> _Tests:
        """A chunk's field is a number in a range, and in no list; or a date, by its milliseconds.

        ragbench writes the milliseconds of dates into ``dates``, and the names of lists into
        ``lists``.
        """
        bounds = self._range(**range_.limits())
        if range_.of_dates:
            path = written_path(["dates", field_key(range_.field)])
            return self._field_test(path, range=bounds)
        # Qdrant would let a list pass where any of its items does.
        is_no_list = _Tests(must_not=[self._names_field("lists", range_.field)])
        return self._at_either_place(
            range_.field, lambda path: _all_hold([self._field_test(path, range=bounds), is_no_list])
        )

    def _at_either_place(self, field: str, test: Callable[[str], _Tests]) -> _Tests:
        """A test of a chunk's field where a path of keys leads to it, and where it is spelled out.

        ragbench spells a key with dots out under ``fields``, and notes it in ``spelled``.

        Args:
            field: its name in a filter; dots may lead into objects or belong to a key.
            test: makes the test for a path in the payload.
        """
        key = field_key(field)
        path = straight_path(field)
        spelled = test(written_path(["fields", key]))
        if path is None:  # no path can be written: the value is spelled out, or not there
            return spelled
        of_document = field == "document_id"
        keys = ["metadata", *path]
        if of_document:  # ragbench keeps it beside the metadata
            keys = [field]
        straight = test(written_path(keys))
        # A name without dots is a key of the metadata themselves: the path leads to it.
        if len(path) == 1 and not of_document:
            return straight
        # Where the field is spelled out, the path leads to another value, which does not count.
        is_not_spelled = _Tests(must_not=[self._names_field("spelled", key)])
        straight_alone = _all_hold([straight, is_not_spelled])
        return _any_holds([straight_alone, spelled], self.models)

    def _names_field(self, key: str, value: str) -> Any:
        """Whether a list of names in the payload (``lists``, ``spelled``) holds a field's.

        ragbench notes there which fields are lists, and which are spelled out under their whole
        name.

        Args:
            key: of the list.
            value: the field's name.
        """
        is_name = self.models.MatchValue(value=value)
        return self.models.FieldCondition(key=key, match=is_name)
