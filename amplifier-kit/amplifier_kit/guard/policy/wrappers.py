"""Programs that run other programs: what inside of their words is run."""

from __future__ import annotations

import re
from typing import NamedTuple

from amplifier_kit.guard.policy.segment import HOLE
from amplifier_kit.guard.policy.variables import is_hazardous_variable


class Wrapped(NamedTuple):
    """What a wrapper runs: words, or the text of a script in the shell's language.

    With `is_transparent` the wrapper adds nothing of its own: only what it runs is judged. With a `reason` it could
    not be taken apart; then any word after it may be a program. `assignments` are variables set for what it runs, where
    they are the shell's own and no part of what the wrapper is told. With `is_bash` false the scripts are for a shell
    that knows less than bash.
    """

    words: tuple[tuple[str, ...], ...] = ()
    scripts: tuple[str, ...] = ()
    is_transparent: bool = False
    reason: str = ""
    assignments: tuple[str, ...] = ()
    is_bash: bool = True


class _Options(NamedTuple):
    """The options of a wrapper, so far as they can stand before the program it runs."""

    flags: str = ""
    valued: str = ""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    assigns: re.Pattern[str] | None = None
    operands: int = 0
    is_transparent: bool = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What sets a variable to `env`, whatever it is called, and to `sudo`, which knows a path.
_ANY_ASSIGNMENT = re.compile(r".*=", re.DOTALL)
_SUDO_ASSIGNMENT = re.compile(r"(?!/).*=", re.DOTALL)
_WRAPPERS = {
    "!": _Options(is_transparent=True),
    "builtin": _Options(is_transparent=True),
    "busybox": _Options(),
    "command": _Options("p", is_transparent=True),
    "doas": _Options("nL", "uC"),
    "env": _Options("i0v", "u", _names("ignore-environment null debug"), _names("unset"), _ANY_ASSIGNMENT),
    "exec": _Options("cl", "a"),
    "ionice": _Options("t", "cn", _names("ignore"), _names("class classdata")),
    "nice": _Options("0123456789", "n", long_valued=_names("adjustment"), is_transparent=True),
    "nohup": _Options(),
    "setsid": _Options("cfw", long_flags=_names("ctty fork wait")),
    "stdbuf": _Options("", "ioe", long_valued=_names("input output error"), is_transparent=True),
    "sudo": _Options(
        "AbEHKknPSBN",
        "CghprTtUu",
        _names("askpass background preserve-env set-home reset-timestamp non-interactive preserve-groups stdin bell"),
        _names("close-from group host prompt role command-timeout type other-user user"),
        _SUDO_ASSIGNMENT,
    ),
    "time": _Options("p", is_transparent=True),
    "timeout": _Options(
        "v",
        "ks",
        _names("foreground preserve-status verbose"),
        _names("kill-after signal"),
        operands=1,
        is_transparent=True,
    ),
    "toybox": _Options(),
    "xargs": _Options(
        "0rtpxo",
        "InLPsdEa",
        _names("null no-run-if-empty verbose interactive exit open-tty"),
        _names("arg-file delimiter max-args max-procs max-chars"),
    ),
}  # fmt: skip
#: What these are called where another system's programs have their names.
_WITH_G = _names("genv gfind gnice gnohup gstdbuf gtimeout gxargs")
#: Shells whose language this is, those of them that know only what is in its standard, and shells whose language is
#: near enough for a denying rule to see inside.
_SHELLS = _names("sh bash rbash dash ash")
_PLAIN_SHELLS = _names("sh dash ash")
_OTHER_SHELLS = _names(
    "zsh rzsh ksh ksh93 rksh mksh lksh pdksh oksh loksh posh yash osh ysh hush fish csh tcsh elvish nu xonsh"
)
#: Words of the shell's own behind which a command starts as anywhere.
_KEYWORDS = _names("! time")
#: Its other words. Where one seems to be a program, the grammar has read something else than the shell will.
RESERVED = _names("if then else elif fi for while until do done case esac select function in { }")
#: Programs of many forms that run what follows somewhere in their words. A rule may name them; a denying rule looks
#: at every word.
_RUNNERS = _names(
    "aa-exec asdf at batch bunx bwrap caffeinate capsh choom chroot chrt conda cpulimit dbus-launch dbus-run-session "
    "direnv docker dotenv entr expect fakeroot faketime firejail flock gdb gosu guix hatch kubectl linux32 linux64 "
    "ltrace mise nerdctl nix nix-shell npx nsenter numactl parallel pdm perf pipenv pipx pkexec pnpm podman poetry "
    "prlimit proot proxychains rlwrap run0 runcon runuser rye screen script setarch setpriv sg ssh ssh-agent "
    "start-stop-daemon strace su su-exec systemd-cat systemd-inhibit systemd-run taskset tmux torsocks unbuffer "
    "unshare uv uvx valgrind watch xvfb-run yarn "
    # Names of `setarch`.
    "aarch64 alpha arm arm64 armv7l armv8l i386 i486 i586 i686 ia64 loongarch64 mips mips32 mips64 parisc parisc32 "
    "parisc64 ppc ppc32 ppc64 ppc64le riscv32 riscv64 s390 s390x sparc sparc32 sparc64 uname26 x86_64"
)
#: The program that loads others.
_LOADER = re.compile(r"ld[\w.+-]*\.so[\w.]*", re.ASCII)
#: Builtins after which the shell is another: names, options, variables or files decide what its next commands are.
CHANGES_SHELL = _names(
    ". alias bind complete compopt declare enable eval export fc getopts hash let local mapfile readarray readonly "
    "set shopt source trap typeset unalias unset"
)
#: Builtins after which the shell is in another folder; `chdir` is one of dash.
CHANGES_FOLDER = _names("cd chdir pushd popd")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
#: What of a format writes into a variable how much was printed so far.
_COUNTS = re.compile(r"%[^a-zA-Z%]*[hjlLqtz]*n")
_SHELL_LONG = _names("--login --noprofile --norc --posix --noediting")
_NICE_SET = re.compile(r"[-+](e|u|x|eu|ex|ux|eux|o|eo|uo|xo|euo|exo|uxo|euxo)|pipefail|errexit|nounset|xtrace")
#: A shell's variable of such a name is nobody's setting.
PLAIN_NAME = re.compile(r"[a-z][a-z0-9]{0,15}", re.ASCII)


def runs_others(program: str) -> bool:
    """Tell whether a program runs what follows somewhere in its words."""
    name = program.rpartition("/")[2]
    return name in _RUNNERS or (name.startswith("ld") and _LOADER.fullmatch(name) is not None)


def changes_shell(words: tuple[str, ...]) -> bool:
    """Tell whether a command changes what the commands after it mean."""
    program, rest = words[0], words[1:]
    if program == "set":
        return not all(_NICE_SET.fullmatch(word) for word in rest)
    if program == "read":
        return not all(word == "-r" or PLAIN_NAME.fullmatch(word) for word in rest)
    if program == "printf":
        return _printf_sets(rest)
    return program in CHANGES_SHELL


def _printf_sets(words: tuple[str, ...]) -> bool:
    """Tell whether `printf` sets a variable: behind -v, or by a %n in its format."""
    if any(word.startswith(("-v", HOLE)) or (word.startswith("-") and HOLE in word) for word in words[:1]):
        return True
    at = int(words[:1] == ("--",))
    shown = "".join(words[at : at + 1]).replace("%%", "")
    has_values = len(words) > at + 1
    return has_values and (HOLE in shown or _COUNTS.search(shown) is not None)


def unwrap(words: tuple[str, ...]) -> Wrapped | None:
    """Return what a command runs besides itself, or None when it is no wrapper. The first word is a known name."""
    name = words[0].rpartition("/")[2].casefold()
    name = name[1:] if name in _WITH_G else name
    if name in _SHELLS or name in _OTHER_SHELLS:
        return _shell(name, words)
    if name in ("eval", "trap"):
        return _script(name, words)
    if name == "coproc":
        return Wrapped(reason="`coproc` takes a name or a command")
    if name == "find":
        return _find(words)
    if name == "xargs":
        return _xargs(words)
    if name in _WRAPPERS:
        return _wrapper(name, words)
    return None


def _wrapper(name: str, words: tuple[str, ...]) -> Wrapped:
    options = _WRAPPERS[name]
    if name == "command" and len(words) > 1 and words[1] in ("-v", "-V", "-pv", "-pV"):
        return Wrapped()
    start = _program_at(words, options)
    if start is None:
        return Wrapped(reason=f"`{name}` with options that are not known here")
    first, is_keyword = start, name in _KEYWORDS and "/" not in words[0]
    while is_keyword and start < len(words) and ASSIGNMENT.match(words[start]):
        start += 1
    if start >= len(words):
        return Wrapped()
    set_here = [word.partition("=")[0].rstrip("+") for word in words[1:start] if "=" in word and word[0] != "-"]
    if name == "env":
        set_here += _unset(words[1:start])
    # A name that no variable of the shell has is there for some program, which may take it for anything.
    if hazardous := [each for each in set_here if is_hazardous_variable(each) or not _NAME.fullmatch(each)]:
        return Wrapped(words=(words[start:],), reason=f"{hazardous[0]!r} may decide what runs")
    # A path may be another program of that name.
    is_transparent = options.is_transparent and "/" not in words[0]
    return Wrapped(words=(words[start:],), is_transparent=is_transparent, assignments=words[first:start])


def _unset(options: tuple[str, ...]) -> list[str]:
    """Return variables that options of `env` take away; without PATH a shell may look in the working directory."""
    found: list[str] = []
    for at, word in enumerate(options):
        name, equals, value = word.partition("=")
        letters, is_unset, rest = word[1:].partition("u") if not word.startswith("--") else ("", "", "")
        if word == "-" or name == "--ignore-environment" or "i" in letters:
            found.append("PATH")
        if is_unset or name == "--unset":
            following = options[at + 1] if at + 1 < len(options) else ""
            found.append((value if equals else following) if name == "--unset" else rest or following)
    return found


def _program_at(words: tuple[str, ...], options: _Options) -> int | None:
    """Return the index of the program that a wrapper runs, or None when an option is not known."""
    at = 1
    while at < len(words) and words[at].startswith(("-", HOLE)) and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        taken = _option_length(words[at], options)
        if taken is None:
            return None
        at += taken
    if options.assigns is not None:
        at += words[at : at + 1] == ("-",)
        while at < len(words) and options.assigns.match(words[at]):
            at += 1
    at += options.operands
    # What is filled in there may be several words: then another one is the program.
    return None if any(HOLE in word for word in words[1:at]) else at


def _option_length(word: str, options: _Options) -> int | None:
    if word.startswith("--"):
        name, equals, _ = word[2:].partition("=")
        if name in options.long_flags:
            return 1
        return (1 if equals else 2) if name in options.long_valued else None
    for index, letter in enumerate(word[1:], start=1):
        if letter in options.valued:
            return 1 if index < len(word) - 1 else 2
        if letter not in options.flags:
            return None
    return 1


def _xargs(words: tuple[str, ...]) -> Wrapped:
    start = _program_at(words, _WRAPPERS["xargs"])
    if start is None or start > len(words):
        return Wrapped(reason="`xargs` with options that are not known here")
    inner = list(words[start:])
    for index, word in enumerate(words[1:start], start=1):
        # The value of another option may look like it: then less is known than could be, which allows nothing.
        if found := re.match(r"-[^-I]*I", word):
            mark = word[found.end() :] or words[index + 1]
            inner = [part.replace(mark, HOLE) for part in inner]
    # Without anything to read, it runs the words as they stand.
    return Wrapped(words=(tuple(inner), (*inner, HOLE))) if inner else Wrapped()


def _find(words: tuple[str, ...]) -> Wrapped | None:
    found: list[tuple[str, ...]] = []
    at = 1
    while at < len(words):
        if words[at].startswith(HOLE) or (words[at].startswith("-") and HOLE in words[at]):
            return Wrapped(reason="`find` with a test that is known only when it runs")
        if words[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((index for index in range(at + 1, len(words)) if _ends_action(words, index)), None)
            if end is None or end == at + 1:
                return Wrapped(reason="`find` with an action that does not end")
            found.append(tuple(word.replace("{}", HOLE) for word in words[at + 1 : end]))
            at = end
        at += 1
    elsewhere = any(word in ("-execdir", "-okdir") for word in words)
    reason = "`find` runs it in other folders" if elsewhere else ""
    return Wrapped(words=tuple(found), reason=reason) if found else None


def _ends_action(words: tuple[str, ...], index: int) -> bool:
    """Tell whether an action of `find` ends at a word: a plus behind anything but {} is an argument."""
    return words[index] == ";" or (words[index] == "+" and words[index - 1] == "{}")


def _shell(name: str, words: tuple[str, ...]) -> Wrapped | None:
    """A shell: the text after -c, or a script's file, or what it reads from its input."""
    is_script = False
    at = 1
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] not in ("-", "--"):
        word = words[at]
        if word.startswith("--") and word not in _SHELL_LONG:
            return Wrapped(reason=f"`{name}` with options that are not known here")
        if not word.startswith("--"):
            if set(word[1:]) - set("ceuxlopfhmvnO"):
                return Wrapped(reason=f"`{name}` with options that are not known here")
            if word.startswith("+") and set(word) & set("no"):  # after `-n` the script is run all the same
                return Wrapped(reason=f"`{name}` with options that are taken back")
            is_script = is_script or "c" in word
            at += sum(letter in "oO" for letter in word[1:])
        at += 1
    at += words[at : at + 1] in (("-",), ("--",))
    if any(HOLE in word for word in words[1:at]):
        return Wrapped(reason=f"`{name}` with options that are known only when it runs")
    if at >= len(words):
        return Wrapped(reason=f"`{name}` runs what it reads")
    if not is_script:
        return None if HOLE not in words[at] else Wrapped(reason=f"`{name}` runs a file known only when it runs")
    if HOLE in words[at]:
        return Wrapped(reason=f"`{name} -c` of a text that is known only when it runs")
    reason = f"the language of `{name}` is not known here" if name in _OTHER_SHELLS else ""
    return Wrapped(scripts=(words[at],), reason=reason, is_bash=name not in _PLAIN_SHELLS)


def _script(name: str, words: tuple[str, ...]) -> Wrapped:
    text = " ".join(words[1:2] if name == "trap" else words[1:])
    if HOLE in text:
        return Wrapped(reason=f"`{name}` of a text that is known only when it runs")
    return Wrapped(scripts=(text,))
