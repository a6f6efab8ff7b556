"""Several processes that change settings and keys at once."""

from __future__ import annotations

import subprocess
import sys

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.keys import KeyStore
from amplifier_foundation.settings.settings import Settings

WRITERS = 4
ROUNDS = 8

CODE = """
import sys
from pathlib import Path
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.edit import append_value, set_value
from amplifier_foundation.settings.keys import KeyStore

home, me = Home(Path(sys.argv[1])), sys.argv[2]
keys = KeyStore(home, {})
sys.stdin.readline()
for turn in range(int(sys.argv[3])):
    set_value(home.settings, ("bundle", "added", f"b{me}-{turn}"), f"uri-{me}-{turn}", keys)
    append_value(home.settings, "bundle.app", f"app-{me}-{turn}", keys)
    keys.set(f"KEY_{me}_{turn}", f"value-{me}-{turn}")
    set_value(home.settings, f"config.providers.provider-x{me}.config.api_key", f"secret-{me}-{turn}", keys)
"""


def test_two_writers_lose_nothing(home: Home) -> None:
    """Whatever the order, everything that any process wrote is there, and both files are whole."""
    home.path.mkdir(parents=True)
    home.settings.write_text("# mine\nbundle:\n  active: a  # best\n", encoding="utf-8")
    command = [sys.executable, "-c", CODE, str(home.path)]
    writers = [
        subprocess.Popen([*command, str(me), str(ROUNDS)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for me in range(WRITERS)
    ]
    for writer in writers:  # all are started before the first one writes
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * WRITERS
    settings, keys = Settings.load(home), KeyStore(home, {})
    done = [(me, turn) for me in range(WRITERS) for turn in range(ROUNDS)]
    assert settings.get("bundle.added") == {f"b{me}-{turn}": f"uri-{me}-{turn}" for me, turn in done}
    assert sorted(settings.get("bundle.app")) == sorted(f"app-{me}-{turn}" for me, turn in done)
    assert settings.get("bundle.active") == "a"
    text = home.settings.read_text(encoding="utf-8")
    assert text.startswith("# mine\nbundle:\n  active: a  # best\n")
    assert "secret-" not in text
    held = keys.load()
    assert {name: value for name, value in held.items() if name.startswith("KEY_")} == {
        f"KEY_{me}_{turn}": f"value-{me}-{turn}" for me, turn in done
    }
    expanded = settings.expanded(held)
    assert expanded.missing == []
    assert {entry["module"]: entry["config"]["api_key"] for entry in expanded.value["config"]["providers"]} == {
        f"provider-x{me}": f"secret-{me}-{ROUNDS - 1}" for me in range(WRITERS)
    }
