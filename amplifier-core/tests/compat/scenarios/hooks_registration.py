"""The hook registry: registering, listing, unregistering."""

from __future__ import annotations

from typing import Any

from amplifier_core import HookRegistry

from .base import Stage, outcome, scenario


def note_as(stage: Stage, name: str) -> Any:
    """Make a handler that writes its name down."""

    async def handler(event: str, data: Any) -> None:
        stage.notes.append(name)

    return handler


@scenario
async def order(stage: Stage) -> Any:
    """Lower priority first, ties in the order of registration, negatives allowed."""
    registry = HookRegistry()
    for name, priority in (("c", 5), ("a", 0), ("b", 0), ("z", -3), ("d", 100)):
        registry.register("x:y", note_as(stage, name), priority, name)
    await registry.emit("x:y", {})
    return [stage.notes, registry.list_handlers("x:y")]


@scenario
async def automatic_names(stage: Stage) -> Any:
    """The name of a handler that was given none."""
    registry = HookRegistry()
    unregister = registry.register("x:y", note_as(stage, "a"))
    return [registry.list_handlers(), repr(unregister)]


@scenario
async def unregister_callable(stage: Stage) -> Any:
    """What register returns: it takes nothing, may be called twice, and shows the name."""
    registry = HookRegistry()
    unregister = registry.register("x:y", note_as(stage, "a"), name="mine")
    shown = repr(unregister)
    results = [await outcome(unregister), await outcome(unregister)]
    return [shown, results, registry.list_handlers(), registry.list_handlers("x:y")]


@scenario
async def unregister_by_name(stage: Stage) -> Any:
    """Removing by name takes the latest of that name; an unknown name is ignored."""
    registry = HookRegistry()
    registry.register("a:b", note_as(stage, "first"), name="same")
    registry.register("c:d", note_as(stage, "second"), name="same")
    registry.unregister("same")
    after_one = registry.list_handlers()
    registry.unregister("nobody")
    registry.unregister("same")
    return [after_one, registry.list_handlers()]


@scenario
async def same_name_twice(stage: Stage) -> Any:
    """Each callable removes exactly its own handler."""
    registry = HookRegistry()
    first = registry.register("x:y", note_as(stage, "first"), name="same")
    registry.register("x:y", note_as(stage, "second"), name="same")
    first()
    await registry.emit("x:y", {})
    return [stage.notes, registry.list_handlers()]


@scenario
async def listing(stage: Stage) -> Any:
    """A fresh registry, an unknown event, an event whose handlers are gone."""
    registry = HookRegistry()
    empty, unknown = registry.list_handlers(), registry.list_handlers("no:thing")
    registry.register("x:y", note_as(stage, "a"), name="a")()
    return [empty, unknown, registry.list_handlers()]


@scenario
async def alias(stage: Stage) -> Any:
    """`on` registers too, with keywords as well."""
    registry = HookRegistry()
    registry.on("x:y", note_as(stage, "later"), priority=2, name="later")
    registry.on(event="x:y", handler=note_as(stage, "sooner"), priority=1, name="sooner")
    await registry.emit("x:y", {})
    return stage.notes


@scenario
async def refused_arguments(stage: Stage) -> Any:
    """Priorities that are no int and names that are no text."""
    registry = HookRegistry()
    tries: list[dict[str, Any]] = [{"priority": "1"}, {"priority": 1.5}, {"priority": None}, {"name": 5}, {"name": ""}]
    said = [str(await outcome(lambda kw=kw: type(registry.register("x:y", print, **kw)).__name__)) for kw in tries]
    return [text.split(":")[0] if "Error" in text else "accepted" for text in said]


@scenario
async def handler_that_cannot_be_called(stage: Stage) -> Any:
    """It is accepted, fails at emit, and the others run."""
    registry: Any = HookRegistry()
    registered = str(await outcome(lambda: type(registry.register("x:y", 42, name="number")).__name__))
    registry.register("x:y", note_as(stage, "after"), priority=9, name="after")
    result = await registry.emit("x:y", {"a": 1})
    return ["Error" in registered, result.action, stage.notes]


@scenario
async def kinds_of_handlers(stage: Stage) -> Any:
    """Functions, methods, objects and partials, sync and async."""
    from functools import partial

    class Many:
        def method(self, event: str, data: Any) -> None:
            stage.notes.append("method")

        async def async_method(self, event: str, data: Any) -> None:
            stage.notes.append("async method")

    class Callable:
        def __call__(self, event: str, data: Any) -> None:
            stage.notes.append("object")

    class AsyncCallable:
        async def __call__(self, event: str, data: Any) -> None:
            stage.notes.append("async object")

    def plain(event: str, data: Any) -> None:
        stage.notes.append("function")

    async def with_extra(extra: str, event: str, data: Any) -> None:
        stage.notes.append(extra)

    registry = HookRegistry()
    many = Many()
    handlers: list[Any] = [
        plain,
        many.method,
        many.async_method,
        Callable(),
        AsyncCallable(),
        partial(with_extra, "partial"),
    ]
    for handler in [*handlers, lambda event, data: with_extra("lambda", event, data)]:
        registry.register("x:y", handler)
    result = await registry.emit("x:y", {})
    return [result.action, stage.notes]


@scenario
async def registering_during_emit(stage: Stage) -> Any:
    """A handler registered by a handler joins the next emit, not this one."""
    registry = HookRegistry()

    async def first(event: str, data: Any) -> None:
        stage.notes.append("first")
        registry.register("x:y", note_as(stage, "joined"), priority=10, name="joined")

    registry.register("x:y", first, name="first")
    await registry.emit("x:y", {})
    stage.notes.append("--")
    await registry.emit("x:y", {})
    return stage.notes[:4]


@scenario
async def unregistering_during_emit(stage: Stage) -> Any:
    """A handler that removes itself, and one that removes the next."""
    registry = HookRegistry()

    async def selfish(event: str, data: Any) -> None:
        stage.notes.append("selfish")
        registry.unregister("selfish")
        registry.unregister("victim")

    registry.register("x:y", selfish, name="selfish")
    registry.register("x:y", note_as(stage, "victim"), name="victim")
    registry.register("x:y", note_as(stage, "bystander"), name="bystander")
    await registry.emit("x:y", {})
    stage.notes.append("--")
    await registry.emit("x:y", {})
    return stage.notes


@scenario
async def default_fields_replace(stage: Stage) -> Any:
    """Setting default fields replaces the earlier ones."""
    registry = HookRegistry()
    registry.set_default_fields(a=1, b=2)
    registry.set_default_fields(c=3)
    registry.register("x:y", lambda event, data: stage.notes.append(data))
    await registry.emit("x:y", {"d": 4})
    return stage.notes


@scenario
async def no_wildcard(stage: Stage) -> Any:
    """A handler for `*`."""
    registry = HookRegistry()
    registry.register("*", note_as(stage, "star"), name="star")
    await registry.emit("x:y", {})
    return stage.notes
