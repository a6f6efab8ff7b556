"""Hand git the password of an address without its command line: everybody on a machine can read that."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote

from amplifier_foundation.sources.fetched import SourceError

_USER: Final = "AMPLIFIER_GIT_USER"
_PASSWORD: Final = "AMPLIFIER_GIT_PASSWORD"
#: A helper as git knows them; the shell that runs it sees the names of the variables and puts in what they hold.
_HELPER: Final = f'!f() {{ test "$1" != get || printf "username=%s\\npassword=%s\\n" "${_USER}" "${_PASSWORD}"; }}; f'


class GitLogin(NamedTuple):
    """An address as git may be given it, and what git needs besides to log in there."""

    url: str
    #: Settings for `git -c`.
    options: tuple[str, ...] = ()
    #: Variables for git's environment.
    environ: Mapping[str, str] = MappingProxyType({})


def git_login(url: str) -> GitLogin:
    """Return the address without its password, which only the host it stands for is told when it asks.

    An address without a password, and one that is not of the web, stays as it is. Raises SourceError for a password
    that git cannot be told.
    """
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    login, _, host = place.rpartition("@")
    user, colon, password = (unquote(part) for part in login.partition(":"))
    if scheme not in ("http", "https") or not colon:
        return GitLogin(url)
    if not (user + password).isprintable():
        raise SourceError(f"{scheme}://***@{host}{slash}{path}: the login has characters that no login can have")
    server = f"{scheme}{separator}{host}"
    # Nobody else is asked, and nobody else is told to remember it.
    options = (f"credential.{server}.helper=", f"credential.{server}.helper={_HELPER}")
    return GitLogin(f"{server}{slash}{path}", options, {_USER: user, _PASSWORD: password})
