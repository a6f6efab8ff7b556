"""From a profile to what a backend makes of it: the specification of one twin."""

from __future__ import annotations

from amplifier_digital_twin.backends.twin import TwinSpec
from amplifier_digital_twin.host_tools import portable_tools, with_packaged_tools
from amplifier_digital_twin.profile.model import Profile
from amplifier_digital_twin.services.surroundings import REAL_UV
from amplifier_digital_twin.services.world import World
from amplifier_digital_twin.spreading import spread
from amplifier_digital_twin.state import Place


def specify(profile: Profile, world: World, place: Place, identifier: str, layer: str | None) -> TwinSpec:
    """Return the specification of a twin of this universe, whose folder is made; raise TwinError for a missing tool."""
    hostname = profile.access.hostname or profile.name
    # A program of ours stands in front of uv.
    tools = {(REAL_UV if name == "uv" else name): path for name, path in portable_tools(profile.base).items()}
    base = with_packaged_tools(profile.base)
    twins = place.folder / "twins"
    twins.mkdir(exist_ok=True, mode=0o700)
    # One in which wheels were built is removed while the next one is filled.
    spread(twins)
    folder = twins / identifier
    folder.mkdir(exist_ok=True, mode=0o700)
    return TwinSpec(
        id=identifier,
        folder=folder,
        cache=place.cache,
        base=base,
        user=profile.user,
        limits=profile.limits,
        network=profile.network.mode,
        hostname=hostname,
        files=world.files(hostname),
        tools=tools,
        layer=layer,
        require=profile.require,
        is_strict=profile.isolation == "strict",
    )
