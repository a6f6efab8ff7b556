"""Take the pictures of the documentation: the real program in a real terminal, written as SVG.

    python docs/make_pictures.py [--folder docs/pictures]

Needs tmux, which runs the terminal. The model is scripted; everything else is what a person would see.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTH, HEIGHT = 100, 30
SOCKET = "amplifier-pictures"

FILES = {
    "notes.md": "# Notes\n\nThe mill has two barrels.\n",
    "bundle.md": """\
---
bundle: {name: engine, version: 1.0.0}
includes:
  - bundle: default
providers:
  - {module: provider-mock, config: {scenario: ./scenario.yaml}}
---
You keep the notes of the engine.
""",
    "scenario.yaml": """\
turns:
  - thinking: The notes are one line long. I read them, then answer.
    text: |
      The notes say that **the mill has two barrels**. There are three things to check:

      1. the barrels are the same length,
      2. the pins are in order,
      3. `notes.md` says who measured it.

      Shall I add who measured it?
    usage: {input_tokens: 1820, output_tokens: 64, cost_usd: "0.0041"}
  - text: I add it.
    tool_calls:
      - name: write_file
        arguments:
          file_path: notes.md
          content: "# Notes\\n\\nThe mill has two barrels.\\nMeasured by Ada on Friday.\\n"
    usage: {input_tokens: 1930, output_tokens: 41, cost_usd: "0.0043"}
  - text: Done. `notes.md` now says that Ada measured it.
    usage: {input_tokens: 2010, output_tokens: 22, cost_usd: "0.0042"}
""",
}


class Terminal:
    """A shell in a terminal that nobody sees but the camera."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._environment = environment
        self._folder = folder
        self._tmux("new-session", "-d", "-s", "p", "-x", str(WIDTH), "-y", str(HEIGHT), "bash --norc", cwd=folder)
        self.type("PS1='$ '; clear")

    def type(self, text: str) -> None:
        """Type a line."""
        self._tmux("send-keys", "-t", "p", "-l", text)
        self._tmux("send-keys", "-t", "p", "Enter")

    def wait_for(self, text: str, seconds: float = 30) -> None:
        """Wait until the screen shows a text; raise RuntimeError with what it shows when it does not come."""
        end = time.monotonic() + seconds
        while text not in (screen := self._tmux("capture-pane", "-p", "-t", "p")):
            if time.monotonic() > end:
                raise RuntimeError(f"{text!r} did not appear. The screen:\n{screen}")
            time.sleep(0.05)
        time.sleep(0.3)  # what belongs to it is drawn as well

    def picture(self, path: Path, title: str) -> None:
        """Write what the screen shows now."""
        from rich.console import Console
        from rich.text import Text

        screen = self._tmux("capture-pane", "-e", "-p", "-t", "p").rstrip()
        screen = screen.replace(
            str(self._folder), f"/home/ada/{self._folder.name}"
        )  # not where it happened to be taken
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(screen))
        # The same picture is the same file, and showing it asks nobody for a font.
        drawn = console.export_svg(title=title, unique_id=path.stem)
        path.write_text(re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL), encoding="utf-8")

    def close(self) -> None:
        """End the terminal and what runs in it."""
        self._tmux("kill-server")

    def _tmux(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-L", SOCKET, *arguments],
            cwd=cwd,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout


def take(folder: Path, target: Path) -> None:
    """Play the scene in `folder` and write the pictures to `target`."""
    project = folder / "engine"
    for name, content in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(content, encoding="utf-8")
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    terminal = Terminal(project, environment)
    try:
        terminal.type("amplifier run --mode chat -B ./bundle.md")
        terminal.wait_for("sandbox: ")
        terminal.type("What do the notes say?")
        terminal.wait_for("64 out")
        terminal.picture(target / "chat.svg", "amplifier")
        terminal.type("Yes, Ada did, on Friday.")
        terminal.wait_for("Allow?")
        terminal.picture(target / "approval.svg", "amplifier")
        terminal.type("y")
        terminal.wait_for("now says that Ada measured it")
        terminal.type("/rename who measured it")
        terminal.type("/exit")
        terminal.wait_for("amplifier resume")
        terminal.type("amplifier run -q 'What can you do?'; amplifier run -q -B minimal 'hello'; clear; echo ready")
        terminal.wait_for("ready\n$")
        terminal.type("clear")
        terminal.type("amplifier session list")
        terminal.wait_for("NAME OR FIRST PROMPT")
        terminal.picture(target / "session-list.svg", "amplifier session list")
    finally:
        terminal.close()


def main() -> int:
    """Take all pictures and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "pictures")
    options = parser.parse_args()
    if shutil.which("tmux") is None:
        print("tmux is not installed: no pictures were taken", file=sys.stderr)
        return 1
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        take(Path(name), options.folder)
    print(*sorted(path.name for path in options.folder.glob("*.svg")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
