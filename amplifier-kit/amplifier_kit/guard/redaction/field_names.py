"""Classify fields by name: secrets, and the ids and times that must never be masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

#: Fields that join records, at any depth. Values that look like an id are not masked.
ID_KEYS = frozenset(
    (
        *("session_id", "parent_id", "trace_id", "turn_id", "span_id", "parent_span_id", "request_id"),
        *("tool_call_id", "tool_use_id", "call_id", "parallel_group_id", "group_id", "message_id", "event_id"),
        *("sub_session_id", "child_session_id", "root_session_id", "parent_session_id", "instance_id"),
        *("conversation_id", "response_id", "previous_response_id"),
    )
)
#: Fields for time and order; values that look like a time or a number are not masked.
TIME_KEYS = frozenset(
    (
        *("ts", "timestamp", "seq", "created", "created_at", "updated_at", "last_updated"),
        *("started_at", "ended_at", "expires_at", "duration_ms"),
    )
)
PROTECTED_KEYS = ID_KEYS | TIME_KEYS

_LONGEST_ID = 256
_TIME = re.compile(r"[0-9TZ:.,+\- ]{4,40}", re.ASCII)

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
#: How a name of a secret ends, with its words in lower case and separated by underscores. Texts, because the regular
#: expression that means the same takes longer to compile than all searches of a short run.
_KEYS = (
    *("api", "app", "access", "account", "admin", "auth", "deploy", "encryption", "hmac", "jwt", "license", "master"),
    *("private", "secret", "service", "session", "shared", "signing", "ssh", "storage", "subscription", "webhook"),
)
_WORDS = (
    *("secret", "secrets", "passwd", "passphrase", "passcode", "token", "credential", "credentials", "creds", "auth"),
    *("authorization", "bearer", "cookie", "cookies", "jwt", "connection_string", "conn_str", "seed_phrase"),
    *("mnemonic", "otp", "cvv", "ntfy_topic"),
)
_OWNERS = (
    *("db", "admin", "ftp", "imap", "login", "mail", "mongo", "mysql", "pg", "postgres", "proxy", "redis", "root"),
    *("smtp", "ssh", "sudo", "user"),
)
_ENDS = (
    *(f"_{word}{end}" for word in _KEYS for end in ("key", "keys", "_key", "_keys")),
    *(f"_{word}" for word in _WORDS),
    *(f"_{word}{end}" for word in _OWNERS for end in ("pass", "_pass")),
    *("password", "passwd", "passphrase", "apikey", "secretkey", "privatekey", "accesskey", "authtoken"),
    *("accesstoken", "clientsecret"),
)
#: These end the name of a secret only with a word before them.
_LAST_WORDS = ("_pat", "_pwd")
#: What may follow: a word, or a number of up to four digits.
_SUFFIXES = frozenset(
    (
        *("old", "new", "prod", "production", "staging", "dev", "test", "live", "backup", "value", "raw", "plain"),
        *("b64", "base64", "hash", "header", "confirm", "confirmation"),
    )
)
_LONGEST_NUMBER = 4
_LONGEST_NAME = 200
_REFERENCE: Final = r"(?a)\$\{[A-Za-z_]\w*\}"

_SCHEMA_TYPES = frozenset(("string", "object", "array", "integer", "number", "boolean", "null"))
_SCHEMA_KEYS = ("$ref", "anyOf", "oneOf", "allOf", "enum")
#: Beside one of these, `id` is the id of a tool call, to which a result refers.
_CALL_KEYS = ("tool", "arguments", "input", "function")
_HEADERS = frozenset(("authorization", "proxy_authorization", "cookie", "set_cookie", "x_api_key", "x_auth_token"))


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a field of that name holds a secret: `OPENAI_API_KEY`, `clientSecret`, `db-password`."""
    if len(name) > _LONGEST_NAME or name in PROTECTED_KEYS:
        return False
    words = _words(name)
    first, _, last = words.rpartition("_")
    stem = words.rstrip("0123456789")
    return (
        _ends_as_secret(words)
        or (last in _SUFFIXES and _ends_as_secret(first))
        or (len(words) - len(stem) <= _LONGEST_NUMBER and _ends_as_secret(stem.removesuffix("_")))
    )


def _ends_as_secret(words: str) -> bool:
    return f"_{words}".endswith(_ENDS) or words.endswith(_LAST_WORDS)


def is_secret_header(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and _words(name) in _HEADERS


def is_id(value: Any) -> bool:
    """Return whether a value has the form of an id."""
    if type(value) is not str:
        return value is None or isinstance(value, (int, float))
    return len(value) <= _LONGEST_ID and (value.isalnum() or not any(map(str.isspace, value)))


def is_time(value: Any) -> bool:
    """Return whether a value has the form of a time, a duration or a number."""
    if type(value) is not str:
        return value is None or isinstance(value, (int, float))
    return _TIME.fullmatch(value) is not None


def is_tool_call(mapping: Mapping[Any, Any]) -> bool:
    """Return whether the `id` in this mapping is the id of a tool call."""
    return any(key in mapping for key in _CALL_KEYS)


def is_schema(value: Any) -> bool:
    """Return whether a value describes a field, as JSON Schema does, rather than being its content."""
    if not isinstance(value, Mapping):
        return False
    kind = value.get("type")
    return (isinstance(kind, str) and kind in _SCHEMA_TYPES) or any(key in value for key in _SCHEMA_KEYS)


def may_be_secret(name: str, value: Any) -> bool:
    """Return whether a value under a secret name can be a secret: booleans, references and token counts cannot."""
    if value is None or isinstance(value, bool) or is_schema(value):
        return False
    if isinstance(value, (int, float)):
        return not _words(name).endswith(("token", "tokens", "auth"))
    # `${OPENAI_API_KEY}` only names where the secret is.
    return not isinstance(value, str) or not (not value.strip() or re.fullmatch(_REFERENCE, value))


def _words(name: str) -> str:
    return _SEPARATORS.sub("_", _CAMEL.sub("_", name)).strip("_").lower()
