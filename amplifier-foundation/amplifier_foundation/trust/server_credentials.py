"""Keep the values in entries of MCP servers out of everything that is recorded: keys may be there under any name.

In a plan, `env` and `headers` of an entry are how a server gets its credentials. Only references such as `${NAME}` are
kept, which say where a value comes from. A resumed session takes the values from the bundle again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.guard.redaction.field_names import is_secret_name
from amplifier_kit.guard.redaction.prefilter import MASK

#: Nothing but references, behind the word for a way to authenticate or not.
_REFERENCES: Final = r"(?i)(?:(?:Bearer|Basic|Token)\s+)?(?:\$\{[A-Za-z_][A-Za-z0-9_]*\}\s*)*"
_FLAG: Final = r"--?([A-Za-z][A-Za-z0-9_\-]*)(=(?s:.*))?"
#: Names of flags that are too short or too vague to be secret elsewhere.
_SECRET_FLAGS: Final = frozenset({"auth", "code", "cred", "creds", "header", "key", "pass", "pat", "pwd", "sig"})


def without_server_values(value: Any) -> Any:
    """Return a copy of a plan, or a part of it, in which the entries of servers hold no values of their own."""
    if isinstance(value, Mapping):
        copy = {key: without_server_values(each) for key, each in value.items()}
        if isinstance(value.get("command"), str) or isinstance(value.get("url"), str):
            for key in ("env", "headers"):
                if isinstance(value.get(key), Mapping):
                    copy[key] = {name: _hidden(each) for name, each in value[key].items()}
            if isinstance(value.get("args"), list | tuple):
                copy["args"] = _arguments(value["args"])
        return copy
    return [without_server_values(each) for each in value] if isinstance(value, list | tuple) else value


def _hidden(value: Any) -> Any:
    if value is None or isinstance(value, bool) or (isinstance(value, str) and re.fullmatch(_REFERENCES, value)):
        return value
    return MASK


def _arguments(arguments: list[Any] | tuple[Any, ...]) -> list[Any]:
    """Hide what follows a flag that is named like a secret, as its own argument or behind a `=`."""
    copy: list[Any] = []
    is_announced = False
    for argument in arguments:
        flag = re.fullmatch(_FLAG, argument) if isinstance(argument, str) else None
        if is_announced and flag is None:
            copy.append(_hidden(argument))
            is_announced = False
            continue
        is_secret = flag is not None and (is_secret_name(flag[1]) or flag[1].lower() in _SECRET_FLAGS)
        if is_secret and flag is not None and flag[2] is not None:
            copy.append(f"{argument[: -len(flag[2])]}={_hidden(flag[2][1:])}")
        else:
            copy.append(argument)
        is_announced = is_secret and flag is not None and flag[2] is None
    return copy
