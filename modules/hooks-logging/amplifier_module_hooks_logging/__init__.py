"""Write every event of a session to its log.

`mount()` only keeps the config: the other modules are not all there yet. `on_session_ready()` registers one handler for
every event, so that nothing depends on who announced which name, or when.
"""

from __future__ import annotations

from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_hooks_logging._config import LogConfig
from amplifier_module_hooks_logging._recorder import Recorder

__amplifier_module_type__ = "hook"
CONFIG: Final = LogConfig
__all__ = ["CONFIG", "mount", "on_session_ready"]

#: The config of a mount that is not ready yet, and the recorder of one that is; both belong to one coordinator.
SETUP = "hooks_logging._setup"
RECORDER = "hooks_logging._recorder"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Keep the config for `on_session_ready()`; raises ConfigError that names every wrong key."""
    read_config(LogConfig, config, module="hooks-logging")
    coordinator.register_capability(SETUP, dict(config or {}))


async def on_session_ready(coordinator: Any) -> None:
    """Start recording; mounted several times in one session, the last config counts.

    Raises SessionLogBusy when another process writes this session's log.
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
