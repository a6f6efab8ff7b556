"""One entry of a config: its keys, checked, and the variables in it, which are expanded only when the server starts."""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, Strict

from amplifier_kit.config import Config, ConfigError, PathText, Seconds, Text, expects, read_config
from amplifier_kit.struct import FrozenStruct
from amplifier_module_tool_mcp.faults import ServerFault

_REFERENCE: Final = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}"
#: Shorter values are not secrets, and masking them would hit ordinary words.
_SHORTEST: Final = 4


class Mask:
    """Put names in the place of values: `${NAME}` for what a variable held, `[hidden]` for what stood in a config."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._secret: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Mask({len(self._said)} values)"

    def add(self, value: str, name: str, *, is_secret: bool) -> None:
        """Hide a value from now on; one that is secret also in what the server itself answers."""
        for part in _forms(value):
            self._said[part] = name
            if is_secret:
                self._secret[part] = name

    def diagnostic(self, text: str) -> str:
        """Return what may be said in errors, events and logs: no value that came in by a variable."""
        return _replaced(text, self._said)

    def answer(self, text: str) -> str:
        """Return what a model may read of the server's own answers: no secret; a path such as `$HOME` stays."""
        return _replaced(text, self._secret)


def _forms(value: str) -> set[str]:
    """Return how a value may be written: as it is, and, of one that may be a secret, in the forms of live values."""
    from amplifier_kit.guard.redaction.known_values import LEAST, forms_of

    parts = {part for part in (value, value.strip()) if len(part) >= _SHORTEST}
    return parts | {form for part in parts if len(part) >= LEAST for form in forms_of(part) if len(form) >= LEAST}


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for value in sorted(names, key=len, reverse=True):
        if value in text:
            text = text.replace(value, names[value])
    return text


def expanded(text: str, environment: Mapping[str, str], mask: Mask, *, is_secret: bool) -> str:
    """Return a text with its `${NAME}` and `${NAME:-default}` replaced; what they held is hidden by the mask.

    The default stands for a variable that is not set, or empty. Raises ServerFault, which names the variable, for one
    that is neither set nor has a default.
    """
    from amplifier_kit.guard.processes.programs import is_secret_variable

    def value_of(found: re.Match[str]) -> str:
        name, default = found.group(1), found.group(2)
        value = environment.get(name)
        if not value and default is not None:
            return default
        if value is None:
            raise ServerFault(
                "variable_missing", f"the variable {name} is not set: set it, or write ${{{name}:-default}}"
            )
        mask.add(value, f"${{{name}}}", is_secret=is_secret or is_secret_variable(name))
        return value

    return re.sub(_REFERENCE, value_of, text)


def is_only_reference(text: str) -> bool:
    """Return whether a text is exactly one reference, and so contains no value itself."""
    return re.fullmatch(_REFERENCE, text) is not None


Transport = Literal["stdio", "http"]

_TYPES: Final[Mapping[str, Transport]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
}
_NAME: Final = r"[^\x00-\x1f\x7f]{1,100}"


class SpecError(ValueError):
    """An entry that cannot be used; the text names the server and the key, never the values of `env` or `headers`."""


_NoNul = Annotated[str, Field(pattern=r"^[^\x00]*$")]
_Arguments = Annotated[tuple[_NoNul, ...], Strict(False), expects("a list of texts")]
_Values = Annotated[
    dict[str, Annotated[str | int | float, AfterValidator(str)]], Field(repr=False), expects("a mapping of texts")
]


class Entry(Config):
    """The keys that entries of both transports have."""

    required: bool = False
    connect_timeout: Seconds | None = None
    call_timeout: Seconds | None = None
    protocol: Literal["auto", "legacy"] = "auto"
    tools: _Arguments = ()
    exclude_tools: _Arguments = ()


class ProgramEntry(Entry):
    """A server that a session starts."""

    command: PathText
    args: _Arguments = ()
    env: _Values = Field(default_factory=dict)
    cwd: PathText = ""
    #: Checked when the server starts, together with the settings that it is layered over.
    sandbox: Any = None


class AddressEntry(Entry):
    """A server at an address."""

    url: Text
    headers: _Values = Field(default_factory=dict)


class Resolved(FrozenStruct):
    """What a server is started or reached with, variables put in; never to be printed."""

    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    url: str
    headers: dict[str, str]
    mask: Mask

    def __repr__(self) -> str:
        return "Resolved(...)"


class ServerSpec(FrozenStruct):
    """A server: where it was named, how it is reached, and what is expected of it."""

    name: str
    origin: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    connect_timeout: float | None = None
    call_timeout: float | None = None
    sandbox: Any = None
    protocol: str = "auto"
    tools: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ServerSpec({self.name!r}, {self.transport}, from {self.origin!r})"

    @property
    def fingerprint(self) -> str:
        """Return what tells this config from others, variables not put in; lists of tools are kept by it."""
        import hashlib

        parts = [self.name, self.transport, self.command, self.args, dict(self.env), self.cwd, self.url]
        text = json.dumps([*parts, dict(self.headers)], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def resolved(self, environment: Mapping[str, str]) -> Resolved:
        """Return what to start it with; raises ServerFault for a variable that is not set."""
        from amplifier_kit.guard.processes.programs import is_secret_variable

        mask = Mask()

        def put(text: str, *, is_secret: bool = False) -> str:
            return expanded(text, environment, mask, is_secret=is_secret)

        env = {key: put(value, is_secret=is_secret_variable(key)) for key, value in self.env.items()}
        headers = {key: put(value, is_secret=True) for key, value in self.headers.items()}
        url = put(self.url)
        for key, value in self.env.items():
            if is_secret_variable(key) and not is_only_reference(value):
                mask.add(env[key], "[hidden]", is_secret=True)
        for key, value in self.headers.items():
            if not is_only_reference(value):
                mask.add(headers[key], "[hidden]", is_secret=True)
        if (credentials := _userinfo(url)) is not None:
            mask.add(credentials, "[hidden]", is_secret=True)
        args = tuple(put(text) for text in self.args)
        return Resolved(put(self.command), args, env, put(self.cwd), url, headers, mask)


def _userinfo(url: str) -> str | None:
    """Return name and password of an address, when it has some."""
    authority = url.partition("//")[2].partition("/")[0]
    return authority.rpartition("@")[0] if "@" in authority else None


def read_spec(name: Any, entry: Any, origin: str) -> ServerSpec | None:
    """Read one entry of a config; None for one that is switched off. Raises SpecError."""
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        raise SpecError(f"{origin}: {name!r} is not a valid server name")
    where = f"{origin}: server {name!r}"
    if not isinstance(entry, Mapping):
        raise SpecError(f"{where} must be a mapping, got {type(entry).__name__}")
    given = {key: value for key, value in entry.items() if value is not None}
    if given.pop("disabled", False) is True or given.pop("enabled", True) is False:
        return None
    transport = _transport(where, given)
    if not given.get("command") and not given.get("url"):
        raise SpecError(f"{where}: 'command' or 'url' is missing")
    try:
        read = read_config(ProgramEntry if transport == "stdio" else AddressEntry, given, module=where)
    except ConfigError as error:
        raise SpecError("; ".join(str(error).splitlines())) from None
    return ServerSpec(name=name, origin=origin, transport=transport, **dict(read))


def _transport(where: str, given: dict[str, Any]) -> Transport:
    kind = given.pop("type", given.pop("transport", None))
    if kind is not None and kind not in _TYPES:
        raise SpecError(f"{where}: unknown type {kind!r}: expected stdio or http (streamable HTTP)")
    if kind is not None:
        return _TYPES[kind]
    return "http" if "url" in given and "command" not in given else "stdio"
