"""Where there is no home, no folder to stand in or no UTF-8, the program works, or says in one line what is wrong."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ANSWER = [{"text": "The answer."}]
LOG_TROUBLE = "The session continues; lines are lost until this is fixed"
#: Runs the rest of its arguments in a file system view of its own, after the script that is its first one.
NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]


def _can_mount() -> bool:
    try:
        done = subprocess.run([*NAMESPACE, "mount -t tmpfs none /mnt"], capture_output=True, timeout=30, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="this system lets nobody mount anything here")


def _mounted(project: Any, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program after a shell script that mounts things, in a view of the file system of its own."""
    return subprocess.run(
        [*NAMESPACE, f'set -e; {script}; exec "$@"', "sh", *project.command(*arguments)],
        cwd=project.folder,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _go(project: Any, script: str) -> subprocess.CompletedProcess[str]:
    return _mounted(project, script, "run", "--bundle", "bundle.yaml", "go")


def _only_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a run said which ended with code 1."""
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    [line] = done.stderr.splitlines()
    return line


def _check_told_once(done: subprocess.CompletedProcess[str]) -> None:
    """The answer is there; that there is no log is one line, that nothing else is kept is another."""
    assert (done.returncode, done.stdout) == (0, "The answer.\n"), done.stderr
    assert done.stderr.count(LOG_TROUBLE) == 1, done.stderr
    assert done.stderr.count("Cannot write") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "any more" not in done.stderr, "nothing was there before"


# -- no home --


def test_a_home_of_its_own_needs_no_home_of_the_user(project: Any) -> None:
    """Without HOME everything goes to AMPLIFIER_HOME."""
    project.script(ANSWER)
    project.environment.pop("HOME", None)
    done = project.go()
    assert (done.returncode, done.stdout) == (0, "The answer.\n"), done.stderr
    assert len(project.logs()) == 1
    assert list(project.home.parent.glob("**/.amplifier")) == []


@pytest.mark.parametrize("home", ["", "~no-such-user-of-this-system/x"])
@pytest.mark.parametrize("command", ["run", "logs"])
def test_no_usable_home_is_one_line(project: Any, home: str, command: str) -> None:
    """When neither HOME nor AMPLIFIER_HOME names a place, every command says so and what to set."""
    project.script(ANSWER)
    project.environment.update(HOME="", AMPLIFIER_HOME=home)
    done = project.go() if command == "run" else project.run("logs")
    line = _only_line(done)
    assert "set HOME or AMPLIFIER_HOME" in line
    assert home in line


@needs_mounts
def test_a_user_whom_the_system_does_not_know(project: Any) -> None:
    """Without HOME, AMPLIFIER_HOME and an entry in the user database there is one line that says so."""
    project.script(ANSWER)
    del project.environment["AMPLIFIER_HOME"]
    project.environment.pop("HOME", None)
    files = "/etc/passwd /etc/nsswitch.conf"  # the latter may say that others know users too
    script = f"for file in {files}; do [ ! -e $file ] || mount --bind /dev/null $file; done"
    assert "HOME is not set): set HOME or AMPLIFIER_HOME" in _only_line(_go(project, script))


# -- a home that cannot be written --


@pytest.mark.parametrize("home", ["/dev/null", "/dev/null/x", "/proc/nonexistent", "/sys/nonexistent/x"])
def test_a_home_that_can_never_be_made(project: Any, home: str) -> None:
    """A home where no folder can be made costs the log, not the answer, and that is told once."""
    project.script(ANSWER)
    project.environment["AMPLIFIER_HOME"] = home
    done = project.go()
    _check_told_once(done)
    assert home in done.stderr


@needs_mounts
def test_a_read_only_home(project: Any) -> None:
    """On a file system that is mounted read-only the answer is printed and the trouble told once."""
    project.script(ANSWER)
    project.home.mkdir()
    done = _go(project, f"mount -t tmpfs -o ro none '{project.home}'")
    _check_told_once(done)
    assert "Read-only file system" in done.stderr


@needs_mounts
def test_a_session_goes_on_in_a_home_that_became_read_only(project: Any) -> None:
    """A session is taken up from a file system that has become read-only, and its files stay as they were."""
    project.script(ANSWER)
    assert project.go().returncode == 0
    [log] = project.logs()
    before = {path.name: path.read_bytes() for path in log.parent.iterdir() if path.is_file()}
    script = f"mount --bind '{project.home}' '{project.home}'; mount -o remount,ro,bind '{project.home}'"
    done = _mounted(project, script, "run", "--resume", log.parent.name, "again")
    assert (done.returncode, done.stdout) == (0, "The answer.\n"), done.stderr
    assert done.stderr.count(LOG_TROUBLE) == 1, done.stderr
    told = [line for line in done.stderr.splitlines() if "Read-only file system" in line]
    assert len(told) == len(set(told)), done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name: path.read_bytes() for path in log.parent.iterdir() if path.is_file()} == before


@needs_mounts
@pytest.mark.parametrize("room", ["nr_inodes=2", "size=4k", "size=4k,nr_inodes=12"])
def test_a_home_without_room(project: Any, room: str) -> None:
    """On a full file system the answer is printed, and no trouble is told twice."""
    project.script(ANSWER)
    project.home.mkdir()
    done = _go(project, f"mount -t tmpfs -o {room} none '{project.home}'")
    assert (done.returncode, done.stdout) == (0, "The answer.\n"), done.stderr
    told = [line for line in done.stderr.splitlines() if "annot write" in line]
    assert told
    assert len(told) == len(set(told)), done.stderr
    assert "Traceback" not in done.stderr


@needs_mounts
def test_a_read_only_project(project: Any) -> None:
    """A project that cannot be written is as good to work in as any other."""
    project.script(ANSWER)
    here = project.folder
    done = _go(project, f"mount --bind '{here}' '{here}'; mount -o remount,ro,bind '{here}'; cd '{here}'")
    assert (done.returncode, done.stdout) == (0, "The answer.\n"), done.stderr
    assert "annot write" not in done.stderr
    assert len(project.logs()) == 1


# -- no folder to stand in --


def _from_deleted_folder(project: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    gone = project.folder.parent / "gone"
    gone.mkdir()
    return subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *project.command(*arguments)],
        cwd=gone,
        env={**project.environment, "PWD": str(gone)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [("run", "go"), ("logs",), ("run", "--resume", "abc", "go")])
def test_a_folder_that_was_deleted_under_the_shell(project: Any, arguments: tuple[str, ...]) -> None:
    """Started in a folder that is gone, every command names the folder and what to do, and makes nothing."""
    done = _from_deleted_folder(project, *arguments)
    assert f"{project.folder.parent / 'gone'} does not exist any more" in _only_line(done)
    assert "go to another folder" in done.stderr
    assert not project.home.exists()


def test_a_relative_home_in_a_folder_that_was_deleted(project: Any) -> None:
    """A home that is relative to a deleted folder is not called one that is not set."""
    project.environment["AMPLIFIER_HOME"] = "here"
    done = _from_deleted_folder(project, "run", "go")
    assert "does not exist any more" in _only_line(done)
    assert "is not set" not in done.stderr


def test_a_project_that_is_deleted_while_it_is_worked_in(project: Any) -> None:
    """The session of a project that goes away under it comes to its answer."""
    project.script(ANSWER)
    go = project.gate()
    process = project.start("run", "--bundle", "bundle.yaml", "go")
    project.wait_for_event("llm:request")
    shutil.rmtree(project.folder)
    go.touch()
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "The answer.\n"), error
    assert "Traceback" not in error
    assert project.events()[-1] == "session:end"


# -- locales --


@pytest.mark.parametrize(
    ("settings", "encoding"),
    [
        ("LC_ALL=C", "utf-8"),
        ("LC_ALL=POSIX", "utf-8"),
        ("LC_ALL=no_SUCH.locale", "utf-8"),
        ("LC_ALL=C PYTHONCOERCECLOCALE=0", "utf-8"),
        ("LC_ALL=C PYTHONUTF8=0", "utf-8"),
        ("LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0", "utf-8"),
        ("LC_ALL=C PYTHONUTF8=0 PYTHONIOENCODING=latin-1", "latin-1"),
        ("LC_ALL=C.UTF-8 PYTHONIOENCODING=latin-1", "latin-1"),
        ("LC_ALL=C PYTHONIOENCODING=ascii", "ascii"),
    ],
)
def test_a_locale_without_utf_8(project: Any, tmp_path: Path, settings: str, encoding: str) -> None:
    """Prompt, bundle, file names and project keep their characters in any locale; the terminal shows those it has."""
    place = tmp_path / "Zoë's büro ✓"
    place.mkdir()
    bundle = (
        "bundle: {name: grüße}\nsession: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
        "providers:\n  - {module: provider-mock, config: {scenario: szene-ö.yaml}}\n"
        "hooks: [{module: hooks-logging}]\ncontext: {include: [wörter.md]}\n"
    )
    turn = {"text": "Antwort: ü ✓", "expect": {"contains": "Frage: ä ✓", "system_contains": ["Wörter ✓", "Regeln ✓"]}}
    files = {
        "bündel.yaml": bundle,
        "szene-ö.yaml": json.dumps({"turns": [turn]}, ensure_ascii=False),
        "wörter.md": "Wörter ✓",
        "AGENTS.md": "Regeln ✓",
    }
    for name, text in files.items():
        (place / name).write_bytes(text.encode())
    kept = {name: value for name, value in project.environment.items() if not name.startswith(("LC_", "LANG"))}
    kept["AMPLIFIER_HOME"] = str(tmp_path / "höme ✓")
    done = subprocess.run(
        [word.encode() for word in project.command("run", "--bundle", "bündel.yaml", "Frage: ä ✓")],
        cwd=place,
        env={**kept, **dict(pair.split("=") for pair in settings.split())},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Antwort: ü ✓\n".encode(encoding, "replace")), done.stderr
    [session] = (tmp_path / "höme ✓").glob("projects/*büro ✓/sessions/*")
    metadata = json.loads((session / "metadata.json").read_bytes())
    assert (metadata["working_dir"], metadata["first_prompt"]) == (str(place), "Frage: ä ✓")
    assert "Antwort: ü ✓" in (session / "transcript.jsonl").read_text(encoding="utf-8")
    assert "Frage: ä ✓" in (session / "events.jsonl").read_text(encoding="utf-8")
