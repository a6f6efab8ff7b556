"""Lists what is installed in a container, as JSON on stdout: run there as `python3 -I -S - / NAME...`, this as stdin.

Standard library only, nothing of what is installed is imported, and links are never followed. The files of packages
named as arguments (normalized names) are hashed; of the others only their records are read.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import sys
from typing import Any

ROOT, *NAMES = sys.argv[1:]
SKIPPED = ("/proc", "/sys", "/dev", "/run", "/usr/share", "/usr/include", "/usr/src")
# Directories of uv's cache that hold what could be installed, not what is; tools run from `archive-v0`.
CACHED = re.compile(r"(sdists|wheels|git)-v\d+$")
UNPACKED = re.compile(r"archive-v\d+$")
META_NAME = ".amplifier_cache_meta.json"


def inside(path: str) -> str:
    """Return a path as the container sees it."""
    return "/" + os.path.relpath(path, ROOT)


def read(path: str) -> bytes | None:
    """Return the content of a regular file, None for anything else."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def text(path: str) -> str | None:
    """Return a record as text, None when it is missing."""
    content = read(path)
    return None if content is None else content.decode("utf-8", "replace")


def digest(site: str, path: str) -> str | None:
    """Return the sha256 of an installed file as RECORD writes it, None for one that is missing or behind a link."""
    place = os.path.join(site, path)
    content = read(place) if os.path.realpath(place) == os.path.join(os.path.realpath(site), path) else None
    if content is None:
        return None
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def package(site: str, folder: str) -> dict[str, Any]:
    """Return what one record directory says."""
    name, _, rest = folder.rsplit(".", 1)[0].partition("-")
    name = re.sub(r"[-_.]+", "-", name).lower()
    direct, installer, record = (
        text(os.path.join(site, folder, file)) for file in ("direct_url.json", "INSTALLER", "RECORD")
    )
    paths = [row[0] for row in csv.reader((record or "").splitlines()) if row]
    digests = {path: digest(site, path) if name in NAMES else None for path in paths}
    return {
        "name": name,
        "version": rest.partition("-")[0],
        "location": inside(os.path.join(site, folder)),
        "direct_url": direct,
        "installer": (installer or "").strip(),
        "record": None if record is None else digests,
    }


found: dict[str, list[Any]] = {"packages": [], "sources": [], "startup": []}
for at, folders, files in os.walk(ROOT):
    is_site = os.path.basename(at) in ("site-packages", "dist-packages")
    is_record = any(part.endswith((".dist-info", ".egg-info")) for part in at.split("/"))
    if not is_record and not UNPACKED.match(os.path.basename(os.path.dirname(at))):
        endings = (".dist-info", ".egg-info") if is_site else (".dist-info",)
        found["packages"] += [package(at, name) for name in folders + files if name.endswith(endings)]
    if META_NAME in files:
        found["sources"].append({"location": inside(at), "meta": text(os.path.join(at, META_NAME))})
    if is_site:
        special = ("sitecustomize.py", "usercustomize.py")
        started = [name for name in files if name.endswith(".pth") or name in special]
        found["startup"] += [inside(os.path.join(at, name)) for name in started]
    folders[:] = [name for name in folders if inside(os.path.join(at, name)) not in SKIPPED and not CACHED.match(name)]
json.dump(found, sys.stdout)
