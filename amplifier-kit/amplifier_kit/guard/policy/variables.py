"""Variables that make a harmless program run another one."""

from __future__ import annotations

import re

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


def is_hazardous_variable(name: str) -> bool:
    """Tell whether a variable of that name may change which program runs or what it loads."""
    return _VARIABLES.fullmatch(name) is not None
