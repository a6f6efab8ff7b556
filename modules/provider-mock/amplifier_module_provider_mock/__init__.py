"""A scripted model: canned replies, or a whole run from a scenario file; and a recorder that writes such a file.

Deterministic and offline, with the same events, stream and usage as a real provider.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from amplifier_kit.config import read_config
from amplifier_kit.engine.stream_events import STREAM_EVENTS
from amplifier_module_provider_mock.config import MockConfig
from amplifier_module_provider_mock.provider import MockProvider
from amplifier_module_provider_mock.replies import CannedReplies, Replies

__all__ = ["CONFIG", "MockProvider", "mount", "on_session_ready"]

__amplifier_module_type__ = "provider"

CONFIG = MockConfig

logger = logging.getLogger(__name__)

#: The capability that keeps the recording's config until on_session_ready(), when all providers are mounted.
_RECORDING = "provider-mock._recording"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the provider `mock`; raises ValueError for an invalid config, response or scenario file."""
    settings = read_config(MockConfig, config, module="provider-mock")
    provider = MockProvider(dict(config or {}), _replies(coordinator, settings), coordinator, settings=settings)
    await coordinator.mount("providers", provider, name="mock")
    coordinator.register_contributor("observability.events", "provider-mock", lambda: list(STREAM_EVENTS))
    coordinator.register_contributor("session.cost", "provider-mock", provider.cost)
    if settings.record:
        coordinator.register_capability(_RECORDING, settings)


async def on_session_ready(coordinator: Any) -> None:
    """Wrap the provider that `record_provider` names in a recorder, if the config has `record`.

    Raises ValueError when that provider is not mounted.
    """
    settings = coordinator.get_capability(_RECORDING)
    if settings is None:
        return
    coordinator.register_capability(_RECORDING, None)
    providers = coordinator.get("providers")
    name = settings.record_provider or next((known for known in providers if known != "mock"), "mock")
    if name not in providers:
        raise ValueError(f"record_provider: no provider {name!r} is mounted; there are {sorted(providers)}")
    await _record(coordinator, name, _path(coordinator, settings, settings.record))


async def _record(coordinator: Any, name: str, path: Path) -> None:
    from amplifier_kit.guard.control_files import refuse_control_file
    from amplifier_kit.guard.files.configured_file import project_of
    from amplifier_module_provider_mock.recorder import Recording, RecordingProvider

    agent = _agent_name(coordinator)
    if coordinator.parent_id and agent is None:
        logger.warning("provider-mock: %s is a child without an agent name and is not recorded", coordinator.session_id)
        return
    scrub = coordinator.get_capability("redaction.scrub")
    recording = Recording(
        path,
        agent if coordinator.parent_id else None,
        scrub,
        project_of(coordinator),
        lambda path: refuse_control_file(path, coordinator),
    )
    if agent is not None and coordinator.parent_id and recording.has(agent):
        logger.warning("provider-mock: a run of agent %r is recorded already; this one is not", agent)
        return
    await coordinator.mount("providers", RecordingProvider(coordinator.get("providers", name), recording), name=name)


def _replies(coordinator: Any, settings: MockConfig) -> Replies:
    if settings.scenario is None:
        return CannedReplies(settings.responses)
    from amplifier_kit.guard.files.configured_file import project_of
    from amplifier_module_provider_mock.scenario import Script, load_scenario

    scenario = load_scenario(_path(coordinator, settings, settings.scenario), project_of(coordinator))
    agent = _agent_name(coordinator)
    if agent is not None and not coordinator.parent_id and scenario.entries_for(agent) is None:
        agent = None  # a root session with a name, not a child
    return Script(scenario, agent)


def _path(coordinator: Any, settings: MockConfig, given: str) -> Path:
    """Return a path of the config, relative to the working directory."""
    base = settings.working_dir or coordinator.get_capability("session.working_dir") or "."
    return Path(base) / Path(given).expanduser()


def _agent_name(coordinator: Any) -> str | None:
    """Return the agent that this child session runs as, if any."""
    session = coordinator.config.get("session") if isinstance(coordinator.config, dict) else None
    metadata = session.get("metadata") if isinstance(session, dict) else None
    name = metadata.get("agent_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else None
