"""How far one commit lies behind another."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["commits_between"]


def commits_between(earlier: str, later: str, folder: Path) -> int | None:
    """The number of commits that ``later`` has and ``earlier`` lacks.

    Args:
        earlier: a commit.
        later: another one.
        folder: lies in the repository.

    Returns:
        0 for the same commit; None when ``earlier`` is no ancestor of ``later``, or git does not
        know one of them (as in a shallow clone), or there is no git.
    """
    if earlier == later:
        return 0
    if _git(folder, "merge-base", "--is-ancestor", earlier, later) is None:
        return None
    count = _git(folder, "rev-list", "--count", f"{earlier}..{later}")
    return None if count is None else int(count)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
