"""Secrets in short options of programs: `mysql -pSECRET`, `sshpass -p SECRET`, `redis-cli -a SECRET`.

Long options (`--password …`) are the same everywhere; short ones mean something else in every program. So this is a
table: to add a program, add a row or its name to one.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from amplifier_kit.redaction.values import STRING, Found, Rule, is_placeholder


class SecretOption(NamedTuple):
    """An option whose value is a secret, with the programs that have it."""

    programs: tuple[str, ...]
    option: str
    #: What may stand between the option and its value: nothing, blanks, or a name before the password.
    gap: str
    #: Whether it comes before any other word, which may be a program with the same option.
    first: bool = False


_GLUED: Final = ""
#: Also as two items of a list: `"-p", "…"`.
_APART: Final = r"(?:[ \t]{1,4}|\\?[\"'],[ \t]{0,4}(?=\\?[\"']))"
_EITHER: Final = rf"{_APART}?"
_AFTER_NAME: Final = r"[ \t]{0,4}\\?[\"']?[^\s:,%\"']{1,80}[:,%]"

OPTIONS: Final = (
    SecretOption(
        (
            *("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlshow", "mysqlslap", "mysqlbinlog"),
            *("mariadb", "mariadb-dump", "mariadb-admin", "mycli", "xtrabackup", "7z", "7za", "7zz", "rar", "unrar"),
        ),
        "-p",
        _GLUED,
    ),
    SecretOption(("sshpass",), "-p", _EITHER, first=True),
    SecretOption(("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport"), "-p", _EITHER),
    SecretOption(
        (
            *("docker login", "podman login", "nerdctl login", "buildah login", "skopeo login", "helm registry login"),
            *("oras login", "crane auth login", "az login", "az acr login", "oc login", "cf login", "cqlsh"),
            *("rdesktop", "influx"),
        ),
        "-p",
        _APART,
    ),
    SecretOption(("zip", "unzip", "sqlcmd", "bcp", "ipmitool"), "-P", _EITHER),
    SecretOption(("redis-cli", "keydb-cli", "valkey-cli"), "-a", _APART),
    SecretOption(("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami"), "-w", _EITHER),
    SecretOption(("openssl",), r"-pass(?:in|out)?", r"[ \t]{1,4}pass:"),
    SecretOption(("smbclient",), "-U", _AFTER_NAME),
    SecretOption(("lftp",), "-u", _AFTER_NAME),
)

#: What may stand between a program and its option, on the same line and in the same command.
_BETWEEN = r"(?:[^\n;|&\"']|\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'){0,200}?"
_DIRECTLY = r"[ \t\"',\\]{1,8}"


def _form(names: tuple[str, ...], option: str, gap: str, first: bool) -> str:
    programs = "|".join(re.escape(program).replace(r"\ ", r"[ \t]{1,4}") for program in names)
    between = _DIRECTLY if first else _BETWEEN
    return (
        rf"(?P<label>(?<![\w.\-])(?:{programs})(?![\w.\-:]){between}(?<=[\s\"'])(?-i:{option}))"
        rf"(?P<gap>{gap})(?P<value>{STRING}|[^\s\"'\\\[\]\-=][^\s\"'\\\[\]]{{1,200}})"
    )


def _holds_secret(found: Found) -> bool:
    return not is_placeholder(found.value)


def _anchors(option: str) -> tuple[str, ...]:
    start = option.lower()[:2]
    return (f" {start}", f'"{start}', f"'{start}")


RULES: Final = tuple(
    Rule(
        _anchors(option),
        _form(programs, option, gap, first),
        _holds_secret,
        tuple(name.split()[0] for name in programs),
    )
    for programs, option, gap, first in OPTIONS
)
#: What announces a secret without any of the usual names.
ANCHORS: Final = (" -p", '"-p', "'-p", "redis-cli", "keydb-cli", "valkey-cli", "ldap", "smbclient", "lftp")
