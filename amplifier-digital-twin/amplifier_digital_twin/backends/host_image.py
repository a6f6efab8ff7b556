"""The base `host` for container engines: an image of a bare tree, into which the host's programs are mounted."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def host_image_key() -> str:
    """Name the tree as it would be made now."""
    from amplifier_digital_twin.embedded.skeleton import skeleton_key

    return f"host-{skeleton_key()}"


def host_mounts() -> list[str]:
    """Name the folders of the host that are mounted, read-only, at the same place."""
    from amplifier_digital_twin.embedded.bubblewrap import system_folders

    return system_folders()


def write_host_archive(target: Path) -> None:
    """Write the tree as a tar archive."""
    from amplifier_digital_twin.embedded.accounts import account_nodes
    from amplifier_digital_twin.embedded.layers import with_parents
    from amplifier_digital_twin.embedded.skeleton import skeleton_nodes
    from amplifier_digital_twin.profile.model import User

    nodes = with_parents({**skeleton_nodes(), **account_nodes(User("root", 0), None)})
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, node in nodes.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.mode, entry.uid, entry.gid = node.mode, node.uid, node.uid
            if node.target is not None:
                entry.type, entry.linkname = tarfile.SYMTYPE, node.target
                archive.addfile(entry)
            elif node.content is not None:
                entry.size = len(node.content)
                archive.addfile(entry, io.BytesIO(node.content))
            else:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
