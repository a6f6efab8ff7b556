"""Find the context files that an agent names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def agent_context(declared: Any, resolver: Any) -> tuple[dict[str, str], list[str]]:
    """Return the files of an agent's `context` by name, as absolute paths, and a line for each that is not there."""
    files: dict[str, str] = {}
    missing: list[str] = []
    if not isinstance(declared, Mapping):
        return files, missing
    included = declared.get("include")
    named = {str(name): str(name) for name in (included if isinstance(included, list) else ())}
    named |= {str(name): str(path) for name, path in declared.items() if name != "include"}
    for name, reference in named.items():
        path = resolver.resolve(reference if reference.startswith("@") else f"@{reference}")
        if path is None:
            missing.append(f"context file {reference!r} of the agent is not there")
        else:
            files[name.removeprefix("@")] = str(path)
    return files, missing
