"""The provider: its model, its calls, and the lean prompts of small models."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Final

from amplifier_core import ChatRequest, ConfigField, ModelInfo, capabilities
from amplifier_core.llm_errors import ConfigurationError, ContextLengthError, InvalidToolCallError, NotFoundError
from amplifier_kit.awaitable import await_soon
from amplifier_kit.engine.usage import Counts
from amplifier_kit.home import amplifier_home
from amplifier_kit.llm.errors import OPENAI, ServiceError, Wire
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.provider import LLMProvider
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer, FinishReason, LLMResponse
from amplifier_kit.llm.structured_output import Mode
from amplifier_kit.local_model import CODER, INSTALL_COMMAND, SMALL_MODEL, find_local_model, models_folder
from amplifier_module_provider_local.config import LocalConfig
from amplifier_module_provider_local.gguf import ModelFile, NotGGUFError, read_model_file
from amplifier_module_provider_local.grammar import choice_of, grammar_of, offered, readable_schema
from amplifier_module_provider_local.host import Lease, Load
from amplifier_module_provider_local.models import Profile, lean_tools, profile_of
from amplifier_module_provider_local.prompt import LONGEST_LEAN_ADDITION, LONGEST_LEAN_SYSTEM, messages_of, repeats_call
from amplifier_module_provider_local.response import CallReader, chunks_of

#: Progress before the answer begins: `phase` is loading, loaded or reading; `message` is for people.
PROGRESS_EVENT: Final = "provider:progress"
#: Emitted when a small model gets fewer tools or shorter instructions than the session has.
LEAN_EVENT: Final = "provider:lean"
EVENTS: Final = (PROGRESS_EVENT, LEAN_EVENT)

#: For a model that made the same call twice: with the likeliest words it would make it for ever.
_UNSTUCK_TEMPERATURE: Final = 0.7
_LLAMA: Final = Wire("llama", OPENAI.error_codes)
_PROGRESS_INTERVAL: Final = 0.5


class LocalProvider(LLMProvider):
    """Answer with a model that runs on this machine, in a child process."""

    id = "local"
    display_name = "A model inside the program"
    wire = _LLAMA
    is_free = True
    structured: ClassVar[Mode] = "native"
    has_json_mode = True
    config_model = LocalConfig
    settings: LocalConfig

    def __init__(self, config: Mapping[str, Any], coordinator: Any = None) -> None:
        """Read the config; nothing is loaded. Raises ConfigError, which names each wrong value."""
        super().__init__(config, coordinator)
        settings, name = self.settings, self.settings.chosen_model
        folder = settings.working_dir or _capability(coordinator, "session.working_dir") or Path.cwd()
        is_file = name.endswith(".gguf")
        path = settings.model_path or (name if is_file else None)
        #: None for a model that `amplifier provider install local` brings.
        self.model_path = Path(folder) / Path(path).expanduser() if path else None
        if self.model_path is not None and (is_file or not (settings.is_given("default_model") or settings.model)):
            self.model = self.model_path.stem
        home = _capability(coordinator, "amplifier.home")
        self._home = Path(home) if home else amplifier_home()
        is_named = settings.is_given("default_model") or settings.model
        if not is_named and self.model_path is None and (models_folder(self._home) / CODER.file).is_file():
            self.model = CODER.name
        self._lean_was_reported = False

    # -- the engine --

    async def connect(self) -> Lease:
        """Return a lease on child processes; none is started before the first request."""
        return Lease()

    async def disconnect(self, client: Lease) -> None:
        """End the child processes without other users."""
        await client.release()

    def asking(self, client: Any, model: str) -> AbstractAsyncContextManager[Any]:
        """Return a context manager with an HTTP client for one answer; the model is loaded first."""
        load, file = self._load(model)

        async def on_load(phase: str, seconds: float) -> None:
            size = f"{file.size / 1e6:,.0f} MB"
            words = f"loading {model} ({size})" if phase == "loading" else f"{model} is loaded ({seconds:.1f} s)"
            took = {"duration_ms": round(seconds * 1000)} if phase == "loaded" else {}
            await self._emit_progress(model, phase, words, size_bytes=file.size, **took)
            if phase == "loading":
                self._show(words)

        held: AbstractAsyncContextManager[Any] = client.host(load).asking(on_load)
        return held

    def _load(self, model: str) -> tuple[Load, ModelFile]:
        """Return what to load; raises ConfigurationError for a missing engine or model, or an unreadable file."""
        found = find_local_model(self._home)
        if found.engine is None:
            raise ConfigurationError(
                f"{self.name}: the engine of local models is not installed: run `{INSTALL_COMMAND}`"
            )
        path = self._path_of(model) or (found.coder if model == CODER.name else found.weights)
        if path is None:
            command = CODER.install_command if model == CODER.name else INSTALL_COMMAND
            raise ConfigurationError(
                f"{self.name}: the model {model} is not installed: run `{command}`, or set `model_path` to a GGUF file"
            )
        try:
            file = read_model_file(path)
        except NotGGUFError as error:
            raise ConfigurationError(f"{self.name}: {error}: set `model_path` to a GGUF file") from error
        except OSError as error:
            raise ConfigurationError(
                f"{self.name}: {path} cannot be read ({error.strerror}): set `model_path` to a GGUF file"
            ) from error
        settings = self.settings
        load = Load(
            engine=found.engine,
            model=path,
            name=model,
            context=self._context(file, model),
            threads=settings.threads,
            batch=settings.batch_size,
            cache_mib=settings.prompt_cache_mib,
            gpu_layers=settings.gpu_layers,
            chat_template=settings.chat_template,
            keep_alive=settings.unload_after,
            timeout=settings.timeout,
            idle=settings.stream_idle_timeout,
        )
        return load, file

    def _path_of(self, model: str) -> Path | None:
        """Return the file of a model, None for those that can be installed; raises NotFoundError for others."""
        if model.endswith(".gguf"):
            return Path(model).expanduser()
        if model == self.model and (self.model_path is not None or model not in (SMALL_MODEL, CODER.name)):
            return self.model_path
        if model in (SMALL_MODEL, CODER.name):
            return None
        raise NotFoundError(
            f"{self.name}: unknown model {model!r}: only {self.model} is configured; set `model_path` for another",
            provider=self.name,
            model=model,
        )

    def _profile(self, model: str) -> Profile:
        is_file = model.endswith(".gguf") or (model == self.model and self.model_path is not None)
        return profile_of(model, is_file=is_file)

    def _context(self, file: ModelFile, model: str) -> int:
        usual = self._profile(model).context
        return self.settings.context_window or min(file.context_length or usual, usual)

    # -- one call --

    async def complete(self, request: ChatRequest, **options: Any) -> LLMResponse:
        """Return the model's answer, or raise an LLMError; emits `provider:lean` for a small model."""
        await self._report_lean(request)
        return await super().complete(request, **options)

    def payload(self, call: LLMCall) -> dict[str, Any]:
        """Return the body of the request."""
        request, settings, profile = call.request, self.settings, self._profile(call.model)
        tools = self._tools(request, call.model)
        temperature = profile.tool_temperature if tools else profile.temperature
        if "temperature" in settings.model_fields_set:
            temperature = settings.temperature
        elif tools and not temperature and repeats_call(call.conversation):
            temperature = _UNSTUCK_TEMPERATURE
        wishes = {
            "temperature": temperature if request.temperature is None else request.temperature,
            "top_p": profile.top_p if request.top_p is None else request.top_p,
            "stop": request.stop or None,
            "seed": settings.seed,
            "user": call.session_id,
            **self._form(call, tools),
        }
        return {
            "model": call.model,
            "messages": messages_of(call.conversation, tools, lean=self._is_lean(call.model), style=profile.style),
            "max_tokens": request.max_output_tokens
            or settings.max_tokens
            or self.model_info(call.model).max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            **{key: value for key, value in wishes.items() if value is not None},
        }

    def _form(self, call: LLMCall, tools: list[Any]) -> dict[str, Any]:
        """Return the options that constrain the answer to tools or schema; plain text needs no grammar."""
        shape = call.shape.json_schema if call.shape is not None and call.shape.mode == "native" else None
        choice = choice_of(call.request)
        if tools and choice != "none":
            profile = self._profile(call.model)
            wanted = (call.request.metadata or {}).get("parallel_tool_calls") is not False
            parallel = wanted and profile.is_parallel
            return {"grammar": grammar_of(tools, choice, shape, parallel=parallel, style=profile.style)}
        if shape is None:
            return {}
        return {"response_format": {"type": "json_schema", "json_schema": {"schema": readable_schema(shape)}}}

    async def attempt(self, client: Any, payload: dict[str, Any], answer: Answer, call: LLMCall) -> None:
        """Stream one answer; the engine stops when the stream is closed early."""
        choice = choice_of(call.request)
        has_tools = "grammar" in payload
        reader = CallReader(answer, {tool.name for tool in offered(call.request)})
        reason: str | None = None
        async with (
            self.asking(client, call.model) as http,
            http.stream("POST", "/v1/chat/completions", json=payload) as response,
        ):
            answer.headers = dict(response.headers)
            reported_at = time.monotonic()
            try:
                async for chunk in chunks_of(response):
                    if "prompt_progress" in chunk and time.monotonic() - reported_at > _PROGRESS_INTERVAL:
                        reported_at = time.monotonic()
                        await self._emit_reading(call.model, chunk["prompt_progress"])
                    reason = await _take(chunk, answer, reader if has_tools else None) or reason
            except ServiceError as error:
                raise self._overflow(error, call) or error from error
        if reason is None:
            return  # incomplete, which `Answer.response` reports
        if has_tools and reason != "length":
            await reader.end()
        if has_tools and choice not in ("auto", "none") and not reader.calls and reason != "length":
            raise InvalidToolCallError(
                f"{self.name}: the model did not call a tool, though it had to", tool_name=choice.removeprefix("tool:")
            )
        await answer.finish(_finish(reason, reader.calls))

    def _overflow(self, error: ServiceError, call: LLMCall) -> ContextLengthError | None:
        if "exceed_context_size_error" not in str(error.body):
            return None
        _, file = self._load(call.model)
        most = f", at most {file.context_length}" if file.context_length else ""
        return ContextLengthError(
            f"{self.name}: the conversation is longer than the {self._context(file, call.model)} tokens that "
            f"{call.model} is loaded with: shorten it, or raise `context_window`{most}",
            provider=self.name,
            model=call.model,
            status_code=400,
        )

    # -- a small model --

    def _is_lean(self, model: str) -> bool:
        return self.settings.lean if self.settings.lean is not None else self._profile(model).is_lean

    def _tools(self, request: ChatRequest, model: str) -> list[Any]:
        """Return the tools to offer: in a lean prompt the short ones of the model, or those that it must call."""
        tools = offered(request)
        is_free = choice_of(request) in ("auto", "none")
        return lean_tools(self._profile(model), tools) if self._is_lean(model) and is_free else tools

    async def _report_lean(self, request: ChatRequest) -> None:
        model = request.model or self.model
        if self._lean_was_reported or not self._is_lean(model):
            return
        kept = [tool.name for tool in self._tools(request, model)]
        left_out = len(offered(request)) - len(kept)
        system = sum(len(str(message.content)) for message in request.messages if message.role == "system")
        if not left_out and system <= (LONGEST_LEAN_ADDITION if kept else LONGEST_LEAN_SYSTEM):
            return
        self._lean_was_reported = True
        words = (
            f"{model} is a small model: it answers {f'with {len(kept)} tools' if kept else 'without tools'} and with "
            "short instructions "
            "(`lean: false` in its config changes that)"
        )
        data = {"provider": self.name, "model": model, "tools_left_out": left_out, "message": words}
        await self.emit(LEAN_EVENT, data)
        self._show(words)

    # -- messages for people --

    async def _emit_progress(self, model: str, phase: str, message: str, **facts: Any) -> None:
        data = {"provider": self.name, "model": model, "phase": phase, "message": message, **facts}
        await self.emit(PROGRESS_EVENT, data)

    async def _emit_reading(self, model: str, progress: Mapping[str, Any]) -> None:
        done, total = int(progress.get("processed") or 0), int(progress.get("total") or 0)
        words = f"{model} is reading: {done:,} of {total:,} tokens"
        await self._emit_progress(model, "reading", words, tokens_read=done, tokens=total)

    def _show(self, message: str) -> None:
        display = getattr(self.coordinator, "display_system", None)
        if display is not None:
            shown = display.show_message(message, "info", f"provider:{self.name}")
            await_soon(shown, lambda error: logging.getLogger(__name__).warning("cannot show a message: %s", error))

    # -- models --

    def model_info(self, model: str) -> ModelInfo:
        """Describe a model; with default limits when its file cannot be read."""
        profile = self._profile(model)
        try:
            _, file = self._load(model)
        except (ConfigurationError, NotFoundError):
            context = self.settings.context_window or profile.context
        else:
            context = self._context(file, model)
        able = [capabilities.TOOLS, capabilities.STREAMING, capabilities.JSON_MODE]
        able += [capabilities.FAST] if model == SMALL_MODEL else []
        return ModelInfo(
            id=model,
            display_name=profile.title or Path(model).stem,
            context_window=context,
            max_output_tokens=min(profile.answer, context),
            capabilities=able,
            defaults={"request_overhead": profile.overhead} if profile.overhead and self._is_lean(model) else {},
        )

    async def fetch_models(self, client: Any) -> list[ModelInfo]:
        """Return the configured model, and those that are installed; nothing is loaded."""
        found = find_local_model(self._home)
        installed = [
            name for name, file in ((CODER.name, found.coder), (SMALL_MODEL, found.weights)) if file is not None
        ]
        models = dict.fromkeys([self.model] if self.model_path is not None else []) | dict.fromkeys(installed)
        return [self.model_info(model) for model in models]

    def config_fields(self) -> list[ConfigField]:
        """Return the fields that a setup wizard asks for."""
        return [
            ConfigField(
                id="model_path",
                display_name="Model file",
                prompt="A GGUF file (leave empty for the small built-in model)",
                required=False,
            )
        ]


def _capability(coordinator: Any, name: str) -> Any:
    return coordinator.get_capability(name) if coordinator is not None else None


async def _take(chunk: dict[str, Any], answer: Answer, reader: CallReader | None) -> str | None:
    """Feed the answer from one chunk; return the finish reason, if it has one."""
    usage = chunk.get("usage")
    if usage:
        counts = Counts(usage)
        cached = counts.part("prompt_tokens_details").get("cached_tokens")
        answer.tokens = Tokens(counts.need("prompt_tokens"), counts.need("completion_tokens"), cache_read=cached)
    if chunk.get("model"):
        answer.model = chunk["model"]
    choices = chunk.get("choices")
    if not choices:
        return None
    delta = choices[0].get("delta") or {}
    await answer.say("thinking", delta.get("reasoning_content") or "")
    text = delta.get("content") or ""
    if text and reader is not None:
        await reader.feed(text)
    else:
        await answer.say("text", text)
    reason: str | None = choices[0].get("finish_reason")
    return reason


def _finish(reason: str, calls: int) -> FinishReason:
    if reason == "length":
        return "length"
    return "tool_use" if calls else "stop"
