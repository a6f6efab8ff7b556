"""Mount one provider on its own and send it a request; no session is kept, no log is written."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.providers.choice import Choice
    from amplifier_core.models import ModelInfo
    from amplifier_foundation.plan.prepared import Prepared

#: A loop and a memory, which every session must have; they are not used.
PROVIDER_ALONE: Final = {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}}
_QUESTION: Final = "Say yes."
#: Models that think use some of these before they say anything.
_MOST_TOKENS: Final = 256
#: Seconds for a list of models.
_LIST_TIMEOUT: Final = 15.0
#: Config of the program's providers for a single attempt.
_AT_ONCE: Final = {"max_retries": 0, "warmup_retries": 0}


class Answer(NamedTuple):
    """The answer of a provider to a small request, with its cost."""

    text: str
    model: str | None
    duration_ms: int
    input_tokens: int | None
    output_tokens: int | None
    #: None when the provider does not know it.
    cost_usd: str | None


class NotReadyError(Exception):
    """The provider could not be mounted until something is set; the message says what."""


@asynccontextmanager
async def provider_brought_up(app: App, name: str | None) -> AsyncIterator[tuple[Choice, Any]]:
    """Yield the provider of that name, or the one that a run would use, mounted and ready, and why it is that one.

    The user's keys are put into the environment of this process, where modules look for them. Raises NotReadyError,
    UntrustedError, ModulesMissingError, ProviderChoiceError and what composing raises.
    """
    from amplifier_app_cli.providers.settings import environ_with_keys
    from amplifier_core import AmplifierSession
    from amplifier_core.events import MODULE_LOAD_FAILED
    from amplifier_foundation.plan.import_path import hold
    from amplifier_foundation.sessions.plan import ModulesMissingError
    from amplifier_foundation.settings.plan import expand_plan
    from amplifier_foundation.sources.module_resolver import PreparedModules

    environ, warnings = environ_with_keys(app)
    app.warn(warnings)
    os.environ.update({key: value for key, value in environ.items() if key not in os.environ})
    choice, prepared = await _prepared(app, name, environ)
    session = AmplifierSession(expand_plan(prepared.composed.plan, environ).value)
    failures: list[str] = []
    coordinator = session.coordinator
    coordinator.hooks.register(MODULE_LOAD_FAILED, lambda _, data: failures.append(str(data["error"])), name="trial")
    coordinator.register_capability("session.working_dir", str(app.project))
    release = hold(prepared.modules.values(), prepared.project)
    try:
        await coordinator.mount("module-source-resolver", PreparedModules(prepared.modules))
        with warnings_held() as warned:
            await session.initialize()
            if failures and (reasons := _own_words(warned, choice.module)):
                warned.clear()
                raise NotReadyError("; ".join(reasons))
        if failures:
            raise ModulesMissingError([f"{choice.module}: {failure}" for failure in failures])
        yield choice, next(iter(coordinator.get("providers").values()))
    finally:
        await session.cleanup()
        release()


async def listed_models(module: str, config: dict[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Return the ids of the models that a provider lists with a config and environment that are not stored yet.

    Raises whatever the module raises, and TimeoutError when the service does not answer.
    """
    import asyncio

    from amplifier_core import AmplifierSession

    os.environ.update({name: value for name, value in environ.items() if not os.environ.get(name)})
    session = AmplifierSession(
        {"session": PROVIDER_ALONE, "providers": [{"module": module, "config": config | _AT_ONCE}]}
    )
    try:
        with warnings_held() as warned:
            await session.initialize()
            providers = session.coordinator.get("providers")
            if not providers:
                reasons = _own_words(warned, module) or [str(one[2]) for one in session.coordinator.module_failures]
                warned.clear()
                raise NotReadyError("; ".join(reasons))
        models = await asyncio.wait_for(models_of(next(iter(providers.values()))), _LIST_TIMEOUT)
        return [model.id for model in models]
    finally:
        await session.cleanup()


class _Holder(logging.Handler):
    """Keep records instead of showing them."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def warnings_held() -> Iterator[list[logging.LogRecord]]:
    """Yield the list that warnings go to meanwhile; those that are left in it are shown afterwards."""
    root = logging.getLogger()
    shown, holder = root.handlers[:], _Holder(logging.WARNING)
    root.handlers[:] = [holder]
    try:
        yield holder.records
    finally:
        root.handlers[:] = shown
        for record in holder.records:
            root.handle(record)


def _own_words(warned: list[logging.LogRecord], module: str) -> list[str]:
    """Return the distinct warnings of a module itself."""
    package = f"amplifier_module_{module.replace('-', '_')}"
    own = (record for record in warned if record.name.partition(".")[0] == package)
    return list(dict.fromkeys(record.getMessage() for record in own))


async def _prepared(app: App, name: str | None, environ: dict[str, str]) -> tuple[Choice, Prepared]:
    """Choose the provider, and get its module alone, if it did not come with the program."""
    from dataclasses import replace

    from amplifier_app_cli.providers.choice import apply, choose, find_entry, stands_in
    from amplifier_app_cli.providers.known import known_provider
    from amplifier_app_cli.providers.settings import options_of
    from amplifier_foundation.plan.prepare import activate, compose
    from amplifier_foundation.trust.check import UntrustedError

    options = options_of(app, environ, offline=False)
    composition = await compose(options)
    if composition.refusals:
        raise UntrustedError(composition.refusals, app.project)
    composed = composition.composed
    stand_in = stands_in(composition.layers)
    choice = choose(composed.plan, composition.settings, environ, explicit=name, stand_in=stand_in)
    entry = find_entry(choice.provider, apply(choice, composed.plan)["providers"])
    if known_provider(choice.module) is not None and not choice.is_mock:
        # Report a failure at once, not after minutes of retries.
        entry = {**(entry or {}), "config": {**(entry or {}).get("config", {}), **_AT_ONCE}}
    needed = tuple(use for use in composed.modules if use.section == "providers" and use.module == choice.module)
    plan = {"session": dict(PROVIDER_ALONE), "providers": [entry]}
    return choice, await activate(replace(composed, plan=plan, modules=needed), options)


async def ask(provider: Any) -> Answer:
    """Send one tiny request and return the answer; raises LLMError."""
    from amplifier_core import ChatRequest
    from amplifier_core.message_models import Message
    from amplifier_kit.awaitable import maybe_await

    request = ChatRequest(
        messages=[Message(role="user", content=_QUESTION)],
        max_output_tokens=_MOST_TOKENS,
        metadata={"stream": False},
    )
    started = time.monotonic()
    response = await maybe_await(provider.complete(request))
    usage = response.usage
    return Answer(
        text="".join(getattr(block, "text", "") for block in response.content).strip(),
        model=(response.metadata or {}).get("model") or await _default_model(provider),
        duration_ms=round((time.monotonic() - started) * 1000),
        input_tokens=usage.input_tokens if usage is not None else None,
        output_tokens=usage.output_tokens if usage is not None else None,
        cost_usd=str(usage.cost_usd) if usage is not None and usage.cost_usd is not None else None,
    )


async def models_of(provider: Any) -> list[ModelInfo]:
    """Return the models that a provider lists; raises LLMError."""
    from amplifier_kit.awaitable import maybe_await

    listed: list[ModelInfo] = await maybe_await(provider.list_models())
    return listed


async def _default_model(provider: Any) -> str | None:
    from amplifier_kit.awaitable import maybe_await

    model = (await maybe_await(provider.get_info())).defaults.get("model")
    return str(model) if model else None
