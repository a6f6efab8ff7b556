"""Classify the value after a label: a secret, or a placeholder, a path, code or prose."""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Callable
from typing import Final, NamedTuple

from amplifier_kit.guard.redaction.prefilter import MASKS, pattern


class Found(NamedTuple):
    """A label, what stands between it and its value, and the value."""

    label: str
    gap: str
    value: str
    #: Whether the value stands in quotes, whole.
    quoted: bool
    #: What follows the value, a few characters of it.
    after: str
    #: What stands before the label, a few lines of it.
    before: str = ""


Decide = Callable[[Found], bool]


class Rule(NamedTuple):
    """A way to announce a secret."""

    #: Words of which one must be there, in lower case.
    words: tuple[str, ...]
    #: A pattern with the groups `label`, `gap` and `value`, which is searched for whatever the case.
    form: str
    decide: Decide


class RuleGroup(NamedTuple):
    """Rules to try only on texts with one of these words; without words, on every text."""

    words: tuple[str, ...]
    rules: tuple[Rule, ...]


STRING: Final = (
    r"\"(?:[^\"\\\n]|\\.){1,400}\"|'(?:[^'\\\n]|\\.){1,400}'"
    r"|\\\"[^\"\\\n]{1,400}\\\"|\\'[^'\\\n]{1,400}\\'"
)
BARE: Final = r"[^\s\"'`&,;<>(){}\[\]|\\]"

#: What stands for a secret that is filled in later, or was taken out already.
_PLACEHOLDER = (
    r"\$\{[^}]*\}|\$\(?(?:[A-Z_][A-Z0-9_]*|[A-Za-z_]+)\)?|\{\{?[^{}]*\}?\}|%s|%\(\w+\)s"
    r"|<[^<>]*>?|\.{3}\W{0,3}|…\W{0,3}|\*{3,}|[xX]{4,}|(?i:your)[-_ ][A-Za-z_ \-]{1,40}"
)
_PATH = r"[~.]{0,2}/[\w.]|[A-Za-z][A-Za-z0-9+.\-]{1,20}://"
_NAME_PATH = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[.:]?"
_DIGIT = r"[0-9]"
_LETTER = r"[A-Za-z]"
#: Words that sentences consist of, and those that are said about passwords. Passphrases do not contain them, and nearly
#: every sentence of three words does.
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


def is_placeholder(value: str) -> bool:
    """Tell whether a value only stands for a secret: `${TOKEN}`, `<your token>`, `xxxx`."""
    return pattern(_PLACEHOLDER).fullmatch(value) is not None


def is_path(value: str) -> bool:
    """Tell whether a value is the path of a file or an address."""
    return pattern(_PATH).match(value) is not None


def is_code(found: Found) -> bool:
    """Tell whether the value is an expression: a call, an index, a name with dots."""
    if found.after.startswith(("(", "[", "{")) and not found.after.startswith(MASKS):
        return True
    return pattern(_NAME_PATH).fullmatch(found.value) is not None


def is_mixed(value: str) -> bool:
    """Tell whether a value has letters and digits, as made-up secrets do and words do not."""
    return pattern(_DIGIT).search(value) is not None and pattern(_LETTER).search(value) is not None


def is_random(value: str) -> bool:
    """Tell whether a value is mixed well enough not to be a word such as `oauth2`."""
    return len(value) >= 8 and is_mixed(value) and len(pattern(_DIGIT).findall(value)) >= 2


def is_login(value: str) -> bool:
    """Tell whether a value is a name and a password in base64."""
    try:
        text = a2b_base64(value + "=" * (-len(value) % 4)).decode()
    except (Error, ValueError):
        return False
    return ":" in text and text.isprintable()


def is_passphrase(words: str) -> bool:
    """Tell words that were drawn by lot from a sentence."""
    every = words.split()
    return len(set(every)) > 2 and _PROSE.isdisjoint(word.lower() for word in every)


def is_no_placeholder(found: Found) -> bool:
    """Decide that whatever is written there is a secret."""
    return not is_placeholder(found.value)
