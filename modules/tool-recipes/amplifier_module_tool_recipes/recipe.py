"""Recipes: the model of a recipe file, and everything that can be wrong with one before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from amplifier_kit.struct import FrozenStruct
from amplifier_module_tool_recipes.expressions import check_condition, variables, whole_variable

#: Variables that every step has, beside those of the recipe.
RESERVED: Final = frozenset({"recipe", "session", "step"})
_ALWAYS: Final = RESERVED | {"_skipped_steps", "_approval_message", "_loop_index"}

#: A few aliases of aliases stand for more values than fit into any memory.
_MOST_VALUES: Final = 100_000

_Text = Annotated[str, Field(min_length=1)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][\w-]*$")]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]
_Wait = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Milliseconds = Annotated[int, Field(ge=0)]


class RecipeError(Exception):
    """A recipe cannot be used, or a run of one failed; `code` is for programs, `errors` has one line for each fault."""

    def __init__(self, code: str, message: str, errors: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.errors = errors


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True
    )


class Approval(_Section):
    """The gate behind a stage: the next stage starts when a person has approved."""

    required: bool = False
    prompt: str = "Approve to continue with the next stage."
    #: Seconds after which `default` counts; 0 waits forever.
    timeout: _Wait = 0
    default: Literal["deny", "approve"] = "deny"


class Recursion(_Section):
    """The limits of sub-recipes."""

    max_depth: _Count = 5
    max_total_steps: _Count = 100


class Backoff(_Section):
    """How agent steps slow down when a provider limits the rate."""

    enabled: bool = True
    initial_delay_ms: _Milliseconds = 1000
    max_delay_ms: _Milliseconds = 60_000
    multiplier: Annotated[float, Field(ge=1)] = 2
    reset_after_success: _Count = 3


class RateLimiting(_Section):
    """The pace of agent steps, sub-recipes included."""

    max_concurrent_llm: _Count | None = None
    min_delay_ms: _Milliseconds = 0
    backoff: Backoff | None = None


class Orchestrator(_Section):
    """The loop of the agents."""

    config: dict[str, Any] = Field(default_factory=dict)


class Retry(_Section):
    """Repetitions of a step that failed."""

    max_attempts: _Count = 3
    backoff: Literal["exponential", "linear"] = "exponential"
    initial_delay: _Wait = 5
    max_delay: _Wait = 300

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after this many failures."""
        factor = 2.0 ** min(failures - 1, 60) if self.backoff == "exponential" else failures
        return min(self.initial_delay * factor, self.max_delay)


class Preference(_Section):
    """A provider and model for an agent."""

    provider: _Text
    model: _Text | None = None
    config: dict[str, Any] = Field(default_factory=dict)


class Step(_Section):
    """One step: a command, an agent, another recipe, or a loop over further steps."""

    id: _Text
    type: Literal["agent", "recipe", "bash"] = "agent"
    # agents
    agent: _Text | None = None
    prompt: _Text | None = None
    mode: _Text | None = None
    provider: _Text | None = None
    model: _Text | None = None
    provider_preferences: list[Preference] | None = None
    model_role: _Text | list[_Text] | None = None
    spawn_mode: Literal["subprocess"] | None = None
    # sub-recipes
    recipe: _Text | None = None
    context: dict[str, Any] | None = None
    recursion: Recursion | None = None
    # commands
    command: _Text | None = None
    cwd: _Text | None = None
    env: dict[_Name, str] | None = None
    output_exit_code: _Name | None = None
    # what becomes of the result
    output: _Name | None = None
    parse_json: bool = False
    # loops
    foreach: _Text | None = None
    as_: _Name = Field("item", alias="as")
    collect: _Name | None = None
    parallel: bool | _Count = False
    checkpoint_iterations: bool = True
    max_iterations: _Count = 100
    while_condition: _Text | None = None
    max_while_iterations: _Count = 100
    break_when: _Text | None = None
    update_context: dict[_Name, Any] | None = None
    steps: list[Step] | None = None
    # whether and how often
    condition: _Text | None = None
    depends_on: list[_Text] = Field(default_factory=list)
    timeout: _Positive = 600
    retry: Retry | None = None
    on_error: Literal["fail", "continue", "skip_remaining"] = "fail"

    def outputs(self) -> Iterator[str]:
        """Yield the names that this step alone puts into the context."""
        loop = self.as_ if self.foreach else None
        names = (self.output, self.collect, self.output_exit_code, loop, *(self.update_context or ()))
        yield from (name for name in names if name)


class Stage(_Section):
    """Steps with an optional gate behind them."""

    name: _Text
    steps: Annotated[list[Step], Field(min_length=1)]
    approval: Approval | None = None


class Recipe(_Section):
    """A recipe file."""

    name: _Text
    description: _Text
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    author: str | None = None
    created: str | date | datetime | None = None
    updated: str | date | datetime | None = None
    tags: list[str] = Field(default_factory=list)
    context: dict[str, Any] = Field(default_factory=dict)
    steps: Annotated[list[Step], Field(min_length=1)] | None = None
    stages: Annotated[list[Stage], Field(min_length=1)] | None = None
    recursion: Recursion = Field(default_factory=Recursion)
    rate_limiting: RateLimiting | None = None
    orchestrator: Orchestrator | None = None

    def all_stages(self) -> list[Stage]:
        """Return the stages; a recipe of plain steps is one stage without a gate."""
        return self.stages if self.stages is not None else [Stage(name=self.name, steps=self.steps or [])]

    def all_steps(self) -> Iterator[Step]:
        """Yield the steps of all stages, without those inside of loops."""
        for stage in self.all_stages():
            yield from stage.steps


# -- reading --


class CheckedRecipe(FrozenStruct):
    """A recipe without errors, its text, and what looks wrong but may be right."""

    recipe: Recipe
    text: str
    warnings: tuple[str, ...] = ()


def parse_recipe(text: str, name: str) -> CheckedRecipe:
    """Return a checked recipe; raises RecipeError that lists every mistake. `name` says which file it is."""
    import yaml

    try:
        data = yaml.safe_load(text)
        is_too_large = _size(data, {}) > _MOST_VALUES
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _invalid(name, [f"not YAML: {_place(error)}"]) from error
    if is_too_large:
        raise _invalid(name, [f"it has more than {_MOST_VALUES:,} values, aliases followed"])
    if not isinstance(data, dict):
        raise _invalid(name, ["a recipe is a mapping with name, description, version and steps or stages"])
    try:
        recipe = Recipe.model_validate(data)
    except (ValidationError, RecursionError) as error:
        raise _invalid(name, _mistakes(error)) from error
    if errors := [*_errors(recipe)]:
        raise _invalid(name, errors)
    return CheckedRecipe(recipe, text, tuple(_warnings(recipe)))


def _size(value: Any, known: dict[int, int]) -> int:
    """Return how many values there are when every alias is written out; one that contains itself has too many."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = _MOST_VALUES
        known[id(value)] = 1 + sum(
            _size(each, known) for each in (value.values() if isinstance(value, dict) else value)
        )
    return known[id(value)]


def _place(error: Exception) -> str:
    """Return what is wrong where, without the text of the file: a model may have named any file."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return f"{where}{problem or type(error).__name__}"


def _invalid(name: str, errors: list[str]) -> RecipeError:
    return RecipeError("invalid_recipe", "Recipe validation failed", tuple(f"{name}: {error}" for error in errors))


def _mistakes(error: ValidationError | RecursionError) -> list[str]:
    if isinstance(error, RecursionError):
        return ["steps are nested too deep"]
    found = []
    for fault in error.errors(include_url=False, include_input=False):
        place = ".".join(map(str, fault["loc"])) or "recipe"
        what = "unknown key" if fault["type"] == "extra_forbidden" else fault["msg"]
        found.append(f"{place}: {what}")
    return list(dict.fromkeys(found))


def _errors(recipe: Recipe) -> Iterator[str]:
    """Yield what no single key shows to be wrong."""
    if (recipe.steps is None) == (recipe.stages is None):
        yield "give either steps or stages"
        return
    names = [stage.name for stage in recipe.all_stages()]
    yield from (f"the stage {name!r} is there twice" for name in sorted(set(names)) if names.count(name) > 1)
    yield from (f"context.{name}: the name is reserved" for name in RESERVED & recipe.context.keys())
    yield from _errors_of_steps(list(recipe.all_steps()), set(), "")


def _errors_of_steps(steps: list[Step], seen: set[str], within: str) -> Iterator[str]:
    for step in steps:
        where = f"step {within}{step.id!r}"
        if step.id in seen:
            yield f"{where}: the id is used twice"
        unknown = [name for name in step.depends_on if name not in seen]
        yield from (f"{where}: depends_on {name!r} is no step before it" for name in unknown)
        seen.add(step.id)
        yield from (f"{where}: {what}" for what in _errors_of_step(step))
        yield from _errors_of_steps(step.steps or [], seen, f"{step.id} > ")


def _errors_of_step(step: Step) -> Iterator[str]:
    needed = {"agent": ("agent", "prompt"), "recipe": ("recipe",), "bash": ("command",)}[step.type]
    if step.steps is None:
        yield from (f"{key} is missing for type {step.type}" for key in needed if getattr(step, key) is None)
    if step.steps is not None and not (step.foreach or step.while_condition):
        yield "steps belong to a loop: give foreach or while_condition"
    if step.foreach and step.while_condition:
        yield "give either foreach or while_condition"
    if step.foreach and whole_variable(step.foreach) is None:
        yield f"foreach must be one variable such as {{{{files}}}}, got {step.foreach!r}"
    for key in ("collect", "parallel") if not step.foreach else ():
        if getattr(step, key):
            yield f"{key} needs foreach"
    if step.parallel and step.break_when:
        yield "break_when needs iterations one after the other: remove parallel"
    if step.model and not step.provider:
        yield "model needs provider"
    if sum(value is not None for value in (step.provider, step.provider_preferences, step.model_role)) > 1:
        yield "give one of provider, provider_preferences and model_role"
    yield from (f"output {name!r} is reserved" for name in step.outputs() if name in RESERVED)
    for key in ("condition", "while_condition", "break_when"):
        try:
            check_condition(getattr(step, key) or "true")
        except ValueError as error:
            yield f"{key}: {error}"


def _warnings(recipe: Recipe) -> Iterator[str]:
    """Yield variables that neither the context nor a step before defines: the caller may, and has to."""
    known = {*recipe.context, *_ALWAYS}
    for step in recipe.all_steps():
        own = {name for each in _nested(step) for name in each.outputs()}
        used = sorted({*variables(step.model_dump(by_alias=True))} - known - own)
        yield from (f"step {step.id!r}: {{{{{name}}}}} must be given in context" for name in used)
        known |= own


def _nested(step: Step) -> Iterator[Step]:
    yield step
    for inner in step.steps or ():
        yield from _nested(inner)
