"""Load a profile: find the file, fill in variables, read it by the tables, and refuse whatever is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Profile, User
from amplifier_digital_twin.profile.places import FaultyError, Reading, Where
from amplifier_digital_twin.profile.rules import check_rules
from amplifier_foundation.errors import DocumentError

#: Keys that are about the file, in which no variables are filled in.
_UNTOUCHED = ("dtu", "vars")


class Loaded(NamedTuple):
    """A profile, the format it was written in, and what its author should know about how it was understood."""

    profile: Profile
    format: Literal["dtu-1", "published"]
    notes: tuple[str, ...]


def load_profile(path_or_name: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> Profile:
    """Return the profile of a file, or of a shipped name; `variables` are those of `--var`.

    Paths in them start from the current folder.
    Raises TwinError `profile_unknown` when there is none, and `profile_invalid`, naming file and line of everything
    that is wrong, when it cannot be used.
    """
    return load(path_or_name, variables, environ).profile


def load(path_or_name: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> Loaded:
    """Do what `load_profile` does, and return the notes as well."""
    from amplifier_digital_twin.profile.published import read_published
    from amplifier_digital_twin.profile.shipped import is_shipped, locate
    from amplifier_foundation.documents import read_document

    path = locate(path_or_name)
    try:
        document = read_document(path)
    except DocumentError as error:
        raise TwinError("profile_invalid", str(error), "correct the file at that line") from error
    reading = Reading(document, environ, is_shipped=is_shipped(path))
    try:
        if "dtu" not in document.data:
            return Loaded(read_published(reading, variables), "published", tuple(reading.notes))
        return Loaded(_read_ours(reading, variables), "dtu-1", tuple(reading.notes))
    except FaultyError as error:
        raise error.as_twin_error() from None


def validate(path_or_name: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what `validate` prints: the profile as it was understood, and the notes. Raises as `load_profile`."""
    from amplifier_digital_twin.profile.describe import describe

    loaded = load(path_or_name, variables, environ)
    return {
        "valid": True,
        "format": loaded.format,
        "path": str(loaded.profile.path),
        "profile": describe(loaded.profile),
        "notes": list(loaded.notes),
    }


def parse_variables(given: tuple[str, ...] | list[str]) -> dict[str, str]:
    """Return what `--var NAME=VALUE` options say, by name; raise TwinError for one without a value, or given twice."""
    values: dict[str, str] = {}
    for item in given:
        name, separator, value = item.partition("=")
        # Only the name is repeated: the value may be something that should not be shown.
        if not separator or not name:
            raise TwinError("bad_argument", f"--var {name!r} has no value", "write --var NAME=VALUE")
        if name in values:
            raise TwinError("bad_argument", f"--var {name} is given twice", "give each variable once")
        values[name] = value
    return values


def _read_ours(reading: Reading, given: Mapping[str, str]) -> Profile:
    from amplifier_digital_twin.profile.schema import PROFILE
    from amplifier_digital_twin.profile.variables import read_declarations, resolve, substitute

    where = Where(reading)
    data = reading.document.data
    if data["dtu"] != 1 or isinstance(data["dtu"], bool):
        raise where.at("dtu").fault(f"version {data['dtu']!r} is not known", "write 'dtu: 1', or update the program")
    # Before anything else: a misspelt `vars` would make every variable look undeclared.
    PROFILE.check_keys(data, where)
    place = where.at("vars")
    declared = read_declarations(data["vars"], place) if "vars" in data else {}
    values = resolve(declared, given, place)
    filled = substitute({key: value for key, value in data.items() if key not in _UNTOUCHED}, values, where)
    reading.home = _home(filled, where)
    parts = PROFILE(filled | {"dtu": 1}, where)
    profile = Profile(path=reading.document.path, **{key: parts[key] for key in parts if key not in _UNTOUCHED})
    check_rules(profile, where)
    return profile


def _home(data: Mapping[str, Any], where: Where) -> str:
    """Return what `~` means inside; the fault of a user that cannot be read is reported with all others."""
    from amplifier_digital_twin.profile.schema import USER

    try:
        return USER(data["user"], where.at("user")).home if "user" in data else User().home
    except FaultyError:
        return User().home
