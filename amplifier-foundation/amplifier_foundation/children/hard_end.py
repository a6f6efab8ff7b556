"""End the log of a session whose process is about to end without closing it, as when its event loop is blocked."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_foundation.children.left_log import lacking_in

if TYPE_CHECKING:
    from amplifier_kit.log import SessionLog

logger = logging.getLogger(__name__)

_BY: Final = "app"


def end_log(log: SessionLog, folder: Path) -> None:
    """Write the ends that an open log lacks, as those of a session that was stopped, and close it.

    It needs no event loop, and any thread may call it: what the session does meanwhile cannot be written any more. A
    log that cannot be read is told of, and closed as it is.
    """
    try:
        log.close_with(lambda: lacking_in(folder, "cancelled", _BY).ends)
    except (OSError, ValueError) as error:
        logger.warning("The log in %s cannot be closed with what it lacks: %s", folder, error)
