"""Choose what of our own environment a command gets to see."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

from amplifier_kit.guard.redaction.field_names import is_secret_name

#: Variables are also called just `KEY`, `PASS` or `PWD`, with something before it. `OLDPWD` and `PWD` are folders.
_SECRET_ENDING: Final = re.compile(r"[A-Z0-9]_(?:KEY|KEYS|PASS|PWD|TOKENS)$", re.IGNORECASE)
#: A name and a password in front of a host.
_URL_PASSWORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}://[^\s/:@]*:[^\s/@]+@")
#: Without these no command runs.
_NEEDED: Final = frozenset(("HOME", "PATH"))
#: Ways to ask a person, who is not there: no terminal, no password prompt of git.
_QUIET: Final = {"TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}


def is_secret_variable(name: str) -> bool:
    """Tell whether a variable is named like a key, a token, a password or another secret."""
    return is_secret_name(name) or _SECRET_ENDING.search(name) is not None


def command_environment(
    pass_env: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the environment for a command, and the names of the variables it is not given.

    What is named like a secret is left out, however it came in: what a command prints is read by a model, and what it
    runs may send it anywhere. So are the user's keys under whatever name, everything whose value is a secret that this
    process knows, and addresses with a password in them. `pass_env` names those to give nevertheless; `*` at the end
    stands for any ending.
    """
    from amplifier_kit.guard.redaction.shared_redactor import known_keys, known_secrets

    source = os.environ if environment is None else environment
    exact = {name for name in pass_env if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in pass_env if name.endswith("*"))
    keys, secrets = known_keys(), frozenset(known_secrets())

    def is_secret(name: str) -> bool:
        if is_secret_variable(name):
            return True
        value = source[name]
        return name not in _NEEDED and (name in keys or value in secrets or _URL_PASSWORD.search(value) is not None)

    withheld = sorted(
        name
        for name in source
        if name not in exact and not (prefixes and name.startswith(prefixes)) and is_secret(name)
    )
    given = {name: value for name, value in source.items() if name not in withheld}
    return given | _QUIET, withheld
