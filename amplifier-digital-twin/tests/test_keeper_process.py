"""Starting and ending keepers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from amplifier_digital_twin import keeper_process
from amplifier_digital_twin.early import Child, start_keeper
from amplifier_digital_twin.holder import MARK_VARIABLE, Holder
from amplifier_digital_twin.keeper import shorten
from amplifier_digital_twin.keeper_process import Orders, end_keeper, keeper_environment, last_words
from amplifier_digital_twin.profile.model import Profile
from amplifier_digital_twin.state import Place


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
    if behaviour != "ends":
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


def test_keeper_without_orders_ends() -> None:
    """One that was started too early, and is not needed, goes when the program does; it knew no secret."""
    environ = {**os.environ, "SOME_SECRET": "value"}
    keeper = start_keeper(environ)
    try:
        known = Path(f"/proc/{keeper.process.pid}/environ").read_bytes()
        keeper.connection.close()
        assert keeper.process.wait(60) == 0
        assert b"SOME_SECRET" not in known
    finally:
        os.close(keeper.words)


def test_words_of_a_keeper_that_never_got_its_orders(tmp_path: Path) -> None:
    """What a keeper says before it knows its folder is not lost, and an order to one that has ended is no fault."""
    place = Place(tmp_path)
    keeper = start_keeper({**os.environ, "PYTHONPATH": str(tmp_path / "absent"), "PYTHONHOME": "/none"})
    try:
        keeper.process.kill()
        keeper.process.wait(60)
        os.write(keeper.words, b"so it ends")
        keeper_process.send_orders(keeper, Orders(place, {}, Profile("x", tmp_path)))
        place.keeper_log.write_bytes(b", here as well\n")
        assert last_words(place, keeper).endswith("so it ends, here as well")
    finally:
        keeper.connection.close()
        os.close(keeper.words)


def test_log_of_a_keeper_is_kept_short(tmp_path: Path) -> None:
    """Its end stays, and what is written next comes behind that."""
    log = tmp_path / "keeper.log"
    with open(log, "ab") as file:
        file.write(b"old\n" * 400_000 + b"last\n")
        file.flush()
        shorten(log)
        file.write(b"next\n")
    content = log.read_bytes()
    assert len(content) < 400_000
    assert content.startswith(b"... what came before is cut ...\n")
    assert content.endswith(b"last\nnext\n")
    shorten(log)
    assert log.read_bytes() == content


def test_child_that_is_waited_for() -> None:
    """Its end is waited for as long as asked; how it ended is remembered."""
    child = Child(os.posix_spawn("/bin/sleep", ["sleep", "600"], {}))
    with pytest.raises(TimeoutError):
        child.wait(0.01)
    child.kill()
    assert (child.wait(), child.returncode) == (-signal.SIGKILL, -signal.SIGKILL)
    child.kill()
    assert child.wait(0) == -signal.SIGKILL


def test_keeper_holds_nothing_of_the_callers(tmp_path: Path) -> None:
    """A file that the caller of the program has open for it is closed, and the current folder is free again."""
    with open(tmp_path / "held", "wb") as held:
        os.set_inheritable(held.fileno(), True)
        keeper = start_keeper(os.environ)
    place = Place(tmp_path)
    folder = Path(f"/proc/{keeper.process.pid}")
    try:
        keeper_process.send_orders(keeper, Orders(place, {}, Profile("x", tmp_path)))
        assert keeper.process.wait(60) != 0  # there is nothing to keep
        assert "request.json" in last_words(place, keeper)
        assert not folder.exists()
    finally:
        keeper.connection.close()
        os.close(keeper.words)
