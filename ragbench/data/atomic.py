"""Files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ragbench.errors import InputError

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: Path) -> Generator[BinaryIO, None, None]:
    """Opens a file beside ``path`` and renames it when the block ends well.

    A name that ends in ``.gz`` is compressed, without a time stamp, so that the same content
    gives the same bytes.

    Raises:
        InputError: the folder does not exist or cannot be written.
    """
    # A link stays a link: what it points to is replaced.
    target = path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with draft.open("xb") as file:
            if target.suffix.lower() == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
