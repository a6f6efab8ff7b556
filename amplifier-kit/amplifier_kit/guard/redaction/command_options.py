"""Secrets in short options of programs: `mysql -pSECRET`, `sshpass -p SECRET`, `redis-cli -a SECRET`.

Long options (`--password …`) are the same everywhere; short ones mean something else in every program. So this is a
table: to add a program, add a row or its name to one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from amplifier_kit.guard.redaction.label_values import STRING, Found, Rule, RuleGroup, is_placeholder
from amplifier_kit.guard.redaction.prefilter import any_in, pattern


class SecretOption(NamedTuple):
    """An option whose value is a secret, with the programs that have it."""

    programs: tuple[str, ...]
    option: str
    #: What may stand between the option and its value: nothing or blanks.
    gap: str
    #: Whether it comes before any other word, which may be a program with the same option.
    first: bool = False


_GLUED: Final = ""
#: Also as two items of a list: `"-p", "…"`.
_APART: Final = r"(?:[ \t]{1,4}|\\?[\"'],[ \t]{0,4})"
_EITHER: Final = rf"{_APART}?"

OPTIONS: Final = (
    SecretOption(
        (
            *("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlshow", "mysqlslap", "mysqlbinlog"),
            *("mariadb", "mariadb-dump", "mariadb-admin", "mycli", "7z", "7za", "7zz"),
        ),
        "-p",
        _GLUED,
    ),
    SecretOption(("sshpass",), "-p", _EITHER, first=True),
    SecretOption(("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport"), "-p", _EITHER),
    SecretOption(
        (
            *("docker login", "podman login", "nerdctl login", "buildah login", "skopeo login", "helm registry login"),
            *("oras login", "crane auth login", "az login", "az acr login", "oc login", "cf login"),
        ),
        "-p",
        _APART,
    ),
    SecretOption(("zip", "unzip", "sqlcmd"), "-P", _EITHER),
    SecretOption(("openssl",), "-p", r"ass(?:in|out)?[ \t]{1,4}pass:"),
    SecretOption(("redis-cli", "keydb-cli", "valkey-cli"), "-a", _APART),
    SecretOption(("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami"), "-w", _EITHER),
)

#: What may stand between a program and its option, on the same line and in the same command.
_BETWEEN = r"(?>\"[^\"\n]*+\"|'[^'\n]*+'|[^\n;|&\"']|[\"'])*+$"
_DIRECTLY = r"[ \t\"',\\]{1,8}$"


def _form(letter: str) -> str:
    """Return the pattern of an option; it begins with a literal, which makes the search fast."""
    return (
        rf"(?P<label>-(?-i:{letter})(?<=[\s\"']-.))"
        r"(?P<gap>(?:ass(?:in|out)?[ \t]{1,4}pass:|[ \t]{1,4}|\\?[\"'],[ \t]{0,4}(?=\\?[\"']))?)"
        rf"(?P<value>{STRING}|[^\s\"'\\\[\]\-=][^\s\"'\\\[\]]{{1,200}})"
    )


def _is_secret_option(found: Found) -> bool:
    """Tell whether a program before the option, in the same command, takes a secret by it."""
    if is_placeholder(found.value):
        return False
    return any(
        option.option == found.label
        and pattern(option.gap).fullmatch(found.gap) is not None
        and any_in(option.programs, found.before)
        and pattern(_before(option)).search(found.before) is not None
        for option in OPTIONS
    )


@cache
def _before(option: SecretOption) -> str:
    programs = "|".join(re.escape(program).replace(r"\ ", r"[ \t]{1,4}") for program in option.programs)
    return rf"(?<![\w.\-])(?:{programs})(?![\w.\-:]){_DIRECTLY if option.first else _BETWEEN}"


GROUPS: Final = (
    RuleGroup(("-p",), (Rule(("-p",), _form("[pP]"), _is_secret_option),)),
    RuleGroup(("-cli",), (Rule(("-a",), _form("a"), _is_secret_option),)),
    RuleGroup(("ldap",), (Rule(("-w",), _form("w"), _is_secret_option),)),
)
#: What a text needs for any of them.
ANCHORS: Final = ("-p", "-cli", "ldap")
