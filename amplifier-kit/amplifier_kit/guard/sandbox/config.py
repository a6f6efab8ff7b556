"""The config key `sandbox` of sessions and of modules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from amplifier_kit.config import Config, ConfigError, Texts, check_config, expects

__all__ = ["SandboxConfig"]

_KEYS: Final = "mode, network, writable, readable, environment"
#: YAML reads a bare `off` as false and `on` as true.
_WORDS: Final = {False: "off", True: "auto"}


def _not_root(paths: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in path or os.path.normpath(path) in ("/", "//") for path in paths):
        raise ValueError("a path is the root folder, or has a NUL character in it")
    return paths


_Paths = Annotated[Texts, AfterValidator(_not_root), expects("a list of paths, none of them the root folder")]
_Mode = Annotated[
    Literal["required", "auto", "off"],
    BeforeValidator(lambda value: _WORDS[value] if isinstance(value, bool) else value),
]


class SandboxConfig(Config):
    """Whether commands run in a sandbox, and what it allows. A mode alone is short for `{mode: ...}`."""

    model_config = ConfigDict(json_schema_extra={"expected": f"one of required, auto, off, or a mapping with {_KEYS}"})

    mode: _Mode = Field("auto", description="`required`: never without it; `auto`: where it works; `off`: never.")
    network: bool = Field(False, description="Whether commands can reach the host's network.")
    writable: _Paths = Field((), description="Writable folders besides the project; relative to it.")
    readable: _Paths = Field((), description="Readable folders and files besides the system and the project.")
    environment: Texts = Field(
        (), description="Variables to pass although they are named like secrets or refer to the host."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_mode(cls, data: Any) -> Any:
        if isinstance(data, bool | str):
            return {"mode": data}
        if isinstance(data, Mapping) and (unknown := sorted(map(str, data.keys() - cls.model_fields.keys()))):
            # An error even where unknown keys are warnings: a misspelt key would change what is allowed.
            raise ValueError(f"unknown keys {', '.join(unknown)}")
        return data

    @classmethod
    def from_config(cls, value: Any, base: SandboxConfig | None = None) -> SandboxConfig:
        """Read a mode or a mapping over the values of `base`; raises ConfigError, a ValueError."""
        base = base or cls.model_construct()
        if value is None:
            return base
        if not isinstance(value, cls):
            if problems := check_config(_SandboxKey, {"sandbox": value}):
                raise ConfigError("sandbox", problems)
            value = cls.model_validate(value)
        return base.model_copy(update={key: getattr(value, key) for key in value.model_fields_set})

    @classmethod
    def layered(cls, session: Any, module: Any) -> SandboxConfig:
        """Return the settings of a module: its config over the session's; raises ConfigError.

        Where the session requires the sandbox, a module can only make it stricter.
        """
        outer = cls.from_config(session)
        inner = cls.from_config(module, outer)
        if outer.mode != "required":
            return inner
        return outer.model_copy(update={"network": outer.network and inner.network})

    def shut(self) -> Self:
        """Return the strictest form of these settings, for an untrusted source."""
        mode: Literal["required", "auto"] = "required" if self.mode == "required" else "auto"
        # Every field is named, so that `from_config` keeps it over any base.
        return type(self)(mode=mode, network=False, writable=(), readable=(), environment=())

    def is_looser(self, session: Any, module: Any) -> bool:
        """Return whether the module's config asked for more than these layered settings allow."""
        return self != SandboxConfig.from_config(module, SandboxConfig.from_config(session))


class _SandboxKey(Config):
    """A config with the key, so that messages name it."""

    sandbox: SandboxConfig
