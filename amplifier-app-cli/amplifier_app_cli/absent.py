"""Commands of the published program that this release does not have: each says so in one line."""

from typing import Final

_KEPT: Final = "settings of it are kept untouched"

ABSENT: Final = {
    "routing": f"`routing` dashboards are not in this release; {_KEPT}. Set roles under `routing` in settings.yaml",
    "notify": f"`notify` is not in this release; {_KEPT}",
    "module override": (
        "`module override` is not in this release: use `amplifier settings set overrides.MODULE.config.KEY VALUE`"
    ),
    "recipes": f"`recipes` are not in this release; {_KEPT}",
    "mode": f"`modes` are not in this release; {_KEPT}",
    "modes": f"`modes` are not in this release; {_KEPT}",
}
