"""Write the input of a tool as JSON that a person can change, and read it again."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from amplifier_app_cli.ui.plain import plain

#: How lines begin with which a file sets options of vi, Vim, Kakoune, Kate and Emacs (which also knows `-*-`).
_MODELINE: Final = re.compile(
    r"(?:(?<!\w)|(?<=\\[bfnrt]))(vim?(?:[<=>]{0,2}\d+)?|ex|kak|kate|local variables):", re.IGNORECASE
)


class InputProblem(ValueError):
    """What was written is no input of a tool; the text says why, and in which line."""


def written(tool_input: dict[str, Any], *, on_one_line: bool = False) -> str:
    """Return an input as JSON; nothing in it means something to a terminal."""
    indent = None if on_one_line else 2
    text = json.dumps(tool_input, ensure_ascii=False, indent=indent)
    return text if plain(text) == text else json.dumps(tool_input, ensure_ascii=True, indent=indent)


def without_modelines(text: str) -> str:
    """Return the same JSON without anything that an editor would take for its own settings.

    What a model wrote may hold such a line, and several editors obey those of the file that they open. One character of
    each is written as its number, which is the same text to whoever reads the JSON.
    """
    text = _MODELINE.sub(lambda found: f"{found[1]}\\u003a", text)
    return text.replace("-*-", "-\\u002a-")


def read(text: str) -> dict[str, Any]:
    """Return the input that a text is; raises InputProblem for what is no JSON, or no object."""
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise InputProblem(f"line {error.lineno}, column {error.colno}: {error.msg}: {_line(text, error)}") from error
    except InputProblem:
        raise
    except UnicodeEncodeError as error:
        raise InputProblem("it holds half a character (a lone surrogate), which cannot be written anywhere") from error
    except (ValueError, RecursionError) as error:
        raise InputProblem(f"it cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise InputProblem(f"the input of a tool is a JSON object, as in {{…}}; this is {_kind(found)}")
    return found


def difference(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the lines of a diff between two inputs."""
    import difflib

    old, new = written(before).splitlines(), written(after).splitlines()
    return list(difflib.unified_diff(old, new, "asked for", "changed", lineterm="", n=2))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputProblem(f"the key {key!r} is there twice")
        found[key] = value
    return found


def _constant(name: str) -> Any:
    raise InputProblem(f"{name} is no JSON")


def _line(text: str, error: json.JSONDecodeError) -> str:
    lines = text.split("\n")
    return lines[error.lineno - 1].strip() or "(an empty line)"


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
