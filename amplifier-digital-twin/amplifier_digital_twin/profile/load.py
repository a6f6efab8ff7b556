"""Load a profile: find the file, fill in variables, check every key, and report all problems with file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import FOLDER, Keys, Profile, Variable, conflicts
from amplifier_foundation.documents import Document, read_document
from amplifier_foundation.errors import DocumentError, did_you_mean
from amplifier_foundation.files import replace_file
from amplifier_kit.config import Config, check_config

SHIPPED: Final = Path(__file__).parent.parent / "profiles"

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_Value = str | int | bool
_M = TypeVar("_M", bound=Config)


class Loaded(NamedTuple):
    """A profile, its file, the format it was written in, and how the author's keys were understood."""

    profile: Profile
    path: Path
    format: Literal["dtu-1", "published"]
    notes: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return it as JSON; secrets are names only."""
        record = self.profile.model_dump(mode="json", exclude={"vars"})
        record["user"]["home"] = self.profile.user.home
        return {"valid": True, "format": self.format, "path": str(self.path), "profile": record, "notes": self.notes}


class ProblemsError(Exception):
    """Everything that is wrong with a profile: the keys that lead to it, and the problem."""

    def __init__(self, problems: Sequence[tuple[Keys, str]]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


def shipped_names() -> list[str]:
    """Return the names of the profiles that come with the program."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def locate(path_or_name: str) -> Path:
    """Return the file of a profile: a path, or the name of one that ships. Raises TwinError."""
    names = shipped_names()
    if path_or_name in names:
        return SHIPPED / f"{path_or_name}.yaml"
    if (path := Path(path_or_name)).is_file():
        return path.absolute()
    said = (
        f"{path_or_name}: neither a file nor a profile that ships with the program: {did_you_mean(path_or_name, names)}"
    )
    raise TwinError("profile_unknown", said, f"give the path of a profile, or one of: {', '.join(names)}")


def parse_variables(given: Sequence[str]) -> dict[str, str]:
    """Return what `--var NAME=VALUE` options say, by name; raise TwinError for one without a value, or given twice."""
    parsed: dict[str, str] = {}
    for item in given:
        name, separator, value = item.partition("=")
        # Only the name is repeated: the value may be something that should not be shown.
        if not separator or not name:
            raise TwinError("bad_argument", f"--var {name!r} has no value", "write --var NAME=VALUE")
        if name in parsed:
            raise TwinError("bad_argument", f"--var {name} is given twice", "give each variable once")
        parsed[name] = value
    return parsed


def load(path_or_name: str, variables: Mapping[str, str]) -> Loaded:
    """Return the profile of a file, or of a name that ships; `variables` are those of `--var`.

    Raises TwinError: `profile_unknown` when there is none, and `profile_invalid`, which names file and line of
    everything that is wrong.
    """
    from amplifier_digital_twin.profile.published import read_published

    path = locate(path_or_name)
    folder = FOLDER.set(path.parent)
    try:
        document = read_document(path)
        if "dtu" in document.data:
            return Loaded(_read(document, variables), path, "dtu-1")
        profile, notes = read_published(document, variables)
        return Loaded(profile, path, "published", tuple(notes))
    except DocumentError as error:
        raise TwinError("profile_invalid", str(error), "correct the file at that line") from error
    except ProblemsError as error:
        lines = sorted({(document.line(*keys), _described(keys, text)) for keys, text in error.problems})
        message = "\n".join(f"{path}:{line}: {text}" for line, text in lines)
        remedy = "correct the profile at these lines; docs/digital-twin.md lists every key"
        raise TwinError("profile_invalid", message, remedy) from None
    finally:
        FOLDER.reset(folder)


def save_profile(profile: Profile, path: Path) -> None:
    """Write a loaded profile to a private file, so that later commands use what was launched."""
    replace_file(path, profile.model_dump_json(exclude_defaults=True).encode())


def read_saved_profile(path: Path) -> Profile:
    """Return what `save_profile` wrote; raise TwinError when it is missing or invalid."""
    try:
        return Profile.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise TwinError("state_invalid", f"{path}: {error}", "destroy this universe, and launch another") from error


def validated(model: type[_M], data: Mapping[str, Any]) -> _M:
    """Return data as a model; raise ProblemsError with everything that is wrong with it."""
    if problems := check_config(model, data):
        raise ProblemsError([(problem.keys, problem.text) for problem in problems])
    return model.model_validate(data)


def _described(keys: Keys, text: str) -> str:
    """Return a problem with its keys; the kit's own problems name them already."""
    return text if not keys or "config key" in text else f"{'.'.join(map(str, keys))}: {text}"


def _read(document: Document, given: Mapping[str, str]) -> Profile:
    data = document.data
    header = validated(Profile, {"name": "x", **{key: data[key] for key in ("dtu", "vars") if key in data}})
    # The default of a path starts from the profile's folder; of those that ship, from the current one.
    folder = Path.cwd() if document.path.parent == SHIPPED else document.path.parent
    known, problems = resolve(header.vars, given, folder)
    filled, missing = substitute({key: value for key, value in data.items() if key != "vars"}, known)
    if problems or missing:
        # Unknown keys are reported as well: a misspelt `vars` would make every variable look undeclared.
        unknown = [(each.keys, each.text) for each in check_config(Profile, data) if each.is_unknown]
        raise ProblemsError([*unknown, *problems, *missing])
    profile = validated(Profile, filled)
    if found := list(conflicts(profile)):
        raise ProblemsError(found)
    return profile


def resolve(
    declared: Mapping[str, Variable], given: Mapping[str, str], folder: Path
) -> tuple[dict[str, _Value], list[tuple[Keys, str]]]:
    """Return the value of every variable that has one, and what is wrong.

    Given paths start from the current folder, those of a default from `folder`.
    """
    known: dict[str, _Value] = {}
    problems: list[tuple[Keys, str]] = []
    for name in given.keys() - declared.keys():
        hint = did_you_mean(name, sorted(declared)) if declared else "the profile has no variables"
        problems.append((("vars",), f"--var {name} is given, but the profile does not declare it: {hint}"))
    for name, variable in declared.items():
        value = given.get(name, variable.default)
        place = Path.cwd() if name in given else folder
        try:
            if value is not None:
                known[name] = _typed(variable, value, place)
            elif variable.required:
                about = f" ({variable.description})" if variable.description else ""
                raise ValueError(f"a value is required{about}: give it with --var {name}=VALUE")
        except ValueError as error:
            problems.append((("vars", name), str(error)))
    return known, problems


def _typed(variable: Variable, value: _Value, folder: Path) -> _Value:
    """Return a value as its type wants it; `--var` always gives text. Raises ValueError."""
    text = str(value)
    if "${" in text:
        raise ValueError("the value of a variable cannot refer to another one: give a value without '${'")
    if variable.type == "integer":
        if not re.fullmatch(r"-?[0-9]+", text, re.ASCII):
            raise ValueError(f"must be a whole number, got {value!r}")
        return int(text)
    if variable.type == "boolean":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"must be true or false, got {value!r}")
        return text.lower() == "true"
    if not isinstance(value, str):
        raise ValueError(f"must be text, got {value!r}: put it in quotes, or declare another 'type'")
    return str((folder / Path(value).expanduser()).resolve()) if variable.type == "path" else value


def references(data: Any) -> set[str]:
    """Return the names of all variables that values refer to."""
    if isinstance(data, str):
        return set(_REFERENCE.findall(data))
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return set().union(*map(references, items))


def substitute(data: Any, known: Mapping[str, _Value], keys: Keys = ()) -> tuple[Any, list[tuple[Keys, str]]]:
    """Return the data with every `${NAME}` replaced, and what cannot be; a value that is nothing else keeps its type.

    Nothing like `${` is ever left.
    """
    if isinstance(data, dict | list):
        pairs = list(data.items() if isinstance(data, dict) else enumerate(data))
        done = [substitute(item, known, (*keys, key)) for key, item in pairs]
        problems = [problem for _, found in done for problem in found]
        values = [value for value, _ in done]
        return (values if isinstance(data, list) else dict(zip(data, values, strict=True))), problems
    if not isinstance(data, str) or "${" not in data:
        return data, []
    if (sole := _REFERENCE.fullmatch(data)) and sole[1] in known:
        return known[sole[1]], []
    problems = [
        (keys, f"the variable ${{{name}}} has no value: {_hint(name, known)}")
        for name in dict.fromkeys(_REFERENCE.findall(data))
        if name not in known
    ]
    replaced = _REFERENCE.sub(lambda found: _plain(known.get(found[1], "")), data)
    if "${" in replaced:
        remedy = "write ${NAME} for a variable of the profile, $NAME for one of the shell"
        problems.append((keys, f"'${{' is left after variables were filled in: {remedy}"))
    return replaced, problems


def _hint(name: str, known: Mapping[str, _Value]) -> str:
    near = f"{did_you_mean(name, sorted(known))} " if known else ""
    return f"{near}give it with --var {name}=VALUE (a variable of the shell is written ${name}, without braces)"


def _plain(value: _Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
