"""Let the model read skills: which there are, what one is about, and one as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from amplifier_core.models import ToolResult
from amplifier_module_tool_skills.catalogue import SkillError, other_files
from amplifier_module_tool_skills.discovery import SkillsDiscovery
from amplifier_module_tool_skills.skill import Skill, name_problem

_DESCRIPTION: Final = """\
Load a skill: written knowledge and steps for one kind of task, by the user, the project or the bundle. When a task \
matches the description of a skill, load it before you start, and follow it as far as it serves the user's request.

- skill_name: read a skill; the result has its text and its other files, which you read when the text sends you there.
- list: name all skills. search: find skills by a word. info: what is known of one, without its text."""
_NEXT: Final = "list=true names all skills"
FORK_NOTE: Final = (
    "This skill asks to run in a child session (context: fork). Skills are not run in child sessions here: its text is "
    "given to you instead, and what it says happens in this conversation."
)


class LoadSkillTool:
    """Answer for the skills of one session."""

    name = "load_skill"
    description = _DESCRIPTION
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "skill_name": {"type": "string", "description": "The skill to load"},
            "list": {"type": "boolean", "description": "Name all skills"},
            "search": {"type": "string", "description": "Find skills whose name or description has this text"},
            "info": {"type": "string", "description": "The skill to describe without loading it"},
        },
    }

    def __init__(self, discovery: SkillsDiscovery) -> None:
        self._discovery = discovery

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do the one thing that is asked for; what is wrong with the input is said in the result."""
        given = input if isinstance(input, Mapping) else {}
        if given.get("list") is True:
            return await self._list()
        for key, act in (("search", self._search), ("info", self._info), ("skill_name", self._load)):
            value = given.get(key)
            if value is None or value == "":
                continue
            if not isinstance(value, str):
                return _failure("invalid_input", f"{key!r} must be text, got {type(value).__name__}")
            return await act(value)
        return _failure("invalid_input", "give one of skill_name, list, search or info")

    async def _list(self) -> ToolResult:
        await self._looked_again()
        return ToolResult(output=self._shown("skills", self._discovery.for_model(), "There are no skills."))

    async def _search(self, text: str) -> ToolResult:
        await self._looked_again()
        words = text.casefold().split()
        found = [
            skill
            for skill in self._discovery.for_model()
            if all(word in f"{skill.name} {skill.description}".casefold() for word in words)
        ]
        return ToolResult(output=self._shown("matches", found, f"No skill matches {text[:200]!r}: {_NEXT}."))

    def _shown(self, key: str, skills: Iterable[Skill], none: str) -> dict[str, Any]:
        listed = [{"name": skill.name, "description": skill.description} for skill in skills]
        lines = "\n".join(f"**{one['name']}**: {one['description']}" for one in listed)
        shown: dict[str, Any] = {"message": lines or none, key: listed, "count": len(listed)}
        if self._discovery.problems:
            shown["problems"] = self._discovery.problems
        return shown

    async def _info(self, name: str) -> ToolResult:
        found = await self._found(name)
        if not isinstance(found, Skill):
            return found
        files, total = await asyncio.to_thread(other_files, found)
        known = {
            "name": found.name,
            "description": found.description,
            "version": found.version,
            "license": found.license,
            "compatibility": found.compatibility,
            "path": str(found.file),
            "source": str(found.source),
            "allowed_tools": list(found.allowed_tools),
            "context": "fork" if found.is_fork else None,
            "metadata": dict(found.metadata),
            "ignored": list(found.ignored),
            "files": files,
            "file_count": total,
        }
        always = ("name", "description", "version", "path")
        return ToolResult(output={key: value for key, value in known.items() if value or key in always})

    async def _load(self, name: str) -> ToolResult:
        found = await self._found(name)
        if not isinstance(found, Skill):
            return found
        try:
            text = await self._discovery.load(found)
        except SkillError as error:
            return _failure("unreadable_skill", f"the skill {found.name!r} cannot be read: {error}")
        files, total = await asyncio.to_thread(other_files, found)
        output: dict[str, Any] = {
            "content": text.content,
            "skill_name": found.name,
            "skill_directory": str(found.folder),
            "loaded_from": str(found.source),
        }
        notes = [FORK_NOTE] if found.is_fork else []
        if text.is_cut:
            output |= {"truncated": True, "total_bytes": text.total_bytes}
            notes.append(f"The text is cut: read the rest in {found.file}.")
        if files:
            output["files"] = files
        if total > len(files):
            notes.append(f"There are {total - len(files)} more files than are listed.")
        if found.allowed_tools:
            output["allowed_tools"] = list(found.allowed_tools)
        if notes:
            output["note"] = " ".join(notes)
        return ToolResult(output=output)

    async def _found(self, name: str) -> Skill | ToolResult:
        """Return the skill that the model may have, or why there is none; a new one is found without a restart."""
        if (problem := name_problem(name)) is not None:
            return _failure("invalid_skill_name", f"invalid skill name {name[:200]!r}: {problem}")
        if self._discovery.find(name) is None:
            await self._looked_again()
        skill = self._discovery.find(name)
        if skill is None:
            return _failure("unknown_skill", self._missing(name))
        if not skill.is_for_model:
            why = f"the skill {skill.name!r} is for the user to start (disable-model-invocation): ask them to"
            return _failure("not_for_model", why)
        return skill

    def _missing(self, name: str) -> str:
        from difflib import get_close_matches

        known = [skill.name for skill in self._discovery.for_model()]
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"{_NEXT}."
        wanted = [problem for problem in self._discovery.problems if f"/{name}/" in problem.partition(": ")[0]]
        return " ".join([f"there is no skill {name!r}: {hint}", *wanted])

    async def _looked_again(self) -> None:
        await self._discovery.refresh()
        await self._discovery.announce()


def _failure(code: str, message: str) -> ToolResult:
    return ToolResult(success=False, output=message, error={"message": message, "code": code})
