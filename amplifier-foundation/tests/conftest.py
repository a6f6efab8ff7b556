"""What tests of several parts start from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return an empty home."""
    home = Home(tmp_path / "home")
    home.path.mkdir()
    return home


PUBLISHED = {"schema": {"name": "amplifier.log", "ver": "1.0.0"}, "lvl": "INFO"}


def _write_published_session(folder: Path) -> Path:
    """Write three turns as the published program leaves them: no numbers, no chain, times in the messages' metadata."""
    folder.mkdir(parents=True)
    records: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for turn in range(1, 4):
        names = [
            *(["session:start"] if turn == 1 else ["session:resume"]),
            *("prompt:submit", "provider:request", "provider:response", "prompt:complete", "orchestrator:complete"),
            *("prompt:complete", "cleanup:render_begin", "session:end", "cleanup:finally_end"),
        ]
        for step, name in enumerate(names):
            data = (
                {"prompt": f"prompt {turn}"}
                if name == "prompt:submit"
                else {"timestamp": f"2026-01-0{turn}T00:00:{step:02}.500000+00:00"}
            )
            records.append(
                {
                    "ts": f"2026-01-0{turn}T00:00:{step:02}.500+00:00",
                    **PUBLISHED,
                    "event": name,
                    "session_id": "pub",
                    "data": data,
                }
            )
        stamps = [{"timestamp": f"2026-01-0{turn}T00:00:{second}+00:00"} for second in ("01.600", "03.700")]
        messages.append({"role": "user", "content": f"prompt {turn}", "metadata": stamps[0]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "x"}], "metadata": stamps[1]})
    for name, lines in (("events.jsonl", records), ("transcript.jsonl", messages)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "metadata.json").write_text(json.dumps({"session_id": "pub", "bundle": "bundle:x"}), encoding="utf-8")
    return folder


@pytest.fixture
def published_session() -> Callable[[Path], Path]:
    """Return a function that writes a session of the published program into a new folder."""
    return _write_published_session
