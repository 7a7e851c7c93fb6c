"""What a model thought before it answered, where its answer still has that in tags."""

from __future__ import annotations

import re

_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)


def behind_thoughts(text: str) -> str:
    """The answer behind a model's thoughts, which some models write in tags before it.

    Thoughts are no part of what the model answers: "I am not sure" in them declines nothing. The
    whole text is returned where there are none, or where they never end. Some servers cut the
    opening tag off.

    Example:
        >>> behind_thoughts("<think>It is in none of them.</think>I don't know.")
        "I don't know."
    """
    if "<" not in text:
        return text
    return _END.split(text)[-1]
