"""Templates and conditions of recipes: `{{name.key}}` in texts, and comparisons of values without `eval`.

A condition is made of `{{name}}`, quoted text, numbers, `true`, `false` and `null`, with `== != < > <= >=`, `and`,
`or`, `not` and parentheses. Every failure is a ValueError that quotes the place.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple

_PATH: Final = r"[A-Za-z_][\w-]*(?:\.[\w-]+)*"
_TEMPLATE: Final = re.compile(rf"\{{\{{\s*({_PATH})\s*\}}\}}")
_TOKEN: Final = re.compile(
    rf"""\s*(?:
        (?P<variable>\{{\{{\s*{_PATH}\s*\}}\}})
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<operator>==|!=|<=|>=|<|>|\(|\))
      | (?P<word>[A-Za-z_]\w*)
    )""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None, "none": None}
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
#: How deep conditions may be nested, and how many places of a text may begin a JSON value.
_MOST_NESTED: Final = 50
_MOST_ATTEMPTS: Final = 10_000


# -- templates --


def lookup(path: str, values: Mapping[str, Any]) -> Any:
    """Return the value at a dotted path; numbers are indexes of lists. Raises ValueError when it is undefined."""
    found: Any = values
    for part in path.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            known = ", ".join(sorted(map(str, found))) if isinstance(found, Mapping) else type(found).__name__
            raise ValueError(
                f"undefined variable {{{{{path}}}}}: there is no {part!r} in {known or 'an empty mapping'}"
            )
    return found


def substitute(template: str, values: Mapping[str, Any]) -> str:
    """Return a text with every `{{path}}` replaced; mappings, lists, true, false and null are written as JSON."""
    return _TEMPLATE.sub(lambda match: _as_text(lookup(match[1], values)), template)


def substitute_all(value: Any, values: Mapping[str, Any]) -> Any:
    """Return a value with the texts in it substituted; a text that is one `{{path}}` becomes the value itself."""
    if isinstance(value, str):
        whole = _TEMPLATE.fullmatch(value.strip())
        return lookup(whole[1], values) if whole else substitute(value, values)
    if isinstance(value, Mapping):
        return {key: substitute_all(inner, values) for key, inner in value.items()}
    return [substitute_all(inner, values) for inner in value] if isinstance(value, list) else value


def whole_variable(template: str) -> str | None:
    """Return the path of a text that is one `{{path}}` and nothing else."""
    match = _TEMPLATE.fullmatch(template.strip())
    return match[1] if match else None


def variables(value: Any) -> Iterator[str]:
    """Yield the first name of every path in the texts of a value."""
    if isinstance(value, str):
        yield from (match[1].partition(".")[0] for match in _TEMPLATE.finditer(value))
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from variables(inner)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- results --


def parsed_result(text: str, *, takes_last: bool = False) -> Any:
    """Return a text that is JSON as its value, else the text; with `takes_last`, the last JSON value inside of it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass  # most answers are prose
    found = _last_json(text) if takes_last else None
    return text if found is None else found


def _last_json(text: str) -> Any:
    decoder, found, place = json.JSONDecoder(), None, 0
    for _ in range(_MOST_ATTEMPTS):
        begin = re.compile(r"[\[{]").search(text, place)
        if begin is None:
            break
        try:
            found, place = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            place = begin.start() + 1
    return found


# -- conditions --

_Values = Mapping[str, Any]
#: A part of a condition that is parsed: it returns its value for given variables.
_Part = Callable[[_Values], Any]


def evaluate(condition: str, values: _Values) -> bool:
    """Return whether a condition holds; raises ValueError for a mistake, and for an undefined variable."""
    return _is_true(_Parser(condition).parse()(values))


def check_condition(condition: str) -> None:
    """Raise ValueError for a condition that is not well-formed."""
    _Parser(condition).parse()


class _Token(NamedTuple):
    kind: str
    text: str


class _Parser:
    """Parse by recursive descent; `and` and `or` look at their right side only when they need it."""

    def __init__(self, condition: str) -> None:
        self._condition = condition
        self._tokens = list(self._scan())
        self._at = 0
        self._nested = 0

    def parse(self) -> _Part:
        part = self._or()
        if self._at < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._at].text!r}")
        return part

    def _scan(self) -> Iterator[_Token]:
        text, place = self._condition.rstrip(), 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None or match.lastgroup is None:
                raise self._error(f"unexpected {text[place : place + 20].strip()!r}")
            yield _Token(match.lastgroup, match[match.lastgroup])
            place = match.end()

    def _error(self, what: str) -> ValueError:
        return ValueError(f"invalid condition {self._condition!r:.300}: {what}")

    def _takes(self, *texts: str) -> str | None:
        """Consume and return the next token if it is one of these words or operators."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")
        if token.kind in ("word", "operator") and token.text in texts:
            self._at += 1
            return token.text
        return None

    def _or(self) -> _Part:
        parts = [self._and()]
        while self._takes("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda values: any(_is_true(part(values)) for part in parts)

    def _and(self) -> _Part:
        parts = [self._not()]
        while self._takes("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else lambda values: all(_is_true(part(values)) for part in parts)

    def _not(self) -> _Part:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise self._error(f"it is nested more than {_MOST_NESTED} deep")
        try:
            if not self._takes("not"):
                return self._comparison()
            part = self._not()
            return lambda values: not _is_true(part(values))
        finally:
            self._nested -= 1

    def _comparison(self) -> _Part:
        left = self._operand()
        symbol = self._takes(*_COMPARISONS)
        if symbol is None:
            return left
        right = self._operand()
        return lambda values: self._compare(left(values), symbol, right(values))

    def _compare(self, left: Any, symbol: str, right: Any) -> bool:
        left, right = _alike(left, right)
        try:
            return bool(_COMPARISONS[symbol](left, right))
        except TypeError:
            kinds = f"{type(left).__name__} with {type(right).__name__}"
            raise self._error(f"cannot compare {kinds} by {symbol!r}") from None

    def _operand(self) -> _Part:
        if self._takes("("):
            part = self._or()
            if not self._takes(")"):
                raise self._error("a ')' is missing")
            return part
        if self._at >= len(self._tokens):
            raise self._error("a value is missing at the end")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "variable":
            return lambda values: lookup(text[2:-2].strip(), values)
        if kind == "text":
            plain = re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
            return lambda values: substitute(plain, values)
        if kind == "number":
            return _constant(_number(text))
        if kind == "word" and text.lower() in _CONSTANTS:
            return _constant(_CONSTANTS[text.lower()])
        hint = f"write {{{{{text}}}}} for a variable or '{text}' for a text" if kind == "word" else "expected a value"
        raise self._error(f"unexpected {text!r}: {hint}")


def _constant(value: Any) -> _Part:
    return lambda _: value


def _number(text: str) -> int | float:
    return float(text) if re.search(r"[.eE]", text) else int(text)


def _is_true(value: Any) -> bool:
    """Return whether a value counts as true; the texts "" and "false" do not."""
    return value.strip().lower() not in ("", "false") if isinstance(value, str) else bool(value)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two values in one type where text stands for the other's type, as output of commands does."""
    for text, other, is_left in ((left, right, True), (right, left, False)):
        if not isinstance(text, str) or isinstance(other, str):
            continue
        read: Any = text
        if isinstance(other, bool) and text.strip().lower() in ("true", "false"):
            read = text.strip().lower() == "true"
        elif isinstance(other, int | float) and not isinstance(other, bool):
            try:
                read = _number(text)
            except ValueError:
                pass  # it is not a number: the two differ
        return (read, other) if is_left else (other, read)
    return left, right
