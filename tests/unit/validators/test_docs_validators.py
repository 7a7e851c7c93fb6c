"""The examples of docs/validators.md run, and print what stands below them."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs" / "validators.md"
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", DOCS.read_text("utf-8"), re.M | re.S
)


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_examples_print_what_they_show(code: str, shown: str) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, str(DOCS), "exec"), {})
    assert printed.getvalue() == shown


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2
