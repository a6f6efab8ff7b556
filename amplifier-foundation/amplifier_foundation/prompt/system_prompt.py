"""Build the system prompt of a session: its instruction, then a block for each file that belongs to it.

    instruction

    ---

    <context_file paths="@mention → /path, …">
    content
    </context_file>

Context files of the bundle come first, then the files that the instruction mentions, then the instructions of the
project and the user (AGENTS.md), then the files that all these mention: those that change least often come first, so
that as much as possible of the prompt is in the cache of the model.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.prompt.access import PLAN, PROJECT, TYPED, USER, Origin, PromptAccess
from amplifier_foundation.prompt.instructions import find_instructions
from amplifier_foundation.prompt.mention_files import MentionDeduplicator, MentionFiles
from amplifier_foundation.prompt.mention_resolver import MentionError
from amplifier_foundation.prompt.text_files import readable_name
from amplifier_foundation.prompt.user_input import UserInput

if TYPE_CHECKING:
    from amplifier_foundation.approvals.answered_by import AnsweredBy

__all__ = ["OnResolved", "SystemPrompt"]

#: Called with the payload of the event `mentions:resolved`.
OnResolved = Callable[[dict[str, Any]], Awaitable[None]]

_SEPARATOR: Final = "\n\n---\n\n"
_NOT_TYPED: Final = "only typed text adds files: type the mention in a prompt to give the file to the model"


class SystemPrompt:
    """Return the current system prompt; call it for every request.

    It is the same to the last byte until one of its files changes. An edited, new or deleted file shows at the next
    call. Only changed files are read again, in a thread, so that a slow disk blocks nothing else.

    A file that cannot be used is left out and reported to `on_resolved`: once for each reason, and for every prompt
    that names it itself. Content that is new to the session is reported too. Some contexts inspect the function to see
    whether to await it: give them `prompt.__call__`.
    """

    def __init__(
        self,
        instruction: str,
        context: Mapping[str, Path],
        access: PromptAccess,
        on_resolved: OnResolved | None = None,
        *,
        has_project_instructions: bool = True,
        added: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`access` reads the files, by the rules of the session; AGENTS.md may be left out.

        `added` returns paths and mentions of files that belong to the prompt for now; they count as named by the plan.
        """
        self._added = added
        self._has_project_instructions = has_project_instructions
        self.instruction: Final = instruction
        self.context: Final = dict(context)
        self.resolver: Final = access.resolver
        self.access: Final = access
        self.deduplicator: Final = MentionDeduplicator()
        self._on_resolved = on_resolved
        self._reported: set[tuple[str, str, str]] = set()
        self._turn = 0

    async def __call__(self) -> str:
        """Return the prompt; raises what `on_resolved` raises, and ReadDeniedError for a denied instruction."""
        found = await asyncio.to_thread(self._collect)
        await self._report("system_prompt", found)
        return _SEPARATOR.join(part for part in (self.instruction, found.blocks.render()) if part)

    async def expand_prompt(self, prompt: UserInput | str) -> str:
        """Return a prompt with the files that the user mentions in it as blocks before it; its text is unchanged.

        Only typed text mentions files: a plain `str`, which may come from a model or a file, mentions none. Other names
        that lead to a file are reported. Each call counts as one turn in reports.
        """
        self._turn += 1
        given = prompt if isinstance(prompt, UserInput) else UserInput.of_data(prompt)
        if "@" not in given.text:
            return given.text
        typed, others = given.mentions()
        found = await asyncio.to_thread(self._expand, typed, others)
        await self._report("prompt", found, {*typed, *others} - {one.mention for one in found.resolutions})
        return "\n\n".join(part for part in (found.blocks.render(), given.text) if part)

    def _expand(self, typed: tuple[str, ...], others: tuple[str, ...]) -> MentionFiles:
        found = MentionFiles(self.access)
        found.add_mentions(typed, TYPED)  # not what these files mention: a file that a prompt names is data
        for name in others:
            try:
                self.resolver.locate(name)
            except MentionError:
                continue  # a word with an @ before it
            found.failed.setdefault(name, _NOT_TYPED)
        return found

    def _collect(self) -> MentionFiles:
        found = MentionFiles(self.access)
        for name, path in self.context.items():
            found.add_file(name, path.absolute(), "context", self.access.origin_near(path), mention=f"@{name}")
        if (file := self.access.file_of_text(self.instruction)) is not None:
            self.access.check_source(file)
        found.add_text(self.instruction, self.access.origin_of_text(self.instruction))
        found.add_mentions(tuple(f"@{name.removeprefix('@')}" for name in self._added()), PLAN)
        places = self.resolver.project, self.resolver.home
        for path in find_instructions(*places) if self._has_project_instructions else ():
            if path.parent == self.resolver.home.path:
                # The user's own file may be a link to where they keep it.
                own = Origin("user", Path(os.path.realpath(path)))
                found.add_file(readable_name(path), path, "instructions", own, inside=USER)
            else:
                found.add_file(readable_name(path), path, "instructions", PROJECT)
        found.follow()
        return found

    async def _report(self, source: str, found: MentionFiles, named: Collection[str] = ()) -> None:
        """Report new contents and new failures; failures of `named`, the names in a prompt itself, every time."""
        resolutions = []
        for resolution in found.resolutions:
            is_new = self.deduplicator.add_hash(resolution.path, resolution.sha256)
            resolutions.append(resolution.payload(is_new=is_new))
        failures = {(source, name, reason) for name, reason in found.failed.items()}
        is_news = not failures <= self._reported or any(name in found.failed for name in named)
        must_report = is_news or any(item["is_new"] for item in resolutions)
        # A failure that was fixed and occurs again is reported again.
        self._reported = {known for known in self._reported if known[0] != source} | failures
        if must_report and self._on_resolved is not None:
            payload = {
                "source": source,
                "resolutions": resolutions,
                "failed": [
                    _failure(name, reason, name in named, found.denied.get(name))
                    for name, reason in found.failed.items()
                ],
                "deduplicated_count": found.deduplicated_count,
                "turn": self._turn,
            }
            await self._on_resolved(payload)


def _failure(name: str, reason: str, is_named: bool, denied_by: AnsweredBy | None) -> dict[str, Any]:
    """Return a failure in the form of the event.

    `in_prompt` marks names in the prompt itself; `decided_by` is set for denied files.
    """
    failure: dict[str, Any] = {"mention": name, "reason": readable_name(reason)}
    if is_named:
        failure["in_prompt"] = True
    return {**failure, "decided_by": dict(denied_by)} if denied_by is not None else failure
