"""Read a source as users write it: what kind it is, where it is, which version and which part of it."""

from __future__ import annotations

import re
from typing import Final

from amplifier_foundation.sources.fetched import SourceError, SourceKind
from amplifier_kit.named_tuple import NamedTuple

#: What a git source is taken from when it names no ref (not the remote's own default).
DEFAULT_REF: Final = "main"

_GIT: Final = {
    "git+https://": "https://",
    "git+ssh://": "ssh://",
    "git+file://": "file://",
    "git+http://": "http://",
}
_ZIP: Final = {"zip+https://": "https://", "zip+file://": "file://", "zip+http://": "http://"}
_KNOWN: Final = (
    "./path, /path, file:///path, git+https://host/org/repo@ref#subdirectory=path, git+ssh://, git+file://, "
    "zip+https://, zip+file://, https:// or the name of an installed package"
)
_COMMIT: Final = r"[0-9a-f]{40}"
_PACKAGE: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_WINDOWS: Final = r"[A-Za-z]:[\\/]|\\\\|file:///?[A-Za-z]:|file:///?[A-Za-z]%3[aA]"
#: Characters that git allows in no name of a branch or tag, and the ones that would end one in a command.
_NOT_IN_REF: Final = r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{"


_BEFORE_HOST: Final = r"(?i)([a-z+]+://)([^/\s'\"]+)@"


class SourceUri(NamedTuple):
    """One source, taken apart."""

    kind: SourceKind
    #: The source as it was written.
    text: str
    #: What git or the download is given; empty for files and packages.
    url: str = ""
    #: The path of a file source as written (it may be relative or start with `~`), or the name of a package.
    path: str = ""
    #: The branch, tag or commit of a git source.
    ref: str = ""
    #: The part of the source that is meant, relative to its root with `/` between names; empty for all of it.
    subdirectory: str = ""

    @property
    def is_commit(self) -> bool:
        """Return whether the ref is a whole commit id, which always means the same content."""
        return re.fullmatch(_COMMIT, self.ref) is not None

    @property
    def is_remote(self) -> bool:
        """Return whether the network is needed to fetch it."""
        return bool(self.url) and not self.url.startswith("file://")

    @property
    def is_relative(self) -> bool:
        """Return whether it is a path that depends on the folder it is read from."""
        return self.kind == "file" and not self.path.startswith(("/", "~"))

    @property
    def shown(self) -> str:
        """Return the text without the password or token that its URL may carry."""
        return without_secrets(self.text)

    @property
    def canonical(self) -> str:
        """Return the one spelling of this source; parsed again it means the same."""
        part = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        if self.kind == "git":
            return f"git+{self.url}@{self.ref}{part}"
        if self.kind == "zip":
            return f"zip+{self.url}{part}"
        if self.kind == "http":
            return self.url
        if self.kind == "package":
            return f"{self.path}/{self.subdirectory}" if self.subdirectory else self.path
        return f"file://{self.path.replace('#', '%23')}{part}" if part else self.path

    def of(self, subdirectory: str) -> SourceUri:
        """Return another part of the same source; the empty string is all of it. Raises SourceError."""
        there = self._replace(subdirectory=_subdirectory(subdirectory, self.text))
        return there._replace(text=there.canonical)


def parse_source(text: str) -> SourceUri:
    """Return the parts of a source; raise SourceError that says what is wrong with it and how to write it."""
    if not text or text != text.strip() or any(ord(character) < 32 for character in text):
        raise SourceError(f"{text!r} is not a source: it is empty or has blanks around it or control characters in it")
    if re.match(_WINDOWS, text):
        raise SourceError(
            f"{text!r} is a path of Windows, which does not exist on this system: give a path of this one"
        )
    for prefix, scheme in _GIT.items():
        if text.startswith(prefix):
            return _git(text, scheme + text.removeprefix(prefix))
    for prefix, scheme in _ZIP.items():
        if text.startswith(prefix):
            return _zip(text, scheme + text.removeprefix(prefix))
    if text.startswith(("https://", "http://")):
        return _http(text)
    if text.startswith("file://"):
        return _file(text)
    if text.startswith(("/", "./", "../", "~/")) or text in (".", "..", "~"):
        return SourceUri("file", text, path=text)
    return _package(text)


def without_secrets(text: str) -> str:
    """Return a text with what URLs in it have before the host masked, except a bare name as in `ssh://git@host`."""

    def masked(found: re.Match[str]) -> str:
        # In http a token may stand there alone; elsewhere a name without a password is not secret.
        is_secret = ":" in found[2] or found[1].lower().endswith(("http://", "https://"))
        return f"{found[1]}***@" if is_secret else found[0]

    return re.sub(_BEFORE_HOST, masked, text)


def _git(text: str, rest: str) -> SourceUri:
    location, subdirectory = _without_fragment(text, rest)
    scheme, _, place = location.partition("://")
    host, slash, path = place.partition("/")
    path, _, ref = path.rpartition("@") if "@" in path else (path, "", DEFAULT_REF)
    if not path or (not host and scheme != "file"):
        raise SourceError(f"{without_secrets(text)!r} names no repository: write git+https://host/org/repo@ref")
    if host.startswith("-") or host.partition("@")[2].startswith("-"):
        raise SourceError(f"{without_secrets(text)!r}: a host name does not start with '-'")
    if not ref or ref.startswith("-") or re.search(_NOT_IN_REF, ref):
        raise SourceError(f"{without_secrets(text)!r}: {ref!r} cannot be the name of a branch, a tag or a commit")
    return SourceUri("git", text, url=f"{scheme}://{host}{slash}{path}", ref=ref, subdirectory=subdirectory)


def _zip(text: str, rest: str) -> SourceUri:
    location, subdirectory = _without_fragment(text, rest)
    _needs_host(text, location)
    return SourceUri("zip", text, url=location, subdirectory=subdirectory)


def _http(text: str) -> SourceUri:
    location, subdirectory = _without_fragment(text, text)
    if subdirectory:
        raise SourceError(
            f"{without_secrets(text)!r}: a single file has no subdirectory; for a repository write git+https://, "
            "for an archive zip+https://"
        )
    _needs_host(text, location)
    return SourceUri("http", text, url=location)


def _needs_host(text: str, location: str) -> None:
    scheme, _, place = location.partition("://")
    host, _, path = place.partition("/")
    if (not host and scheme != "file") or not path:
        raise SourceError(f"{without_secrets(text)!r} names no file on a host")


def _file(text: str) -> SourceUri:
    location, subdirectory = _without_fragment(text, text)
    path = location.removeprefix("file://")
    path = path.removeprefix("localhost") if path.startswith("localhost/") else path
    if not path.startswith("/") and not path.startswith(("./", "../", "~/")):
        raise SourceError(f"{text!r}: a file of another host cannot be read; write file:/// with three slashes")
    return SourceUri("file", text, path=path, subdirectory=subdirectory)


def _package(text: str) -> SourceUri:
    name, _, subdirectory = text.partition("/")
    if re.fullmatch(_PACKAGE, name):
        return SourceUri("package", text, path=name, subdirectory=_subdirectory(subdirectory, text))
    hint = ""
    if re.fullmatch(r"[\w.-]+@[\w.-]+:[^\s]+", text):
        hint = f"; for a repository write git+ssh://{text.replace(':', '/', 1)}"
    elif "://" not in text and ":" in text:
        hint = "; `namespace:path` is understood in includes, context, agents and @mentions, not as a source"
    raise SourceError(f"{without_secrets(text)!r} is not a source{hint}. Known forms: {_KNOWN}")


def _without_fragment(text: str, rest: str) -> tuple[str, str]:
    location, _, fragment = rest.partition("#")
    if not fragment:
        return location, ""
    key, equals, subdirectory = fragment.partition("=")
    if key not in ("subdirectory", "path") or not equals or "&" in subdirectory:
        raise SourceError(f"{without_secrets(text)!r}: after '#' only `subdirectory=path` is understood")
    return location, _subdirectory(subdirectory, text)


def _subdirectory(path: str, text: str) -> str:
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names or "\\" in path:
        raise SourceError(
            f"{without_secrets(text)!r}: the subdirectory {path!r} must be relative, without '..' and '\\'"
        )
    return "/".join(names)
