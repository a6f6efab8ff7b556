"""Read how one bundle names another: a path, an address, `namespace:path`, or a name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from amplifier_foundation.bundles.anchors import bundle_file_in, is_relative
from amplifier_foundation.bundles.bundle import BundleError
from amplifier_kit.struct import FrozenStruct

_NAME: Final = r"[\w.-]+(/[^/\x00-\x1f\\:]+)*"
_NAMESPACE: Final = r"[\w.-]+"
#: What is put behind a path that names no file as it is written.
_ENDINGS: Final = (".yaml", ".yml", ".md")


class Reference(FrozenStruct):
    """One reference, taken apart."""

    kind: Literal["path", "uri", "namespaced", "name"]
    text: str
    #: Of a namespaced reference.
    namespace: str = ""
    path: str = ""


def parse_reference(text: str) -> Reference:
    """Return what a reference is; raise BundleError, without file and line, for an invalid one."""
    text = text.strip()
    if is_relative(text) or text.startswith(("/", "~/")):
        return Reference("path", text)
    if "://" in text:
        return Reference("uri", text)
    if ":" in text:
        namespace, _, path = text.partition(":")
        names = path.split("/")
        if not re.fullmatch(_NAMESPACE, namespace) or not path or path.startswith("/") or "\\" in path or ".." in names:
            raise BundleError(
                f"{text!r} is not a reference: write namespace:path, where the path is relative to the root of that "
                "namespace and stays in it"
            )
        return Reference("namespaced", text, namespace, path)
    if not re.fullmatch(_NAME, text) or ".." in text.split("/"):
        raise BundleError(
            f"{text!r} is not a reference: write ./path, an address like git+https://host/org/repo@ref, namespace:path "
            "or the name of a bundle"
        )
    return Reference("name", text)


def existing_file(path: Path) -> Path | None:
    """Return the file that a path without a suffix means: as given, then with one, then the bundle of the folder."""
    for candidate in _candidates(path):
        if os.path.isfile(candidate):  # False for a name that no file can have
            return candidate
    return None


def tried_files(path: Path) -> str:
    """Return, for a message, where `existing_file` has looked, and the most similar existing name."""
    tried = f"{path}{{,{','.join(_ENDINGS)},/bundle.md,/bundle.yaml}}"
    near = _nearest(path)
    return f"{tried}: did you mean {near!r}?" if near else tried


def _nearest(path: Path) -> str | None:
    """Return the name in the same folder that looks most like a missing one, in the same form as the missing one."""
    import difflib

    try:
        there = [entry.name for entry in path.parent.iterdir() if entry.suffix in _ENDINGS or entry.is_dir()]
    except OSError:
        return None
    names = [name if path.suffix else Path(name).stem for name in there]
    return next(iter(difflib.get_close_matches(path.name, names, 1)), None)


def _candidates(path: Path) -> Iterator[Path]:
    yield path
    found = bundle_file_in(path)
    if found is not None:
        yield found
    for ending in _ENDINGS:
        yield path.with_name(path.name + ending)


def overridden(text: str, overrides: Mapping[str, str]) -> str | None:
    """Return the override of a name or address, None when it has none.

    Names and whole addresses are compared, never parts of them. An address keeps the part of the source it asked for.
    """
    address, hash_sign, fragment = text.partition("#")
    target = overrides.get(text) or overrides.get(address)
    if not target or not hash_sign or "#" in target:
        return target or None
    if target.startswith("/"):
        target = f"file://{target}"  # a plain path has no fragment
    return f"{target}#{fragment}"
