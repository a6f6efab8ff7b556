"""Find secrets in clear in settings: they belong in the key store, and `${VAR}` in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from amplifier_foundation.merge import module_key
from amplifier_foundation.settings.variables import VARIABLE
from amplifier_kit.named_tuple import NamedTuple

#: Names of ways to authenticate as well as of secrets: `auth: managed_identity`.
_VAGUE: Final = r"(?i)(?:auth|authorization|credentials?|creds)$"
#: Inside a mapping with a secret name these keys hold the secret.
_INNER: Final = frozenset(("key", "value", "pass", "pwd", "data"))
_SCHEME: Final = r"(?i)^\s*(?:bearer|basic|token|apikey)?\s*$"
_NO_WORD: Final = "[^A-Za-z0-9]+"


class ClearSecret(NamedTuple):
    """A secret in clear."""

    keys: tuple[str | int, ...]
    #: The same with module names in place of indexes.
    parts: tuple[str, ...]
    #: Whether the whole text is the secret, and not only a part of it.
    is_whole: bool


def clear_secrets(data: Any) -> Iterator[ClearSecret]:
    """Yield every secret in clear; `${VAR}` is not one, a default in it may be."""
    yield from _in_value(data, (), (), None)


def masked(parts: tuple[str, ...], value: Any) -> Any:
    """Return the value for display, with every secret in clear masked."""
    from amplifier_kit.guard.redaction.prefilter import MASK

    around: str | None = None
    for part in parts:
        around = _secret_name(part, around)
    hidden = {secret.keys for secret in _in_value(value, (), (), around)}
    return _with_mask(value, (), hidden, MASK)


def variable_name(parts: tuple[str, ...]) -> str:
    """Return the variable for a secret: `config.providers.provider-openai.config.api_key` → OPENAI_API_KEY.

    The module gives the first part of the name, the field the second.
    """
    around = [part for part in parts[:-1] if part not in ("config", "providers", "modules", "overrides")]
    owner = next((part for part in around if part not in ("tools", "hooks")), "")
    name = re.sub(_NO_WORD, "_", f"{owner.removeprefix('provider-')}_{parts[-1]}").strip("_").upper()
    return f"KEY_{name}" if name[:1].isdigit() or not name else name


def _in_value(
    value: Any, keys: tuple[str | int, ...], parts: tuple[str, ...], around: str | None
) -> Iterator[ClearSecret]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _in_value(item, (*keys, key), (*parts, str(key)), _secret_name(str(key), around, item))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _in_value(item, (*keys, index), (*parts, module_key(item) or str(index)), around)
    elif isinstance(value, str | int | float):
        whole = _is_secret(around, value)
        if whole is not None:
            yield ClearSecret(keys, parts, whole)


def _secret_name(key: str, around: str | None, item: Any = None) -> str | None:
    """Return the name that makes the value of this key a secret, None when it is not one."""
    from amplifier_kit.guard.redaction.field_names import is_secret_name

    if is_secret_name(key):
        return key
    if around is not None and (key in _INNER or isinstance(item, list)):
        return around
    return None


def _is_secret(name: str | None, value: str | int | float) -> bool | None:
    """Return True for a secret, False for a text that contains one, None for neither."""
    from amplifier_kit.guard.redaction.field_names import may_be_secret
    from amplifier_kit.guard.redaction.formats import mask_tokens
    from amplifier_kit.guard.redaction.known_values import live_values_from_plan
    from amplifier_kit.guard.redaction.prefilter import MASK

    if not isinstance(value, str):
        return True if name is not None and may_be_secret(name, value) else None
    text = re.sub(VARIABLE, lambda match: match["default"] or "", value)
    if re.match(_SCHEME, text):
        return None
    is_plain = text == value
    if name is not None and not (re.search(_VAGUE, name) and not live_values_from_plan({name: text})):
        return is_plain
    rest, found = mask_tokens(text)
    if found or live_values_from_plan({"": text}):
        return is_plain and rest.strip() == MASK
    return None


def _with_mask(value: Any, at: tuple[str | int, ...], hidden: set[tuple[str | int, ...]], mask: str) -> Any:
    if at in hidden:
        return mask
    if isinstance(value, Mapping):
        return {key: _with_mask(item, (*at, key), hidden, mask) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_mask(item, (*at, index), hidden, mask) for index, item in enumerate(value)]
    return value
