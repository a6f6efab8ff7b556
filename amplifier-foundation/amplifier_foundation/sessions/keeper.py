"""Keep what a session must not lose, while it happens: the conversation, what it is made of, what it has used."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from amplifier_core.events import LLM_RESPONSE, PROVIDER_REQUEST, TOOL_POST, TOOL_PRE
from amplifier_foundation.composed import Composed
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import replace_file
from amplifier_foundation.sessions.metadata import update_metadata
from amplifier_foundation.sessions.transcript import Transcript
from amplifier_kit.redaction import Redactor

logger = logging.getLogger(__name__)

#: What the session is made of, in its folder.
RECORD = "record.json"
#: Before anything is shown to others and after everybody has changed what they change.
_LAST = 900
_PROMPT_SHOWN = 120
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class SessionKeeper:
    """Write the files of one session that are not its log. A file that cannot be written costs no answer."""

    def __init__(self, folder: Path, redactor: Redactor, facts: dict[str, Any]) -> None:
        """Keep the session of `folder`; `facts` are the metadata it starts with, those of earlier turns included."""
        self._folder = folder
        self._redactor = redactor
        self._facts = facts
        self._told: set[str] = set()
        self.transcript = Transcript(folder / "transcript.jsonl", lambda value: redactor.scrub(value).value)

    @property
    def turns(self) -> int:
        """Return how many turns the session has had."""
        return int(self._facts.get("turn_count") or 0)

    def connect(self, coordinator: Any) -> None:
        """Keep the conversation before every request and around every tool call, and count what is used."""

        async def save(event: str, data: dict[str, Any]) -> None:
            await self.keep_messages(coordinator.get("context"))

        def count(event: str, data: dict[str, Any]) -> None:
            self._count(data.get("usage"))

        for event in (PROVIDER_REQUEST, TOOL_PRE, TOOL_POST):
            coordinator.hooks.register(event, save, priority=_LAST, name="app-transcript")
        coordinator.hooks.register(LLM_RESPONSE, count, priority=_LAST, name="app-usage")

    def keep_record(self, composed: Composed) -> None:
        """Write down what the session is made of, for whoever resumes it."""
        text = json.dumps(self._redactor.scrub(composed.to_record()).value, ensure_ascii=False, indent=1, default=str)
        try:
            replace_file(self._folder / RECORD, text.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            self._tell(RECORD, error)

    def open_turn(self, prompt: str) -> None:
        """Note that a turn runs: a session whose notes say so tomorrow was cut off."""
        self._facts["turn_count"] = self.turns + 1
        self._facts.setdefault("first_prompt", " ".join(prompt.split())[:_PROMPT_SHOWN])
        self._write({"incremental": True})

    async def close_turn(self, context: Any) -> None:
        """Keep what the turn has left, however it ended."""
        await self.keep_messages(context)
        self._write({"incremental": None})

    async def keep_messages(self, context: Any) -> None:
        """Append what is new in the conversation."""
        if context is None:
            return
        try:
            if hasattr(context, "messages_since") and hasattr(context, "message_count"):
                self.transcript.follow(context.message_count, context.messages_since)
            else:
                self.transcript.update(await context.get_messages())
        except Exception as error:  # a context may raise anything, and an answer is worth more than its copy
            self._tell("transcript.jsonl", error)

    def _write(self, changes: dict[str, Any]) -> None:
        facts = {**self._facts, "last_updated": datetime.now(UTC).isoformat(timespec="milliseconds"), **changes}
        try:
            update_metadata(self._folder, facts, scrub=lambda value: self._redactor.scrub(value).value)
        except (OSError, FoundationError) as error:
            self._tell("metadata.json", error)

    def _count(self, usage: Any) -> None:
        """Add what one answer used; an answer without a price is counted as such, not as free."""
        if not isinstance(usage, dict):
            return
        total: dict[str, Any] = self._facts.setdefault("usage", {})
        for key in _TOKENS:
            if isinstance(usage.get(key), int):
                total[key] = total.get(key, 0) + usage[key]
        try:
            total["cost_usd"] = str(Decimal(str(total.get("cost_usd", "0"))) + Decimal(str(usage["cost_usd"])))
        except (KeyError, InvalidOperation):
            total["calls_without_price"] = total.get("calls_without_price", 0) + 1

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
