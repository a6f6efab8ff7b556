"""A scripted model: canned replies, or a whole run from a scenario file; and a recorder that writes such a file.

Deterministic, offline, and on the same path as every real provider: the events, the streaming contract, the usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_kit.stream import STREAM_EVENTS

from amplifier_module_provider_mock.provider import MockProvider
from amplifier_module_provider_mock.recorder import RecordingProvider
from amplifier_module_provider_mock.replies import CannedReplies
from amplifier_module_provider_mock.scenario import Scenario, ScenarioError, load_scenario

__all__ = ["MockProvider", "RecordingProvider", "Scenario", "ScenarioError", "load_scenario", "mount"]

__amplifier_module_type__ = "provider"

#: Where the recording config waits for on_session_ready(), when every provider is mounted.
_RECORDING = "provider-mock.recording"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the provider `mock`; raise ScenarioError for a scenario file that cannot be used."""
    config = config or {}
    replies: Any = CannedReplies(config.get("responses"))
    if config.get("scenario"):
        replies = load_scenario(_path(coordinator, config["scenario"])).replies(_agent_name(coordinator))
    await coordinator.mount("providers", MockProvider(config, replies, coordinator), name="mock")
    coordinator.register_contributor("observability.events", "provider-mock", lambda: list(STREAM_EVENTS))
    if config.get("record"):
        coordinator.register_capability(_RECORDING, dict(config))


async def on_session_ready(coordinator: Any) -> None:
    """Put a recorder around the provider that `record_provider` names, if recording was asked for."""
    config = coordinator.get_capability(_RECORDING)
    if not config:
        return
    providers = coordinator.get("providers")
    name = config.get("record_provider") or next((known for known in providers if known != "mock"), "mock")
    if name not in providers:
        raise ValueError(f"record_provider: no provider {name!r} is mounted; there are {sorted(providers)}")
    recorder = RecordingProvider(providers[name], _path(coordinator, config["record"]))
    await coordinator.mount("providers", recorder, name=name)


def _path(coordinator: Any, given: str) -> Path:
    """Return a path of the config: absolute as it is, else against the session's working directory."""
    base = coordinator.get_capability("session.working_dir") or "."
    return Path(base) / Path(given).expanduser()


def _agent_name(coordinator: Any) -> str | None:
    """Return the agent this session runs as, if it is a child of one."""
    plan = coordinator.config if isinstance(coordinator.config, dict) else {}
    metadata = (plan.get("session") or {}).get("metadata") or {}
    return metadata.get("agent_name") if isinstance(metadata, dict) else None
