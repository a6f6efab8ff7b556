"""Find the context files that an agent names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amplifier_foundation.prompt.access import ReadDeniedError
from amplifier_foundation.prompt.mention_resolver import MentionError

if TYPE_CHECKING:
    from amplifier_foundation.prompt.access import Origin, PromptAccess


def agent_context(declared: Any, access: PromptAccess, origin: Origin) -> tuple[dict[str, str], list[str]]:
    """Return the files of an agent's `context` by name, as absolute paths, and a line for each that cannot be had.

    `origin` is that of the agent's instruction: an agent may name no file that its instruction may not mention.
    """
    files: dict[str, str] = {}
    missing: list[str] = []
    if not isinstance(declared, Mapping):
        return files, missing
    included = declared.get("include")
    named = {str(name): str(name) for name in (included if isinstance(included, list) else ())}
    named |= {str(name): str(path) for name, path in declared.items() if name != "include"}
    for name, reference in named.items():
        try:
            path = access.resolver.locate(reference if reference.startswith("@") else f"@{reference}").path
            access.check(path, origin)
        except ReadDeniedError as error:
            missing.append(f"context file {reference!r} of the agent is left out: {error}")
        except MentionError:
            missing.append(f"context file {reference!r} of the agent is not there")
        else:
            files[name.removeprefix("@")] = str(path)
    return files, missing
