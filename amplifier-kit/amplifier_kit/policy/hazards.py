"""Options and variables that make a harmless program run another one."""

from __future__ import annotations

import re

from amplifier_kit.policy.programs import READERS, behind_runner
from amplifier_kit.policy.segment import HOLE

#: Variables that decide which program runs, or what it loads: a command with one of them is not what it seems.
_VARIABLES = re.compile(
    r"PATH|IFS|ENV|SHELL|HOME|TMPDIR|CDPATH|GLOBIGNORE|PS\d|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|FPATH|"
    r"(BASH|LD|DYLD|GIT|SSH|GNUPG|PYTHON|PERL|RUBY|NODE|NPM|npm|JAVA|_JAVA|JDK|MAVEN|GRADLE|PIP|UV|CARGO|RUST|GO|CGO|"
    r"LUA|PHP|COMPOSER|DOTNET|CURL|WGET|SSL|OPENSSL|MALLOC|GLIBC|DOCKER|KUBE|AWS|MAKE|GNUMAKE|CMAKE|LESS|MAN|XDG|"
    r"PYTEST|MYPY|COVERAGE|AWK|TERMINFO|AMPLIFIER)\w*|"
    r"\w*(PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|PROXY|proxy|PRELOAD|OPTIONS|OPTS|FLAGS|COMMAND|CONFIG|CONFIG_PATH|RC)|"
    r"GCONV_PATH|LOCPATH|NLSPATH|CLASSPATH|CC|CXX|LD|AR|RSYNC_RSH|CVS_RSH|TAR_OPTIONS|POSIXLY_CORRECT|HISTFILE",
    re.ASCII,
)
_GIT_GLOBAL = ("-c", "-C", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--namespace", "--bare", "-p",
               "--attr-source", "--super-prefix")  # fmt: skip
#: For each program, the options with which it runs a program or writes a file of the caller's choice. Shortened long
#: options count as well.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "git": (
        "--upload-pack", "--receive-pack", "--exec", "--exec-path", "--ext-diff", "--textconv", "--output", "--config",
        "--open-files-in-pager", "--extcmd", "--template", "--separate-git-dir", "--local-env-vars", "--config-env",
        "--tree-filter", "--index-filter", "--msg-filter", "--commit-filter", "--env-filter", "--smtp-server",
        "--remote", "--hooks-path", "--tool", "--help", "--output-directory", "--parent-filter", "--tag-name-filter",
        "--setup", "--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd", "--export-marks", "--export-pack-edges",
        "--index-output",
    ),
    "find": ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "tar": ("--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--info-script",
            "--new-volume-script", "-I", "-F", "--rmt-command", "--index-file", "--volno-file", "-g",
            "--listed-incremental"),
    "sort": ("--compress-program", "--output", "-o"),
    "rg": ("--pre", "--hostname-bin", "--search-zip"),
    "rsync": ("-e", "--rsh", "--rsync-path", "--log-file", "--write-batch", "--only-write-batch"),
    "ssh": ("-o", "-F", "-J", "-I", "-E"),
    "scp": ("-o", "-F", "-S"),
    "sed": ("-i", "-I", "--in-place", "-f", "--file"),
    "less": ("-o", "-O", "--log-file"),
    "man": ("-P", "--pager", "-H", "--html", "-C", "--config-file"),
    "curl": ("-o", "-O", "--output", "--output-dir", "--remote-name", "-K", "--config", "-T", "--upload-file", "-D",
             "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--stderr", "--etag-save", "--hsts",
             "--alt-svc", "--libcurl", "--remote-name-all", "--engine", "--unix-socket", "--abstract-unix-socket",
             "--ssl-sessions"),
    "wget": ("-O", "--output-document", "--use-askpass", "-e", "--execute", "--post-file", "-o", "--output-file", "-a",
             "--append-output", "-P", "--directory-prefix", "--save-cookies", "--warc-file", "--rejected-log",
             "--config", "--body-file", "--hsts-file"),
    "fd": ("-x", "--exec", "-X", "--exec-batch"),
    "fdfind": ("-x", "--exec", "-X", "--exec-batch"),
    "ag": ("--pager",),
    "bat": ("--pager", "--config-file"),
    "hg": ("--config", "--config-file", "--cwd", "-R", "--repository"),
    "svn": ("--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option", "--config-dir"),
    "zip": ("-T", "-TT", "--unzip-command"),
    "ip": ("-b", "-batch", "netns"),
    "tree": ("-o", "-R"),
    "yq": ("-i", "--inplace", "--in-place", "-s", "--split-exp"),
    "date": ("-s", "--set"),
    "diff": ("--to-file",),
    "env": ("-S", "--split-string"),
    "shuf": ("-o", "--output"),
    "iconv": ("-o", "--output"),
    "file": ("-C", "--compile"),
    "nm": ("--plugin",),
    "ar": ("--plugin",),
    "kubectl": ("--kubeconfig",),
    "cargo": ("--config", "--manifest-path", "-Z", "-C"),
    "mypy": ("--python-executable", "--config-file", "--install-types", "--junit-xml", "--cache-dir", "--shadow-file",
             "--html-report", "--xml-report", "--txt-report", "--xslt-html-report", "--linecount-report"),
    "ruff": ("--config", "-o", "--output-file", "--cache-dir"),
    "test": ("-v", "-R"),
    "compgen": ("-C", "-F", "-W"),
    "history": ("-w", "-a", "-r", "-n"),
    "jobs": ("-x",),
    "wait": ("-p",),
}  # fmt: skip


#: Other names of these programs.
_ALIASES = {
    "batcat": "bat", "bsdtar": "tar", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gdate": "date", "gfind": "find",
    "gmake": "make", "gsed": "sed", "gsort": "sort", "gtar": "tar", "py.test": "pytest",
}  # fmt: skip
#: What single letters and words mean to some commands of git alone.
_GIT_COMMANDS: dict[str, tuple[str, ...]] = {
    "archive": ("-o",),
    "bisect": ("run",),
    "clone": ("-u", "-c"),
    "difftool": ("-x", "-t"),
    "format-patch": ("-o",),
    "grep": ("-O",),
    "mergetool": ("-t",),
    "rebase": ("-x",),
    "submodule": ("foreach",),
}


def is_hazardous_variable(name: str) -> bool:
    """Tell whether a variable of that name may change which program runs or what it loads."""
    return _VARIABLES.fullmatch(name) is not None


def hazardous_option(words: tuple[str, ...]) -> str | None:
    """Return the option with which this command runs or writes something of the caller's choice, if it has one."""
    words = behind_runner(words)
    program, rest = words[0].rpartition("/")[2], words[1:]
    program = _ALIASES.get(program, program)
    known, reader = _OPTIONS.get(program, ()), READERS.get(program)
    if reader is not None and (found := reader(rest)) is not None:
        return found.replace(HOLE, "…")
    if program == "awk" or not (known or reader):
        return None  # what is filled in behind awk's program is a file
    if program == "git":
        command, found = _git_command(rest)
        if found is not None or command is None:
            return found
        known += _GIT_COMMANDS.get(command, ())
    elif program == "tar" and rest:
        rest = (f"-{rest[0].removeprefix('-')}", *rest[1:])  # the first word is options, with or without a dash
    # A `--` ends nothing here: it may be the value of the option before it, and to find it is nothing at all.
    return next((_told(word) for word in rest if word.startswith(HOLE) or _is_one_of(word, known)), None)


def _git_command(rest: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return the command of a git line, and the option before it that makes it run or read something else."""
    for word in rest:
        if not word.startswith(("-", HOLE)):
            return word, None
        if HOLE in word or word.startswith(_GIT_GLOBAL):
            return None, _told(word)
    return None, None


def _told(word: str) -> str:
    return word.partition("=")[0].replace(HOLE, "…")


def _is_one_of(word: str, known: tuple[str, ...]) -> bool:
    if not word.startswith("-"):
        return word in known
    if word in ("-", "--"):
        return False
    name = word.partition("=")[0]
    if HOLE in name:  # it may be any option
        return True
    if name.startswith("--"):
        return any(option.startswith(name) for option in known)
    # A single letter may stand in a cluster, or have its value behind it; a find-like option stands alone.
    return any(option == name or (len(option) == 2 and option[1] in name[1:]) for option in known)
