"""Installers run side by side, are killed in time, and what a killed one leaves behind is never used."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation import Activator, ModuleActivationError, ModuleFolder
from amplifier_foundation.sources.install import fill_once

AddWheel = Callable[..., None]
MakeModule = Callable[..., ModuleFolder]
Command = tuple[str, ...]
Script = Callable[[str], Command]

#: Another process that activates one module and prints where its dependencies are.
_OTHER = textwrap.dedent(
    """
    import asyncio, pathlib, sys
    from amplifier_foundation.paths import Home
    from amplifier_foundation.sources.activation import Activator, ModuleFolder
    home, module, command = sys.argv[1:]
    home = Home(pathlib.Path(home))
    activator = Activator(home, command=(command,) if command else ())
    module = pathlib.Path(module)
    activated = asyncio.run(activator.activate([ModuleFolder(module.name, module)]))
    print(activated.site_folders[-1])
    """
)


def _other(home: Home, module: ModuleFolder, environ: dict[str, str], command: str = "") -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", _OTHER, str(home.path), str(module.path), command]
    return subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_for(path: Path, lines: int = 1) -> list[str]:
    """Return the lines of a file once it has so many; the test's own time limit ends a wait in vain."""
    while True:
        if path.exists() and (text := path.read_text(encoding="utf-8")).count("\n") >= lines:
            return text.splitlines()
        time.sleep(0.01)


def _wait_for_end(pids: list[int]) -> None:
    """Return once the processes are gone; the test's own time limit ends a wait in vain."""
    while any(_is_running(pid) for pid in pids):
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_modules_are_installed_together_by_one_process(
    home: Home, environ: dict[str, str], make_module: MakeModule, script: Script, tmp_path: Path
) -> None:
    """uv is started once for all modules, so that it resolves their requirements together."""
    started = tmp_path / "started"
    installer = script(
        f"with open({str(started)!r}, 'a', encoding='utf-8') as file:\n"
        "    print(*wishes, file=file)\n"
        "for wish in wishes:\n"
        "    install(wish)"
    )
    modules = [make_module(f"tool-{number}", [f"leaf-{number}"]) for number in range(5)]
    activated = await Activator(home, environ=environ, command=installer).activate(modules)
    assert started.read_text(encoding="utf-8") == "leaf-0 leaf-1 leaf-2 leaf-3 leaf-4\n"
    assert len(list(activated.site_folders[-1].glob("leaf_*.dist-info"))) == 5


async def test_the_event_loop_goes_on_while_installers_run(
    home: Home, environ: dict[str, str], make_module: MakeModule, script: Script, tmp_path: Path
) -> None:
    """An installer that waits for a task of the same loop gets what it waits for."""
    ready = tmp_path / "ready"
    installer = script(f"while not os.path.exists({str(ready)!r}):\n    time.sleep(0.01)\ninstall(wishes[0])")
    activator = Activator(home, environ=environ, command=installer)

    async def answer() -> None:
        await asyncio.sleep(0)
        ready.touch()

    activated, _ = await asyncio.gather(activator.activate([make_module("tool-wait", ["leaf-of-tests"])]), answer())
    assert len(list(activated.site_folders[-1].glob("leaf*"))) == 1


def test_two_processes_at_once_install_once(
    home: Home, environ: dict[str, str], make_module: MakeModule, script: Script, tmp_path: Path
) -> None:
    """Of two processes that need the same module, one installs, and the other waits for it and uses that."""
    started, finish = tmp_path / "started", tmp_path / "finish"
    installer = script(
        f"with open({str(started)!r}, 'a', encoding='utf-8') as file:\n"
        "    print(os.getpid(), file=file)\n"
        f"while not os.path.exists({str(finish)!r}):\n"
        "    time.sleep(0.01)\n"
        "install(wishes[0])"
    )
    module = make_module("tool-both", ["leaf-of-tests"])
    both = [_other(home, module, environ, installer[0]) for _ in range(2)]
    _wait_for(started)
    time.sleep(0.3)  # time enough for the other one to do wrong
    finish.touch()
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert said[0][0] == said[1][0] != "\n"
    assert len(started.read_text(encoding="utf-8").splitlines()) == 1


def test_two_processes_with_the_real_installer(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule
) -> None:
    """Two processes that install the same module at once with uv both end well, with the same folder."""
    add_wheel("leaf-of-tests", "1.0")
    module = make_module("tool-both", ["leaf-of-tests"])
    both = [_other(home, module, environ) for _ in range(2)]
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert said[0][0] == said[1][0]
    assert Path(said[0][0].strip(), "leaf_of_tests", "__init__.py").is_file()


async def test_a_killed_installation_is_never_used_and_swept(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, script: Script, tmp_path: Path
) -> None:
    """What a process that was killed half-way had installed is not used, and is gone after the next installation."""
    started = tmp_path / "started"
    installer = script(
        "install('leaf-of-tests', '0.0')\n"
        f"with open({str(started)!r}, 'a', encoding='utf-8') as file:\n"
        "    print(os.getpid(), file=file)\n"
        "time.sleep(600)"
    )
    module = make_module("tool-half", ["leaf-of-tests"])
    killed = _other(home, module, environ, installer[0])
    [pid] = _wait_for(started)
    killed.kill()
    killed.communicate()
    os.kill(int(pid), signal.SIGKILL)
    installed = home.cache / "installed"
    assert list(installed.glob(".*.tmp/site/*.dist-info")), "the test must leave something half-made"
    add_wheel("leaf-of-tests", "1.0")
    activated = await Activator(home, environ=environ).activate([module])
    assert [path.name for path in activated.site_folders[-1].glob("leaf*.dist-info")] == ["leaf_of_tests-1.0.dist-info"]
    assert list(installed.glob(".*.tmp")) == []


async def test_leftovers_of_another_module_are_swept_but_not_its_work(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule
) -> None:
    """An installation removes abandoned staging folders, and leaves alone those of running installations."""
    add_wheel("leaf-of-tests", "1.0")
    installed = home.cache / "installed"
    abandoned = installed / ".tool-gone-0123456789abcdef.x.tmp"
    abandoned.mkdir(parents=True)

    async def fill(staging: Path) -> Path:
        await Activator(home, environ=environ).activate([make_module("tool-leafy", ["leaf-of-tests"])])
        assert staging.is_dir()
        (staging / "site").mkdir()
        return staging / "site"

    await fill_once(installed / "tool-busy-0123456789abcdef", fill, lambda site: False, 60)
    assert not abandoned.exists()


async def test_a_hanging_installer_is_killed_with_everything_it_started(
    home: Home, environ: dict[str, str], make_module: MakeModule, script: Script, tmp_path: Path
) -> None:
    """At the deadline the installer and the processes it started are gone, and the error says which limit it was."""
    pids = tmp_path / "pids"
    installer = script(
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
        f"with open({str(pids)!r}, 'w', encoding='utf-8') as file:\n"
        "    print(os.getpid(), child.pid, file=file)\n"
        "print('still resolving', flush=True)\n"
        "time.sleep(600)"
    )
    module = make_module("tool-hang", ["leaf-of-tests"])
    for seconds in ("3", "60"):  # twice only on a machine that is very busy
        activator = Activator(home, environ=environ | {"AMPLIFIER_INSTALL_TIMEOUT_S": seconds}, command=installer)
        with pytest.raises(ModuleActivationError) as caught:
            await activator.activate([module])
        if "still resolving" in str(caught.value):
            break
    assert "AMPLIFIER_INSTALL_TIMEOUT_S" in str(caught.value)
    assert "still resolving" in str(caught.value)
    _wait_for_end([int(pid) for pid in _wait_for(pids)[0].split()])
    assert list((home.cache / "installed").glob(".*.tmp")) == []


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
async def test_a_limit_that_is_no_number_is_refused(
    home: Home, environ: dict[str, str], make_module: MakeModule, text: str
) -> None:
    """A time limit that means nothing is an error that names the variable, not a limit of another size."""
    environ = environ | {"AMPLIFIER_INSTALL_TIMEOUT_S": text}
    with pytest.raises(ModuleActivationError, match="AMPLIFIER_INSTALL_TIMEOUT_S"):
        await Activator(home, environ=environ).activate([make_module("tool-hang", ["leaf-of-tests"])])
