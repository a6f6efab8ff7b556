"""Who had a say in the config of a module: what an untrusted project writes there must not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_foundation.prepared import Prepared


def is_config_trusted(
    prepared: Prepared, module: str, *, is_trusted: bool, overlay: Mapping[str, Any] | None = None
) -> bool:
    """Tell whether the config of a module is nobody's but the user's, the product's or the app's.

    Not when a file of the project names the module, unless the project `is_trusted` or the user gave this very file for
    the run; nor when the definition of an agent, `overlay`, does, since agents may come from the project. When nobody
    knows the files, it is not trusted.
    """
    if is_trusted or prepared.is_made_by_app:
        return True
    if not prepared.layers or mentions(overlay, module):
        return False
    return not any(
        "project" in (layer.owner, layer.named_by) and mentions(layer.document.data, module)
        for layer in prepared.layers
        if not layer.given_by_user
    )


def mentions(value: Any, module: str) -> bool:
    """Tell whether something in a plan or a bundle names a module, however deep."""
    if isinstance(value, Mapping):
        return any(mentions(each, module) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return any(mentions(each, module) for each in value)
    return isinstance(value, str) and value == module
