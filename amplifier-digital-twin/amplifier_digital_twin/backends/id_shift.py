"""Give the files of an archive back the owners they had inside a user namespace."""

from __future__ import annotations

import tarfile
from pathlib import Path

from amplifier_digital_twin.embedded.id_maps import COUNT, FIRST_ID


def shift_owners(source: Path, target: Path) -> None:
    """Copy a tar archive; owners out of the range that stands for a universe's become those inside."""
    with (
        tarfile.open(source, "r:") as incoming,
        tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as outgoing,
    ):
        for member in incoming:
            member.uid, member.gid = _inside(member.uid), _inside(member.gid)
            # Else the number, which was too large for its field, would come again from there.
            member.pax_headers = {key: value for key, value in member.pax_headers.items() if key not in ("uid", "gid")}
            member.uname = member.gname = ""
            outgoing.addfile(member, incoming.extractfile(member) if member.isreg() else None)


def _inside(number: int) -> int:
    return number - FIRST_ID if FIRST_ID <= number < FIRST_ID + COUNT else number
