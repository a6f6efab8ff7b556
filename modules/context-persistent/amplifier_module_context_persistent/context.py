"""A context manager that also writes its ledger to a file, which it reads once, at the start."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from amplifier_kit.config import Count, Paths, PathText, read_config
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig, estimate_all
from amplifier_kit.guard.control_files import refuse_control_file
from amplifier_kit.guard.files.configured_file import ConfiguredFile, denied_to_model, project_of
from amplifier_kit.home import amplifier_home
from amplifier_module_context_persistent.transcript import Transcript, mask_for, masked_count

# --- where files are ---


_FILE = "context-messages.jsonl"


def working_dir(configured: str | None, coordinator: Any) -> Path:
    """Return the base of relative paths: the configured folder, the session's working directory, or the process's."""
    given = configured or coordinator.get_capability("session.working_dir")
    return Path(given).expanduser().absolute() if given else Path.cwd()


def transcript_path(configured: str | None, coordinator: Any, base: Path) -> Path:
    """Return the transcript's path: the configured one, else in the session's folder.

    Raises ValueError for a session without an id.
    """
    if configured is not None:
        return base / Path(configured).expanduser()
    folder = coordinator.get_capability("session.dir")
    if folder:
        return Path(folder) / _FILE
    session_id: str = coordinator.session_id
    if not session_id:
        raise ValueError(
            "context-persistent: this session has no id, so its transcript has no default path: set transcript_path"
        )
    if session_id in (".", "..") or "/" in session_id or os.sep in session_id:
        raise ValueError(
            f"context-persistent: session id {session_id!r} cannot be the name of a folder: set transcript_path"
        )
    home = coordinator.get_capability("amplifier.home")
    folder = Path(home).expanduser() if home else amplifier_home()
    return folder / "projects" / _project(base) / "sessions" / session_id / _FILE


def _project(base: Path) -> str:
    """Name a project by its folder, and by a hash of the whole path, since names repeat."""
    resolved = base.resolve()
    return f"{resolved.name}-{sha256(str(resolved).encode()).hexdigest()[:8]}"


# --- memory files ---


logger = logging.getLogger(__name__)


def memory_messages(files: Iterable[str], base: Path, coordinator: Any) -> list[dict[str, Any]]:
    """Return one system message per file, headed with its name; paths are relative to `base`.

    A file that cannot be read, or that the session's rules keep from the model, is left out with a warning that names
    it.
    """
    messages: list[dict[str, Any]] = []
    project, denied = project_of(coordinator), denied_to_model(coordinator)
    for file in files:
        path = base / Path(file).expanduser()
        try:
            text = ConfiguredFile(path, project, denied).read().decode("utf-8-sig", errors="replace")
        except OSError as error:
            logger.warning("context-persistent: memory file %s is left out: %s", path, error)
            continue
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        messages.append(
            {
                "role": "system",
                "content": f"[Context from {path.name}]\n\n{text}",
                "metadata": {"source": "memory", "path": str(path)},
            }
        )
    return messages


# --- the context manager ---


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
