"""The `recipes` tool: start, resume, list, check, approve, deny and cancel recipes."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from amplifier_core.data import reason
from amplifier_core.models import ToolResult
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.tasks import Stopped as StoppedAtOnce
from amplifier_kit.engine.tasks import run_bounded
from amplifier_kit.guard.authorization import authorize
from amplifier_kit.guard.files.configured_file import ConfiguredFile, denied_to_model, project_of
from amplifier_kit.home import amplifier_home, project_slug
from amplifier_module_tool_recipes.config import RecipesConfig
from amplifier_module_tool_recipes.recipe import CheckedRecipe, RecipeError, parse_recipe
from amplifier_module_tool_recipes.run import EVENTS, Paused, RecipeRun, Session, Stopped
from amplifier_module_tool_recipes.state import State, Store, Verdict
from amplifier_module_tool_recipes.work import Pace

__all__ = ["EVENTS", "RecipesTool"]

_OPERATIONS: Final = ("execute", "resume", "list", "validate", "approvals", "approve", "deny", "cancel")
#: Operations that change nothing and run nothing; `validate` reads a file, for which it asks itself.
_READS: Final = frozenset({"list", "validate", "approvals"})
_ENDINGS: Final = ("", ".yaml", ".yml")
_LARGEST_RECIPE: Final = 1 << 20
#: Bytes of a result that are returned; the rest is in the state of the session.
_LARGEST_RESULT: Final = 10_000
_HOME: Final = "~/.amplifier"
_DESCRIPTION: Final = """\
Run recipes: YAML files that describe work of many steps (commands, agents, loops, further recipes), which can stop \
for approval between stages and be resumed after any interruption.

- execute: run recipe_path with context. resume: continue session_id. validate: check recipe_path without running it.
- list: the recipe sessions of this project. approvals: those that wait for a person.
- approve, deny: pass on what the user has decided about session_id; never decide yourself. cancel: stop session_id."""


class RecipesTool:
    """Answer for the recipe sessions of one project."""

    name = TOOL = "recipes"
    description = _DESCRIPTION
    #: None: steps have timeouts of their own.
    deadline = None
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "enum": list(_OPERATIONS)},
            "recipe_path": {"type": "string", "description": "File of the recipe, or @namespace:path"},
            "context": {"type": "object", "description": "Variables for execute"},
            "session_id": {"type": "string", "description": "Recipe session to resume, approve, deny or cancel"},
            "stage_name": {"type": "string", "description": "The stage that is approved or denied"},
            "reason": {"type": "string", "description": "Why it is denied"},
            "message": {"type": "string", "description": "What the user says with the approval"},
            "immediate": {"type": "boolean", "description": "Cancel also what the current step does", "default": False},
        },
        "required": ["operation"],
    }

    def __init__(self, coordinator: Any, settings: RecipesConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        #: The sessions that run in this process.
        self._running: dict[str, Session] = {}

    def action_for(self, input: dict[str, Any]) -> str:
        """Return the action of a call: reading, deciding a gate, or running something."""
        operation = input.get("operation")
        if operation in _READS:
            return "tool.recipes_read"
        return "tool.recipes_approve" if operation in ("approve", "deny") else "tool.recipes"

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do one operation; every failure is a result with a code."""
        operation = input.get("operation")
        if operation not in _OPERATIONS:
            text = f"'operation' must be one of {', '.join(_OPERATIONS)}, got {operation!r:.100}"
            return _failure(RecipeError("invalid_input", text))
        try:
            work: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]] = getattr(self, f"_{operation}")
            return ToolResult(output=_shortened(await work(input)))
        except RecipeError as error:
            return _failure(error)
        except OSError as error:
            return _failure(RecipeError("storage_failed", f"The recipe session cannot be stored: {reason(error)}"))

    # -- operations --

    async def _execute(self, given: Mapping[str, Any]) -> dict[str, Any]:
        context = given.get("context") or {}
        if not isinstance(context, dict):
            raise RecipeError("invalid_input", f"'context' must be a mapping, got {type(context).__name__}")
        checked, path = await self._read(_text(given, "recipe_path"), None)
        store = self._store
        if self._settings.auto_cleanup_days:
            store.clean_up(self._settings.auto_cleanup_days)
        project = str(project_of(self._coordinator))
        state = store.create(checked.recipe, checked.text, context, recipe_path=str(path), project_path=project)
        return await self._run(checked, state)

    async def _resume(self, given: Mapping[str, Any]) -> dict[str, Any]:
        state = self._store.load(_text(given, "session_id"))
        if state.status in ("completed", "denied"):
            raise RecipeError("not_resumable", f"Recipe session {state.session_id} is {state.status}")
        if state.session_id in self._running:
            raise RecipeError("already_running", f"Recipe session {state.session_id} is running in this process")
        checked = parse_recipe(self._store.recipe_text(state.session_id), state.recipe_path or state.session_id)
        return await self._run(checked, state)

    async def _run(self, checked: CheckedRecipe, state: State) -> dict[str, Any]:
        recipe = checked.recipe
        pace = Pace(recipe.rate_limiting)
        session = Session(self._coordinator, self._store, self._read, pace, recursion=recipe.recursion)
        self._running[state.session_id] = session
        about = {"recipe": recipe.name, "session_id": state.session_id}
        try:
            summary = await run_bounded(RecipeRun(session, recipe, state).to_end, stop=session.stop)
        except Paused:
            stage = state.pending_approval_stage
            return {
                "status": "paused_for_approval",
                **about,
                "stage_name": stage,
                "approval_prompt": state.pending_approval_prompt,
                "message": f"Stage {stage!r} waits for approval: ask the user, then approve or deny, then resume.",
            }
        except (Stopped, StoppedAtOnce):
            return {"status": "cancelled", **about, "message": "The recipe was cancelled; it can be resumed."}
        except RecipeError as error:
            hint = "" if state.status == "denied" else f" Resume session {state.session_id} to repeat the failed step."
            raise RecipeError(error.code, f"Recipe {recipe.name!r} failed: {error}.{hint}") from error
        finally:
            del self._running[state.session_id]
        return {"status": "completed", **about, "summary": summary}

    async def _list(self, given: Mapping[str, Any]) -> dict[str, Any]:
        sessions = [
            state.model_dump(
                include={"session_id", "recipe_name", "started", "current_step_index", "completed_steps", "status"}
            )
            for state in self._store.all()
        ]
        return {"sessions": sessions, "count": len(sessions)}

    async def _validate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        checked, _ = await self._read(_text(given, "recipe_path"), None)
        recipe = checked.recipe
        return {
            "status": "valid",
            "recipe": recipe.name,
            "version": recipe.version,
            "warnings": list(checked.warnings),
        }

    async def _approvals(self, given: Mapping[str, Any]) -> dict[str, Any]:
        pending = [
            {
                "session_id": state.session_id,
                "recipe_name": state.recipe_name,
                "stage_name": state.pending_approval_stage,
                "approval_prompt": state.pending_approval_prompt,
                "approval_timeout": state.pending_approval_timeout,
                "approval_requested_at": state.pending_approval_requested_at,
                "approval_default": state.pending_approval_default,
            }
            for state in self._store.all()
            if state.is_pending
        ]
        return {"pending_approvals": pending, "count": len(pending)}

    async def _approve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        message = given.get("message")
        state, stage = self._answer(given, "approved", message if isinstance(message, str) else "")
        text = f"Stage {stage!r} is approved. Resume session {state.session_id} to continue."
        return {"status": "approved", "session_id": state.session_id, "stage_name": stage, "message": text}

    async def _deny(self, given: Mapping[str, Any]) -> dict[str, Any]:
        why = given.get("reason")
        state, stage = self._answer(given, "denied", why if isinstance(why, str) else "")
        return {"status": "denied", "session_id": state.session_id, "stage_name": stage, "reason": why or ""}

    async def _cancel(self, given: Mapping[str, Any]) -> dict[str, Any]:
        state = self._store.load(_text(given, "session_id"))
        if state.status != "running":
            raise RecipeError("not_running", f"Recipe session {state.session_id} is {state.status}")
        level = "immediate" if given.get("immediate") is True else "graceful"
        if (session := self._running.get(state.session_id)) is not None:
            session.cancellation = level
            if level == "immediate" and not session.stop.done():
                session.stop.set_result(None)
        state.cancellation_status = "immediate" if level == "immediate" else "requested"
        self._store.save(state)
        return {"status": "cancellation_requested", "session_id": state.session_id, "level": level}

    def _answer(self, given: Mapping[str, Any], verdict: Verdict, message: str) -> tuple[State, str | None]:
        """Record a verdict in a session, and in the sub-recipe whose gate it is."""
        store, state = self._store, self._store.load(_text(given, "session_id"))
        state.expire()
        stage, named = state.pending_approval_stage, given.get("stage_name")
        if stage is not None and isinstance(named, str) and named and named != stage:
            raise RecipeError("wrong_stage", f"Session {state.session_id} waits for stage {stage!r}, not {named!r}")
        child = (state.pending_child_approval or {}).get("session_id")
        state.answer(verdict, message)
        if isinstance(child, str):
            self._answer({"session_id": child}, verdict, message)
        if verdict == "denied" and not isinstance(child, str):
            state.status = "denied"
        store.save(state)
        return state, stage

    # -- files --

    @property
    def _store(self) -> Store:
        text = self._settings.session_dir
        if text == _HOME or text.startswith(f"{_HOME}/"):
            home = self._coordinator.get_capability("amplifier.home")
            folder = (Path(str(home)) if home else amplifier_home()) / text[len(_HOME) + 1 :]
        else:
            folder = Path(os.path.expanduser(text))
        return Store(folder / project_slug(project_of(self._coordinator)).removeprefix("-") / "recipe-sessions")

    async def _read(self, reference: str, base: Path | None) -> tuple[CheckedRecipe, Path]:
        """Return the recipe that a reference names, relative to `base`, else to the project; raises RecipeError."""
        project = project_of(self._coordinator)
        if reference.startswith("@"):
            path = await self._mentioned(reference)
        else:
            path = _located(reference, base or project)
            # What lies beside a recipe of a bundle belongs to the bundle, as a mention does.
            if base is None or base.is_relative_to(project) or not path.is_relative_to(base):
                await self._permit(path)
        try:
            data = ConfiguredFile(path, project, denied_to_model(self._coordinator)).read(_LARGEST_RECIPE)
            text = data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            raise RecipeError(
                "recipe_unreadable", f"The recipe {reference!r} cannot be read: {reason(error)}"
            ) from error
        return parse_recipe(text, reference), path

    async def _mentioned(self, reference: str) -> Path:
        resolver = self._coordinator.get_capability("mention_resolver")
        found = None if resolver is None else await maybe_await(resolver.resolve(reference))
        if found is None:
            raise RecipeError("recipe_unreadable", f"The recipe {reference!r} leads to no file that may be used")
        return Path(found)

    async def _permit(self, path: Path) -> None:
        details = {"tool_name": self.name, "path": str(path)}
        permission = await authorize(self._coordinator, "filesystem.read", details)
        if not permission.granted:
            raise RecipeError("denied", f"Reading the recipe {path} is not allowed: {permission.reason}")


def _located(reference: str, base: Path) -> Path:
    """Return the file that a path means; it may be written without its ending."""
    path = Path(os.path.normpath(base / os.path.expanduser(reference)))
    return next((named for end in _ENDINGS if (named := Path(f"{path}{end}")).is_file()), path)


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise RecipeError("invalid_input", f"'{key}' is missing: this operation needs it")
    return value.strip()


def _failure(error: RecipeError) -> ToolResult:
    text = "\n".join((str(error), *error.errors))
    details = {"message": str(error), "code": error.code, **({"errors": list(error.errors)} if error.errors else {})}
    return ToolResult(success=False, output=text, error=details)


def _shortened(output: dict[str, Any]) -> dict[str, Any]:
    """Return an output whose final result is cut where it is long."""
    summary = output.get("summary")
    if not isinstance(summary, dict):
        return output
    final = summary["final_output"]
    text = final if isinstance(final, str) else json.dumps(final, ensure_ascii=False)
    if len(text.encode("utf-8", "surrogatepass")) <= _LARGEST_RESULT:
        return output
    note = f"[cut: the result has {len(text)} characters, all of it is in the state of the session]"
    cut = f"{text[:_LARGEST_RESULT]}\n\n{note}"
    return {**output, "summary": {**summary, "final_output": cut}}
