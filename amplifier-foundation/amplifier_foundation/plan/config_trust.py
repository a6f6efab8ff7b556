"""Who set the config of a module: what an untrusted project writes there must not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amplifier_foundation.bundles.bundle import Layer
from amplifier_foundation.bundles.plan_modules import mentions, said_of
from amplifier_foundation.plan.prepared import Prepared


def is_config_trusted(
    prepared: Prepared, module: str, *, is_trusted: bool, overlay: Mapping[str, Any] | None = None
) -> bool:
    """Return whether only the user, the product and the app set the config of a module.

    Not when a file of the project names the module, unless the project `is_trusted` or the user gave this very file for
    the run; nor when the definition of an agent, `overlay`, does, since agents may come from the project. If the files
    are unknown, it is not trusted.
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


def is_config_of_user(prepared: Prepared, module: str) -> bool:
    """Return whether no file of the project set config of a module, trusted or given for the run or not.

    What a project brings may do no more than its commands may, since they can change what it runs. If the files are
    unknown, it counts as the project's; so does what only the record of a session says.
    """
    if prepared.is_made_by_app:
        return True
    if any(_is_of_project(layer) and mentions(layer.document.data, module) for layer in prepared.layers):
        return False
    others = [layer for layer in prepared.layers if not _is_of_project(layer)]
    if not prepared.is_recorded:
        return bool(others)
    known = {text for layer in others for text in _texts(layer.document.data)}
    return known.issuperset(_texts(said_of(_without_agents(prepared.composed.plan), module)))


def _is_of_project(layer: Layer) -> bool:
    # What the product ships stays the product's, also when a file of the project includes it.
    return layer.owner != "product" and "project" in (layer.owner, layer.named_by)


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a plan or a bundle that are not keys, however deep."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def adds_nothing(plan: Mapping[str, Any], root: Mapping[str, Any], module: str) -> bool:
    """Return whether a child's plan sets nothing for a module that the top plan does not set."""
    known = said_of(_without_agents(root), module)
    return all(said in known for said in said_of(_without_agents(plan), module))


def _without_agents(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key != "agents"}
