"""A context manager that also writes its ledger to a file, which it reads once, at the start."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from amplifier_kit.config import Count, Paths, PathText, read_config
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig, estimate_all
from amplifier_kit.guard.control_files import refuse_control_file
from amplifier_kit.guard.files.configured_file import denied_to_model, project_of
from amplifier_module_context_persistent.mask import mask_for, masked_count
from amplifier_module_context_persistent.memory import memory_messages
from amplifier_module_context_persistent.places import transcript_path, working_dir
from amplifier_module_context_persistent.transcript import Transcript

__all__ = ["PersistentConfig", "PersistentContextManager"]

logger = logging.getLogger(__name__)

Message = dict[str, Any]


class PersistentConfig(ContextConfig):
    """The keys of all context managers, and where the files are."""

    max_tokens: Count = Field(200_000, description="Tokens that a request may take, however much the model can.")
    protected_recent: Annotated[float, Field(ge=0, le=1)] = Field(
        0.10, description="Share of the newest messages that is removed last."
    )
    transcript_path: PathText | None = Field(
        None, description="The file of the transcript; null for the one in the session's folder."
    )
    memory_files: Paths = Field((), description="Files that are part of every request.")
    working_dir: PathText | None = Field(
        None, description="Where relative paths begin; null for the session's working directory."
    )
    truncate_boundary: Any = Field(None, description="No effect; accepted because published bundles set it.")

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default."""
        return value is None or (key == "working_dir" and value == "")


class PersistentContextManager(BaseContext):
    """Append every message to a transcript and start from its messages.

    When the transcript had messages at the start, they take precedence: `set_messages` is then ignored.
    """

    name: ClassVar[str] = "context-persistent"

    def __init__(
        self,
        settings: ContextConfig,
        coordinator: Any,
        path: Path,
        memory: Iterable[Message] = (),
        *,
        is_configured: bool = True,
    ) -> None:
        """Load the transcript at `path`, if it exists; unless it `is_configured`, it is the app's own file.

        Raises RuntimeError when `memory` exceeds the budget, TranscriptBusyError (a RuntimeError) when another session
        writes the transcript, and OSError when it cannot be read.
        """
        super().__init__(settings, coordinator)
        self._instructions.standing = list(memory)
        self._check_memory()
        self._transcript = Transcript(
            path,
            history=lambda: self._ledger.since(0),
            redact=mask_for(coordinator),
            project=project_of(coordinator) if is_configured else None,
            denied=denied_to_model(coordinator) if is_configured else None,
            check=lambda path: refuse_control_file(path, coordinator),
        )
        loaded = self._transcript.load()
        self._resumed = bool(loaded)
        self._ledger.replace(loaded)
        if masked := masked_count(loaded):
            logger.warning("%s: secrets are masked in %d of the messages of %s", self.name, masked, path)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None, coordinator: Any) -> Self:
        """Read a module's config; raise as `mount` says."""
        settings = read_config(PersistentConfig, config, module=cls.name)
        base = working_dir(settings.working_dir, coordinator)
        memory = memory_messages(settings.memory_files, base, coordinator)
        path = transcript_path(settings.transcript_path, coordinator, base)
        return cls(settings, coordinator, path, memory, is_configured=settings.transcript_path is not None)

    @property
    def path(self) -> Path:
        return self._transcript.path

    async def add_message(self, message: Any) -> None:
        """Append a message to the ledger and the transcript; raise as BaseContext does, never for the file."""
        self._transcript.append(self._ledger.add(message))

    async def set_messages(self, messages: Iterable[Any]) -> None:
        """Replace the history, unless it was read from a transcript at the start: then do nothing."""
        if self._resumed:
            logger.info("%s: set_messages is ignored: the history comes from %s", self.name, self.path)
            return
        self._transcript.clear()
        await super().set_messages(messages)
        for message in self._ledger.since(0):
            self._transcript.append(message)

    async def clear(self) -> None:
        """Clear the history, also for later sessions; its lines stay in the file."""
        self._transcript.clear()
        await super().clear()

    def close(self) -> None:
        super().close()
        self._transcript.close()

    def _check_memory(self) -> None:
        budget = self.settings.max_tokens or self.settings.max_tokens_fallback
        taken = estimate_all(self._instructions.standing)
        if taken > budget:
            raise RuntimeError(
                f"{self.name}: the memory files take about {taken} tokens and the budget is {budget}: shorten them, "
                "remove some from memory_files, or raise max_tokens"
            )
