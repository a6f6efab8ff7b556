"""Mask secrets that a text itself announces: `password=…`, `Authorization: …`, `https://user:…@host`, `--token …`.

A table of patterns, each with a function that rejects ordinary values. Headers, URLs and long options come first, then
settings files (XML, connection strings, `.netrc`, `.pgpass`), then the short options of programs (`mysql -p…`), then
fields such as `api_key = …`. To add a program whose short option takes a secret, add a row to OPTIONS.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from amplifier_kit.guard.redaction.field_names import is_secret_name
from amplifier_kit.guard.redaction.prefilter import MASKS, Glance, any_in, fold, mask_spans, pattern
from amplifier_kit.named_tuple import NamedTuple


class Found(NamedTuple):
    """A label and its value, as found in a text."""

    label: str
    #: The text between the two.
    gap: str
    value: str
    #: Whether the whole value is in quotes.
    quoted: bool
    #: A few characters after the value.
    after: str
    #: A few lines before the label.
    before: str = ""


Decide = Callable[[Found], bool]


class Rule(NamedTuple):
    """A way to announce a secret."""

    #: Words of which one must be there, in lower case.
    words: tuple[str, ...]
    #: A pattern with the groups `label`, `gap` and `value`; case does not matter.
    form: str
    decide: Decide
    #: More words of which one must be there.
    also: tuple[str, ...] = ("",)


STRING: Final = (
    r"\"(?:[^\"\\\n]|\\.){1,400}\"|'(?:[^'\\\n]|\\.){1,400}'"
    r"|\\\"[^\"\\\n]{1,400}\\\"|\\'[^'\\\n]{1,400}\\'"
)
BARE: Final = r"[^\s\"'`&,;<>(){}\[\]|\\]"

#: Written where a secret is filled in later, or was removed.
_PLACEHOLDER = (
    r"\$\{[^}]*\}|\$\(?(?:[A-Z_][A-Z0-9_]*|[A-Za-z_]+)\)?|\{\{?[^{}]*\}?\}|%s|%\(\w+\)s"
    r"|<[^<>]*>?|\.{3}\W{0,3}|…\W{0,3}|\*{3,}|[xX]{4,}|(?i:your)[-_ ][A-Za-z_ \-]{1,40}"
)
_PATH = r"[~.]{0,2}/[\w.]|[A-Za-z][A-Za-z0-9+.\-]{1,20}://"
_NAME_PATH = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[.:]?"
_DIGIT = r"[0-9]"
_LETTER = r"[A-Za-z]"
#: Common words, and words used about passwords. Passphrases do not contain them; nearly every sentence of three words
#: does.
_PROSE: Final = frozenset(
    """
    a about above account accounts after again all allowed already also am an and another any anything are as
    ask at auth authentication automatically base64 be because been before below between blank both but by bytes
    can cannot change changed changes characters check click code command complex config configured confirm
    contains correctly could create credentials current default define defined did disabled do does doesn don
    empty enabled encoded encrypted encryption enter entered error every example expired expires export failed
    false field file fill first following for forgot form format from generate generated get given has hash
    hashed have he hidden how i if ignored import in incorrect input instead invalid is isn it its itself key
    keys least leave len length let letters like login long manager match matches maximum may method minimum
    mismatch missing must my name new no none not null number of off old on once one only optional or our out
    parameter pass passed passphrase password passwords plain plaintext please policy print private prompt
    prompted protected provide provided public random read required requires reset return returns run same
    secret secrets see self send sent set should show some something source special specify specified store
    stored str string strings strong such supplied support supported test text than that the their them then
    there they this those to token tokens too true try type types unless unset until update updated use used
    user username users uses using valid value values via want was we weak were what when where which while who
    will with without words works wrong you your
    """.split()  # noqa: SIM905  # words are easier to read than a list of strings
)


# -- what follows a label: a secret, or a placeholder, a path, code or prose --


def is_placeholder(value: str) -> bool:
    """Return whether a value is written in place of a secret: `${TOKEN}`, `<your token>`, `xxxx`."""
    return pattern(_PLACEHOLDER).fullmatch(value) is not None


def is_path(value: str) -> bool:
    """Return whether a value is a path or a URL."""
    return pattern(_PATH).match(value) is not None


def is_code(found: Found) -> bool:
    """Return whether the value is an expression: a call, an index, a dotted name."""
    if found.after.startswith(("(", "[", "{")) and not found.after.startswith(MASKS):
        return True
    return pattern(_NAME_PATH).fullmatch(found.value) is not None


def is_mixed(value: str) -> bool:
    """Return whether a value has letters and digits, as generated secrets do and words do not."""
    return pattern(_DIGIT).search(value) is not None and pattern(_LETTER).search(value) is not None


def is_random(value: str) -> bool:
    """Return whether a value is mixed well enough not to be a word such as `oauth2`."""
    return len(value) >= 8 and is_mixed(value) and len(pattern(_DIGIT).findall(value)) >= 2


def is_login(value: str) -> bool:
    """Return whether a value is `name:password` in base64."""
    try:
        text = a2b_base64(value + "=" * (-len(value) % 4)).decode()
    except (Error, ValueError):
        return False
    return ":" in text and text.isprintable()


def is_passphrase(words: str) -> bool:
    """Return whether words were picked at random rather than written as a sentence."""
    every = words.split()
    return len(set(every)) > 2 and _PROSE.isdisjoint(word.lower() for word in every)


def is_not_placeholder(found: Found) -> bool:
    """Take any value but a placeholder for a secret."""
    return not is_placeholder(found.value)


# -- headers, URLs and long options --

QUOTE = r"(?:\\?[\"'])?"
SPACE = r"[ \t]{0,4}"

_HEADER = (
    rf"(?P<label>authorization)(?P<gap>{QUOTE}{SPACE}[=:]{SPACE}{QUOTE}(?:[a-z][a-z0-9\-]{{2,20}}[ \t]{{1,3}})?)"
    r"(?P<value>[^\s\"'`\\\[\]]{8,})"
)
_COOKIE = rf"(?P<label>cookie)(?P<gap>{QUOTE}{SPACE}:{SPACE}{QUOTE})(?P<value>[^\s=;\"'\\]{{1,80}}=[^\n\"'\\]{{4,}})"
_BEARER = r"(?P<label>(?-i:bearer|Bearer|BEARER|basic|Basic|BASIC))(?P<gap>[ \t]{1,3})(?P<value>[a-z0-9._~+/=\-]{8,})"
#: These begin with a literal and look back after it, which makes the search fast.
_FLAG = (
    r"(?P<label>--(?<![\w\-]--)[a-z][a-z0-9_\-]{1,40})(?P<gap>=|[ \t]{1,3})(?!-)"
    rf"(?P<value>{STRING}|[^\s\"'\\\[\]]{{4,}})"
)
_LOGIN = (
    r"(?P<label>-u(?<!\w-u)(?:ser)?|--proxy-user)(?P<gap>(?:=|[ \t]{1,3})[\"']?[^\s:\"']{1,80}:)"
    r"(?P<value>[^\s\"'\[\]]{3,})"
)
_URL_LOGIN = r"(?P<label>://)(?P<gap>[^\s/:@\"'<>\\]{0,200}:)(?P<value>[^\s/\"'<>\\]{1,500})(?=@)"
_URL_USER = r"(?P<label>://)(?P<gap>)(?P<value>[a-z0-9_.~\-]{20,300})(?=@)"
_QUERY = r"(?P<label>[?&](?:amp;)?[a-z0-9_.\-]{1,60})(?P<gap>=)(?P<value>[^?&\s\"'<>#;\\\[\]]{4,})"

_SIGNATURES = frozenset(
    ("sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-credential", "code_verifier")
)
STEMS: Final = ("key", "secret", "password", "passwd", "passphrase", "passcode", "pwd", "token", "auth", "credential")
#: Names that help texts give to an option's value, in capital letters: `--password PASSWORD`.
_METAVARS = (*STEMS, "pass", "pat", "string", "text", "value")
STRICT = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "key")
_KEY_IN_URL: Final = re.compile(r"[\w.~%+/=:-]+")


def _header_holds_secret(found: Found) -> bool:
    if is_placeholder(found.value) or is_code(found) or "(" in found.value:
        return False
    return is_mixed(found.value) or len(found.value) >= 24


def _bearer_holds_secret(found: Found) -> bool:
    value = found.value
    if found.label.lower() != "basic":
        return is_random(value) or len(value) >= 24
    return is_login(value)


def flag_holds_secret(found: Found) -> bool:
    """Return whether the value of an option is a secret: that of `--password …` is, that of `--auth basic` is not."""
    name = found.label.lstrip("-")
    if not is_secret_name(name) or is_placeholder(found.value) or is_path(found.value):
        return False
    if found.value.isupper() and found.value.lower().endswith(_METAVARS):
        return False
    return found.quoted or is_mixed(found.value) or name.lower().endswith(STRICT)


def _query_holds_secret(found: Found) -> bool:
    name = found.label.lstrip("?&").removeprefix("amp;")
    if is_placeholder(found.value):
        return False
    if name.lower() == "key":
        # `key` is the name of many things; characters that a URL encodes are part of code, not of a key.
        return len(found.value) >= 16 and is_mixed(found.value) and _KEY_IN_URL.fullmatch(found.value) is not None
    return name.lower() in _SIGNATURES or is_secret_name(name)


def _login_holds_secret(found: Found) -> bool:
    return not found.value.isdigit() and not is_placeholder(found.value)


def _user_is_token(found: Found) -> bool:
    return is_random(found.value)


# -- settings files --

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
#: `machine … login … password …`, on one line or several; the text before the password is checked afterwards.
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

_TYPES: Final = frozenset(("string", "password", "secret", "token", "text", "none", "null", "true", "false"))


def _element_holds_secret(found: Found) -> bool:
    name = found.label.lstrip("<").rpartition(":")[2]
    if not is_secret_name(name) or is_placeholder(found.value) or found.value.lower() in _TYPES:
        return False
    if name.lower().endswith(STRICT):
        return len(found.value) > 2
    return is_random(found.value) or (len(found.value) >= 24 and not any(map(str.isspace, found.value)))


def _pair_holds_secret(found: Found) -> bool:
    name = found.label.replace("\\", "").rstrip("\"'").replace("</key>", "")
    for sign in (">", "=", ":", '"', "'", " "):
        name = name.rpartition(sign)[2]
    return is_secret_name(name) and not is_placeholder(found.value)


def _netrc_holds_secret(found: Found) -> bool:
    if "login" not in found.before and "machine" not in found.before and "default" not in found.before:
        return False
    if not pattern(_BEFORE_PASSWORD, re.MULTILINE).search(found.before):
        return False
    return not is_placeholder(found.value) and found.value.lower() not in ("login", "account", "machine", "macdef")


# -- short options of programs: long ones are the same everywhere, short ones mean something else in every program --


class SecretOption(NamedTuple):
    """An option whose value is a secret, and the programs that have it."""

    programs: tuple[str, ...]
    option: str
    #: A pattern for the text between the option and its value.
    gap: str
    #: Whether it must come right after the program; another word may be a program with the same option.
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

#: The text between a program and its option: on the same line, in the same command.
_BETWEEN = r"(?>\"[^\"\n]*+\"|'[^'\n]*+'|[^\n;|&\"']|[\"'])*+$"
_DIRECTLY = r"[ \t\"',\\]{1,8}$"


def _form(letter: str) -> str:
    return (
        rf"(?P<label>-(?-i:{letter})(?<=[\s\"']-.))"
        r"(?P<gap>(?:ass(?:in|out)?[ \t]{1,4}pass:|[ \t]{1,4}|\\?[\"'],[ \t]{0,4}(?=\\?[\"']))?)"
        rf"(?P<value>{STRING}|[^\s\"'\\\[\]\-=][^\s\"'\\\[\]]{{1,200}})"
    )


def _is_secret_option(found: Found) -> bool:
    """Return whether a program before the option, in the same command, takes a secret with it."""
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


_PASSWORD: Final = ("password", "pwd=")

RULES: Final = (
    Rule(("?", "&"), _QUERY, _query_holds_secret),
    Rule(("authorization",), _HEADER, _header_holds_secret),
    Rule(("cookie",), _COOKIE, is_not_placeholder),
    Rule(("bearer", "basic"), _BEARER, _bearer_holds_secret),
    Rule(("--",), _FLAG, flag_holds_secret),
    Rule(("-u",), _LOGIN, _login_holds_secret),
    Rule(("://",), _URL_LOGIN, is_not_placeholder, also=("@",)),
    Rule(("://",), _URL_USER, _user_is_token, also=("@",)),
    Rule(("</",), _ELEMENT, _element_holds_secret),
    Rule(("</key>",), _PROPERTY, _pair_holds_secret),
    Rule(("name", "key"), _PAIR, _pair_holds_secret, also=("value",)),
    Rule((";password", ";pwd", "; password", "; pwd"), _CONNECTION, is_not_placeholder, also=_PASSWORD),
    Rule((" password=",), _KEYWORDS, is_not_placeholder),
    Rule(("machine", "login", "default"), _NETRC, _netrc_holds_secret, also=_PASSWORD),
    Rule((":5432:", "*:*:"), rf"(?m:{_PGPASS})", is_not_placeholder),
    Rule(("-p",), _form("[pP]"), _is_secret_option),
    Rule(("-a",), _form("a"), _is_secret_option, also=("-cli",)),
    Rule(("-w",), _form("w"), _is_secret_option, also=("ldap",)),
)
#: What a text needs for any of them, in lower case; words that are part of others (`--user`) need not be listed.
ANCHORS: Final = (
    *("@", "?", "&", "--", "-u", "cookie", "bearer", "basic", *STEMS),
    *(":5432:", "*:*:", "-p", "-cli", "ldap", "mnemonic", "phrase"),
)

# -- fields, and the search --

#: What follows the announcing word of a field.
_FIELD = rf"(?P<gap>{QUOTE}{SPACE}(?:=>|:=|[=:]|\b(?:is|was)\b){SPACE})(?P<value>{STRING}|\\?[\"']?{BARE}{{4,100}})"
_REST = rf"{BARE}*"
#: `key` alone says nothing.
_BEFORE_KEY = (
    *("api", "access", "account", "admin", "app", "application", "deploy", "encryption", "functions", "hmac", "ingest"),
    *("ingestion", "integration", "license", "master", "preshared", "private", "secret", "service", "shared"),
    *("signing", "ssh", "storage", "subscription", "webhook", "write"),
)
#: Labels of passphrases, and a passphrase: words up to the end of the line.
_PASS = "pass(?:word|phrase|code)"
_PHRASES: Final = ("mnemonic", "seed phrase", "seed_phrase", "recovery phrase")
_PHRASE = (
    rf"(?P<gap>{QUOTE}{SPACE}[=:]{SPACE})(?P<value>[A-Za-z0-9]{{2,16}}(?:[ \t\-][A-Za-z0-9]{{2,16}}){{2,23}}+)"
    r"(?=[.!]?[ \t]*(?:\n|\r|\\[nr]|$|[\"'<]))"
)
_AFTER_STEM = frozenset("\"'\\ \t=:")

#: What documentation and schemas write where a secret goes.
_WORDS = frozenset(("string", "none", "null", "true", "false", "hidden", "required", "optional", *STEMS))
_NUMBER = r"[0-9.,:+\-/_]+%?"


def announces_secret(glance: Glance) -> bool:
    """Return, fast, whether a text may hold anything to mask."""
    return any_in(ANCHORS, glance.text.lower())


def mask_labelled(text: str) -> tuple[str, int]:
    """Return the text with the secrets it announces masked, and how many there were."""
    folded = text.lower()
    if not any_in(ANCHORS, folded):
        return text, 0
    found = 0
    for words, form, decide, also in RULES:
        if any_in(words, folded) and any_in(also, folded):
            text, count = mask_spans(text, _values(pattern(form, re.IGNORECASE | re.ASCII), decide, text))
            found += count
    if any_in(("password", "phrase", "passcode", "mnemonic"), folded):
        text, count = mask_spans(text, _phrases(text))
        found += count
    text, count = mask_spans(text, _fields(text))
    return text, found + count


def _values(form: re.Pattern[str], decide: Decide, text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the values, without their quotes, of the matches that `decide` accepts."""
    for match in form.finditer(text):
        opening, value, closing = _unquote(match["value"])
        start, end = match.span()
        after, before = text[end : end + 16], text[max(0, start - 250) : start]
        found = Found(match["label"], match["gap"], value, bool(closing), after, before)
        if value not in MASKS and decide(found):
            yield match.start("value") + len(opening), end - len(closing)


def _phrases(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of passphrases without quotes: `password: correct horse battery staple`."""
    folded = fold(text)
    done = 0
    ends = [match.end() for match in pattern(_PASS).finditer(folded)]
    ends += [match.end() for label in _PHRASES if label in folded for match in pattern(label).finditer(folded)]
    for start in sorted(ends):
        match = pattern(_PHRASE).match(text, start) if start >= done else None
        if match is not None and is_passphrase(match["value"]):
            done = match.end()
            yield match.span("value")


def _fields(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the values of fields: `api_key = "…"`, `DB_PASSWORD=…`; words before the label do not matter.

    An unquoted value goes as far as its characters do.
    """
    done = 0
    for start in sorted(_ends_of_labels(text)):
        match = pattern(_FIELD).match(text, start) if start >= done else None
        if match is None:
            continue
        opening, value, closing = _unquote(match["value"])
        end = match.end()
        found = Found(_label(text, start), match["gap"], value, bool(closing), text[end : end + 16])
        if value in MASKS or not _field_holds_secret(found):
            continue
        done = end if closing else pattern(_REST).match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        yield match.start("value") + len(opening), done - len(closing)


def _ends_of_labels(text: str) -> Iterator[int]:
    folded = fold(text)
    for stem in STEMS:
        at = folded.find(stem)
        while at >= 0:
            end = at + len(stem)
            if stem == "credential" and folded.startswith("s", end):
                end += 1
            if folded[end : end + 1] in _AFTER_STEM and (stem != "key" or _names_a_key(folded, at)):
                yield end
            at = folded.find(stem, end)


def _names_a_key(folded: str, at: int) -> bool:
    return folded[max(0, at - 14) : at].rstrip("_- ").endswith(_BEFORE_KEY)


def _label(text: str, end: int) -> str:
    """Return the last word before `end`, at most a dozen characters of it."""
    return re.split(r"[^A-Za-z]", text[max(0, end - 12) : end])[-1]


def _unquote(value: str) -> tuple[str, str, str]:
    """Split a value into its opening quote, its content and its closing quote."""
    for quote in ('\\"', "\\'", '"', "'"):
        if value.startswith(quote):
            inner = value[len(quote) :]
            return (quote, inner[: -len(quote)], quote) if inner.endswith(quote) else (quote, inner, "")
    return "", value, ""


def _field_holds_secret(found: Found) -> bool:
    """Distinguish a secret from code and prose: `token = get_token()`, `password: SecretStr`, `auth: required`."""
    value, label = found.value, found.label.lower()
    strict = label.endswith(STRICT)
    if is_placeholder(value) or is_path(value) or value.lower() in _WORDS:
        return False
    if found.gap.strip() in ("is", "was"):
        return label.startswith("pass") and len(value) >= 6 and value.rstrip(".").isalnum() and is_mixed(value)
    if label == "auth" and not found.after.startswith("(") and is_login(value):
        return True
    if found.quoted:
        return len(value) >= 4 and (strict or is_random(value) or len(value) >= 24)
    if (
        len(value) < 6
        or is_code(found)
        or (value.lower().endswith(label) and (value.isidentifier() or not is_mixed(value)))
    ):
        return False
    if pattern(_NUMBER).fullmatch(value):
        return strict and value.isdigit()
    if strict and found.label.isupper() and found.gap == "=":
        return True
    return is_mixed(value) if strict else is_random(value)
