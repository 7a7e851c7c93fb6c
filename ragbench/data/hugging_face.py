"""Hugging Face `datasets`: a folder saved by `save_to_disk`, or a name on the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ragbench.data.arrow import json_rows
from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.extras import require

__all__ = ["is_saved_folder", "read"]

_BATCH_ROWS = 1000
_USUAL_SPLIT = "test"


def is_saved_folder(folder: Path) -> bool:
    """Whether `datasets` saved this folder: one dataset, or one for each split."""
    one = (folder / "dataset_info.json").is_file() and (folder / "state.json").is_file()
    return one or (folder / "dataset_dict.json").is_file()


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record; the row's line is its number in the split.

    A hub name is ``owner/name`` or ``owner/name/configuration``. Without a split, the only one or
    else ``test`` is read. Hub datasets are streamed, saved folders memory-mapped.
    """
    if source.hub == "":
        problems.add("expected a name such as hf:owner/name or hf:owner/name:test", path="hf:")
        return
    datasets = require("datasets", extra="hf")
    number = 0
    try:
        loaded = _load(datasets, source)
        dataset = _choose_split(loaded, source, problems)
        if dataset is None:
            return
        for table in dataset.with_format("arrow").iter(batch_size=_BATCH_ROWS):
            for values in json_rows(table):
                number += 1
                yield Row(source.name, number, values)
    except Exception as error:  # noqa: BLE001  # the package raises what its many back ends raise
        message = f"cannot be read after record {number}: {type(error).__name__}: {error}"
        problems.add(message, path=source.name)


def _load(datasets: Any, source: Source) -> Any:
    if source.hub is None:
        return datasets.load_from_disk(str(source.path))
    owner, slash, rest = source.hub.partition("/")
    name, _, configuration = rest.partition("/")
    return datasets.load_dataset(f"{owner}{slash}{name}", configuration or None, streaming=True)


def _choose_split(loaded: Any, source: Source, problems: Problems) -> Any:
    if not isinstance(loaded, dict):
        return loaded
    splits = cast("Mapping[str, Any]", loaded)
    wanted = source.split or (next(iter(splits)) if len(splits) == 1 else _USUAL_SPLIT)
    if wanted in splits:
        return splits[wanted]
    named = f"no split '{wanted}'" if source.split else "several splits and none named"
    problems.add(f"{named}; the splits are: {', '.join(sorted(splits))}", path=source.name)
    return None
