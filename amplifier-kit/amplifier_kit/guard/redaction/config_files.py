"""Secrets as files of settings announce them: XML, pairs of name and value, connection strings, `.netrc`, `.pgpass`."""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.guard.redaction.field_names import is_secret_name
from amplifier_kit.guard.redaction.label_values import (
    STRING,
    Found,
    Rule,
    RuleGroup,
    is_no_placeholder,
    is_placeholder,
    is_random,
)
from amplifier_kit.guard.redaction.prefilter import pattern

#: `<password>…</password>`, with a namespace, attributes and CDATA.
_ELEMENT = (
    r"(?P<label><(?:[\w.\-]{1,40}:)?[\w.\-]{3,60})(?P<gap>(?:\s[^<>]{0,200})?>\s{0,200}(?:<!\[CDATA\[)?)"
    r"(?P<value>[^<>\s](?:[^<>]{0,500}[^<>\s])?)(?=\s{0,200}(?:\]\]>)?</)"
)
#: `name="password" value="…"`, `"name": "DB_PASSWORD", "value": "…"`, and the same on two lines of YAML.
_NAME = r"[\w.\-/]{3,80}"
_PAIR = (
    # All in small or all in capital letters: so the search for them is fast.
    rf"(?P<label>(?-i:name|Name|NAME|key|Key|KEY)\\?[\"']?[ \t]{{0,3}}[:=][ \t]{{0,3}}\\?[\"']?{_NAME}\\?[\"']?)"
    r"(?P<gap>,?(?:\s|\\n){1,40}\\?[\"']?value\\?[\"']?[ \t]{0,3}[:=][ \t]{0,3})"
    rf"(?P<value>{STRING}|\$?\{{{{?[^{{}}\s]{{1,100}}\}}?\}}|[^\s\"'<>\\{{}}\[\],]{{1,400}})"
)
#: `<key>password</key> <string>…</string>`, in property lists.
_PROPERTY = rf"(?P<label><key>{_NAME}</key>)(?P<gap>\s{{0,40}}<string>)(?P<value>[^<>]{{1,500}})(?=</string>)"
#: `Server=…;User Id=…;Password=…;`
_CONNECTION = (
    r"(?P<label>\b(?:server|host|data source|address|addr|user id|userid|uid|user|username|database|initial catalog)"
    r"[ \t]{0,2}=[^;\n\"'=]{0,200};(?:[^;\n\"'=]{1,60}=[^;\n\"'=]{0,200};){0,12}?[ \t]{0,2}(?:password|pwd))"
    r"(?P<gap>[ \t]{0,2}=[ \t]{0,2})(?P<value>[^;\s\"'<>]{1,200})"
)
#: `host=… user=… password=…`
_KEYWORDS = (
    r"(?P<label>\b(?:host|hostaddr|user|username|dbname|database|port|sslmode)=[^\s,;()\"'=]{1,200}[ \t]{1,4}"
    r"(?:[a-z_]{2,40}=[^\s,;()\"'=]{0,200}[ \t]{1,4}){0,12}?password)(?P<gap>=)(?P<value>[^\s,;()\"'<>]{1,200})"
)
#: `machine … login … password …`, on one line or several; what stands before the password is looked at afterwards.
_NETRC = r"(?P<label>(?-i:password))(?P<gap>(?:\s|\\n){1,8})(?P<value>[^\s\\\"'`]{1,200})(?=[\s\\\"'`]|$)"
_BEFORE_PASSWORD = (
    r"(?:\bmachine(?:\s|\\n){1,8}[\w.\-]{1,200}|^default|^[ \t]{0,8}login[ \t]{1,8}[^\s\\]{1,100})"
    r"(?:(?:\s|\\n){1,16}(?:login|account|port)(?:\s|\\n){1,8}[^\s\\]{1,100}){0,3}(?:\s|\\n){1,16}$"
)
#: `host:port:database:user:password`; without quotes and spaces, and on a port of PostgreSQL.
_PGPASS = (
    r"(?P<label>(?:^|(?<=\\n)|(?<=[\"' \t]))[\w.\-*]{1,100}:(?:5432|\*):(?=[\w\-]*[a-z*])[\w\-*]{1,63}:"
    r"(?=[\w.\-]*[a-z*])[\w.\-*]{1,63})(?P<gap>:)(?P<value>(?:[^\s:\\\"']|\\[:\\]){3,200})(?=[ \t]*(?:$|\\n|[\"']))"
)

_STRICT: Final = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "key")
_TYPES: Final = frozenset(("string", "password", "secret", "token", "text", "none", "null", "true", "false"))


def _element_holds_secret(found: Found) -> bool:
    name = found.label.lstrip("<").rpartition(":")[2]
    if not is_secret_name(name) or is_placeholder(found.value) or found.value.lower() in _TYPES:
        return False
    if name.lower().endswith(_STRICT):
        return len(found.value) > 2
    return is_random(found.value) or (len(found.value) >= 24 and not any(map(str.isspace, found.value)))


def _pair_holds_secret(found: Found) -> bool:
    name = found.label.replace("\\", "").rstrip("\"'").replace("</key>", "")
    for sign in (">", "=", ":", '"', "'", " "):
        name = name.rpartition(sign)[2]
    return is_secret_name(name) and not is_placeholder(found.value)


def _login_holds_secret(found: Found) -> bool:
    if "login" not in found.before and "machine" not in found.before and "default" not in found.before:
        return False
    if not pattern(_BEFORE_PASSWORD, re.MULTILINE).search(found.before):
        return False
    return not is_placeholder(found.value) and found.value.lower() not in ("login", "account", "machine", "macdef")


GROUPS: Final = (
    RuleGroup(
        ("<",), (Rule(("</",), _ELEMENT, _element_holds_secret), Rule(("</key>",), _PROPERTY, _pair_holds_secret))
    ),
    RuleGroup(("value",), (Rule(("name", "key"), _PAIR, _pair_holds_secret),)),
    RuleGroup(
        ("password", "pwd="),
        (
            Rule((";password", ";pwd", "; password", "; pwd"), _CONNECTION, is_no_placeholder),
            Rule((" password=",), _KEYWORDS, is_no_placeholder),
            Rule(("machine", "login", "default"), _NETRC, _login_holds_secret),
        ),
    ),
    RuleGroup((":5432:", "*:*:"), (Rule((":",), rf"(?m:{_PGPASS})", is_no_placeholder),)),
)
#: Words that announce a secret without any of the usual names.
ANCHORS: Final = (":5432:", "*:*:")
