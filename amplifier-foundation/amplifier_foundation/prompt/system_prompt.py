"""Make the system prompt of a session: its instruction, then a block for each file that belongs to it.

    instruction

    ---

    <context_file paths="@mention → /path, …">
    content
    </context_file>

Context files of the bundle come first, then what the instruction mentions, then the instructions of the project and the
user (AGENTS.md), then what all these files mention: what changes most rarely stands first, so that models find as much
as possible of the prompt in their cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.prompt.instructions import find_instructions
from amplifier_foundation.prompt.mention_files import MentionDeduplicator, MentionFiles, load_mentions
from amplifier_foundation.prompt.mention_resolver import MentionResolver
from amplifier_foundation.prompt.mentions import find_mentions
from amplifier_foundation.prompt.text_files import TextFiles, readable_name

__all__ = ["OnResolved", "SystemPrompt"]

#: Is told the payload of the event `mentions:resolved`.
OnResolved = Callable[[dict[str, Any]], Awaitable[None]]

_SEPARATOR: Final = "\n\n---\n\n"


class SystemPrompt:
    """Give the system prompt as of now; call it for every request.

    As long as nothing it consists of changes it is the same to the last byte. An edited, new or deleted file shows at
    the next call. Only changed files are read again, and in a thread: a slow disk holds up nothing else.

    A file that cannot be used is left out and reported to `on_resolved`: once for each reason, and for every prompt
    that names it itself. So is every content that is new to the session. Contexts find out that a call must be awaited
    by looking at a function: give them `prompt.__call__`.
    """

    def __init__(
        self,
        instruction: str,
        context: Mapping[str, Path],
        resolver: MentionResolver,
        instructions: bool = True,
        on_resolved: OnResolved | None = None,
    ) -> None:
        self.instruction: Final = instruction
        self.context: Final = dict(context)
        self.resolver: Final = resolver
        self.deduplicator: Final = MentionDeduplicator()
        self._instructions = instructions
        self._on_resolved = on_resolved
        self._files = TextFiles()
        self._reported: set[tuple[str, str, str]] = set()
        self._turn = 0

    async def __call__(self) -> str:
        """Return the prompt; raises what `on_resolved` raises."""
        found = await asyncio.to_thread(self._collect)
        await self._report("system_prompt", found)
        return _SEPARATOR.join(part for part in (self.instruction, found.blocks.render()) if part)

    async def expand_prompt(self, text: str, *, typed: bool = True) -> str:
        """Return a prompt with the files that it mentions as blocks before it; the text itself stays as it is.

        `typed` says that the user wrote it, who may name any file by its absolute path. For what a model wrote, such as
        the task of another agent, give False. Each call counts as one turn in what is reported.
        """
        self._turn += 1
        if "@" not in text:
            return text
        found = await asyncio.to_thread(load_mentions, text, self.resolver, typed=typed)
        named = {mention.text for mention in find_mentions(text)} - {one.mention for one in found.resolutions}
        await self._report("prompt", found, named)
        return "\n\n".join(part for part in (found.blocks.render(), text) if part)

    def _collect(self) -> MentionFiles:
        found = MentionFiles(self.resolver, self._files)
        for name, path in self.context.items():
            found.add_file(name, path.absolute(), "context", mention=f"@{name}")
        found.add_text(self.instruction)
        if self._instructions:
            for path in find_instructions(self.resolver.project, self.resolver.home):
                is_own = path.parent == self.resolver.home.path
                found.add_file(readable_name(path), path, "instructions", typed=is_own)
        found.follow()
        return found

    async def _report(self, source: str, found: MentionFiles, named: Collection[str] = ()) -> None:
        """Tell of contents that are new and of failures that were not told yet; `named` are those of a prompt itself.

        They are told each time: whoever has written the prompt may have written the name wrongly again.
        """
        resolutions = []
        for resolution in found.resolutions:
            is_new = self.deduplicator.add_hash(resolution.path, resolution.sha256)
            resolutions.append(resolution.payload(is_new=is_new))
        failures = {(source, name, reason) for name, reason in found.failed.items()}
        is_news = not failures <= self._reported or any(name in found.failed for name in named)
        is_worth_telling = is_news or any(item["is_new"] for item in resolutions)
        # What was mended may break again, and is told again then.
        self._reported = {known for known in self._reported if known[0] != source} | failures
        if is_worth_telling and self._on_resolved is not None:
            payload = {
                "source": source,
                "resolutions": resolutions,
                "failed": [_failure(name, reason, name in named) for name, reason in found.failed.items()],
                "deduplicated_count": found.deduplicated_count,
                "turn": self._turn,
            }
            await self._on_resolved(payload)


def _failure(name: str, reason: str, is_named: bool) -> dict[str, Any]:
    """Return a failure as an event tells it; `in_prompt` marks what stands in the prompt, and not in a file of it."""
    failure = {"mention": name, "reason": readable_name(reason)}
    return {**failure, "in_prompt": True} if is_named else failure
