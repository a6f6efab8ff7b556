"""The public address of a repository, in the one spelling by which it is compared."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from amplifier_digital_twin.errors import TwinError

_URL: Final = re.compile(r"(?:git\+)?(https?|ssh|git)://(?:[^/@\s]*@)?([^/@\s]+)/(.+)")
#: What ssh understands: `git@host:org/repo`.
_SHORT: Final = re.compile(r"(?:[^/@:\s]+@)([^/:@\s]+):(?!/)(.+)")
_USUAL_PORTS: Final = {"https": ":443", "http": ":80", "ssh": ":22", "git": ":9418"}


class GitAddress(NamedTuple):
    """A repository on a host: small letters, no `.git`, no slashes around, as hosting services compare them."""

    host: str
    path: str

    @classmethod
    def parse(cls, url: str) -> GitAddress | None:
        """Return the address that a URL means; None when it is none of a repository on a host."""
        if found := _URL.fullmatch(url.strip()):
            scheme, host, path = found.groups()
            host = host.lower().removesuffix(_USUAL_PORTS[scheme])
        elif found := _SHORT.fullmatch(url.strip()):
            host, path = found[1].lower(), found[2]
        else:
            return None
        return cls.of(host, path)

    @classmethod
    def of(cls, host: str, path: str) -> GitAddress | None:
        """Return the address of a path on a host; None for a path that is no plain list of names."""
        names = path.lower().strip("/").removesuffix(".git").split("/")
        if any(name in ("", ".", "..") or "\\" in name or "\0" in name for name in names):
            return None
        return cls(host.lower(), "/".join(names))

    @classmethod
    def need(cls, url: str) -> GitAddress:
        """Return the address that a URL of a profile means; raise TwinError (`repository_invalid`)."""
        address = cls.parse(url)
        if address is None:
            raise TwinError(
                "repository_invalid",
                f"{url!r} is no address of a repository",
                "write it as https://host/organisation/repository",
            )
        return address
