"""Readable text is made in a process of its own, which nothing on a page can keep alive."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_module_tool_web import extract

ARTICLE = (
    "<html><body><article>" + "".join(f"<p>Part {n} of the mill.</p>" for n in range(30)) + "</article></body></html>"
)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Give `reader(code)`: a program that stands for the reader, with all the time a busy machine needs for it."""
    monkeypatch.setattr(extract, "DEADLINE", 60)

    def make(code: str) -> None:
        path = tmp_path / "reader.py"
        path.write_text(code, encoding="utf-8")
        monkeypatch.setattr(extract, "_READER", path)

    return make


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Return the processes that are started."""
    processes: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remembered(*args: Any, **options: Any) -> Any:
        processes.append(start(*args, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", remembered)
    return processes


async def test_an_article_is_read(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The readable text comes from another process, which is gone afterwards."""
    monkeypatch.setattr(extract, "DEADLINE", 60)
    text = await extract.read(ARTICLE, "https://site.example/")
    assert text.startswith("Part 0 of the mill.\n\nPart 1")
    assert [process.returncode for process in started] == [0]


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "import sys; sys.stdout.buffer.write(b'x' * 999); raise SystemExit(1)",
        "",
    ],
)
async def test_a_reader_that_fails_is_done_without(reader: Callable[[str], None], code: str) -> None:
    """When the reader breaks, or finds nothing, the page's text is given without it."""
    reader(code)
    assert (await extract.read(ARTICLE, "https://site.example/")).startswith("Part 0 of the mill.\n")


async def test_a_reader_that_hangs_is_killed(
    reader: Callable[[str], None], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the deadline the reader is killed and the text given without it."""
    monkeypatch.setattr(extract, "DEADLINE", 0.3)
    reader("import time; time.sleep(600)")
    assert "Part 29" in await extract.read(ARTICLE, "https://site.example/")
    assert started[0].returncode == -9


async def test_a_cancelled_reader_is_gone(
    reader: Callable[[str], None], started: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled call leaves no process, and does not wait until it ends by itself."""
    monkeypatch.setattr(extract, "DEADLINE", 60)
    ready, lasted = tmp_path / "ready", tmp_path / "lasted"
    touch = "pathlib.Path({!r}).touch()".format
    reader(f"import pathlib, time\n{touch(str(ready))}\ntime.sleep(20)\n{touch(str(lasted))}")
    task = asyncio.create_task(extract.read(ARTICLE, "https://site.example/"))
    assert await wait_for(ready.exists, timeout=30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert started[0].poll() == -9
    assert not lasted.exists()


async def test_the_reader_knows_no_secrets(reader: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the environment the reader gets what it needs to start, and no more; its folder is not the project's."""
    monkeypatch.setenv("DEPLOY_TOKEN", "secret")
    reader("import os; print(sorted(os.environ), os.getcwd(), 'x' * 300)")
    text = await extract.read(ARTICLE, "https://site.example/")
    assert "DEPLOY_TOKEN" not in text
    assert "/" in text
    assert os.getcwd() not in text


async def test_the_reader_loads_nothing_from_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the project with the name of a package is not run."""
    (tmp_path / "trafilatura.py").write_text("def extract(*a, **o): return 'taken over' * 99", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", ".", *__import__("sys").path])
    assert "taken over" not in await extract.read(ARTICLE, "https://site.example/")


async def test_pages_that_are_too_long_are_not_parsed(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A page over the limit is only stripped of its tags."""
    monkeypatch.setattr(extract, "LONGEST", 100)
    assert "Part 29" in await extract.read(ARTICLE, "https://site.example/")
    assert started == []


@pytest.mark.parametrize("page", ["<div>" * 50_000, "<a href='" * 50_000, "<table><tr><td>" * 5_000, "&" * 100_000])
async def test_hostile_pages_come_to_an_end(page: str) -> None:
    """A page that is nested or broken without end costs a process at most."""
    assert isinstance(await extract.read(page, "https://site.example/"), str)
