"""What makes an earlier verdict one of another validator."""

from pathlib import Path

import pytest

from ragbench.stages import validate
from ragbench.stages.validate import validator_fingerprint
from ragbench.validators.lexical import LexicalValidator


@pytest.mark.parametrize(("name", "is_other"), [("objections.py", True), ("notes.md", False)])
def test_rules_that_were_edited_make_it_another_validator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_other: bool
) -> None:
    """As in a checkout whose version stays while its code changes."""
    (tmp_path / "objections.py").write_text("FIRST = 1\n", "utf-8")
    monkeypatch.setattr(validate, "files", lambda _: tmp_path)
    validator, found = LexicalValidator(), list[str]()
    for text in ("FIRST = 1\n", "FIRST = 1\r\n", "FIRST = 2\n"):
        (tmp_path / name).write_bytes(text.encode())
        validate._rules.cache_clear()  # pyright: ignore[reportPrivateUsage]
        found.append(validator_fingerprint(validator))
    validate._rules.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert found[0] == found[1]  # another checkout's line ends
    assert (found[2] != found[0]) is is_other
