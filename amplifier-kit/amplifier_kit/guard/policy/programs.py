"""Programs whose words have to be read one by one to tell whether they run or write something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from amplifier_kit.guard.policy.awk import hazardous_awk
from amplifier_kit.guard.policy.sed import hazardous_script
from amplifier_kit.guard.policy.variables import is_hazardous_variable

#: A file or a folder of the project, by a name that hides nothing.
_PLAIN_PLACE: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.][\w./-]*", re.ASCII)

#: Variables of a makefile are put into its commands, and what stands in them may be a command.
_MAKE_SET: Final = re.compile(r"([^=\s]+?)[:+?!]*=(.*)", re.DOTALL)
_MAKE_VALUE: Final = re.compile(r"[\w./,:@%+-]*", re.ASCII)
_MAKE_DECIDES: Final = re.compile(r"\.?SHELL\w*|MAKE\w*|[A-Z]*(CC|CXX|LD|AR|RM|CMD|COMMAND|FLAGS|PYTHON)|.*[^\w].*")

_PYTEST: Final = re.compile(
    r"--(tx|px|rsyncdir|basetemp|pastebin|junit-?xml|log-file|debug|html|report-log|resultlog|config-file|cov-config|"
    r"override-ini)"
)
#: A report with the file that it is written to, by an option of pytest-cov.
_PYTEST_REPORT: Final = re.compile(r"\A(--cov-report=)?(html|xml|json|lcov|annotate|markdown\S*):")
_PYTEST_LETTERS: Final = re.compile(r"-[vqxslhdfV]*(?P<letter>[cop])(?P<value>.*)", re.DOTALL)
_PYTEST_SETTINGS: Final = re.compile(r"addopts=|(log_cli\w*|xfail_strict|asyncio_\w+|timeout|console_output_style)=\w*")

_GO: Final = re.compile(
    r"--?(test\.)?(exec|toolexec|vettool|o|overlay|modfile|C|pkgdir|\w+profile|trace|outputdir|\w+flags|compiler)"
)

#: What names another compiler, a wrapper of it, or a file with more of this.
_CMAKE: Final = re.compile(
    r"-[EPC].*|--graphviz.*|--trace-redirect.*|--install-prefix.*|--prefix.*"
    r"|(-D)?\w*(COMPILER|LAUNCHER|PROGRAM(?!S|_PATH)|COMMAND(?!S)|LINKER|TOOLCHAIN)\w*(:\w+)?=.*"
    r"|(-D)?CMAKE_PROJECT_\w*INCLUDE\w*(:\w+)?=.*",
    re.DOTALL,
)
_GCC: Final = re.compile(
    r"--?wrapper(=.*)?|-B.*|-fplugin.*|-fpass-plugin.*|--?specs(=.*)?|-Xclang|-load|-fuse-ld=.*|--?ld-path=.*|@.*",
    re.DOTALL,
)
_GRADLE: Final = re.compile(
    r"-[IbcpgM].*|--(init-script|build-file|settings-file|project-dir|gradle-user-home|include-build"
    r"|project-cache-dir|write-\S*|write-verification-metadata)(=.*)?"
    r"|-Dorg\.gradle\.(jvmargs|java\.home|user\.home|projectcachedir).*",
    re.DOTALL,
)
_COVERAGE: Final = re.compile(r"--(rcfile|data-file|debug-file)(=.*)?", re.DOTALL)
_COVERAGE_REPORT: Final = re.compile(rf"{_COVERAGE.pattern}|-[od].*|--(o|output-file|directory)(=.*)?", re.DOTALL)
_ESLINT: Final = re.compile(
    r"-[oc].*|--(output-file|config|rulesdir|resolve-plugins-relative-to|plugin|parser|cache-location|cache-file)"
)

_OPENSSL: Final = re.compile(
    r"--?(\w*engine(_impl)?|provider(-path)?|config|out|keyout|writerand|sess_out|keylogfile|msgfile|certsout"
    r"|CAcreateserial|CAserial|rsp_?out|req_?out|module|pre|post)"
)
#: Where less and vim start: a line, the end, a text to look for. Everything else behind a plus is a command.
_LESS_START: Final = re.compile(r"\+\+?([0-9]*[gGF%]?|/[^\x00-\x1f]*)")
_VIM_START: Final = re.compile(r"\+[0-9]*")
#: Addresses of socat that run or write.
_SOCAT: Final = re.compile(r"(exec|system|shell|open|create|gopen|file)\b.*", re.IGNORECASE | re.DOTALL)

#: Where curl reads a file to send it, and where it writes one by a format.
_CURL_FILE: Final = re.compile(r"(\A|=|\A-[A-Za-z]+)[@<]")


def _make(words: tuple[str, ...]) -> str | None:
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if _shortens(name, "--file", "--makefile", "--directory", "--include-dir"):
                if not _PLAIN_PLACE.fullmatch(value if equals else following):
                    return name
            elif _shortens(name, "--eval"):
                return name
        elif word.startswith("-"):
            if "E" in word:
                return word
            letters, letter, value = _parted(word, "fCI")
            if letter and not _PLAIN_PLACE.fullmatch(value or following):
                return f"-{letters}{letter}"
        elif (found := _MAKE_SET.fullmatch(word)) and not _is_plain_setting(found[1], found[2]):
            return found[1]
    return None


def _is_plain_setting(name: str, value: str) -> bool:
    # What is set on its line, make puts into the environment of every command.
    decides = _MAKE_DECIDES.fullmatch(name) is not None or is_hazardous_variable(name)
    return not decides and _MAKE_VALUE.fullmatch(value) is not None


def _pytest(words: tuple[str, ...]) -> str | None:
    for at, word in enumerate(words):
        if _PYTEST.fullmatch(word.partition("=")[0]):
            return word.partition("=")[0]
        if word.startswith("@") or _PYTEST_REPORT.search(word):
            return word[:40]
        if found := _PYTEST_LETTERS.fullmatch(word):
            value = found["value"] or (words[at + 1] if at + 1 < len(words) else "")
            is_harmless = {"c": False, "o": bool(_PYTEST_SETTINGS.fullmatch(value)), "p": value.startswith("no:")}
            if not is_harmless[found["letter"]]:
                return f"-{found['letter']}"
    return None


def _go(words: tuple[str, ...]) -> str | None:
    if words[:1] == ("env",) and (found := next((word for word in words if word.lstrip("-")[:1] in ("w", "u")), None)):
        return found  # what it sets, every later command runs
    return next((word.partition("=")[0] for word in words if _GO.fullmatch(word.partition("=")[0])), None)


def _openssl(words: tuple[str, ...]) -> str | None:
    return next((word for word in words if _OPENSSL.fullmatch(word.partition("=")[0])), None)


def _starting_at(known: re.Pattern[str]) -> Callable[[tuple[str, ...]], str | None]:
    """Return a reader for programs that take a command of their own behind a plus."""

    def read(words: tuple[str, ...]) -> str | None:
        # A line may end in any word, and what is behind it is the next command.
        is_odd = (word for word in words if "\n" in word or (word.startswith("+") and not known.fullmatch(word)))
        return next(is_odd, None)

    return read


def _socat(words: tuple[str, ...]) -> str | None:
    return next((word for word in words if _SOCAT.fullmatch(word) or word in ("-lf", "-r", "-R")), None)


def _npm(words: tuple[str, ...]) -> str | None:
    """It takes long options behind one dash as well, shortened or not."""
    decides = ("script-shell", "prefix", "node-options", "userconfig", "globalconfig", "shell", "git", "editor")
    for word in words:
        name = word.partition("=")[0].lstrip("-")
        if re.match(r"-\w*C", word) or (word.startswith("-") and len(name) > 2 and _shortens(name, *decides)):
            return word.partition("=")[0]
    return None


def _curl(words: tuple[str, ...]) -> str | None:
    encodes = any(
        (_shortens(word, "--data-urlencode") and len(word) > len("--data-"))
        or (_shortens(word, "--url-query") and len(word) > len("--url"))
        for word in words
    )
    for word in words:
        if word.startswith("--expand-") or "%output{" in word or _CURL_FILE.search(word) or (encodes and "@" in word):
            return word.partition("=")[0][:40]
    return None


def _second_operand(valued: str) -> Callable[[tuple[str, ...]], str | None]:
    """Return a reader for programs that write to the second file they are given."""

    def read(words: tuple[str, ...]) -> str | None:
        if "--" in words:
            return "--"  # a file's name behind it may look like an option
        operands: list[str] = []
        for at, word in enumerate(words):
            is_option = re.match(r"-.|\+[0-9]", word) is not None
            # Behind the first file, what looks like an option may be the second.
            if not (at and words[at - 1] in valued.split()) and (operands or not is_option):
                operands.append(word)
        return operands[1] if len(operands) > 1 else None

    return read


def _any_of(known: re.Pattern[str]) -> Callable[[tuple[str, ...]], str | None]:
    """Return a reader for programs whose options are not put together from letters."""
    return lambda words: next((word.partition("=")[0] for word in words if known.fullmatch(word)), None)


def _cmake(words: tuple[str, ...]) -> str | None:
    if found := next((word for word in words if _CMAKE.fullmatch(word)), None):
        return found.partition("=")[0]
    # What stands behind the mark is for the builder, which is make more often than not.
    return _make(words[words.index("--") + 1 :]) if "--" in words else None


def _coverage(words: tuple[str, ...]) -> str | None:
    command = next((word for word in words if not word.startswith("-")), "")
    writes = _COVERAGE if command == "run" else _COVERAGE_REPORT
    for word in words:
        if word == "-m" and command == "run":
            return None  # the rest is for the module
        if writes.fullmatch(word):
            return word.partition("=")[0]
    return None


def _eslint(words: tuple[str, ...]) -> str | None:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if _ESLINT.fullmatch(name):
            return name
        is_format = name in ("-f", "--format")
        if is_format and not re.fullmatch(r"[\w-]+", value if equals else "".join(words[at + 1 : at + 2]), re.ASCII):
            return name  # it may be a file that is run
    return None


def _shortens(name: str, *options: str) -> bool:
    return any(option.startswith(name) for option in options)


def _parted(word: str, wanted: str) -> tuple[str, str, str]:
    """Part a cluster of letters at the first wanted one: what is before it, the letter, and its value."""
    found = re.search(f"[{wanted}]", word)
    return (word[1:], "", "") if found is None else (word[1 : found.start()], found[0], word[found.end() :])


#: What a program's words are read by; each returns the word that is to blame.
READERS: Final[dict[str, Callable[[tuple[str, ...]], str | None]]] = {
    "awk": hazardous_awk,
    "cmake": _cmake,
    "coverage": _coverage,
    "curl": _curl,
    "eslint": _eslint,
    "gcc": _any_of(_GCC),
    "go": _go,
    "gradle": _any_of(_GRADLE),
    "json.tool": _second_operand("--indent"),
    "less": _starting_at(_LESS_START),
    "make": _make,
    "npm": _npm,
    "openssl": _openssl,
    "pytest": _pytest,
    "sed": hazardous_script,
    "socat": _socat,
    "uniq": _second_operand("-f -s -w --skip-fields --skip-chars --check-chars"),
    "vim": _starting_at(_VIM_START),
    "xxd": _second_operand("-c -g -l -s -o -n -R -cols -len -seek"),
}
