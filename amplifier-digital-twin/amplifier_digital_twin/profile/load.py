"""Load a profile: find the file, fill in variables, check every key, and report all problems with file and line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Model, Profile, User, conflicts
from amplifier_digital_twin.profile.values import Reading, shown
from amplifier_digital_twin.profile.variables import Keys, Problems, Variable, resolve, substitute
from amplifier_foundation.documents import Document, read_document
from amplifier_foundation.errors import DocumentError, did_you_mean
from amplifier_foundation.files import replace_file

#: Keys that are about the file, in which no variables are filled in.
_UNTOUCHED = ("dtu", "vars")
_FOLDER = Path(__file__).parent.parent / "profiles"

_M = TypeVar("_M", bound=Model)


class Loaded(NamedTuple):
    """A profile, the format it was written in, and what its author should know about how it was understood."""

    profile: Profile
    format: Literal["dtu-1", "published"]
    notes: tuple[str, ...]


class ProblemsError(Exception):
    """Everything that is wrong with a profile."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


def shipped_names() -> list[str]:
    """Return the names of the profiles that come with the program."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def locate(path_or_name: str) -> Path:
    """Return the file of a profile: a path, or the name of one that ships. Raises TwinError."""
    path = Path(path_or_name)
    names = shipped_names()
    if path_or_name in names:
        return _FOLDER / f"{path_or_name}.yaml"
    if path.is_file():
        return path.absolute()
    if "/" not in path_or_name and path.suffix not in (".yaml", ".yml"):
        hint = did_you_mean(path_or_name, names)
        raise TwinError(
            "profile_unknown",
            f"{path_or_name}: neither a file nor a profile that ships with the program: {hint}",
            f"give the path of a profile, or one of: {', '.join(names)}",
        )
    problem = "is a folder" if path.is_dir() else "no such file"
    raise TwinError("profile_unknown", f"{path}: {problem}", f"give a profile's file, or one of: {', '.join(names)}")


def load_profile(path_or_name: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> Profile:
    """Return the profile of a file, or of a name that ships; `variables` are those of `--var`.

    Raises TwinError: `profile_unknown` when there is none, and `profile_invalid`, which names file and line of
    everything that is wrong.
    """
    return load(path_or_name, variables, environ).profile


def load(path_or_name: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> Loaded:
    """Load a profile as `load_profile` does, and return the notes as well."""
    from amplifier_digital_twin.profile.published import read_published

    path = locate(path_or_name)
    try:
        document = read_document(path)
    except DocumentError as error:
        raise TwinError("profile_invalid", str(error), "correct the file at that line") from error
    reading = Reading(document, environ, is_shipped=path.parent == _FOLDER)
    try:
        if "dtu" not in document.data:
            return Loaded(read_published(reading, variables), "published", tuple(reading.notes))
        return Loaded(_read(reading, variables), "dtu-1", tuple(reading.notes))
    except ProblemsError as error:
        raise _invalid(document, error.problems) from None


def describe(loaded: Loaded) -> dict[str, Any]:
    """Return a profile as it was understood, as JSON; secrets are names only."""
    profile = loaded.profile
    record = profile.model_dump(mode="json")
    record["user"]["home"] = profile.user.home
    for repository, described in zip(profile.repositories, record["repositories"], strict=True):
        described["name"] = repository.name
    path = str(profile.path)
    return {"valid": True, "format": loaded.format, "path": path, "profile": record, "notes": list(loaded.notes)}


def save_profile(profile: Profile, path: Path) -> None:
    """Write a loaded profile to a private file, so that later commands use what was launched."""
    record = profile.model_dump(mode="json", exclude_defaults=True, exclude={"path"})
    replace_file(path, json.dumps({"path": str(profile.path), "profile": record}).encode())


def read_saved_profile(path: Path) -> Profile:
    """Return what `save_profile` wrote; raise TwinError when it is missing or invalid."""
    try:
        saved = json.loads(path.read_bytes())
        profile_path = Path(saved["path"])
        reading = Reading(Document(profile_path), {}, is_saved=True)
        return Profile.model_validate(saved["profile"], context=reading).model_copy(update={"path": profile_path})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TwinError("state_invalid", f"{path}: {error}", "destroy this universe, and launch another") from error


def _read(reading: Reading, given: Mapping[str, str]) -> Profile:
    data = reading.document.data
    if data["dtu"] != 1 or isinstance(data["dtu"], bool):
        problem = f"version {data['dtu']!r} is not known: write 'dtu: 1', or update the program"
        raise ProblemsError([(("dtu",), problem)])
    # Before anything else: a misspelt `vars` would make every variable look undeclared.
    if unknown := unknown_keys({**data, "vars": None}, [*Profile.model_fields, "vars"], hidden=["path"]):
        raise ProblemsError(unknown)
    problems: Problems = []
    declared = read_variables(data["vars"], reading) if "vars" in data else {}
    known = resolve(declared, given, reading, problems)
    filled = substitute({key: value for key, value in data.items() if key not in _UNTOUCHED}, known, problems)
    if problems:
        raise ProblemsError(problems)
    reading.home = _home(filled, reading)
    profile = validated(Profile, filled, reading).model_copy(update={"path": reading.document.path})
    if found := list(conflicts(profile)):
        raise ProblemsError(found)
    return profile


def read_variables(data: Any, reading: Reading) -> dict[str, Variable]:
    """Return the declared variables by name; raise ProblemsError."""
    if not isinstance(data, dict):
        raise ProblemsError([(("vars",), f"must be a mapping, got {shown(data)}")])
    problems: Problems = []
    declared: dict[str, Variable] = {}
    for name, item in data.items():
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            problems.append((("vars",), f"must be the name of a variable (letters, digits, '_'), got {shown(name)}"))
            continue
        try:
            declared[name] = validated(Variable, item, reading, ("vars", name))
        except ProblemsError as error:
            problems += error.problems
    if problems:
        raise ProblemsError(problems)
    return declared


def _home(data: Mapping[str, Any], reading: Reading) -> str:
    """Return what `~` means inside; the problem of an invalid user is reported with all others."""
    try:
        return validated(User, data["user"], reading).home if "user" in data else User().home
    except ProblemsError:
        return User().home


def validated(model: type[_M], data: Any, reading: Reading, keys: Keys = ()) -> _M:
    """Return data as a model; raise ProblemsError with everything that is wrong with it."""
    try:
        return model.model_validate(data, context=reading)
    except ValidationError as error:
        found: dict[Keys, str] = {}
        for fault in error.errors(include_url=False):
            place, text = _explain(model, data, fault)
            found.setdefault((*keys, *place), text)
        raise ProblemsError(list(found.items())) from None


def unknown_keys(
    data: Mapping[Any, Any], known: Sequence[str], keys: Keys = (), hidden: Sequence[str] = ()
) -> Problems:
    """Return the problem of every key that is not known."""
    known = [name for name in known if name not in hidden]
    return [((*keys, str(key)), _unknown(key, known, keys)) for key in data if key not in known]


def _unknown(key: object, known: Sequence[str], keys: Keys) -> str:
    place = f" in {_dotted(keys)}" if keys else ""
    return f"unknown key {str(key)!r}{place}: {did_you_mean(key, list(known))}"


def _explain(model: type[BaseModel], data: Any, fault: Mapping[str, Any]) -> tuple[Keys, str]:
    """Return the keys that an error of pydantic is about, and the problem in words."""
    keys = _existing(data, fault["loc"])
    kind, value = fault["type"], fault["input"]
    if kind == "extra_forbidden":
        return keys, _unknown(keys[-1], sorted(_fields(model, keys[:-1])), keys[:-1])
    if kind == "missing":
        return keys, f"the key {str(fault['loc'][-1])!r} is missing"
    if kind == "value_error":
        return keys, str(fault["ctx"]["error"])
    if kind == "literal_error":
        return keys, f"cannot be {value!r}: {did_you_mean(value, _choices(fault))}"
    expected = {
        "bool_type": "true or false",
        "int_type": "a whole number",
        "list_type": "a list",
        "tuple_type": "a list",
        "dict_type": "a mapping",
        "model_type": "a mapping",
        "greater_than_equal": f"at least {fault.get('ctx', {}).get('ge')}",
        "less_than_equal": f"at most {fault.get('ctx', {}).get('le')}",
    }.get(kind)
    return keys, f"must be {expected}, got {shown(value)}" if expected else f"{fault['msg']}, got {shown(value)}"


def _choices(fault: Mapping[str, Any]) -> list[str]:
    return [part.strip("'") for part in fault["ctx"]["expected"].replace(" or ", ", ").split(", ")]


def _existing(data: Any, loc: Sequence[str | int]) -> Keys:
    """Return the part of an error's location that is in the data: pydantic adds names of types and branches."""
    keys: list[str | int] = []
    for part in loc:
        if isinstance(data, dict):
            if part not in data:
                keys += [part] if str(part) in map(str, data) else []
                continue
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        keys.append(part)
    return tuple(keys)


def _fields(model: Any, keys: Keys) -> list[str]:
    """Return the keys of the model that `keys` lead to."""
    for key in keys:
        if isinstance(key, str):
            model = _inner(model.model_fields[key].annotation)
    return [name for name in model.model_fields if (model, name) != (Profile, "path")]


def _inner(annotation: Any) -> Any:
    """Return the model in an annotation like `tuple[X, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner(part)) is not None), None)


def _dotted(keys: Keys) -> str:
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys]
    return "".join(parts).removeprefix(".")


def _invalid(document: Document, problems: Problems) -> TwinError:
    """Return one error that names every problem, in the order of the file."""
    lines = sorted({(document.line(*keys), f"{_dotted(keys)}: {text}" if keys else text) for keys, text in problems})
    message = "\n".join(f"{document.path}:{line}: {text}" for line, text in lines)
    remedy = "correct the profile at these lines; docs/digital-twin.md lists every key"
    return TwinError("profile_invalid", message, remedy)
