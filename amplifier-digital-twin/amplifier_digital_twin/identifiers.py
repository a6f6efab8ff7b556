"""Names of universes: the one the program gives, and the one a user may choose."""

from __future__ import annotations

import re
from typing import Final

from amplifier_digital_twin.errors import TwinError

_PREFIX: Final = "dtu-"
_IDENTIFIER: Final = re.compile(r"dtu-[0-9a-f]{8}")
#: Fit for a host name and a container's name, too.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


def new_identifier() -> str:
    """Return an identifier that no other universe is likely to have."""
    import secrets

    return f"{_PREFIX}{secrets.token_hex(4)}"


def is_identifier(text: str) -> bool:
    """Tell whether a text has the form of an identifier."""
    return _IDENTIFIER.fullmatch(text) is not None


def is_prefix_of(given: str, identifier: str) -> bool:
    """Tell whether what a user typed starts an identifier, with or without the part that all have in common."""
    return bool(given) and (identifier.startswith(given) or identifier.removeprefix(_PREFIX).startswith(given))


def check_name(name: str) -> str:
    """Return a name a user chose; raise TwinError for one that could be taken for an identifier or is unfit."""
    if not _NAME.fullmatch(name):
        raise TwinError(
            "name_invalid",
            f"{name!r} is no name for a universe",
            "use up to 40 lower-case letters, digits and dashes, with a letter or digit at both ends",
        )
    if name.startswith(_PREFIX):
        raise TwinError(
            "name_invalid",
            f"{name!r} could be taken for an identifier, which start with {_PREFIX!r}",
            "choose a name that starts otherwise",
        )
    return name
