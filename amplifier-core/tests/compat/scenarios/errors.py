"""The errors of language models and of modules."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

from amplifier_core import llm_errors
from amplifier_core.loader import ModuleValidationError, module_failure_reason
from amplifier_core.module_sources import FileSystemModuleSource, ModuleLoadError, ModuleNotFoundError

from .base import Stage, outcome, scenario


def classes() -> dict[str, Any]:
    """Return the error classes by name."""
    found = inspect.getmembers(llm_errors, inspect.isclass)
    return {name: kind for name, kind in found if issubclass(kind, llm_errors.LLMError)}


@scenario
async def family(stage: Stage) -> Any:
    """Each class, its parent and whether it is worth a retry."""
    return {name: [kind.__mro__[1].__name__, kind("m").retryable] for name, kind in classes().items()}


@scenario
async def shown(stage: Stage) -> Any:
    """How errors show themselves."""
    full = {"provider": "p", "model": "m", "status_code": 429}
    bare = {name: repr(kind("it's")) for name, kind in classes().items()}
    more = repr(llm_errors.StreamError("m", retryable=False, retry_after=1.5, delay_multiplier=2.0))
    return [bare, {name: repr(kind("msg", **full)) for name, kind in classes().items()}, more]


@scenario
async def attributes(stage: Stage) -> Any:
    """What an error carries."""
    error = llm_errors.RateLimitError("m", provider="p", model="x", status_code=429, retryable=False, retry_after=2.0)
    names = ("provider", "model", "status_code", "retryable", "retry_after", "delay_multiplier", "args")
    return {name: getattr(error, name) for name in names}


@scenario
async def tool_call_error(stage: Stage) -> Any:
    """The error of a tool call that cannot be read."""
    error = llm_errors.InvalidToolCallError("m", tool_name="t", raw_arguments="{", provider="p")
    hinted = str(await outcome(lambda: llm_errors.InvalidToolCallError("m", retry_after=1.0))).split(":")[0]
    return [error.tool_name, error.raw_arguments, repr(error), hinted]


@scenario
async def positional_arguments(stage: Stage) -> Any:
    """Only the message is positional."""
    kind: Any = llm_errors.LLMError
    return str(await outcome(lambda: kind("m", "p"))).split(":")[0]


@scenario
async def pickled(stage: Stage) -> Any:
    """An error that went through pickle."""
    copy = await outcome(lambda: pickle.loads(pickle.dumps(llm_errors.RateLimitError("m", provider="p"))))
    return repr(copy)


@scenario
async def reasons(stage: Stage) -> Any:
    """The reason code of each kind of failure."""
    failures: list[BaseException] = [
        ModuleValidationError("m"),
        ModuleValidationError("m", reason_code="invalid_package_layout"),
        ModuleNotFoundError("m"),
        ModuleLoadError("m"),
        ImportError("m"),
        ValueError("Module 'x' not found via entry points or filesystem"),
        RuntimeError("m"),
    ]
    return [module_failure_reason(failure) for failure in failures]


@scenario
async def unknown_reason(stage: Stage) -> Any:
    """An unknown reason code."""
    error = await outcome(lambda: ModuleValidationError("m", reason_code="made_up"))
    return [str(error), getattr(error, "reason_code", None)]


@scenario
async def source_classes(stage: Stage) -> Any:
    """The source of a folder, and the errors' parents."""
    source = FileSystemModuleSource(["a"])
    source.get_module_paths().append("b")
    return [
        list(map(str, source.get_module_paths())),
        source.get_mention_mappings(),
        FileSystemModuleSource().get_module_paths(),
        [kind.__mro__[1].__name__ for kind in (ModuleNotFoundError, ModuleLoadError, ModuleValidationError)],
    ]
