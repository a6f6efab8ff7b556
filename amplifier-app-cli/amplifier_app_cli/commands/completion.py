"""`amplifier completion`: let the shell complete commands and options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from amplifier_app_cli.failures import report_errors

_PROGRAM: Final = "amplifier"
_VARIABLE: Final = "_AMPLIFIER_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
#: Where a shell reads its settings, below the user's home.
_SETTINGS_OF: Final = {"bash": ".bashrc", "zsh": ".zshrc"}
_BEGIN: Final = "# >>> amplifier completion >>>"
_END: Final = "# <<< amplifier completion <<<"
#: bash splits words at colons too, as in `tool:pre`: the parts are joined again, and what it keeps is left out.
_BASH: Final = r"""_amplifier_completion() {
    local IFS=$'\n' rest=$COMP_LINE words=() word kind kept= last i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == 0)) || [[ -z $COMP_LINE || $rest == [[:blank:]]* ]]; then
            words+=("$word")
        else
            words[${#words[@]} - 1]+=$word
        fi
        rest=${rest#*"$word"}
    done
    last=${words[${#words[@]} - 1]}
    [[ $COMP_WORDBREAKS == *:* && $last == *:* ]] && kept=${last%"${last##*:}"}
    COMPREPLY=()
    while IFS=, read -r kind word; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${word#"$kept"}") ;;
        esac
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) _AMPLIFIER_COMPLETE=bash_complete "$1")
}
complete -o nosort -F _amplifier_completion amplifier"""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@report_errors
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands.

    \b
    Examples:
      eval "$(amplifier completion bash)"
      amplifier completion fish > ~/.config/fish/completions/amplifier.fish

    `amplifier --install-completion` puts it where the shell finds it.
    """
    click.echo(completion_script(shell))


def completion_script(shell: str) -> str:
    """Return the script for one of SHELLS."""
    if shell == "bash":
        return _BASH
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, shell
    made = kind(click.Group(), {}, _PROGRAM, _VARIABLE)
    return made.source_template % made.source_vars()


def install_completion(shell: str | None = None) -> Path:
    """Install the script where the shell finds it, and return its path.

    Without `shell`, the user's own is taken. Doing it again changes nothing. Only files below the user's home are
    written; raises UsageError for a shell that is not known and for files that lead elsewhere, OSError when one cannot
    be written.
    """
    name = shell or _own_shell()
    if name not in SHELLS:
        raise click.UsageError(f"there is no completion for the shell {name!r}: {', '.join(SHELLS)} have one")
    home = Path.home().resolve()
    script = _script_path(home, name)
    done = [script] if _write(home, script, f"{completion_script(name)}\n") else []
    if name in _SETTINGS_OF:
        settings = home / _SETTINGS_OF[name]
        if _write(home, settings, _with_block(_read(settings), _block(name, script))):
            done.append(settings)
    _report(name, done)
    return script


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if not name:
        raise click.UsageError(f"SHELL is not set: say which shell, one of {', '.join(SHELLS)}")
    return name


def _script_path(home: Path, shell: str) -> Path:
    if shell == "fish":
        return home / ".config" / "fish" / "completions" / f"{_PROGRAM}.fish"
    return home / ".local" / "share" / _PROGRAM / f"completion.{shell}"


def _block(shell: str, script: Path) -> str:
    """Return what a shell's settings need: read the script if it is there, with completion switched on in zsh."""
    path = f'"$HOME/{script.relative_to(Path.home().resolve()).as_posix()}"'
    ready = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }; " if shell == "zsh" else ""
    return f"{_BEGIN}\nif [ -r {path} ]; then {ready}. {path}; fi\n{_END}\n"


def _with_block(text: str, block: str) -> str:
    """Return the settings with the block in them, once: at the end, or replacing an earlier one."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if begin and end:
        return before + block.removesuffix("\n") + after
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{block}"


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _write(home: Path, path: Path, text: str) -> bool:
    """Write a file unless it has this text already, and return whether it was written; links are kept."""
    from amplifier_foundation.files import replace_unmasked

    content = text.encode("utf-8", "surrogateescape")
    target = path.resolve()
    if not target.is_relative_to(home):
        raise click.UsageError(f"{path} leads to {target}, outside of {home}: add the output of `completion` by hand")
    try:
        if target.read_bytes() == content:
            return False
        mode = target.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o644
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_unmasked(target, content, mode=mode)
    return True


def _report(shell: str, done: list[Path]) -> None:
    from amplifier_app_cli.ui.say import say

    if not done:
        say(f"completion for {shell} is installed already")
        return
    for path in done:
        say(f"wrote {path}")
    say(f"completion for {shell} works in every new shell; to remove it, delete what was written")
