"""Read the definition of an agent: front matter that says what the agent has, and a body that instructs it.

    ---
    meta: {name: explorer, description: Finds things out.}
    model_role: fast
    tools: [{module: tool-search}]
    ---
    You explore.

`name`, `description` and `model_role` may stand in `meta` or at the top; other keys of `meta` are the author's own, and
are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from amplifier_foundation.bundles.anchors import anchor_sources
from amplifier_foundation.bundles.bundle import BundleError
from amplifier_foundation.bundles.checks import AGENT_KEYS, check_bundle
from amplifier_foundation.bundles.layer import Owner
from amplifier_foundation.documents import Document, read_document
from amplifier_foundation.errors import DocumentError, did_you_mean
from amplifier_foundation.merge import copied

__all__ = ["AgentError", "agent_definition", "check_agent", "load_agent_file", "missing_texts"]

_META_KEYS: Final = ("name", "description", "model_role")
_PREFERENCE_KEYS: Final = ("provider", "model", "config")
#: The sections that an agent has in common with a bundle, checked as those of a bundle.
_PLAN_KEYS: Final[tuple[str, ...]] = ("session", "providers", "tools", "hooks", "spawn", "context")
_SLIP: Final = 0.8

Keys = tuple[str | int, ...]
Tell = Callable[[Keys, str], None]


class AgentError(BundleError):
    """Agents cannot be used: a file is missing or malformed; the text has a line for every fault."""

    code: ClassVar[str] = "agent_invalid"


def load_agent_file(
    path: Path,
    owner: Owner,
    warnings: list[str],
    *,
    root: Path | None = None,
    on_missing: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return the definition in a file: its keys, flat, with the body as `instruction`.

    Relative module sources become absolute: beside the file, else below `root`, the root of its bundle. What is only
    worth a warning is added to `warnings`: unknown keys of fetched files, values without effect.

    Raises AgentError with all faults, each with file and line: values of a wrong shape, and unknown keys in files that
    the product, the user or the project author. Raises BundleError for a source that does not exist; with `on_missing`
    the text is passed on instead.
    """
    try:
        document = read_document(path)
    except DocumentError as error:
        raise AgentError(str(error)) from error
    faults: list[str] = []
    _check_file(document, owner, faults, warnings)
    if faults:
        raise AgentError("\n".join(dict.fromkeys(faults)))
    definition = agent_definition(document.data)
    if document.body:
        definition["instruction"] = document.body
    return anchor_sources(definition, document, root or path.parent, on_missing=on_missing)


def agent_definition(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of what a file or a bundle says of an agent, with what is in `meta` at the top; the top wins."""
    definition = {key: copied(value) for key, value in data.items() if value not in (None, "") and key != "meta"}
    meta = data.get("meta")
    extra = {}
    for key, value in meta.items() if isinstance(meta, Mapping) else ():
        if key not in _META_KEYS:
            extra[key] = copied(value)
        elif value not in (None, ""):
            definition.setdefault(key, value)
    if extra:
        definition["meta"] = extra
    if isinstance(definition.get("agents"), Mapping):
        del definition["agents"]  # said in a warning: an agent has no roster of its own
    return definition


def missing_texts(definition: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a whole definition that lacks what every agent should have."""
    lacks = {
        "description": "whoever delegates is told nothing of it",
        "instruction": "it is told nothing itself",
    }
    return [f"the agent has no {key}: {why}" for key, why in lacks.items() if not definition.get(key)]


def check_agent(data: Mapping[str, Any], fault: Tell, unknown: Tell, warn: Tell) -> None:
    """Check the values that only agents have, in a file or in a bundle; tells keys and text of each fault."""
    meta = data.get("meta")
    _check_texts(data, (*_META_KEYS, "instruction"), (), fault)
    _check_texts(meta if isinstance(meta, Mapping) else {}, _META_KEYS, ("meta",), fault)
    agents = data.get("agents")
    names = agents if isinstance(agents, list) else []
    if isinstance(agents, Mapping):
        text = "'agents' of an agent says which agents it may call ('all', 'none' or a list): a mapping has no effect"
        warn(("agents",), text)
    elif not all(isinstance(name, str) for name in names) or (not isinstance(agents, list) and not _is_access(agents)):
        fault(("agents",), f"'agents' must be 'all', 'none' or a list of names, got {agents!r}")
    _check_preferences(data.get("provider_preferences"), fault, unknown)


def _is_access(agents: Any) -> bool:
    return agents is None or agents in ("all", "none")


def _check_texts(data: Mapping[str, Any], keys: tuple[str, ...], at: Keys, fault: Tell) -> None:
    for key in keys:
        if data.get(key) is not None and not isinstance(data[key], str):
            fault((*at, key), f"{key!r} must be a text, got {data[key]!r}")


def _check_file(document: Document, owner: Owner, faults: list[str], warnings: list[str]) -> None:
    data = document.data
    doubtful = warnings if owner == "fetched" else faults
    for key in data:
        if key not in AGENT_KEYS:
            hint = did_you_mean(key, list(AGENT_KEYS))
            doubtful.append(f"{document.where(key)}: unknown key {key!r} of an agent: {hint}")
    if document.body and data.get("instruction"):
        where = document.where("instruction")
        faults.append(f"{where}: 'instruction' is given twice: here and as the text of the file; keep one of them")
    _check_meta(document, faults, doubtful)
    try:
        part = {key: data[key] for key in _PLAN_KEYS if key in data}
        warnings += check_bundle(replace(document, data=part), owner)
    except BundleError as error:
        faults.append(str(error))

    def told(texts: list[str]) -> Tell:
        return lambda keys, text: texts.append(f"{document.where(*keys)}: {text}")

    check_agent(data, told(faults), told(doubtful), told(warnings))


def _check_meta(document: Document, faults: list[str], doubtful: list[str]) -> None:
    import difflib

    meta = document.data.get("meta")
    if meta is None:
        return
    if not isinstance(meta, Mapping):
        faults.append(f"{document.where('meta')}: 'meta' must be a mapping, got {type(meta).__name__}")
        return
    for key in meta:
        near = difflib.get_close_matches(str(key), [name for name in _META_KEYS if name not in meta], 1, _SLIP)
        if key not in _META_KEYS and near:
            doubtful.append(f"{document.where('meta', key)}: unknown key {key!r} in meta: did you mean {near[0]!r}?")


def _check_preferences(preferences: Any, fault: Tell, unknown: Tell) -> None:
    at: Keys = ("provider_preferences",)
    if preferences is not None and not isinstance(preferences, list):
        fault(at, f"'provider_preferences' must be a list, got {type(preferences).__name__}")
        return
    for index, preference in enumerate(preferences or ()):
        place = f"provider_preferences[{index}]"
        if not isinstance(preference, Mapping) or not isinstance(preference.get("provider"), str):
            fault((*at, index), f"{place} must be a mapping with a 'provider', got {preference!r}")
            continue
        for key in preference:
            if key not in _PREFERENCE_KEYS:
                hint = did_you_mean(key, list(_PREFERENCE_KEYS))
                unknown((*at, index, key), f"unknown key {key!r} in {place}: {hint}")
        if preference.get("model") is not None and not isinstance(preference["model"], str):
            fault((*at, index, "model"), f"{place}.model must be a text, got {preference['model']!r}")
        if preference.get("config") is not None and not isinstance(preference["config"], Mapping):
            fault((*at, index, "config"), f"{place}.config must be a mapping, got {preference['config']!r}")
