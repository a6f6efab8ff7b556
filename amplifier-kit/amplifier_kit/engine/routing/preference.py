"""One provider and model to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ProviderPreference", "preference_of"]


@dataclass
class ProviderPreference:
    """One provider and model to try, with settings for the provider; the model may be a pattern like `gpt-*-mini`."""

    provider: str
    model: str
    config: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a mapping, without an empty config."""
        fields: dict[str, Any] = {"provider": self.provider, "model": self.model}
        return {**fields, "config": dict(self.config)} if self.config else fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProviderPreference:
        """Read the mapping that `to_dict` returns; raises ValueError without a provider or a model."""
        for key in ("provider", "model"):
            if key not in data:
                raise ValueError(f"ProviderPreference requires '{key}' key")
        return cls(str(data["provider"]), str(data["model"]), dict(data.get("config") or {}))


def preference_of(entry: Any) -> ProviderPreference | None:
    """Return what a resolver answered as a preference, whether it is a mapping or has attributes; None for others.

    Without a model, which means the default of the provider, that of the preference is empty.
    """

    def given(key: str) -> Any:
        return entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)

    provider, model, config = given("provider"), given("model"), given("config")
    if not isinstance(provider, str) or not isinstance(model, str | None):
        return None
    return ProviderPreference(provider, model or "", dict(config) if isinstance(config, Mapping) else {})
