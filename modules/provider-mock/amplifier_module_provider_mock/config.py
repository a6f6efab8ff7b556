"""The config keys of the provider."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from amplifier_kit.config import Config, PathText, expects

_Responses = Annotated[
    list[Any] | tuple[Any, ...] | str, expects("a list of texts, or of mappings with `text` and `thinking`")
]


def _number(value: Any) -> Any:
    """Return the number that a text holds, as `${NAME}` may; anything else unchanged."""
    return int(value) if isinstance(value, str) and value.strip().lstrip("-").isdecimal() else value


class MockConfig(Config):
    """The config keys of the provider."""

    #: Keys of apps and of the published provider that have no meaning here.
    tolerated_keys: ClassVar[frozenset[str]] = frozenset(
        {"id", "instance_id", "debug", "max_retries", "max_tokens", "warmup_retries", "api_key", "base_url"}
    )

    responses: _Responses = Field((), description="Replies, given in a circle; three sentences by default.")
    scenario: PathText | None = Field(None, description="A scenario file, relative to the bundle or to `working_dir`.")
    use_streaming: bool = Field(True, description="Emit `llm:stream_*` events.")
    default_model: str = Field("mock-model", description="Name of the model.")
    context_window: int = Field(200_000, description="Tokens of the model's context window.")
    max_output_tokens: int = Field(8_192, description="Tokens of the model's longest answer.")
    priority: Annotated[int, BeforeValidator(_number)] = Field(
        100, description="The provider with the lowest priority is used by default; 1000 with `record_provider`."
    )
    raw: bool = Field(False, description="Put requests and responses into `llm:request` and `llm:response`.")
    raw_debug: bool = Field(False, description="The same as `raw`.")
    record: PathText | None = Field(None, description="A file to record the run of another provider in.")
    record_provider: str | None = Field(None, description="The provider to record; the first other one by default.")
    working_dir: PathText | None = Field(None, description="Folder of relative paths; null for the session's.")

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default: null, empty text, an empty list and a limit of 0 do."""
        is_limit = key in ("context_window", "max_output_tokens")
        return value is None or value in ("", []) or (is_limit and value == 0)

    @property
    def chosen_priority(self) -> int:
        """The priority; a provider that only records another one lets that one answer."""
        is_given = "priority" in self.model_fields_set
        return self.priority if is_given or not self.record_provider else 1000
