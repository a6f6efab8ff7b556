"""Run a recipe from where its session is to its end, a gate or a failure; the state is saved after every step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from amplifier_core.data import reason
from amplifier_kit.awaitable import await_soon
from amplifier_kit.engine.tasks import cancel_and_wait
from amplifier_kit.struct import Struct
from amplifier_module_tool_recipes.expressions import (
    evaluate,
    lookup,
    parsed_result,
    substitute,
    substitute_all,
    whole_variable,
)
from amplifier_module_tool_recipes.recipe import (
    CheckedRecipe,
    Recipe,
    RecipeError,
    Recursion,
    Stage,
    Step,
    parse_recipe,
)
from amplifier_module_tool_recipes.state import State, Store
from amplifier_module_tool_recipes.work import AGENT_EVENTS, AgentStep, Pace, StepError, run_command

logger = logging.getLogger(__name__)

#: Every event of a recipe, for the log.
EVENTS: Final = (
    "recipe:start",
    "recipe:step",
    "recipe:complete",
    "recipe:approval",
    "recipe:loop_iteration",
    "recipe:loop_complete",
    "recipe:iteration_failed",
    *AGENT_EVENTS.names(),
)

DENIED_BY_GATE: Final = "denied_by_gate"

#: Reads the recipe that a recipe names: `(reference, folder of the naming one) -> recipe, its path`.
ReadRecipe = Callable[[str, Path | None], Awaitable[tuple[CheckedRecipe, Path]]]


class Paused(Exception):
    """A recipe waits for approval; its state says for which stage."""

    def __init__(self, state: State) -> None:
        super().__init__(
            f"Recipe session {state.session_id} waits for approval of stage {state.pending_approval_stage}"
        )
        self.state = state


class Stopped(Exception):
    """A recipe was cancelled between two steps."""


class _SkipRemaining(Exception):
    """A step failed, and the recipe says that the rest is not needed then."""


class Session(Struct):
    """What the runs of one recipe and of its sub-recipes share."""

    coordinator: Any
    store: Store
    read_recipe: ReadRecipe
    pace: Pace
    recursion: Recursion
    #: "requested" once the run was asked to stop.
    cancellation: str = "none"
    #: Done when the step that runs must stop too.
    stop: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    steps_run: int = 0

    def count_step(self) -> None:
        """Count a step, of sub-recipes too; raises StepError at the limit. Loops have limits of their own."""
        self.steps_run += 1
        if self.steps_run > self.recursion.max_total_steps:
            most = self.recursion.max_total_steps
            raise StepError("too_many_steps", f"The recipe has run {most} steps, its recursion.max_total_steps")

    @property
    def is_cancelled(self) -> bool:
        token = getattr(self.coordinator, "cancellation", None)
        return self.cancellation != "none" or getattr(token, "is_cancelled", False) is True


class RecipeRun:
    """One recipe session while it runs in this process."""

    def __init__(self, session: Session, recipe: Recipe, state: State, depth: int = 1) -> None:
        self._session = session
        self._recipe = recipe
        self.state = state
        self._depth = depth
        self._last: Any = None

    async def to_end(self) -> dict[str, Any]:
        """Return the summary; raises Paused, Stopped, RecipeError, or CancelledError, each with the state saved."""
        state = self.state
        state.expire()
        if state.is_pending and state.pending_child_approval is None:
            raise Paused(state)  # a sub-recipe knows itself whether its gate has expired
        state.status, state.error, state.cancellation_status = "running", None, "none"
        state.forget_pending()
        self._session.store.save(state, is_start=True)
        await self._emit("recipe:start")
        try:
            await self._run_stages()
        except (Stopped, asyncio.CancelledError):
            self._end("cancelled")
            raise
        except (RecipeError, ValueError) as error:
            failure = error if isinstance(error, RecipeError) else StepError("invalid_value", reason(error))
            self._end("denied" if failure.code == DENIED_BY_GATE else "failed", str(failure))
            await self._emit("recipe:complete")
            raise failure from error
        self._end("completed")
        await self._emit("recipe:complete")
        return self._summary()

    def _end(self, status: Any, error: str | None = None) -> None:
        self.state.status, self.state.error = status, error
        self.state.cancellation_status = "cancelled" if status == "cancelled" else "none"
        self._save()

    def _save(self) -> None:
        self._session.store.save(self.state)

    def _summary(self) -> dict[str, Any]:
        context = self.state.context
        names = [name for name in context if name not in self._recipe.context and not name.startswith("_")]
        summary: dict[str, Any] = {
            "final_output": context.get("final_output", self._last),
            "available_outputs": names,
            "completed_steps": len(self.state.completed_steps),
        }
        return summary | ({"skipped_steps": self.state.skipped_steps} if self.state.skipped_steps else {})

    # -- stages --

    async def _run_stages(self) -> None:
        stages, state = self._recipe.all_stages(), self.state
        try:
            for number in range(state.current_stage_index, len(stages)):
                state.current_stage_index = number
                for index in range(state.current_step_index, len(stages[number].steps)):
                    await self._run_step(stages[number].steps[index], {}, "")
                    state.current_step_index = index + 1
                    self._save()
                await self._pass_gate(stages[number])
                state.current_stage_index, state.current_step_index = number + 1, 0
                self._save()
        except _SkipRemaining:
            done = {*state.completed_steps, *state.skipped_steps}
            state.skipped_steps += [step.id for step in self._recipe.all_steps() if step.id not in done]

    async def _pass_gate(self, stage: Stage) -> None:
        """Return when a stage was approved or needs no approval."""
        if stage.approval is None or not stage.approval.required:
            return
        verdict = self.state.stage_approvals.get(stage.name)
        if verdict == "approved":
            return
        if verdict in ("denied", "timeout"):
            what = "was denied" if verdict == "denied" else "was not answered in time"
            raise RecipeError(DENIED_BY_GATE, f"The approval of stage {stage.name!r} {what}")
        self.state.ask(stage.name, stage.approval, substitute(stage.approval.prompt, self._values({})))
        await self._pause()

    async def _pause(self) -> None:
        self._save()
        await self._emit("recipe:approval", stage_name=self.state.pending_approval_stage)
        raise Paused(self.state)

    # -- steps --

    async def _run_step(self, step: Step, local: dict[str, Any], path: str) -> Any:
        """Run one step and return its result; `local` has the variables of a loop, `path` its iteration."""
        if self._session.is_cancelled or self.state.cancellation_status in ("requested", "immediate"):
            raise Stopped
        key = f"{path}{step.id}"
        try:
            if step.condition and not evaluate(step.condition, self._values(local, step)):
                self.state.skipped_steps.append(key)
                await self._emit("recipe:step", step_id=step.id, step_status="skipped")
                return None
            if not path:
                self._session.count_step()
            await self._emit("recipe:step", step_id=step.id, step_status="in_progress")
            self._show(f"{self._recipe.name}: {key}")
            if step.foreach:
                result = await self._foreach(step, local, key)
            elif step.while_condition:
                result = await self._while(step, local, key)
            else:
                result = await self._attempts(step, local, key)
        except (StepError, ValueError) as error:
            result = self._failed(step, key, error)
        self._store_result(step, local, result)
        self.state.completed_steps.append(key)
        await self._emit("recipe:step", step_id=step.id, step_status="completed")
        return result

    def _failed(self, step: Step, key: str, error: Exception) -> Any:
        """Return the result of a failed step where the recipe goes on; raises StepError or _SkipRemaining."""
        code = error.code if isinstance(error, StepError) else "invalid_value"
        message = f"Step {key!r} failed: {reason(error)}"
        if step.on_error == "fail":
            raise StepError(code, message) from error
        self._show(message, "warning")
        if step.on_error == "skip_remaining":
            raise _SkipRemaining from error
        printed = getattr(error, "result", None)
        return {"error": reason(error), **({"output": printed.text} if printed is not None else {})}

    def _store_result(self, step: Step, local: dict[str, Any], result: Any) -> None:
        self._last = result
        if step.output and not (step.foreach and step.collect):
            self._store(step.output, result, local)
        if step.collect:
            self._store(step.collect, result, local)
        if step.update_context and not step.while_condition:
            for name, value in substitute_all(step.update_context, self._values(local, step)).items():
                self._store(name, value, local)

    def _store(self, name: str, value: Any, local: dict[str, Any]) -> None:
        """Put a value into the context; inside of a parallel iteration, into that of the iteration alone."""
        if local.get("_is_parallel"):
            local[name] = value
        else:
            local.pop(name, None)
            self.state.context[name] = value

    def _values(self, local: Mapping[str, Any], step: Step | None = None) -> dict[str, Any]:
        state, recipe = self.state, self._recipe
        about = {"name": recipe.name, "description": recipe.description, "version": recipe.version}
        return {
            "_approval_message": "",
            **state.context,
            "recipe": about,
            "session": {"id": state.session_id, "started": state.started, "project": state.project_path},
            "step": {"id": step.id if step else "", "index": state.current_step_index},
            "_skipped_steps": list(state.skipped_steps),
            **local,
        }

    async def _attempts(self, step: Step, local: dict[str, Any], key: str) -> Any:
        """Return the result of a step, after as many failures as it may have."""
        most = step.retry.max_attempts if step.retry else 1
        for attempt in range(1, most + 1):
            try:
                return await self._perform(step, local, key if attempt == 1 else f"{key}#{attempt}")
            except StepError as error:
                if attempt == most or not error.repeatable or step.retry is None:
                    raise
                self._show(f"{key}: attempt {attempt} of {most} failed: {error}", "warning")
                await asyncio.sleep(step.retry.delay(attempt))
        raise AssertionError("unreachable")  # max_attempts is at least 1

    async def _perform(self, step: Step, local: dict[str, Any], key: str) -> Any:
        values = self._values(local, step)
        if step.steps is not None:
            result = None
            for inner in step.steps:
                result = await self._run_step(inner, local, f"{key}.")
            return result
        if step.type == "recipe":
            return await self._sub_recipe(step, values, key)
        if step.type == "bash":
            try:
                text, code = await run_command(self._session.coordinator, step, values)
            except StepError as error:
                if step.output_exit_code and error.result is not None:
                    self._store(step.output_exit_code, error.result.exit_code, local)
                raise
            if step.output_exit_code:
                self._store(step.output_exit_code, code, local)
        else:
            work = AgentStep(step, f"{self.state.session_id}-{key}", self._recipe.orchestrator)
            text = await self._session.pace.run(lambda: work.run(self._session.coordinator, values))
        return parsed_result(text, takes_last=step.parse_json)

    # -- loops --

    async def _foreach(self, step: Step, local: dict[str, Any], key: str) -> list[Any]:
        name = whole_variable(step.foreach or "") or ""
        items = lookup(name, self._values(local, step))
        if not isinstance(items, list):
            raise StepError("invalid_loop", f"foreach needs a list, and {{{{{name}}}}} is {type(items).__name__}")
        if len(items) > step.max_iterations:
            raise StepError(
                "too_many_iterations", f"foreach has {len(items)} items, max_iterations is {step.max_iterations}"
            )
        done = self.state.foreach_progress.setdefault(key, {})

        async def iterate(index: int) -> None:
            if str(index) not in done:
                is_parallel = bool(step.parallel) or local.get("_is_parallel", False)
                own = {**local, step.as_: items[index], "_loop_index": index, "_is_parallel": is_parallel}
                done[str(index)] = await self._iteration(step, own, key, index, len(items))
                if step.checkpoint_iterations:
                    self._save()

        if step.parallel:
            await self._in_parallel(iterate, len(items), len(items) if step.parallel is True else int(step.parallel))
        else:
            for index in range(len(items)):
                await iterate(index)
                last = {**local, step.as_: items[index], "_loop_index": index, "result": done[str(index)]}
                if step.break_when and evaluate(step.break_when, self._values(last, step)):
                    break
        results = [done[str(index)] for index in range(len(items)) if str(index) in done]
        del self.state.foreach_progress[key]
        await self._emit("recipe:loop_complete", step_id=step.id, iterations=len(results))
        return results

    async def _iteration(self, step: Step, own: dict[str, Any], key: str, index: int, total: int | None) -> Any:
        """Return the result of one iteration; one that fails does not stop a loop with `on_error: continue`."""
        await self._emit("recipe:loop_iteration", step_id=step.id, iteration=index, total_iterations=total)
        try:
            result = await self._attempts(step, own, f"{key}[{index}]")
        except (StepError, ValueError) as error:
            what = {"step_id": step.id, "iteration": index, "error": reason(error)}
            await self._emit("recipe:iteration_failed", **what)
            if step.on_error != "continue":
                raise
            return {"error": reason(error)}
        if step.output:
            self._store(step.output, result, own)
        return result

    async def _in_parallel(self, iterate: Callable[[int], Awaitable[None]], count: int, limit: int) -> None:
        """Run iterations side by side; the first that raises stops the others."""
        slots = asyncio.Semaphore(max(1, limit))

        async def run(index: int) -> None:
            async with slots:
                await iterate(index)

        tasks = [asyncio.ensure_future(run(index)) for index in range(count)]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_and_wait(*tasks)

    async def _while(self, step: Step, local: dict[str, Any], key: str) -> list[Any]:
        results: list[Any] = []
        while evaluate(step.while_condition or "", self._values({**local, "_loop_index": len(results)}, step)):
            if len(results) >= step.max_while_iterations:
                most = step.max_while_iterations
                raise StepError("too_many_iterations", f"while_condition still holds after {most} iterations")
            own = {**local, "_loop_index": len(results)}
            results.append(await self._iteration(step, own, key, len(results), None))
            for name, value in substitute_all(step.update_context or {}, self._values(own, step)).items():
                self._store(name, value, local)
            self._save()
            if step.break_when and evaluate(step.break_when, self._values(own, step)):
                break
        await self._emit("recipe:loop_complete", step_id=step.id, iterations=len(results))
        return results

    # -- sub-recipes --

    async def _sub_recipe(self, step: Step, values: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return what a sub-recipe added to its context; one that was started before is resumed."""
        most = (step.recursion or self._session.recursion).max_depth
        if self._depth >= most:
            raise StepError("too_deep", f"Sub-recipes may be nested {most} deep, which this one would exceed")
        known, store = self.state.child_sessions.get(key), self._session.store
        if known is not None:
            child = store.load(known)
            checked = parse_recipe(store.recipe_text(known), child.recipe_path or known)
        else:
            base = Path(self.state.recipe_path).parent if self.state.recipe_path else None
            checked, path = await self._session.read_recipe(substitute(step.recipe or "", values), base)
            given = substitute_all(step.context or {}, values)
            facts = {"project_path": self.state.project_path, "parent_session_id": self.state.session_id}
            child = store.create(checked.recipe, checked.text, given, recipe_path=str(path), **facts)
            self.state.child_sessions[key] = child.session_id
            self._save()
        try:
            await self._child_to_end(checked.recipe, child)
        except Paused as paused:
            await self._wait_for_child(step, paused.state)
        except StepError:
            raise
        except RecipeError as error:
            raise StepError(error.code, f"Recipe {child.recipe_name!r}: {error}") from error
        before = {*checked.recipe.context, *substitute_all(step.context or {}, values)}
        return {name: value for name, value in child.context.items() if name not in before and name[:1] != "_"}

    async def _child_to_end(self, recipe: Recipe, child: State) -> None:
        if child.status != "completed":
            await RecipeRun(self._session, recipe, child, self._depth + 1).to_end()

    async def _wait_for_child(self, step: Step, child: State) -> None:
        """Pause at the gate of a sub-recipe, and show it as one of this recipe."""
        state = self.state
        state.status = "paused"
        for name in ("stage", "prompt", "timeout", "default", "requested_at"):
            setattr(state, f"pending_approval_{name}", getattr(child, f"pending_approval_{name}"))
        stage = child.pending_approval_stage
        state.pending_child_approval = {"session_id": child.session_id, "stage_name": stage, "step_id": step.id}
        await self._pause()

    # -- events --

    async def _emit(self, event: str, **more: Any) -> None:
        done, skipped = {*self.state.completed_steps}, {*self.state.skipped_steps}
        steps = list(self._recipe.all_steps())
        current = more.get("step_id") if more.get("step_status") == "in_progress" else None

        def status(step: Step) -> str:
            if step.id in done:
                return "completed"
            return "skipped" if step.id in skipped else "in_progress" if step.id == current else "pending"

        payload = {
            "name": self._recipe.name,
            "description": self._recipe.description,
            "recipe_session_id": self.state.session_id,
            "current_step": len([step for step in steps if step.id in done or step.id in skipped]),
            "total_steps": len(steps),
            "steps": [{"id": step.id, "name": step.id, "status": status(step)} for step in steps],
            "status": self.state.status,
            **more,
        }
        await self._session.coordinator.hooks.emit(event, payload)

    def _show(self, message: str, level: str = "info") -> None:
        display = getattr(self._session.coordinator, "display_system", None)
        if display is not None:
            shown = display.show_message(message, level, source="recipe")
            await_soon(shown, lambda error: logger.warning("A message of a recipe could not be shown: %s", error))
