"""Options that make a harmless program run another one."""

from __future__ import annotations

from amplifier_kit.guard.policy.git_words import named_strategy
from amplifier_kit.guard.policy.programs import READERS
from amplifier_kit.guard.policy.runners import started
from amplifier_kit.guard.policy.segment import HOLE

_GIT_GLOBAL = ("-c", "-C", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--namespace", "--bare", "-p",
               "--attr-source", "--super-prefix")  # fmt: skip
#: For each program, the options with which it runs a program or writes a file of the caller's choice. Shortened long
#: options count as well; `@` stands for a file that holds more of them.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "git": (
        "--upload-pack", "--receive-pack", "--exec", "--exec-path", "--ext-diff", "--textconv", "--output", "--config",
        "--open-files-in-pager", "--extcmd", "--template", "--separate-git-dir", "--local-env-vars", "--config-env",
        "--tree-filter", "--index-filter", "--msg-filter", "--commit-filter", "--env-filter", "--smtp-server",
        "--remote", "--hooks-path", "--tool", "--help", "--output-directory", "--parent-filter", "--tag-name-filter",
        "--setup", "--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd", "--export-marks", "--export-pack-edges",
        "--index-output", "--unsafe-paths", "--build-fake-ancestor", "--access-hook", "--pid-file",
    ),
    "find": ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "tar": ("--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--info-script",
            "--new-volume-script", "-I", "-F", "--rmt-command", "--index-file", "--volno-file", "-g",
            "--listed-incremental", "--remove-files", "--recursive-unlink"),
    "sort": ("--compress-program", "--output", "-o"),
    "rg": ("--pre", "--hostname-bin", "--search-zip"),
    "rsync": ("-e", "--rsh", "--rsync-path", "--log-file", "--write-batch", "--only-write-batch", "-M",
              "--remote-option", "--backup-dir", "--partial-dir", "--daemon", "--config", "--remove-source-files",
              "--remove-sent-files", "--del", "--delete-before", "--delete-during", "--delete-delay",
              "--delete-after", "--delete-excluded", "--delete-missing-args"),
    "ssh": ("-o", "-F", "-J", "-I", "-E"),
    "scp": ("-o", "-F", "-S", "-D", "-J"),
    "sftp": ("-o", "-F", "-S", "-D", "-J", "-b"),
    "ssh-add": ("-s", "-S"),
    "ssh-copy-id": ("-o", "-F"),
    "ssh-keygen": ("-D", "-w"),
    "sed": ("-i", "-I", "--in-place", "-f", "--file"),
    "less": ("-o", "-O", "--log-file", "--LOG-FILE", "-k", "--lesskey-file", "--lesskey-src", "--lesskey-content",
             "--cmd"),
    "man": ("-P", "--pager", "-H", "--html", "-C", "--config-file", "-X", "--gxditview"),
    "vim": ("-c", "--cmd", "-S", "-s", "-u", "-U", "-w", "-W", "-i", "-V", "-l", "--startuptime", "--remote-send",
            "--remote-expr", "--listen"),
    "nano": ("-s", "--speller", "-f", "--rcfile", "-C", "--backupdir"),
    "emacs": ("-l", "-f", "-x", "-load", "--load", "-funcall", "--funcall", "-eval", "--eval", "-execute", "--execute",
              "-script", "--script", "-batch", "--batch"),
    "curl": ("-o", "-O", "--output", "--output-dir", "--remote-name", "-K", "--config", "-T", "--upload-file", "-D",
             "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--stderr", "--etag-save", "--hsts",
             "--alt-svc", "--libcurl", "--remote-name-all", "--engine", "--unix-socket", "--abstract-unix-socket",
             "--ssl-sessions", "-Q", "--quote", "--mail-rcpt"),
    "wget": ("-O", "--output-document", "--use-askpass", "-e", "--execute", "--post-file", "-o", "--output-file", "-a",
             "--append-output", "-P", "--directory-prefix", "--save-cookies", "--warc-file", "--rejected-log",
             "--config", "--body-file", "--hsts-file", "--warc-tempdir"),
    "fd": ("-x", "--exec", "-X", "--exec-batch"),
    "fdfind": ("-x", "--exec", "-X", "--exec-batch"),
    "ag": ("--pager",),
    "ack": ("--pager", "--ackrc"),
    "delta": ("--pager",),
    "bat": ("--pager", "--config-file"),
    "hg": ("--config", "--config-file", "--cwd", "-R", "--repository"),
    "svn": ("--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option", "--config-dir"),
    "zip": ("-T", "-TT", "--test", "--unzip-command", "-m", "--move", "-lf", "--logfile-path"),
    "unzip": ("-:",),
    "ip": ("-b", "-batch", "netns", "vrf"),
    "tree": ("-o", "-R"),
    "yq": ("-i", "--inplace", "--in-place", "-s", "--split-exp"),
    "date": ("-s", "--set"),
    "diff": ("--to-file",),
    "diff3": ("--diff-program",),
    "sdiff": ("-o", "--output", "--diff-program"),
    "patch": ("-o", "--output", "-r", "--reject-file", "-d", "--directory", "-e", "--ed"),
    "split": ("--filter",),
    "install": ("--strip-program",),
    "ptx": ("-G", "--traditional"),
    "cpio": ("--rsh-command", "-O", "-F", "--file"),
    "fzf": ("--preview", "--bind", "--listen", "--with-shell"),
    "gpg": ("-o", "--output", "--agent-program", "--dirmngr-program", "--keyboxd-program", "--photo-viewer",
            "--exec-path", "--options", "--homedir", "--log-file", "--logger-file", "--status-file",
            "--attribute-file"),
    "nc": ("-e", "-c", "--exec", "--sh-exec", "--lua-exec", "-o", "--output"),
    "nmap": ("--script", "-o", "--datadir", "--resume"),
    "tcpdump": ("-w", "-z"),
    "ss": ("-K", "--kill", "-D", "--diag"),
    "dmesg": ("-C", "-c", "--clear", "--read-clear", "-D", "-E", "-n", "--console-off", "--console-on",
              "--console-level"),
    "journalctl": ("--vacuum-size", "--vacuum-time", "--vacuum-files", "--rotate", "--flush", "--cursor-file"),
    "pip": ("--log", "--log-file", "--local-log", "--python", "--report"),
    "xmllint": ("-o", "--output", "--shell"),
    "xsltproc": ("-o", "--output", "--writesubtree"),
    "env": ("-S", "--split-string"),
    "shuf": ("-o", "--output"),
    "iconv": ("-o", "--output"),
    "file": ("-C", "--compile"),
    "nm": ("--plugin",),
    "ar": ("--plugin",),
    "kubectl": ("--kubeconfig", "--cache-dir", "--profile-output", "--log-file", "--log-dir"),
    "cargo": ("--config", "--manifest-path", "-Z", "-C", "--target-dir", "--logfile"),
    "mypy": ("--python-executable", "--config-file", "--install-types", "--junit-xml", "--cache-dir", "--shadow-file",
             "--html-report", "--xml-report", "--txt-report", "--xslt-html-report", "--linecount-report",
             "--any-exprs-report", "--cobertura-xml-report", "--linecoverage-report", "--lineprecision-report",
             "--xslt-txt-report", "@"),
    "pylint": ("--init-hook", "--load-plugins", "--rcfile", "--output", "--import-graph", "--ext-import-graph",
               "--int-import-graph"),
    "flake8": ("--output-file", "--config", "--append-config", "--enable-extensions"),
    "ctest": ("-S", "-SP", "--script", "--script-new-process", "-O", "--output-log", "--output-junit",
              "--build-and-test", "--build-makeprogram", "--test-command"),
    "helm": ("--post-renderer", "--output-dir", "--kubeconfig", "--registry-config", "--repository-config",
             "--repository-cache", "-d", "--destination"),
    "info": ("-o", "--output", "--dribble", "--restore", "--init-file"),
    "ruff": ("--config", "-o", "--output-file", "--cache-dir", "@"),
    "test": ("-v", "-R"),
    "compgen": ("-C", "-F", "-W"),
    "history": ("-w", "-a", "-r", "-n"),
    "jobs": ("-x",),
    "wait": ("-p",),
}  # fmt: skip


#: Other names of these programs.
_ALIASES = {
    "[": "test", "c++": "gcc", "cc": "gcc", "clang": "gcc", "clang++": "gcc", "coverage3": "coverage", "g++": "gcc",
    "gradlew": "gradle", "batcat": "bat", "bsdtar": "tar", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gdate": "date",
    "gfind": "find", "gmake": "make", "gsed": "sed", "gsort": "sort", "gtar": "tar", "py.test": "pytest",
    "ex": "vim", "ginstall": "install", "gpg2": "gpg", "gsplit": "split", "gvim": "vim", "ncat": "nc", "netcat": "nc",
    "nvim": "vim", "pip3": "pip", "vi": "vim", "view": "vim", "vimdiff": "vim",
}  # fmt: skip
#: Harmless options that are no abbreviations, though one of those above begins like them.
_WHOLE = {"pip": ("--local",)}
#: What single letters and words mean to some commands of git alone.
_GIT_COMMANDS: dict[str, tuple[str, ...]] = {
    "archive": ("-o",),
    "bisect": ("run",),
    "bugreport": ("-o",),
    "checkout-index": ("--prefix",),
    "diagnose": ("-o",),
    "maintenance": ("start", "stop", "register", "unregister"),
    "clone": ("-u", "-c"),
    "difftool": ("-x", "-t"),
    "format-patch": ("-o",),
    "grep": ("-O",),
    "mergetool": ("-t",),
    "index-pack": ("-o",),
    "interpret-trailers": ("--in-place",),
    "mailsplit": ("-o",),
    "rebase": ("-x",),
    # What they set in the configuration decides where later commands lead.
    "remote": ("add", "set-url", "rename", "remove", "rm", "set-branches"),
    "submodule": ("foreach", "set-url"),
    "svn": ("--authors-prog",),
}
#: Commands of git that run, or open to others, whatever their words name.
_GIT_RUNS = frozenset({
    "bisect--helper", "credential", "credential-cache", "credential-cache--daemon", "credential-store", "cvsserver",
    "daemon", "difftool--helper", "for-each-repo", "http-backend", "instaweb", "merge-index", "receive-pack",
    "remote-ext", "remote-fd", "shell", "submodule--helper", "upload-archive", "upload-archive--writer", "upload-pack",
    "web--browse",
})  # fmt: skip
#: What `git config` may be given when it only shows something, and what says that it does.
_GIT_SHOWS = frozenset({
    "-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--get-colorbool", "get",
    "list",
})  # fmt: skip
_GIT_PLAIN = frozenset({
    "--global", "--local", "--system", "--worktree", "--show-origin", "--show-scope", "--name-only", "--null", "-z",
    "--includes", "--no-includes", "--bool", "--int", "--path", "--all", "--regexp",
})  # fmt: skip


def hazardous_option(words: tuple[str, ...]) -> str | None:
    """Return the option with which this command runs or writes something of the caller's choice, if it has one."""
    return next(filter(None, map(_hazard, started(words))), None)


def _hazard(words: tuple[str, ...]) -> str | None:
    if not words:
        return None
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
        own = rest[rest.index(command) + 1 :]
        # With a slash, the name leads to a program of a folder that is called `git-…`.
        if command in _GIT_RUNS or "/" in command or HOLE in command or (command == "config" and _sets(own)):
            return command.replace(HOLE, "…")
        if (strategy := named_strategy(command, own)) is not None:
            return f"--strategy={strategy}".replace(HOLE, "…")
        known += _GIT_COMMANDS.get(command, ())
    elif program == "tar" and rest:
        rest = (f"-{rest[0].removeprefix('-')}", *rest[1:])  # the first word is options, with or without a dash
    # A `--` ends nothing here: it may be the value of the option before it, and to find it is nothing at all.
    looked_at = (word for word in rest if word not in _WHOLE.get(program, ()))
    return next((_told(word) for word in looked_at if word.startswith(HOLE) or _is_one_of(word, known)), None)


def _git_command(rest: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return the command of a git line, and the option before it that makes it run or read something else."""
    for word in rest:
        if not word.startswith(("-", HOLE)):
            return word, None
        if HOLE in word or word.startswith(_GIT_GLOBAL):
            return None, _told(word)
    return None, None


def _sets(words: tuple[str, ...]) -> bool:
    """Tell whether `git config` may set something: what it sets is run by git's next commands."""
    given = [word for word in words if word not in _GIT_PLAIN]
    if not given or any(HOLE in word for word in given):
        return True
    options = [word for word in given[1:] if word.startswith("-")]
    is_read = given[0] in _GIT_SHOWS or (len(given) == 1 and "." in given[0] and not given[0].startswith("-"))
    return bool(options) or not is_read


def _told(word: str) -> str:
    return word.partition("=")[0].replace(HOLE, "…")


def _is_one_of(word: str, known: tuple[str, ...]) -> bool:
    if not word.startswith("-"):
        return word in known or (word.startswith("@") and "@" in known)
    if word in ("-", "--"):
        return False
    name = word.partition("=")[0]
    if HOLE in name:  # it may be any option
        return True
    if name.startswith("--"):
        return any(option.startswith(name) for option in known)
    # One or two letters may stand in a cluster, or have a value behind them; a find-like option stands alone.
    return any(option == name or (len(option) <= 3 and option[1:] in name[1:]) for option in known)
