"""The kinds of values a profile is made of, as annotated types that pydantic checks.

Messages complete the sentence "<key>: ..."; a value in the context of the validation (`Reading`) resolves paths.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, Strict, ValidationInfo

from amplifier_digital_twin.profile.quantities import parse_duration, parse_size
from amplifier_foundation.documents import Document

T = TypeVar("T")

_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
_TYPE_NAMES: Final = {dict: "a mapping", list: "a list", type(None): "nothing"}


@dataclass
class Reading:
    """A profile while it is read: the file, what its paths are relative to, and the notes for its author."""

    document: Document
    environ: Mapping[str, str]
    #: What `~` means for paths inside the universe.
    home: str = "/home/user"
    notes: list[str] = field(default_factory=list)
    is_shipped: bool = False
    #: Whether it was checked before, and written by the program.
    is_saved: bool = False

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the host start from."""
        return self.document.path.parent

    @property
    def default_folder(self) -> Path:
        """The folder that the default of a path variable starts from."""
        return Path.cwd() if self.is_shipped else self.folder

    def host_path(self, text: str, folder: Path | None = None) -> Path:
        """Return an absolute path of the host; `~` is the home of the user who runs the program."""
        if text == "~" or text.startswith("~/"):
            text = self.environ.get("HOME", "~") + text[1:]
        path = (folder or self.folder).absolute() / text
        # Only the way to the file is resolved: a wheel's own name says what it is, even when it is a link.
        return path.resolve() if path.name == ".." else path.parent.resolve() / path.name


def shown(value: Any) -> str:
    """Return a wrong value for a message."""
    is_plain = isinstance(value, str | int | float | bool)
    return (repr(value) if is_plain else _TYPE_NAMES.get(type(value), repr(value)))[:80]


def wrong(value: Any, expected: str) -> ValueError:
    """Return the error of a value that is not what it must be."""
    return ValueError(f"must be {expected}, got {shown(value)}")


def matching(pattern: str, expected: str) -> Any:
    """Return a validator for text that matches a pattern as a whole."""
    compiled = re.compile(pattern, re.ASCII)

    def check(value: Any) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise wrong(value, expected)
        return value

    return PlainValidator(check)


def whole(low: int, high: int) -> Any:
    """Return a validator for whole numbers in a range."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise wrong(value, f"a whole number from {low} to {high}")
        return value

    return PlainValidator(check)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(value, "text (in quotes, if it looks like a number)")
    if "\0" in value:
        raise ValueError("holds a NUL character, which no program accepts")
    return value


def _filled(value: Any) -> str:
    if not _text(value).strip():
        raise wrong(value, "text that is not empty")
    return str(value)


def _amount(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (math.isfinite(value) and 0 < value <= 1_000_000):
        raise wrong(value, "a number above 0")
    return float(value)


def _quantity(parse: Callable[[object], T]) -> Callable[[Any], T]:
    def check(value: Any) -> T:
        try:
            parsed = parse(value)
        except ValueError as error:
            raise ValueError(f"cannot be read: {str(value)[:80]!r}: {error}") from None
        if not parsed:
            raise ValueError("must be above 0: leave the key out for the default")
        return parsed

    return check


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise wrong(value, "a mapping whose keys are text (put them in quotes)")
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item) for item in value]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise wrong(value, "a value that JSON has (put a date in quotes)")


def _expression(value: Any) -> str:
    try:
        re.compile(_filled(value))
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}: escape what is meant literally with \\") from None
    return str(value)


def _permissions(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and reading_of(info).is_saved:
        return value
    if not isinstance(value, str) or re.fullmatch(r"(0o?)?[0-7]{3,4}", value) is None:
        raise wrong(value, 'permissions in octal and in quotes, like "0644"')
    return int(value.removeprefix("0o"), 8)


def _loose_permissions(value: Any, info: ValidationInfo) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0o777
    return value if is_number else _permissions(value, info)


def _inner_path(value: Any, info: ValidationInfo) -> str:
    given = _filled(value)
    if given == "~" or given.startswith("~/"):
        return reading_of(info).home + given[1:]
    if not given.startswith("/"):
        raise wrong(value, "a path inside the universe that starts with / or ~/")
    return given


def _host_file(value: Any, info: ValidationInfo) -> Path:
    path = reading_of(info).host_path(_filled(value))
    if not path.exists() and not reading_of(info).is_saved:
        raise ValueError(f"no such file: {str(path)!r}: a relative path starts from the folder of the profile")
    return path


def _host_folder(value: Any, info: ValidationInfo) -> Path:
    path = _host_file(value, info)
    if not path.is_dir() and not reading_of(info).is_saved:
        raise ValueError(f"{str(path)!r} is not a folder")
    return path


def reading_of(info: ValidationInfo) -> Reading:
    """Return the reading that a validation belongs to."""
    assert isinstance(info.context, Reading)
    return info.context


def web_address(value: Any) -> str:
    """Check an http(s) address without credentials; raises ValueError."""
    given = _filled(value)
    try:
        parts = urlsplit(given)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_fine, parts = False, urlsplit("")
    if not is_fine or any(character.isspace() for character in given):
        raise wrong(value, "an address like https://example.com/path")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address with credentials in it: remove them, a profile holds no secrets")
    return given


def _probe_address(value: Any) -> str:
    address = web_address(value)
    if not address.startswith("http://"):
        raise ValueError(f"{address!r} is not http://: use a command with curl for anything else")
    return address


def repository_address(value: Any) -> str:
    """Check the public address of a repository; raises ValueError."""
    address = web_address(value)
    parts = urlsplit(address)
    if not parts.path.strip("/") or parts.query or parts.fragment:
        raise wrong(value, "the address of a repository, like https://github.com/owner/name")
    return address


def rewritten_address(value: Any) -> str:
    """Check a host, or a path of one, without a scheme; raises ValueError."""
    given = _filled(value)
    host, _, path = given.partition("/")
    if "://" in given:
        raise ValueError(f"{given!r} has a scheme: write it without: {given.partition('://')[2]}")
    is_fine = re.fullmatch(_HOST, host, re.ASCII) and ".." not in path.split("/")
    if not is_fine or any(character in "?#*\\" or character.isspace() for character in path):
        raise wrong(value, "a host and at most a path, like api.example.com/v1")
    return given


def _rewrite_target(value: Any) -> str:
    given = _filled(value)
    if given.startswith("mock:") and re.fullmatch(r"mock:[A-Za-z0-9][A-Za-z0-9._-]{0,62}", given, re.ASCII):
        return given
    return web_address(given)


def _one_or_many(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Text = Annotated[str, PlainValidator(_text)]
Filled = Annotated[str, PlainValidator(_filled)]
Truth = Annotated[bool, Strict()]
Name = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "a name of letters, digits, '.', '_' and '-'")]
EnvName = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "the name of a variable (letters, digits, '_')")]
UserName = Annotated[str, matching(r"[a-z_][a-z0-9_-]{0,31}", "a user name of lower case letters, digits, '_' and '-'")]
HostName = Annotated[str, matching(_HOST, "the exact name of a host, like api.example.com")]
Allowed = Annotated[
    str,
    matching(
        rf"@package-index|@apt|{_HOST}(?::[0-9]{{1,5}})?",
        "'@package-index', '@apt' or the exact name of a host, like api.example.com or example.com:8443",
    ),
]
PackageName = Annotated[str, matching(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "the name of a Python package")]
DebianPackage = Annotated[str, matching(r"[a-z0-9][a-z0-9.+-]+(=[A-Za-z0-9.+:~-]+)?", "the name of a Debian package")]
Sha256 = Annotated[str, matching(r"[0-9a-f]{64}", "a SHA-256 in 64 lower case hexadecimal digits")]
#: No leading dash: a reference is an argument of git.
Ref = Annotated[str, matching(r"[^\s\0~^:?*\[\\-][^\s\0~^:?*\[\\]{0,199}", "'worktree', a branch, a tag or a commit")]
Picture = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,58}\.png", "the name of a .png file, without folders")]
Subdirectory = Annotated[str, matching(r"(?!/)(?!.*(^|/)\.\.(/|$))[^\0]+", "a folder of the repository, without '..'")]
Port = Annotated[int, whole(1, 65535)]
FreePort = Annotated[int, whole(0, 65535)]
#: Ids above these mean `nobody` and `none` to the system.
Id = Annotated[int, whole(0, 65533)]
Amount = Annotated[float, PlainValidator(_amount)]
Size = Annotated[int, PlainValidator(_quantity(parse_size))]
Duration = Annotated[float, PlainValidator(_quantity(parse_duration))]
Json = Annotated[Any, PlainValidator(_json)]
Expression = Annotated[str, PlainValidator(_expression)]
Permissions = Annotated[int, PlainValidator(_permissions)]
LoosePermissions = Annotated[int, PlainValidator(_loose_permissions)]
InnerPath = Annotated[str, PlainValidator(_inner_path)]
HostFile = Annotated[Path, PlainValidator(_host_file), PlainSerializer(str)]
HostFolder = Annotated[Path, PlainValidator(_host_folder), PlainSerializer(str)]
ProbeAddress = Annotated[str, PlainValidator(_probe_address)]
WebAddress = Annotated[str, PlainValidator(web_address)]
RepositoryAddress = Annotated[str, PlainValidator(repository_address)]
RewrittenAddress = Annotated[str, PlainValidator(rewritten_address)]
RewriteTarget = Annotated[str, PlainValidator(_rewrite_target)]
#: A list, which YAML has in place of a tuple.
Listed = Annotated[tuple[T, ...], Strict(False)]
OneOrMany = Annotated[tuple[T, ...], Strict(False), BeforeValidator(_one_or_many)]
#: A mapping of the author's own names.
Variables = Annotated[dict[EnvName, Text], AfterValidator(dict)]
