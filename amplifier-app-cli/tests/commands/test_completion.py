"""Completion of commands in bash, zsh and fish, and putting it in place."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from amplifier_app_cli.commands.completion import completion_script, install_completion
from amplifier_app_cli.main import main

Amplifier = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the empty home folder of a user."""
    folder = tmp_path / "a user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script(amplifier: Amplifier, shell: str) -> None:
    """The script is on standard output, alone, and is one that the shell understands."""
    result = amplifier("completion", shell)
    assert result.returncode == 0
    assert result.stdout == f"{completion_script(shell)}\n"
    assert f"_AMPLIFIER_COMPLETE={shell}_complete" in result.stdout
    found = shutil.which(shell)
    if found is not None:
        subprocess.run([found, "-n"], input=result.stdout, text=True, check=True, timeout=60)


def test_unknown_shell(amplifier: Amplifier) -> None:
    """A shell without completion is a usage error."""
    assert amplifier("completion", "tcsh").returncode == 2


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder with the program as an installation has it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    code = "import sys; from amplifier_app_cli.main import main; sys.exit(main())"
    (folder / "amplifier").write_text(f"#!{sys.executable}\n{code}\n")
    (folder / "amplifier").chmod(0o755)
    return folder


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("amplifier versi", {"version"}),
        ("amplifier session sho", {"show"}),
        ("amplifier run --output-format json", {"json", "json-trace"}),
        ("amplifier nonsense x", set()),
        ("amplifier notify sta", {"status"}),
        ("amplifier recipes sta", set()),
        ("amplifier --nonsense session sho", set()),
    ],
)
def test_what_shells_are_offered(
    installed: Path, project: Path, environment: dict[str, str], shell: str, line: str, offered: set[str]
) -> None:
    """Every shell is offered what fits; on a line that is wrong it is nothing, and nothing is written into the line."""
    *_, last = words = line.split()
    given = {"COMP_WORDS": line, "COMP_CWORD": last if shell == "fish" else str(len(words) - 1)}
    result = subprocess.run(
        [installed / "amplifier"],
        cwd=project,
        env={**environment, **given, "_AMPLIFIER_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr == ""
    lines = list(filter(None, result.stdout.splitlines()))
    if shell == "zsh":  # its kind, the word, and what it means
        assert set(lines[1::3]) == offered
    else:
        assert {said.partition(",")[2].partition("\t")[0] for said in lines} == offered


@pytest.fixture
def completed(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], set[str]]:
    """Return a function that gives the values which complete a line in bash, in the project."""
    home = Path(environment["HOME"]) / ".amplifier"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("AMPLIFIER_HOME", str(home))
    monkeypatch.chdir(project)

    def complete(line: str) -> set[str]:
        *words, last = line.split(" ")
        found = ShellComplete(main, {}, "amplifier", "_AMPLIFIER_COMPLETE").get_completions(words[1:], last)
        return {item.value for item in found}

    return complete


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("amplifier bundle show mini", {"minimal"}),
        ("amplifier run --bundle mini", {"minimal"}),
        ("amplifier run -p ollam", {"ollama"}),
        ("amplifier provider test ollam", {"ollama"}),
        ("amplifier logs -e tool:po", {"tool:post"}),
        ("amplifier module show tool-mc", {"tool-mcp"}),
        ("amplifier keys set OPENAI", {"OPENAI_API_KEY"}),
        ("amplifier settings get bundle.act", set()),
        ("amplifier mcp show x", set()),
        ("amplifier ver", {"version"}),
        ("amplifier bundle us", set()),
        ("amplifier --bundle mini", {"minimal"}),
        ("amplifier -q -B mini", {"minimal"}),
        ("amplifier -p ollam", {"ollama"}),
        ("amplifier -B minimal --per", {"--permission-mode"}),
        ("amplifier init -p ollam", {"ollama"}),
        ("amplifier trust -B mini", {"minimal"}),
        ("amplifier logs -e mcp:ren", {"mcp:renamed"}),
    ],
)
def test_values(completed: Callable[[str], set[str]], line: str, offered: set[str]) -> None:
    """Names are completed where a command takes one; hidden names of commands are not."""
    assert completed(line) == offered


def test_values_of_the_user(completed: Callable[[str], set[str]], project: Path, amplifier: Amplifier) -> None:
    """Sessions are completed by id and name, models and settings from what was used and set, servers from files."""
    home = Path(os.environ["AMPLIFIER_HOME"])
    assert amplifier("run", "hello", "--bundle", "minimal", "-p", "mock", AMPLIFIER_HOME=str(home)).returncode == 0
    (session,) = (home / "projects").glob("*/sessions/*")
    amplifier("session", "rename", session.name, "parser", AMPLIFIER_HOME=str(home))
    providers = "config: {providers: [{module: provider-mock, id: lab, config: {default_model: lab-1}}]}"
    (home / "settings.yaml").write_text(providers, encoding="utf-8")
    (home / "mcp.json").write_text('{"mcpServers": {"notes": {"command": "x"}}}', encoding="utf-8")
    assert completed(f"amplifier session show {session.name[:4]}") == {session.name}
    assert completed("amplifier resume pars") == {"parser"}
    assert completed("amplifier run --model lab") == {"lab-1"}
    assert completed("amplifier run --provider la") == {"lab"}
    assert completed("amplifier mcp test n") == {"notes"}
    assert completed("amplifier settings show config.providers.l") >= {"config.providers.lab.config.default_model"}


def test_agents_are_completed(completed: Callable[[str], set[str]]) -> None:
    """The agents of the bundle that runs here are completed."""
    assert "amplifier:explorer" in completed("amplifier agents show amplifier:ex")
    assert completed("amplifier agents show -B minimal amplifier:ex") == set()


def test_completion_is_silent(
    completed: Callable[[str], set[str]], project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What cannot be read is not completed, and nothing is printed into the line."""
    (Path(os.environ["AMPLIFIER_HOME"]) / "settings.yaml").write_text("bundle: [", encoding="utf-8")
    assert completed("amplifier agents show x") == set()
    assert completed("amplifier settings get b") == set()
    assert capfd.readouterr() == ("", "")


def test_bash_completes_commands(project: Path, environment: dict[str, str], installed: Path) -> None:
    """After the script a real bash completes the name of a command."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    words = "COMP_WORDS=(amplifier versi); COMP_CWORD=1; _amplifier_completion amplifier"
    code = f'{completion_script("bash")}\n{words}\necho "${{COMPREPLY[@]}}"'
    result = subprocess.run(
        [bash, "-c", code],
        cwd=project,
        env={**environment, "PATH": f"{installed}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.split() == ["version"], result.stderr


@pytest.mark.parametrize(
    ("line", "words", "replies"),
    [
        ("amplifier logs -e tool:po", ["amplifier", "logs", "-e", "tool", ":", "po"], "post"),
        ("amplifier agents show amplifier:ex", ["amplifier", "agents", "show", "amplifier", ":", "ex"], "explorer"),
        ("amplifier logs -e 'tool:po", ["amplifier", "logs", "-e", "'tool:po"], "tool:post"),
        ("amplifier  bundle   show mini", ["amplifier", "bundle", "show", "mini"], "minimal"),
        ("amplifier bundle ", ["amplifier", "bundle", ""], "add list remove set show validate"),
        ('amplifier run "a: b" -B mini', ["amplifier", "run", '"a: b"', "-B", "mini"], "minimal"),
    ],
)
def test_bash_completes_words_with_colons(
    project: Path, environment: dict[str, str], installed: Path, line: str, words: list[str], replies: str
) -> None:
    """bash gives the parts of a word with a colon apart, and replaces only the last of them."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    typed = {"COMP_LINE": line, "COMP_POINT": len(line), "COMP_CWORD": len(words) - 1}
    given = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in typed.items())
    call = f"COMP_WORDBREAKS=: COMP_WORDS=({shlex.join(words)}) {given}; _amplifier_completion amplifier"
    result = subprocess.run(
        [bash, "-c", f'{completion_script("bash")}\n{call}\necho "${{COMPREPLY[@]}}"'],
        cwd=project,
        env={**environment, "PATH": f"{installed}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip() == replies, result.stderr


@pytest.mark.parametrize(("shell", "settings"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_install_for_shells_with_settings(
    user: Path, capsys: pytest.CaptureFixture[str], shell: str, settings: str
) -> None:
    """The script is written, and one block in the shell's settings reads it; what stood there stays."""
    (user / settings).write_text("alias ll='ls -l'")
    script = install_completion(shell)
    assert script.read_text() == f"{completion_script(shell)}\n"
    text = (user / settings).read_text()
    assert text.startswith("alias ll='ls -l'\n")
    assert f'"$HOME/{script.relative_to(user)}"' in text
    said = capsys.readouterr().err
    assert str(script) in said
    assert str(user / settings) in said


def test_install_twice_changes_nothing(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Installing again leaves every file as it is and says so; an older block is replaced where it stands."""
    install_completion("bash")
    before = {path: path.read_bytes() for path in user.rglob("*") if path.is_file()}
    capsys.readouterr()
    install_completion("bash")
    assert {path: path.read_bytes() for path in user.rglob("*") if path.is_file()} == before
    assert "already" in capsys.readouterr().err
    text = (user / ".bashrc").read_text()
    (user / ".bashrc").write_text(f"first\n{text.replace('completion.bash', 'old.bash')}last\n")
    install_completion("bash")
    assert (user / ".bashrc").read_text() == f"first\n{text}last\n"


def test_install_for_fish(user: Path) -> None:
    """Fish reads scripts from its folder; nothing else is written."""
    script = install_completion("fish")
    assert script == user / ".config/fish/completions/amplifier.fish"
    assert [path for path in user.rglob("*") if path.is_file()] == [script]


def test_install_for_the_users_shell(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name the user's own shell is taken; one that is not known, or none, is a usage error."""
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert install_completion().name == "amplifier.fish"
    monkeypatch.setenv("SHELL", "/bin/dash")
    with pytest.raises(click.UsageError, match="dash"):
        install_completion()
    monkeypatch.delenv("SHELL")
    with pytest.raises(click.UsageError, match="SHELL is not set"):
        install_completion()


def test_nothing_outside_of_the_home_is_written(user: Path, tmp_path: Path) -> None:
    """Settings of a shell that lead out of the home are left alone; links inside of it stay links."""
    outside = tmp_path / "bashrc"
    outside.write_text("mine\n")
    (user / ".bashrc").symlink_to(outside)
    with pytest.raises(click.UsageError, match="by hand"):
        install_completion("bash")
    assert outside.read_text() == "mine\n"
    (user / "dots").mkdir()
    (user / "dots/zshrc").write_text("mine\n")
    (user / ".zshrc").symlink_to(user / "dots/zshrc")
    install_completion("zsh")
    assert (user / ".zshrc").is_symlink()
    assert (user / "dots/zshrc").read_text().startswith("mine\n#")


def test_names_that_a_shell_would_run_are_not_offered(completed: Callable[[str], set[str]], project: Path) -> None:
    """A shell puts values into the line unquoted: the file of a cloned project must not put a command there."""
    names = ("server", "server$(touch x)", "server;touch x", "server`x`", "server\nx", "server\x1b[2J")
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {name: {"command": "x"} for name in names}}))
    assert completed("amplifier mcp show ser") == {"server"}
