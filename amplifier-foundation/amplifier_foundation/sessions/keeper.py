"""Keep what a session must not lose, while it happens: the conversation, what it is made of, what it has used."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from amplifier_core.events import PROVIDER_REQUEST, TOOL_POST, TOOL_PRE
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import replace_file
from amplifier_foundation.plan.composed import Composed
from amplifier_foundation.sessions.metadata import update_metadata
from amplifier_foundation.sessions.transcript import Transcript
from amplifier_foundation.trust.server_entries import without_server_values
from amplifier_foundation.usage import UsageAccount
from amplifier_foundation.usage.history import SINCE
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.guard.redaction import Redactor

logger = logging.getLogger(__name__)

#: What the session is made of, in its folder.
RECORD = "record.json"
#: Before anything is shown to others and after everybody has changed what they change.
_LAST = 900
_PROMPT_SHOWN = 120
#: Of the metadata, what says whose session it is and what it is for.
_PLACE = (
    *("session_id", "created", "bundle", "working_dir", "parent_id", "trace_id", "agent_name", "child_span", "depth"),
    *("tool_call_id", "parallel_group_id", "task_sha256"),
)


class SessionKeeper:
    """Write the files of one session that are not its log. A file that cannot be written costs no answer."""

    def __init__(
        self,
        folder: Path,
        redactor: Redactor,
        facts: dict[str, Any],
        live_values: Iterable[str] = (),
        account: UsageAccount | None = None,
    ) -> None:
        """Keep the session of `folder`; `facts` are the metadata it starts with, those of earlier turns included.

        `live_values` are the secrets that must not be in a record; anything else must come back as it was. `account`
        is where this process counts what the session uses.
        """
        self._folder = folder
        self._redactor = redactor
        self._facts = dict(facts)
        #: What the session used before this process, and since when that was counted.
        self._usage_before: dict[str, Any] = self._facts.pop("usage", None) or {}
        self._account = account or UsageAccount()
        self._told: set[str] = set()
        # An address such as git@host looks like a person's, and is needed to go on.
        self._record_redactor = Redactor(live_values, rules=("secrets",))
        #: Whether the file has everything that the context had when it was asked last.
        self._is_kept = True
        #: For contexts that are asked in several steps: an older answer must not be written over a newer one.
        self._asking = asyncio.Lock()
        self.transcript = Transcript(folder / "transcript.jsonl", lambda value: redactor.scrub(value).value)

    @property
    def turns(self) -> int:
        """Return how many turns the session has had."""
        count = self._facts.get("turn_count")
        return count if isinstance(count, int) else 0

    @property
    def usage(self) -> dict[str, Any]:
        """Return what the session used so far, in this process and before."""
        used = UsageRecord.of_facts(self._usage_before) + self._account.own
        since = {SINCE: self._usage_before[SINCE]} if SINCE in self._usage_before else {}
        return {**used.facts(), **since}

    def connect(self, coordinator: Any) -> None:
        """Keep the conversation before every request and around every tool call."""

        async def save(event: str, data: dict[str, Any]) -> None:
            await self.keep_messages(coordinator.get("context"))

        for event in (PROVIDER_REQUEST, TOOL_PRE, TOOL_POST):
            coordinator.hooks.register(event, save, priority=_LAST, name="app-transcript")

    def keep_record(self, composed: Composed) -> None:
        """Write down what the session is made of, for whoever resumes it; another record is kept as its backup."""
        scrubbed = self._record_redactor.scrub(without_server_values(composed.to_record())).value
        text = json.dumps(scrubbed, ensure_ascii=False, indent=1, default=str)
        # A path that is no UTF-8 has halves of characters: their backslash form is the one of JSON too.
        path, content = self._folder / RECORD, text.encode("utf-8", "backslashreplace") + b"\n"
        try:
            known = path.read_bytes() if path.is_file() else None
            if known == content:
                return
            if known is not None:
                replace_file(path.with_name(f"{RECORD}.backup"), known)
            replace_file(path, content)
        except OSError as error:
            self._tell(RECORD, error)

    def keep_place(self) -> None:
        """Write down whose session it is, before it is brought up: that may take long, or be cut off.

        The rest is written with the first turn, so that starting a session stays quick.
        """
        self._update({key: self._facts[key] for key in _PLACE if key in self._facts})

    def keep_facts(self, composed: Composed, said: Sequence[Mapping[str, Any]] = ()) -> None:
        """Write the metadata as they are; with what was said to it, also all else that the session needs to go on."""
        self._write({})
        if not said:
            return
        self.keep_record(composed)
        try:
            self.transcript.update(said)
        except OSError as error:
            self._tell("transcript.jsonl", error)

    def open_turn(self, prompt: str) -> None:
        """Note that a turn runs: a session whose notes say so tomorrow was cut off."""
        self._facts["turn_count"] = self.turns + 1
        self._facts.setdefault("first_prompt", shown_prompt(prompt))
        self._write({"incremental": True})

    async def close_turn(self, context: Any) -> None:
        """Keep what the turn has left, however it ended; what cannot be kept is left for the log to tell."""
        await self.keep_messages(context)
        self._write({"incremental": None if self._is_kept else True})

    async def take_up(self, stored: list[Any], messages: list[Any], context: Any, *, was_cut_off: bool) -> None:
        """Go on behind what the file holds, and write down what was added to it when the session was mended.

        `messages` are what the context was given: `stored` itself, or that with repairs. A session that was cut off is
        whole again then.
        """
        is_continued = messages[: len(stored)] == stored
        # What was mended in the middle cannot be appended: a last message that nothing equals has it written anew.
        self.transcript.take_up(stored if is_continued else [*stored, {"role": "mended"}])
        await self.keep_messages(context)
        if was_cut_off and self._is_kept:
            self._write({"incremental": None}, is_activity=False)

    async def keep_messages(self, context: Any) -> None:
        """Append what is new in the conversation."""
        if context is None:
            return
        self._is_kept = False
        try:
            since, count = getattr(context, "messages_since", None), getattr(context, "message_count", None)
            if callable(since) and isinstance(count, int):
                self.transcript.follow(count, since)
            else:
                async with self._asking:
                    self.transcript.update(await maybe_await(context.get_messages()))
        except Exception as error:  # a context may raise anything, and an answer is worth more than its copy
            self._tell("transcript.jsonl", error)
        else:
            self._is_kept = True

    def _write(self, changes: dict[str, Any], *, is_activity: bool = True) -> None:
        facts = {**self._facts, "last_updated": datetime.now(UTC).isoformat(timespec="milliseconds"), **changes}
        if used := self.usage:
            facts["usage"] = used
        self._update(facts, is_activity=is_activity)

    def _update(self, facts: dict[str, Any], *, is_activity: bool = True) -> None:
        try:
            update_metadata(
                self._folder, facts, scrub=lambda value: self._redactor.scrub(value).value, is_activity=is_activity
            )
        except (OSError, FoundationError) as error:
            self._tell("metadata.json", error)

    def _tell(self, name: str, error: Exception) -> None:
        """Say that a file cannot be written, once for each reason: it is tried again every turn."""
        if os.path.isdir(self._folder):
            place = self._folder / name
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        else:  # the log has told why; one line for all files that would be in it
            place, reason = self._folder, "there is no such folder, so the session cannot be resumed later"
        known = f"{place}: {reason}"
        if known not in self._told:
            self._told.add(known)
            logger.error("Cannot write %s: %s. The session goes on", place, reason)


def shown_prompt(prompt: str) -> str:
    """Return the beginning of a prompt in one line, for lists of sessions; of what a child was told, its task."""
    if prompt.startswith("["):
        from amplifier_kit.engine.delegation.parent_context import without_context

        prompt = without_context(prompt)
    return " ".join(prompt.split())[:_PROMPT_SHOWN]
