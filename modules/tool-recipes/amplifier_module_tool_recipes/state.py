"""Recipe sessions on disk: `recipe.yaml` and `state.json` in one folder each, which any process can resume."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from amplifier_kit.guard.private_files import make_private, read_regular, replace_file
from amplifier_module_tool_recipes.recipe import Approval, Recipe, RecipeError

#: Verdicts of a gate; a stage without an entry has not come to its gate.
Verdict = Literal["pending", "approved", "denied", "timeout"]
Status = Literal["running", "paused", "completed", "failed", "cancelled", "denied"]
Cancellation = Literal["none", "requested", "immediate", "cancelled"]

_STATE: Final = "state.json"
_RECIPE: Final = "recipe.yaml"
_SESSION_ID: Final = re.compile(r"[0-9a-f]{16}-\d{8}-\d{6}_recipe")
_SECONDS_A_DAY: Final = 86_400


def now() -> str:
    return datetime.now(UTC).isoformat()


class State(BaseModel):
    """What a recipe session has done so far. Keys of other programs are kept."""

    model_config = ConfigDict(extra="allow")

    session_id: str
    recipe_name: str
    recipe_version: str
    started: str
    #: The next step, in its stage.
    current_step_index: int = 0
    current_stage_index: int = 0
    context: dict[str, Any] = Field(default_factory=dict)
    completed_steps: list[str] = Field(default_factory=list)
    skipped_steps: list[str] = Field(default_factory=list)
    project_path: str = ""
    parent_session_id: str | None = None
    #: Where the recipe was read, for the sub-recipes beside it.
    recipe_path: str | None = None
    status: Status = "running"
    error: str | None = None
    stage_approvals: dict[str, Verdict] = Field(default_factory=dict)
    approval_history: list[dict[str, Any]] = Field(default_factory=list)
    pending_approval_stage: str | None = None
    pending_approval_prompt: str | None = None
    pending_approval_timeout: float | None = None
    pending_approval_default: Literal["deny", "approve"] | None = None
    pending_approval_requested_at: str | None = None
    #: The session of a sub-recipe that is paused at a gate.
    pending_child_approval: dict[str, Any] | None = None
    #: Results of iterations that are done, by step and index.
    foreach_progress: dict[str, dict[str, Any]] = Field(default_factory=dict)
    #: Sessions of sub-recipes that were started, by step.
    child_sessions: dict[str, str] = Field(default_factory=dict)
    cancellation_status: Cancellation = "none"

    @property
    def is_pending(self) -> bool:
        return self.pending_approval_stage is not None

    def ask(self, stage: str, approval: Approval, prompt: str) -> None:
        """Wait for approval behind a stage."""
        self.stage_approvals[stage] = "pending"
        self.status = "paused"
        self.pending_approval_stage, self.pending_approval_prompt = stage, prompt
        self.pending_approval_timeout, self.pending_approval_default = approval.timeout, approval.default
        self.pending_approval_requested_at = now()

    def answer(self, verdict: Verdict, message: str) -> None:
        """Record the verdict of the pending gate."""
        stage = self.pending_approval_stage
        if stage is None:
            raise RecipeError("no_pending_approval", f"Recipe session {self.session_id} is not waiting for approval")
        if self.pending_child_approval is None:
            self.stage_approvals[stage] = verdict
        self.approval_history.append({"stage_name": stage, "status": verdict, "message": message, "at": now()})
        if verdict == "approved":
            self.context["_approval_message"] = message
        self.forget_pending()

    def forget_pending(self) -> None:
        self.pending_approval_stage = self.pending_approval_prompt = self.pending_approval_requested_at = None
        self.pending_approval_timeout = self.pending_approval_default = self.pending_child_approval = None

    def expire(self) -> None:
        """Let the default of the pending gate count if its time has passed."""
        asked, timeout = self.pending_approval_requested_at, self.pending_approval_timeout
        if not asked or not timeout or self.pending_child_approval is not None:
            return
        if (datetime.now(UTC) - _time(asked)).total_seconds() > timeout:
            is_approved = self.pending_approval_default == "approve"
            self.answer("approved" if is_approved else "timeout", f"no answer within {timeout:g} s")


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Store:
    """The recipe sessions of one project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, recipe: Recipe, text: str, context: dict[str, Any], **facts: Any) -> State:
        """Write a new session; its state is on disk before the first step."""
        session_id = f"{os.urandom(8).hex()}-{datetime.now(UTC):%Y%m%d-%H%M%S}_recipe"
        state = State(
            session_id=session_id,
            recipe_name=recipe.name,
            recipe_version=recipe.version,
            started=now(),
            context={**recipe.context, **context},
            **facts,
        )
        make_private(self.folder / session_id)
        replace_file(self.folder / session_id / _RECIPE, text.encode())
        self.save(state, is_start=True)
        return state

    def save(self, state: State, *, is_start: bool = False) -> None:
        """Replace the state on disk, and take over a cancellation that another process has requested.

        At the start of a run, an old request is dropped.
        """
        if state.cancellation_status == "none" and state.status == "running" and not is_start:
            state.cancellation_status = self._requested(state.session_id)
        content = json.dumps(state.model_dump(mode="json"), ensure_ascii=False, indent=2)
        replace_file(self.folder / state.session_id / _STATE, content.encode("utf-8", "surrogatepass"))

    def _requested(self, session_id: str) -> Cancellation:
        try:
            saved = self.load(session_id).cancellation_status
        except RecipeError:
            return "none"  # it is new
        return saved if saved in ("requested", "immediate") else "none"

    def load(self, session_id: str) -> State:
        """Return the state of a session; raises RecipeError for an unknown id or an unreadable state."""
        if not _SESSION_ID.fullmatch(session_id):
            raise RecipeError("unknown_session", f"{session_id!r:.100} is not the id of a recipe session")
        path = self.folder / session_id / _STATE
        try:
            return State.model_validate(json.loads(read_regular(path)))
        except FileNotFoundError:
            raise RecipeError("unknown_session", f"There is no recipe session {session_id} in this project") from None
        except (OSError, ValueError, ValidationError) as error:
            raise RecipeError("unreadable_session", f"The recipe session {path} cannot be read: {error}") from error

    def recipe_text(self, session_id: str) -> str:
        """Return the recipe as it was when the session started."""
        try:
            return read_regular(self.folder / session_id / _RECIPE).decode("utf-8")
        except (OSError, ValueError) as error:
            raise RecipeError("unreadable_session", f"The recipe of {session_id} cannot be read: {error}") from error

    def all(self) -> Iterator[State]:
        """Yield every session that can be read, the newest first."""
        for session_id in sorted(self._ids(), key=lambda one: one.split("-", 1)[1], reverse=True):
            try:
                yield self.load(session_id)
            except RecipeError:
                continue  # `resume` reports why

    def clean_up(self, days: int) -> None:
        """Remove sessions that nothing has changed for so many days; those that wait for approval stay."""
        before = time.time() - days * _SECONDS_A_DAY
        for state in self.all():
            folder = self.folder / state.session_id
            if state.is_pending or (folder / _STATE).stat().st_mtime > before:
                continue
            for name in (_RECIPE, _STATE):
                (folder / name).unlink(missing_ok=True)
            try:
                folder.rmdir()
            except OSError:
                pass  # it holds files of another program

    def _ids(self) -> list[str]:
        try:
            return [entry.name for entry in self.folder.iterdir() if _SESSION_ID.fullmatch(entry.name)]
        except FileNotFoundError:
            return []
