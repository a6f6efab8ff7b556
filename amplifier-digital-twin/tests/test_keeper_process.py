"""Starting and ending keepers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from amplifier_digital_twin import keeper_process
from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.keeper_process import end_keeper, keeper_environment
from amplifier_digital_twin.reaping import MARK_VARIABLE


def test_environment_is_what_is_needed_and_the_secrets_that_are_named() -> None:
    """Everything else that the user has in the environment stays with the user."""
    needed = {"PATH", "HOME", "LANG", "LC_ALL", "AMPLIFIER_HOME", "SSL_CERT_FILE", "HTTPS_PROXY", "no_proxy"}
    needed |= {"PIP_INDEX_URL", "UV_CACHE_DIR", "XDG_RUNTIME_DIR", "PYTHONPATH", "NAMED_KEY"}
    others = {"OTHER_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONSTARTUP", "LD_PRELOAD", "BASH_ENV", "MY_PATH", "PATHS"}
    kept = keeper_environment(dict.fromkeys(needed | others, "value"), ["NAMED_KEY", "ABSENT_KEY"], "dtu-1")
    assert kept.pop(MARK_VARIABLE) == "dtu-1"
    assert set(kept) == needed


@pytest.mark.parametrize("behaviour", ["ends", "ignores", "is stopped"])
def test_keeper_that_does_not_answer_is_ended(behaviour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a signal it can act upon, and by force when it does not."""
    monkeypatch.setattr(keeper_process, "_TERM_SECONDS", 0.3)
    ignore = "" if behaviour == "ends" else "import signal; signal.signal(signal.SIGTERM, lambda *_: None); "
    code = f"{ignore}import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        holder = Holder.of(process.pid)
        assert holder is not None
        if behaviour == "is stopped":
            os.kill(process.pid, signal.SIGSTOP)
        assert end_keeper(holder)
        assert process.wait(60) == -(signal.SIGTERM if behaviour == "ends" else signal.SIGKILL)


def test_process_that_is_not_the_keeper_gets_no_signal() -> None:
    """One that has the number by chance goes on."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            holder = Holder.of(process.pid)
            assert holder is not None
            assert end_keeper(holder._replace(ticks=1))
            assert process.poll() is None
        finally:
            process.kill()
