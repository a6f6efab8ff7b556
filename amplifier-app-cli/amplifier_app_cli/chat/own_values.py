"""Name the user's own keys where a question would show them; everything else in a question is shown to the letter.

Whoever wants a part of a command hidden can make it look like a secret. So in a question nothing is masked by a
pattern, a label or a name: only the exact value of a key that the user has, by a mark that says which one it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from amplifier_kit.guard.redaction import live_values_from_env, live_values_from_keys

if TYPE_CHECKING:
    from amplifier_foundation.paths import Home

#: A value that is one plain token: nothing in it could be a command, an argument or two words.
_TOKEN: Final = re.compile(r"[A-Za-z0-9_~+/=.:-]{8,}")


class OwnValues:
    """The values of the user's keys, by name."""

    def __init__(self, environ: Mapping[str, str], keys: Mapping[str, str] | None = None) -> None:
        """Know the variables of an environment that are named like credentials, and the secrets of a key store."""
        names: dict[str, str] = {}
        for source, secrets_in in ((environ, live_values_from_env), (keys or {}, live_values_from_keys)):
            for name, value in source.items():
                token = value.strip()
                if _TOKEN.fullmatch(token) and token in secrets_in({name: value}):
                    names.setdefault(token, name)
        self._names = names
        # The longest first: a value may begin like another one.
        known = sorted(names, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    @classmethod
    def of_user(cls, home: Home) -> OwnValues:
        """Know the keys of this process and of the user's home; a key store that cannot be read has none."""
        from amplifier_foundation.errors import FoundationError
        from amplifier_foundation.settings.keys import KeyStore

        try:
            return cls(os.environ, KeyStore(home, os.environ).load())
        except FoundationError:
            return cls(os.environ)

    def named(self, text: str) -> str:
        """Return a text with every value replaced by its mark, `[value of GITHUB_TOKEN]`, and nothing else changed."""
        if self._known is None:
            return text
        return self._known.sub(lambda found: f"[value of {self._names[found[0]]}]", text)
