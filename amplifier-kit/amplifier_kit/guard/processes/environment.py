"""The environment of untrusted commands: ours without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

from amplifier_kit.guard.redaction.field_names import is_secret_name

#: Endings that mean a secret in variables only, after a prefix: `PWD` and `OLDPWD` are folders.
_SECRET_ENDING: Final = re.compile(r"[A-Z0-9]_(?:KEY|KEYS|PASS|PWD|TOKENS)$", re.IGNORECASE)
#: Credentials in a URL.
_URL_PASSWORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}://[^\s/:@]*:[^\s/@]+@")
_REQUIRED: Final = frozenset(("HOME", "PATH"))
#: Commands have no terminal to ask on.
_NON_INTERACTIVE: Final = {"TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}


def is_secret_variable(name: str) -> bool:
    """Return whether a variable is named like a key, a token, a password or another secret."""
    return is_secret_name(name) or _SECRET_ENDING.search(name) is not None


def command_environment(
    pass_env: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the environment for a command, and the names of the variables that are withheld from it.

    A model reads what a command prints, and a command may send it anywhere. So variables with secret names, the user's
    keys under any name, values that this process knows to be secrets, and URLs with a password are withheld. `pass_env`
    lists exceptions; a final `*` matches any ending.
    """
    from amplifier_kit.guard.redaction.shared_redactor import known_keys, known_secrets

    source = os.environ if environment is None else environment
    exact = {name for name in pass_env if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in pass_env if name.endswith("*"))
    keys, secrets = known_keys(), frozenset(known_secrets())

    def is_secret(name: str, value: str) -> bool:
        if name in exact or (prefixes and name.startswith(prefixes)):
            return False
        if is_secret_variable(name):
            return True
        return name not in _REQUIRED and (name in keys or value in secrets or _URL_PASSWORD.search(value) is not None)

    withheld = sorted(name for name, value in source.items() if is_secret(name, value))
    given = {name: value for name, value in source.items() if name not in withheld}
    return given | _NON_INTERACTIVE, withheld
