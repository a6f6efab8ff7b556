"""Write every event of a session to its log.

`mount()` only stores the config, because other modules may not be mounted yet. `on_session_ready()` registers one
observer for every event, so that nothing depends on which names modules announce, or when.
"""

from __future__ import annotations

from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_hooks_logging.config import LogConfig
from amplifier_module_hooks_logging.recorder import Recorder

__amplifier_module_type__ = "hook"
CONFIG: Final = LogConfig
__all__ = ["CONFIG", "mount", "on_session_ready"]

#: Capabilities of one coordinator: the config until the session is ready, and the recorder from then on.
SETUP = "hooks_logging._setup"
RECORDER = "hooks_logging._recorder"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Store the config for `on_session_ready()`; raises ConfigError that names every wrong key."""
    read_config(LogConfig, config, module="hooks-logging")
    coordinator.register_capability(SETUP, dict(config or {}))


async def on_session_ready(coordinator: Any) -> None:
    """Start recording; if the module is mounted several times, the last config counts.

    Raises SessionLogBusy if another process writes this session's log.
    """
    config = coordinator.get_capability(SETUP)
    if config is None:
        return
    coordinator.register_capability(SETUP, None)
    known = {key: value for key, value in config.items() if key in LogConfig.model_fields}  # mount() has warned
    earlier = coordinator.get_capability(RECORDER)
    if earlier is not None:
        earlier.stop()
    recorder = Recorder(coordinator, read_config(LogConfig, known, module="hooks-logging"))
    coordinator.register_capability(RECORDER, recorder)
    recorder.start()
