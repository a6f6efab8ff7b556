"""The profiles keep from accidents, wherever a command can stand, and leave ordinary work alone."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.config import read_config
from amplifier_module_tool_bash import BashTool
from amplifier_module_tool_bash.config import PROFILES, BashConfig
from amplifier_module_tool_bash.safety import Safety

ROOT = ["rm -rf /", "rm -fr /", "rm -r -f /", "rm -f -r /*", "rm --recursive --force /", "rm -rf //", "rm -rf /./"]
BOMB = [":(){ :|:& };:", ":(){:|:&};:", "bomb() { bomb | bomb & }; bomb"]
DANGEROUS = [
    *("rm -rf ~", "rm -rf ~/", "rm -fr $HOME", 'rm -rf "$HOME"/*', "rm -rf ${HOME}", "rm -rf /etc", "rm -Rf /usr/*"),
    *("sudo ls", "/usr/bin/sudo ls", "su - root", "su -c ls", "passwd", "mkfs /dev/sda1", "mkfs.ext4 disk.img"),
    *("dd if=/dev/zero of=disk", "dd of=disk if=/dev/urandom bs=1M", "chmod 777 /", "chmod -R 777 /etc"),
    *(
        "chown -R me /",
        "chown me -R /usr",
        "echo x > /dev/sda",
        "echo x >/dev/sda",
        "cat a >> /dev/mem",
        "ls &> /dev/sdb",
    ),
    "echo x 1<>/dev/sda",
]
#: Places where CMD is run.
PLACES = [
    *("CMD", "  CMD", "true; CMD", "true;CMD", "true | CMD", "true|CMD", "true && CMD", "false || CMD", "(CMD)"),
    *("echo $(CMD)", "echo `CMD`", 'echo "$(CMD)"', 'echo "`CMD`"', "true & CMD", "true\nCMD", "{ CMD; }", "! CMD"),
    *("if true; then CMD; fi", "while CMD; do :; done", "A=1 CMD", "env A=1 CMD", "nohup CMD", "timeout 5 CMD"),
    *("bash -c 'CMD'", "sh -xc 'CMD'", "eval 'CMD'", "bash <<E\nCMD\nE", "cat <<E\n$(CMD)\nE", "diff <(CMD) x"),
    *("true # comment\nCMD", "tr\\\nue; CMD", "f() { CMD; }; f", "xargs -n 1 CMD", "command CMD", "time CMD"),
    *("echo $(echo $(CMD))", "function g { CMD; }", "find . -exec CMD {} +", "watch CMD", "timeout -k 1 --fore 5 CMD"),
    *("env -u A CMD", "nice -n 5 CMD", "ionice -c3 CMD", "taskset 1 CMD", "unbuffer CMD", "coproc CMD"),
    *("bash --rcfile x -c 'CMD'", "bash -s <<E\nCMD\nE", "trap 'CMD' EXIT", "xargs -P 4 -I {} CMD"),
]
#: A command in every place where its own quotes do not end the ones around it.
FOUND = [
    (place, command)
    for place in PLACES
    for command in ["sudo ls", "rm -rf /", "s\\udo ls", '"sudo" ls', "su''do ls", "$'\\x73udo' ls"]
    if not ("'CMD'" in place and "'" in command) and not ("`CMD`" in place and "\\" in command)
]
HARMLESS = [
    *("ls -la", "echo sudo", "echo 'sudo rm -rf /'", 'echo "sudo; passwd"', "grep -r sudo .", "git commit -m 'su - x'"),
    *(
        "rm -rf build",
        "rm -rf ./",
        "rm -rf /tmp/x",
        "rm /tmp/file",
        "rm -f /tmp/a",
        "rm -rf $HOME/cache/x",
        "rm -rf ~/x",
    ),
    *("ls > /dev/null", "ls 2>/dev/null", "ls &>/dev/null", "ls >/dev/null 2>&1", "cat < /dev/zero | head -c 1"),
    *(
        "dd if=a of=b",
        "chmod 777 script",
        "chmod 755 /tmp/x",
        "chown me file",
        "cat <<'E'\nsudo ls\nE",
        "cat <<-E\n\tsudo\n\tE",
    ),
    *(
        "echo a # sudo",
        "pseudo sudo",
        "sudoku",
        "mkfsx=1",
        "python -c 'print(1 > 0)'",
        'echo "a > /dev/sda"',
        "summary -x",
    ),
    *("awk '{print $1}' f | sort", "for f in *; do echo $f; done", "f() { g | h; }; f", "echo \\; sudo", "x='a;sudo'"),
    *(
        "cat <<E > notes\nsudo apt install\nE",
        "command -v sudo",
        "man sudo",
        "docker exec c sudo ls",
        "find . -name sudo",
    ),
    "cat > app.py <<'E'\n" + "print('`sudo`', (1))\nsudo = 1\n" * 900 + "E",
]


def _refusal(command: str, **config: Any) -> str:
    return Safety(read_config(BashConfig, config, module="tool-bash")).refusal(command)


@pytest.mark.parametrize("command", ROOT + BOMB + DANGEROUS)
@pytest.mark.parametrize("profile", ["strict", "standard"])
def test_dangerous(command: str, profile: str) -> None:
    """Strict and standard refuse all of them, with a reason."""
    assert _refusal(command, safety_profile=profile).startswith(f"safety profile '{profile}': ")


@pytest.mark.parametrize("command", ROOT + BOMB)
def test_permissive_refuses(command: str) -> None:
    """Permissive keeps to what destroys everything."""
    assert _refusal(command, safety_profile="permissive")


@pytest.mark.parametrize("command", DANGEROUS)
def test_permissive_lets_through(command: str) -> None:
    """Permissive leaves the rest to others."""
    assert not _refusal(command, safety_profile="permissive")


@pytest.mark.parametrize("command", ROOT + BOMB + DANGEROUS)
def test_unrestricted(command: str) -> None:
    """Unrestricted refuses nothing by itself."""
    assert not _refusal(command, safety_profile="unrestricted")


@pytest.mark.parametrize(("place", "command"), FOUND)
def test_wherever_it_stands(place: str, command: str) -> None:
    """A command is found in every place where the shell runs one, however it is quoted."""
    assert _refusal(place.replace("CMD", command))


@pytest.mark.parametrize("command", HARMLESS)
def test_harmless(command: str) -> None:
    """Ordinary work is left alone, also when it speaks of dangerous things."""
    assert _refusal(command) == ""


def test_the_home_by_its_path() -> None:
    """The home is meant by its path as well."""
    assert _refusal(f"rm -rf {os.path.expanduser('~')}/")


def test_allowed_commands() -> None:
    """Standard lets through what the list matches, whole; strict does not."""
    allowed = {"allowed_commands": ["sudo apt-get install *", "passwd"]}
    assert not _refusal("sudo apt-get install jq", safety_profile="standard", **allowed)
    assert not _refusal(" passwd ", safety_profile="standard", **allowed)
    assert _refusal("sudo apt-get remove jq", safety_profile="standard", **allowed)
    assert _refusal("sudo apt-get install jq", safety_profile="strict", **allowed)


@pytest.mark.parametrize(
    "tail", ["; rm -rf /", " && sudo x", "|sudo x", "$(sudo x)", "`sudo x`", "\nsudo x", " > /dev/sda"]
)
def test_an_allowed_command_allows_no_other(tail: str) -> None:
    """The star of an allowed command does not stand for the beginning of another one."""
    assert _refusal(f"git status{tail}", safety_profile="standard", allowed_commands=["git *"])


@pytest.mark.parametrize("profile", PROFILES)
def test_denied_commands(profile: str) -> None:
    """What is denied is denied under every profile, exactly, by a star, and as a part, whatever is allowed."""
    lists = {"denied_commands": ["git push*", "curl"], "allowed_commands": ["*"], "safety_profile": profile}
    for command in ("git push", "git push origin", "cd x && git push", "git   push", "$(curl x)", "a curly thing"):
        assert "which the configuration denies" in _refusal(command, **lists), command
    assert not _refusal("git pull", **lists)


def test_overrides() -> None:
    """Overrides allow under every profile, and block above everything."""
    overrides = {"safety_overrides": {"allow": ["sudo *"], "block": ["sudo reboot", "make*"]}}
    assert not _refusal("sudo ls", **overrides)
    assert _refusal("sudo reboot", **overrides)
    assert _refusal("make all", safety_profile="unrestricted", **overrides)


def test_nested_beyond_reason() -> None:
    """What cannot be looked at is refused, unless nothing would be refused anyway."""
    deep = "echo " + "$(" * 5000 + "sudo ls" + ")" * 5000
    assert _refusal(deep) == "it is nested too deeply to be looked at"
    assert _refusal(deep, safety_profile="unrestricted", denied_commands=["x"])
    assert not _refusal(deep, safety_profile="unrestricted")


def test_wrapped_beyond_reason() -> None:
    """Commands that run commands are looked through; a chain of them that nobody writes is refused, and at once."""
    assert "sudo asks" in _refusal("env nice nohup timeout 5 " * 4 + "sudo ls")
    assert _refusal("env " * 30_000 + "ls") == "it is nested too deeply to be looked at"
    assert not _refusal("env " * 30_000 + "ls", safety_profile="unrestricted")


@given(st.text(alphabet="ab'\"`$(){};|&<>\\\n #EOF-/*=~:x"))
def test_any_text_is_looked_at(text: str) -> None:
    """No text makes the look at it fail."""
    assert isinstance(_refusal(text), str)


@pytest.mark.parametrize("piece", ["a", "(", "$(", "`", "'", '"', "<<E ", "${", ":(){", "\\", "\n", "{ ", "f(){f|f&"])
def test_long_texts_are_looked_at_soon(piece: str) -> None:
    """The time grows with the length, not with its square: else this would not end before the test is stopped."""
    assert isinstance(_refusal(piece * (130_000 // len(piece))), str)


async def test_a_refused_command_is_not_run(tool: BashTool) -> None:
    """The result says that it was not run, and why."""
    result = await tool.execute({"command": "echo a; sudo true"})
    assert not result.success
    assert result.error is not None
    assert result.error["code"] == "blocked"
    assert result.output == "Command was not run: safety profile 'strict': sudo asks a person, who is not there."
