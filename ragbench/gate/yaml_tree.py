"""A YAML file as a tree whose every value knows its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.errors import DataError, Problem

if TYPE_CHECKING:
    import yaml

__all__ = ["YamlNode", "read_yaml"]

_NULL = "tag:yaml.org,2002:null"
_STRING = "tag:yaml.org,2002:str"


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlNode:
    """One value of a YAML file."""

    line: int
    text: str | None = None
    """Of a scalar, as it is written, without quotes."""
    is_null: bool = False
    is_text: bool = False
    """Whether YAML takes it for a text, and not for a number, a date ..."""
    is_quoted: bool = False
    pairs: tuple[tuple[YamlNode, YamlNode], ...] | None = None
    """Of a mapping: keys with their values, as often as they stand there."""
    items: tuple[YamlNode, ...] | None = None
    """Of a list."""

    def __str__(self) -> str:
        """The value as a message names it."""
        if self.pairs is not None:
            return "a mapping"
        if self.items is not None:
            return "a list"
        return f"'{self.text}'" if self.text else "nothing"


def read_yaml(path: Path) -> YamlNode:
    """Reads a file of one YAML document. Nothing in it is executed or constructed.

    Raises:
        DataError: the file cannot be read, is not YAML, or holds nothing.
    """
    import yaml

    try:
        text = path.read_text("utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            raise _fatal(path, "is empty")
        return _node(root, path, ())
    except OSError as error:
        raise _fatal(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _fatal(path, f"is not UTF-8: {error.reason} at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise _fatal(path, f"is not YAML: {error.problem or error.context}", line) from error
    except yaml.YAMLError as error:
        raise _fatal(path, f"is not YAML: {error}") from error
    except RecursionError as error:
        raise _fatal(path, "is nested too deep") from error


def _node(node: yaml.Node, path: Path, above: tuple[int, ...]) -> YamlNode:
    import yaml

    line = node.start_mark.line + 1
    if id(node) in above:
        raise _fatal(path, "an alias stands inside of what it stands for", line)
    inside = (*above, id(node))
    if isinstance(node, yaml.MappingNode):
        pairs = tuple((_node(k, path, inside), _node(v, path, inside)) for k, v in node.value)
        return YamlNode(line=line, pairs=pairs)
    if isinstance(node, yaml.SequenceNode):
        return YamlNode(line=line, items=tuple(_node(v, path, inside) for v in node.value))
    return YamlNode(
        line=line,
        text=str(node.value),
        is_null=node.tag == _NULL,
        is_text=node.tag == _STRING,
        is_quoted=isinstance(node, yaml.ScalarNode) and node.style is not None,
    )


def _fatal(path: Path, message: str, line: int | None = None) -> DataError:
    return DataError([Problem(path=str(path), line=line, message=message)])
