"""Remember of every file that shaped a bundle or a plan whose it is and on whose word it was read."""

from __future__ import annotations

from typing import Literal, NamedTuple

from amplifier_foundation.documents import Document

#: Whose file it is. Product, user and project author theirs: unknown keys are errors; in fetched files, warnings.
Owner = Literal["product", "user", "project", "fetched"]
#: On whose word a file is read, wherever it lies: what a project's file includes is named by the project.
Namer = Literal["product", "user", "project"]


class Layer(NamedTuple):
    """One file in the order of composition, later ones on top of earlier ones."""

    document: Document
    owner: Owner
    named_by: Namer
    #: The name of the bundle that the file holds.
    bundle: str
    #: What it was loaded from.
    uri: str
    #: Whether the user gave this very file for this run.
    given_by_user: bool = False
