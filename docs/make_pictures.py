"""Take the pictures of the documentation: the real program in a real terminal, written as SVG.

    python docs/make_pictures.py [--folder docs/pictures]

Needs git, and tmux, which runs the terminal. The model is scripted: it fixes the failing test of the sample project.
Everything else is what a user would see.
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

WIDTH, HEIGHT = 100, 32
SOCKET = "amplifier-pictures"

PROJECT = Path(__file__).resolve().parent.parent / "examples" / "demo" / "project"

FILES = {
    ".amplifier/policy.yaml": """\
rules:
  - {verdict: allow, command: "python3 -m unittest *"}
""",
    "bundle.md": """\
---
bundle: {name: shop, version: 1.0.0}
includes:
  - bundle: default
providers:
  - {module: provider-mock, config: {scenario: ./scenario.yaml}}
---
You fix failing tests.
""",
    "scenario.yaml": """\
turns:
  - thinking: I run the tests first, and read the code that they are about.
    tool_calls:
      - {name: bash, arguments: {command: python3 -m unittest}}
      - {name: read_file, arguments: {file_path: pages.py}}
    usage: {input_tokens: 1820, output_tokens: 64, cost_usd: "0.0041"}
  - expect: {contains: ["AssertionError: 2 != 3", "return results // per_page"]}
    text: |
      `page_count` **rounds down**: 21 results need 3 pages, and the last page is lost unless it is full.

      1. `pages.py` has to round up,
      2. both tests pass then.

      Shall I change it?
    usage: {input_tokens: 2210, output_tokens: 58, cost_usd: "0.0052"}
  - tool_calls:
      - name: edit_file
        arguments:
          file_path: pages.py
          old_string: return results // per_page
          new_string: return -(-results // per_page)  # rounded up
    usage: {input_tokens: 2330, output_tokens: 71, cost_usd: "0.0056"}
  - text: Now the tests again.
    tool_calls:
      - {name: bash, arguments: {command: python3 -m unittest}}
    usage: {input_tokens: 2460, output_tokens: 33, cost_usd: "0.0057"}
  - expect: {contains: [Ran 2 tests, '\\nOK']}
    text: Fixed. `page_count` rounds up, and both tests pass.
    usage: {input_tokens: 2560, output_tokens: 19, cost_usd: "0.0056"}
""",
}


class Terminal:
    """A shell in a terminal that is not shown anywhere."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._environment = environment
        self._folder = folder
        self._tmux("new-session", "-d", "-s", "p", "-x", str(WIDTH), "-y", str(HEIGHT), "bash --norc", cwd=folder)
        self.type("PS1='$ '; clear")

    def type(self, text: str) -> None:
        """Type a line."""
        self._tmux("send-keys", "-t", "p", "-l", text)
        self._tmux("send-keys", "-t", "p", "Enter")

    def press(self, key: str) -> None:
        """Press a key, by its name in tmux."""
        self._tmux("send-keys", "-t", "p", key)

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
    project = folder / "shop"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    for name, content in FILES.items():
        (project / name).write_text(content, encoding="utf-8")
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "Count pages"]):
        subprocess.run(["git", *command], cwd=project, timeout=30, check=True)
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    terminal = Terminal(project, environment)
    try:
        terminal.type("amplifier run --mode chat --trust -B ./bundle.md")
        terminal.wait_for("Ctrl-D leaves")
        terminal.type("Why does a test fail?")
        terminal.wait_for("session $0.0093")
        terminal.picture(target / "chat.svg", "amplifier")
        terminal.type("Yes, please.")
        terminal.wait_for("Allow?")
        terminal.press("Down")
        terminal.wait_for("❯ y")
        terminal.picture(target / "approval.svg", "amplifier")
        terminal.press("Enter")
        terminal.wait_for("both tests pass.")
        terminal.type("!git diff --stat")
        terminal.wait_for("Allow?")
        terminal.type("y")
        terminal.wait_for("1 file changed")
        terminal.type("/undo")
        terminal.wait_for("is undone")
        terminal.picture(target / "undo.svg", "amplifier")
        terminal.type("/rename page_count rounds down")
        terminal.type("/exit")
        terminal.wait_for("amplifier resume")
        prompts = ("Which tests are slow?", "Write the changelog entry for #214")
        terminal.type("; ".join(f"amplifier run -q -B minimal '{text}'" for text in prompts) + "; clear; echo ready")
        terminal.wait_for("ready\n$", 60)
        terminal.type("clear")
        time.sleep(1)  # the shell has drawn its prompt
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
