"""Write the files of a running session besides its log: transcript, metadata, and the record of its plan."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_core.events import LLM_RESPONSE, PROVIDER_REQUEST, TOOL_POST, TOOL_PRE
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import replace_file
from amplifier_foundation.plan.composed import Composed
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.log import MessageNumbers, without_seq
from amplifier_foundation.sessions.metadata import RECORD, update_metadata
from amplifier_foundation.sessions.plan import provider_and_model, provider_module
from amplifier_foundation.sessions.transcript import TRANSCRIPT, Transcript
from amplifier_foundation.trust.server_credentials import without_server_values
from amplifier_foundation.usage.account import UsageAccount
from amplifier_foundation.usage.history import LAST_MODEL, SINCE, answering_model, facts_at_start
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.guard.redaction.redactor import Redactor

if TYPE_CHECKING:
    from amplifier_foundation.sessions.resume import SavedSession

logger = logging.getLogger(__name__)

#: After hooks that change messages.
_LAST = 900
_PROMPT_SHOWN = 120
#: The metadata that identify a session and its parent.
_IDENTITY = (
    *("session_id", "created", "bundle", "working_dir", "parent_id", "trace_id", "agent_name", "child_span", "depth"),
    *("tool_call_id", "parallel_group_id", "task_sha256"),
)


class SessionRecorder:
    """Write the files of one session. A file that cannot be written is reported, and the turn continues."""

    def __init__(
        self,
        folder: Path,
        redactor: Redactor,
        facts: dict[str, Any],
        live_values: Iterable[str] = (),
        account: UsageAccount | None = None,
    ) -> None:
        """Write to `folder`; `facts` are the metadata that the session starts with, those of earlier turns included.

        `live_values` are the secrets to mask in the record; all else in it must be read back unchanged. `account`
        counts what the session uses in this process.
        """
        self._folder = folder
        self._redactor = redactor
        self._facts = dict(facts)
        #: What the session used in earlier processes, and since when that was counted.
        self._usage_before: dict[str, Any] = self._facts.pop("usage", None) or {}
        self._account = account or UsageAccount()
        self._reported: set[str] = set()
        # A source such as git@host looks like an e-mail address, and is needed to resume.
        self._record_redactor = Redactor(live_values, rules=("secrets",))
        #: Whether the transcript has everything that the context had last time.
        self._is_saved = True
        #: An older answer of a context with a slow `get_messages` must not overwrite a newer one.
        self._reading = asyncio.Lock()
        #: The log lines of messages, for the transcript.
        self.numbers = MessageNumbers()
        self.transcript = Transcript(folder / TRANSCRIPT, lambda value: redactor.scrub(value).value, self.numbers)

    @property
    def turns(self) -> int:
        """The number of turns, the running one included."""
        count = self._facts.get("turn_count")
        return count if isinstance(count, int) else 0

    @property
    def usage(self) -> dict[str, Any]:
        """What the session used so far, in this process and before."""
        used = UsageRecord.of_facts(self._usage_before) + self._account.own
        since = {SINCE: self._usage_before[SINCE]} if SINCE in self._usage_before else {}
        return {**used.facts(), **since}

    def connect(self, coordinator: Any) -> None:
        """Save the conversation before every request and around every tool call, and note the model that answers."""
        module = provider_module(coordinator.config, self._facts.get("provider"))

        def note_model(event: str, data: dict[str, Any]) -> None:
            if model := answering_model(data, self._facts.get("provider"), module):
                self._facts[LAST_MODEL] = model

        async def save(event: str, data: dict[str, Any]) -> None:
            await self.save_messages(coordinator.get("context"))

        for event in (PROVIDER_REQUEST, TOOL_PRE, TOOL_POST):
            coordinator.hooks.register(event, save, priority=_LAST, name="app-transcript")
        coordinator.hooks.register(LLM_RESPONSE, note_model, priority=_LAST, name="app-model")

    def save_record(self, composed: Composed) -> None:
        """Write the composed plan, from which the session is resumed; a different record becomes the backup."""
        scrubbed = self._record_redactor.scrub(without_server_values(composed.to_record())).value
        text = json.dumps(scrubbed, ensure_ascii=False, indent=1, default=str)
        # A path that is not UTF-8 has surrogates: their backslash form is the one of JSON too.
        path, content = self._folder / RECORD, text.encode("utf-8", "backslashreplace") + b"\n"
        try:
            known = path.read_bytes() if path.is_file() else None
            if known == content:
                return
            if known is not None:
                replace_file(path.with_name(f"{RECORD}.backup"), known)
            replace_file(path, content)
        except OSError as error:
            self._report(RECORD, error)

    def save_identity(self) -> None:
        """Write the metadata that identify a child before its modules load, which may take long or be interrupted.

        The rest is written with the first turn, so that starting a session stays quick.
        """
        self._update({key: self._facts[key] for key in _IDENTITY if key in self._facts})

    def save_metadata(self, composed: Composed, messages: Sequence[Mapping[str, Any]] = ()) -> None:
        """Write the metadata of a session without a turn; with `messages`, also all that resuming it needs."""
        self._write({})
        if not messages:
            return
        self.save_record(composed)
        try:
            self.transcript.update(messages)
        except OSError as error:
            self._report(TRANSCRIPT, error)

    def set_fact(self, key: str, value: Any) -> None:
        """Set a key of the metadata; of a session that has had no turn it is written with the first."""
        self._facts[key] = value
        if self.turns:
            self._update({key: value})

    def open_turn(self, prompt: str) -> None:
        """Record that a turn runs: a session that is resumed in this state was interrupted."""
        self._facts["turn_count"] = self.turns + 1
        self._facts.setdefault("first_prompt", prompt_preview(prompt))
        self._write({"incremental": True})

    async def close_turn(self, context: Any) -> None:
        """Save the conversation, however the turn ended; what cannot be saved is recovered from the log on resume."""
        await self.save_messages(context)
        self._write({"incremental": None if self._is_saved else True})

    def resume(self, stored: list[Any], messages: list[Any]) -> None:
        """Continue the transcript, which holds `stored`; the context was given `messages`: these, or these repaired.

        Repairs are written when the session goes on.
        """
        is_continued = list(map(without_seq, messages[: len(stored)])) == list(map(without_seq, stored))
        # Repairs in the middle cannot be appended: a last message that equals no other makes it rewrite the file.
        self.transcript.resume(stored if is_continued else [*stored, {"role": "repaired"}])

    async def save_messages(self, context: Any) -> None:
        """Append new messages to the transcript."""
        if context is None:
            return
        self._is_saved = False
        try:
            since, count = getattr(context, "messages_since", None), getattr(context, "message_count", None)
            if callable(since) and isinstance(count, int):
                self.transcript.follow(count, since)
            else:
                async with self._reading:
                    self.transcript.update(await maybe_await(context.get_messages()))
        except Exception as error:  # a context may raise anything; the answer must not be lost over its copy
            self._report(TRANSCRIPT, error)
        else:
            self._is_saved = True

    def _write(self, changes: dict[str, Any]) -> None:
        facts = {**self._facts, "last_updated": datetime.now(UTC).isoformat(timespec="milliseconds"), **changes}
        if used := self.usage:
            facts["usage"] = used
        self._update(facts)

    def _update(self, facts: dict[str, Any]) -> None:
        try:
            update_metadata(self._folder, facts, scrub=lambda value: self._redactor.scrub(value).value)
        except (OSError, FoundationError) as error:
            self._report("metadata.json", error)

    def _report(self, name: str, error: Exception) -> None:
        """Log that a file cannot be written, once for each reason: every turn tries again."""
        if os.path.isdir(self._folder):
            place = self._folder / name
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        else:  # the log has reported why; one line for all files in it
            place, reason = self._folder, "the folder is missing, so the session cannot be resumed later"
        known = f"{place}: {reason}"
        if known not in self._reported:
            self._reported.add(known)
            logger.error("Cannot write %s: %s. The session continues", place, reason)


def starting_metadata(
    session_id: str, prepared: Prepared, plan: Mapping[str, Any], saved: SavedSession | None
) -> dict[str, Any]:
    """Return the metadata of a session before its first turn; of a resumed one, only what this process changes."""
    provider, model = provider_and_model(plan)
    facts: dict[str, Any] = {
        "session_id": session_id,
        "created": datetime.now(UTC).isoformat(),
        "bundle": f"bundle:{prepared.composed.name}",
        "provider": provider,
        "model": model,
        "turn_count": 0,
        "working_dir": str(prepared.project),
    }
    if saved is None:
        return facts
    known = saved.metadata
    # Only what this process changes is written again: another one may have renamed the session meanwhile.
    changed = {key: value for key, value in facts.items() if key not in known}
    changed |= {"turn_count": saved.turn_count, "first_prompt": saved.first_prompt, "provider": provider}
    changed["usage"] = facts_at_start(known.get("usage"), facts["created"], was_used=bool(saved.turn_count))
    composed = prepared.composed
    if saved.bundle not in (None, composed.name, composed.reference):
        before = known.get("bundle_overrides")
        override = {"timestamp": facts["created"], "original": known.get("bundle"), "forced": facts["bundle"]}
        overrides = [*(before if isinstance(before, list) else []), override]
        changed |= {"bundle": facts["bundle"], "bundle_overrides": overrides}
    # None removes the model from the metadata: the provider's default is used now.
    return {key: value for key, value in changed.items() if value is not None} | {"model": model}


def prompt_preview(prompt: str) -> str:
    """Return the beginning of a prompt on one line, for lists of sessions; of a child's instructions, its task."""
    if prompt.startswith("["):
        from amplifier_kit.engine.delegation.parent_context import without_context

        prompt = without_context(prompt)
    return " ".join(prompt.split())[:_PROMPT_SHOWN]
