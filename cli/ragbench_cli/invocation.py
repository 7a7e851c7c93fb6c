"""What a command may know of how it was called."""

from __future__ import annotations

from dataclasses import dataclass

import typer

__all__ = ["Invocation", "invocation_of"]


@dataclass(kw_only=True, slots=True)
class Invocation:
    """One call of the program."""

    arguments: tuple[str, ...] = ()
    """The command line without the program's name."""
    traceback: bool = False
    """Whether errors come with their traceback."""

    def again(self, *more: str, without: tuple[str, ...] = ()) -> str:
        """The command line for a shell, with more flags at its end and without some."""
        kept = [text for text in self.arguments if text not in without]
        return _line([*kept, *(text for text in more if text not in kept)])

    def before(self, flag: str) -> str:
        """The command line for a shell, with an option of the program itself."""
        return _line([flag, *self.arguments])


def _line(arguments: list[str]) -> str:
    """What a shell would take; credentials in URLs are masked, as it may end up in a log."""
    import shlex

    from ragbench.interface.masking import mask_text

    return mask_text(shlex.join(["ragbench", *arguments]))


def invocation_of(context: typer.Context) -> Invocation:
    """The call that a command's context belongs to."""
    found = context.find_object(Invocation)
    return Invocation() if found is None else found
