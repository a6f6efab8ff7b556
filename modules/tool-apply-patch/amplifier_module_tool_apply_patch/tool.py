"""`apply_patch`: changes to one file or several, all of them or none."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final, Literal

from amplifier_core import ToolResult
from amplifier_kit.guard.files.changes import exclusive_access
from amplifier_kit.guard.files.place import FileError, Place, shown
from amplifier_kit.guard.files.workspace import WRITE, FileCall, Workspace, Written
from amplifier_kit.threads import run_stoppable
from amplifier_module_tool_apply_patch.draft import Draft, Effect, Note, Step
from amplifier_module_tool_apply_patch.patch import Kind, Operation, parse_diff, parse_patch

__all__ = ["APPLIED", "ApplyPatch", "Engine"]

APPLIED: Final = "apply-patch:applied"
Engine = Literal["native", "function"]
_KINDS: Final[tuple[Kind, ...]] = ("create_file", "update_file", "delete_file")

#: The lines of a patch that name a file, read as simply as can be.
_NAMED: Final = r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to):[ \t]*(.+?)[ \t]*$"

_NATIVE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": list(_KINDS), "description": "What to do with the file"},
        "path": {"type": "string", "description": "Path of the file"},
        "diff": {
            "type": "string",
            "description": "create_file: the lines, each after '+'. update_file: hunks, each after '@@' or '@@ line "
            "before it', of lines that begin with ' ' (context), '-' (removed) or '+' (added)",
        },
    },
    "required": ["type", "path"],
}
_FUNCTION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "patch": {
            "type": "string",
            "description": "The patch, from '*** Begin Patch' to '*** End Patch', with sections '*** Add File: path', "
            "'*** Update File: path' (then maybe '*** Move to: path') and '*** Delete File: path'",
        }
    },
    "required": ["patch"],
}


class ApplyPatch:
    """Let a model change files by patches."""

    name = "apply_patch"
    action = WRITE
    _DESCRIPTIONS: ClassVar[dict[str, str]] = {
        "native": "Create, update or delete a file by a diff. ",
        "function": "Create, update, move or delete files by a patch in the V4A format. ",
    }

    def __init__(self, coordinator: Any, workspace: Workspace, engine: Engine) -> None:
        self._coordinator = coordinator
        self._workspace = workspace
        self.description = (
            f"{self._DESCRIPTIONS[engine]}"
            "Everything is checked before the first file changes: either all of it is applied or nothing. Give three "
            "lines of context around a change; where they stand in the file more than once, add '@@' with a line that "
            "comes before them, such as the head of the function."
        )
        self.input_schema = _NATIVE if engine == "native" else _FUNCTION

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Apply the patch and emit `apply-patch:applied` for every file; what goes wrong is in the result."""
        written: list[Written] = []
        draft = Draft(self._workspace.settings.reading, self._workspace.settings.writing)
        call = self._workspace.call(self.name, self.action, input)
        try:
            steps = await self._reached(call, _operations(input), _named_plainly(input))
            warnings = await run_stoppable(lambda stop: self._apply(call, steps, draft, written, stop))
        except FileError as raised:
            error = await self._workspace.disclosable(call, raised)
            return ToolResult(success=False, output=error.message, error={"message": error.message, "code": error.code})
        finally:
            if written:
                await self._announce(draft.effects, written)
        lines = [f"{effect.letter} {shown(effect.name)}" for effect in draft.effects]
        return ToolResult(output="\n".join([*lines, *await self._tellable(call, draft.notes), *warnings]))

    async def _tellable(self, call: FileCall, notes: list[Note]) -> list[str]:
        """Return the notes on files that may be read."""
        asked = dict.fromkeys(note.path for note in notes)
        readable = {path for path in asked if await self._workspace.unreadable(call, path) is None}
        return [note.text for note in notes if note.path in readable]

    async def _reached(self, call: FileCall, operations: list[Operation], named: Collection[str]) -> list[Step]:
        """Reach all files; those that are not in `named` a policy may have missed, so they are asked about."""
        steps: list[Step] = []
        held: list[Place] = []

        async def reached(name: str, *, follow: bool) -> Place:
            place = await self._workspace.reach(call, name, follow=follow, must_ask=name not in named)
            held.append(place)
            return place

        try:
            for operation in operations:
                place = await reached(operation.path, follow=operation.kind != "delete_file")
                target = await reached(operation.move_to, follow=True) if operation.move_to is not None else None
                if target is not None and target.path != place.path:
                    # At its new place others may read what it holds.
                    reason = await self._workspace.unreadable(call, place.path)
                    if reason is not None:
                        raise FileError("unreadable", f"{place.named} cannot be moved without being read: {reason}")
                steps.append(Step(operation, place, target))
        except BaseException:
            for place in held:
                place.close()
            raise
        return steps

    def _apply(
        self, call: FileCall, steps: list[Step], draft: Draft, written: list[Written], stop: threading.Event
    ) -> list[str]:
        places = [place for step in steps for place in (step.place, step.target) if place is not None]
        try:
            with exclusive_access:
                for step in steps:
                    draft.add(step)
                return self._workspace.write(call, draft.changes(), written, stop)
        finally:
            for place in places:
                place.close()

    async def _announce(self, effects: list[Effect], written: list[Written]) -> None:
        await self._workspace.announce_written(written)
        for effect in effects:
            payload = {"path": effect.place.named, "operation": effect.operation}
            await self._coordinator.hooks.emit(APPLIED, payload)


def _named_plainly(tool_input: Mapping[str, Any]) -> set[str]:
    """Return the paths that a reader sees in the input, who does not know how patches are parsed."""
    patch, path = tool_input.get("patch"), tool_input.get("path")
    if isinstance(patch, str):
        return set(re.findall(_NAMED, patch))
    return {path} if isinstance(path, str) else set()


def _operations(tool_input: Mapping[str, Any]) -> list[Operation]:
    """Return what a call asks for, in either form; raises FileError."""
    patch = tool_input.get("patch")
    if patch is not None:
        if not isinstance(patch, str):
            raise FileError("invalid_input", f"patch must be a text, got {type(patch).__name__}")
        return parse_patch(patch)
    kind, path, diff = tool_input.get("type"), tool_input.get("path"), tool_input.get("diff")
    if kind not in _KINDS:
        raise FileError("invalid_input", f"type must be one of {', '.join(_KINDS)}, got {kind!r}")
    if not isinstance(path, str) or not path.strip():
        raise FileError("invalid_input", "path is required: the path of a file")
    if kind == "delete_file":
        return [Operation("delete_file", path)]
    if not isinstance(diff, str) or (kind == "update_file" and not diff.strip()):
        raise FileError("invalid_input", f"diff is required for {kind} and must be a text")
    return [parse_diff(kind, path, diff)]
