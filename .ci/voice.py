"""Counts habits of the documentation's voice, and lowers the ceilings that test_voice.py holds.

Run from the root of the project::

    python .ci/voice.py

The ceilings are in voice.toml, a row for each page, for all help texts (docs/cli.md) and for all
messages of errors. They only fall, unless a page is named, such as one that took text of another:

    python .ci/voice.py docs/measured/stores.md
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / ".ci" / "voice.toml"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LONGEST = 200
"""Lines of a page outside of blocks, unless it is reference or evidence."""
REFERENCE = re.compile(
    r"docs/(?:measured/.*|cli|metrics|operators|python|formats|run_folder|statistics|validators"
    r"|architecture)\.md|C.*\.md"
)
ERRORS = "messages of errors"
HABITS = {
    "stands": r"\b(?:stands?|stood|standing)\b",
    "told": r"\b(?:tells?|told|says?|said)\b",
    "nobody": r"\b(?:nobody|somebody|anybody|whoever)\b|(?:^|[.:] )Who\b",
    "what": r"\bwhat\b",
}
"""Words that a native reader trips over: write a verb first, you, and the field's words.

``what`` counts in sentences that are no questions and no headings.
"""
FLOOR = 120
YOU = r"\b(?:you|your|yours)\b"


def prose(page: str) -> str:
    """A page without code, links' places, comments and headings."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`|<!--.*?-->", " code ", page, flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"^#.*$", "", text, flags=re.M)


def messages() -> Iterator[str]:
    """The texts in what is raised."""
    for folder in ("ragbench", "cli/ragbench_cli"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Raise) and node.exc is not None:
                    parts = [
                        one.value for one in ast.walk(node.exc) if isinstance(one, ast.Constant)
                    ]
                    yield " ".join(part for part in parts if isinstance(part, str))


def texts() -> Iterator[tuple[str, str]]:
    for path in PAGES:
        yield path.relative_to(ROOT).as_posix(), prose(path.read_text("utf-8"))
    yield ERRORS, prose("\n".join(messages()))


def counted(text: str) -> dict[str, int]:
    """How often each habit occurs; ``you`` per 10,000 words."""
    statements = " ".join(re.findall(r"[^.!?]+(?:[.!]|$)", text))
    found = {
        habit: len(re.findall(pattern, statements if habit == "what" else text, re.I | re.M))
        for habit, pattern in HABITS.items()
    }
    words = len(re.findall(r"[A-Za-z]+", text))
    return found | {"you": round(10_000 * len(re.findall(YOU, text, re.I)) / max(words, 1))}


def measured() -> dict[str, dict[str, int]]:
    return {name: {**counted(text), "lines": lines(name)} for name, text in texts()}


def lines(name: str) -> int:
    if name == ERRORS or REFERENCE.fullmatch(name):
        return 0
    page = (ROOT / name).read_text("utf-8")
    return len(re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S).splitlines())


def written() -> dict[str, dict[str, int]]:
    return tomllib.loads(TABLE.read_text("utf-8")) if TABLE.is_file() else {}


def main() -> int:
    before = {name: row for name, row in written().items() if name not in sys.argv[1:]}
    rows: list[str] = []
    for name, now in measured().items():
        old = before.get(name, now)
        held = {habit: min(now[habit], old[habit]) for habit in HABITS}
        held["lines"] = max(LONGEST, min(now["lines"], old.get("lines", now["lines"])))
        held["you"] = FLOOR if max(old["you"], now["you"]) >= FLOOR else 0
        rows.append(f'"{name}" = {{ {", ".join(f"{k} = {v}" for k, v in held.items())} }}\n')
    head = "# Most occurrences of each habit (voice.py); least of you and your per 10,000 words.\n"
    TABLE.write_text(head + "".join(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
