"""Find room for the name of a socket: the system takes about a hundred bytes, and temporary folders may lie deep."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

#: As long as the name of a socket may be everywhere.
LONGEST_SOCKET: Final = 100
_SHORT: Final = "/tmp"


def make_socket_folder(prefix: str, name: str) -> Path:
    """Make a folder of the user's alone in which a socket `name` can be; raises OSError.

    It is in the temporary folder, or in /tmp where the name would be too long there.
    """
    folder = tempfile.mkdtemp(prefix=prefix)
    if len(os.fsencode(os.path.join(folder, name))) > LONGEST_SOCKET:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=prefix, dir=_SHORT)
    return Path(folder)
