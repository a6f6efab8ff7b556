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
from pathlib import Path
from typing import Any, ClassVar, Final

from amplifier_foundation.bundles.anchors import anchor_sources
from amplifier_foundation.bundles.bundle import BundleError, Owner
from amplifier_foundation.bundles.checks import AGENT, context_files, problems_of
from amplifier_foundation.documents import Document, read_document
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.merge import copied
from amplifier_foundation.shapes import Keys, Problems, Shape, fields, list_of, mapping, text

__all__ = ["AgentError", "agent_definition", "check_agent", "load_agent_file", "missing_texts"]

_META_KEYS: Final = ("name", "description", "model_role")
_SLIP: Final = 0.8


class AgentError(BundleError):
    """Agents cannot be used: a file is missing or malformed; the message has one line per error."""

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

    Raises AgentError with all errors, each with file and line: values of a wrong type, and unknown keys in files that
    belong to the product, the user or the project. Raises BundleError for a source that does not exist; with
    `on_missing` the message is passed to it instead.
    """
    try:
        document = read_document(path)
    except DocumentError as error:
        raise AgentError(str(error)) from error
    warnings += _check_file(document, owner)
    definition = agent_definition(document.data)
    if document.body:
        definition["instruction"] = document.body
    return anchor_sources(definition, document, root or path.parent, on_missing=on_missing)


def agent_definition(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of an agent's definition with the keys of `meta` moved to the top; keys at the top win."""
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
    system = definition.pop("system", None)  # the older form of `instruction`
    if isinstance(system, Mapping) and isinstance(system.get("instruction"), str):
        definition.setdefault("instruction", system["instruction"])
    if isinstance(definition.get("agents"), Mapping):
        del definition["agents"]  # a warning reports it: an agent has no list of agents
    return definition


def missing_texts(definition: Mapping[str, Any]) -> list[str]:
    """Return what a complete definition lacks that every agent should have."""
    lacks = {
        "description": "other agents cannot know when to call it",
        "instruction": "it does not know what to do",
    }
    return [f"the agent has no {key}: {why}" for key, why in lacks.items() if not definition.get(key)]


def check_agent(data: Mapping[str, Any], problems: Problems) -> None:
    """Check the values that only agents have, in a file or in a bundle."""
    for key, shape in _ONLY_OF_AGENTS.items():
        if data.get(key) is not None:
            shape(data[key], (key,), problems)


def _access(value: Any, at: Keys, problems: Problems) -> None:
    names = "'agents' of an agent says which agents it may call ('all', 'none' or a list)"
    if isinstance(value, Mapping):
        problems.warn(at, f"{names}: a mapping has no effect")
        return
    is_list = isinstance(value, list) and all(isinstance(name, str) for name in value)
    problems.expect(is_list or value in ("all", "none"), "'all', 'none' or a list of names", value, at)


def _meta(value: Any, at: Keys, problems: Problems) -> None:
    """Check the keys of `meta` that count; others are the author's own unless they look mistyped."""
    import difflib

    if not problems.expect(isinstance(value, Mapping), "a mapping", value, at):
        return
    for key, item in value.items():
        near = difflib.get_close_matches(str(key), [name for name in _META_KEYS if name not in value], 1, _SLIP)
        if key == "model_role" and item is not None:
            _role(item, (*at, key), problems)
        elif key in _META_KEYS:
            problems.expect(item is None or isinstance(item, str), "text", item, (*at, key))
        elif near:
            problems.unknown((*at, key), f"unknown key {key!r} in meta: did you mean {near[0]!r}?")


def _role(value: Any, at: Keys, problems: Problems) -> None:
    """Check a role, or several in the order in which they are tried."""
    if not isinstance(value, list):
        problems.expect(isinstance(value, str), "a role or a list of roles", value, at)
        return
    for index, role in enumerate(value):
        text(role, (*at, index), problems)


def _preference(value: Any, at: Keys, problems: Problems) -> None:
    has_provider = isinstance(value, Mapping) and isinstance(value.get("provider"), str)
    if problems.expect(has_provider, "a mapping with a 'provider'", value, at):
        fields({"provider": text, "model": text, "config": mapping})(value, at, problems)


_ONLY_OF_AGENTS: Final[Mapping[str, Shape]] = {
    **dict.fromkeys(("name", "description", "instruction"), text),
    "model_role": _role,
    "meta": _meta,
    "agents": _access,
    "system": fields({"instruction": text}),
    "provider_preferences": list_of(_preference),
}


def _check_file(document: Document, owner: Owner) -> list[str]:
    """Return warnings; raises AgentError with all errors."""
    problems = problems_of(document.where, owner)
    data = document.data
    AGENT(data, (), problems)
    if data.get("context") is not None:
        context_files(data["context"], ("context",), problems)
    system = data.get("system")
    given = data.get("instruction") or (isinstance(system, Mapping) and system.get("instruction"))
    if document.body and given:
        problems.fault(("instruction",), "'instruction' is given twice: here and as the text of the file; keep one")
    check_agent(data, problems)
    if problems.faults:
        raise AgentError("\n".join(problems.faults))
    return problems.warnings
