"""A universe: launched from a profile, used, kept as a snapshot, and updated."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from amplifier_digital_twin.base_image import PORTABLE, Image, ensure_image, image_key, mirror_hosts
from amplifier_digital_twin.engines.engine import (
    LABEL_HOME,
    LABEL_ID,
    LABEL_USER,
    Command,
    ContainerSpec,
    Engine,
    Finished,
    end_of,
)
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.files import Place
from amplifier_digital_twin.log import SHORTEST_SECRET, Log
from amplifier_digital_twin.processes import ProcessIdentity, end_processes, start_process
from amplifier_digital_twin.profile import model
from amplifier_digital_twin.profile.load import save_profile
from amplifier_digital_twin.profile.model import ROOT, Profile, User, same_repository
from amplifier_digital_twin.services.config import Served, ServicesConfig
from amplifier_digital_twin.services.guest import MOUNT, PORTS, guest_environment, guest_files
from amplifier_digital_twin.state import Found, Home, check_name
from amplifier_digital_twin.wheels import gather
from amplifier_foundation.files import locked, make_private
from amplifier_kit.guard.processes.programs import find_program

_CONTAINER: Final = "amplifier-twin-"
_BUILD: Final = "-build"
SNAPSHOT_IMAGE: Final = "localhost/amplifier-twin/snapshot:{}"
_PROVISIONED_IMAGE: Final = "localhost/amplifier-twin/provisioned:{}"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Counts up when what is kept of a provisioned universe changes.
_SNAPSHOT: Final = 3
#: Snapshots of provisioned universes that are kept; the least used ones go.
_KEPT_SNAPSHOTS: Final = 6
_LARGEST_SNAPSHOT: Final = 64 * 1024**3
_ELF: Final = b"\x7fELF"
#: Prints the files in the sized file systems, not the mount points themselves: those belong to root. Caches can be had
#: again: after an installation by uv they are half of all files.
_KEEP: Final = (
    "find /home /tmp -mindepth 1 -maxdepth 1 -print0 | tar -C / --null --anchored --no-wildcards-match-slash"
    " --exclude='/home/*/.cache' --ignore-failed-read --warning=none -cf - -T -"
)
#: Reads the values from standard input, because arguments of processes can be seen.
_SEARCH: Final = "exec grep -rlsF -f - -- /home /tmp /root /etc /opt /srv /usr/local /var"


class Snapshot(NamedTuple):
    """What is kept of a universe's files: an archive, and for root also an image of the whole file system."""

    folder: Path
    image: str

    @property
    def archive(self) -> Path:
        """The files in the sized file systems."""
        return self.folder / "files.tar"

    def exists(self) -> bool:
        """Return whether it was completed."""
        return (self.folder / "complete").is_file()


class Universe:
    """One universe of this user; every method raises TwinError when it cannot do what it says."""

    def __init__(
        self, found: Found, home: Home, profile: Profile, engine: Engine, secrets: Mapping[str, str], log: Log
    ) -> None:
        self.folder = found.folder
        self.id, self.name = found.state.id, found.state.name
        self.profile, self.engine, self.secrets, self.log = profile, engine, secrets, log
        self.container = f"{_CONTAINER}{self.id}"
        self.place = Place(engine, self.container, profile.user)
        self._home = home
        self._first: ProcessIdentity | None = None
        self._lease_until = found.state.lease_until
        self._deadline = time.monotonic() + profile.limits.wall

    # -- launching --

    def launch(self, *, is_checked: bool = False) -> dict[str, Any]:
        """Bring the universe up, and let it outlive this process.

        `is_checked`: it is to be checked by this process, which therefore keeps holding it.
        """
        profile, log = self.profile, self.log
        save_profile(profile, self.folder.path / "profile.json")
        self.folder.update(engine=self.engine.name)
        with log.timed("image"):
            image = ensure_image(self.engine, profile.base, self._home.cache, log.progress)
        config, served = self._services_config(), Served()
        ports: list[dict[str, Any]] = []
        if profile.has_services or profile.access.ports:
            with log.timed("services"):
                served, ports = self._start_services(config)
        if profile.packages:
            with log.timed("wheels"):
                self._gather_wheels(config, served, image)
        snapshot = self._provisioned(config, served)
        is_warm = snapshot.exists()
        self._begin(config, image, snapshot, is_checked=is_checked)
        readiness = self.check_readiness()
        waiting = [f"{item['name']}: {item['reason']}" for item in readiness if not item["ready"]]
        if waiting:
            raise TwinError("not_ready", f"not ready: {'; '.join(waiting)}", "see `readiness` in the profile")
        self.folder.update(ports=tuple(ports))
        if is_checked:
            self.folder.update(phase="checking")
        else:
            self.release()
        return {**self.status(), "warm": is_warm, "readiness": readiness, "timings": dict(log.timings)}

    def _begin(self, config: ServicesConfig, image: Image, snapshot: Snapshot, *, is_checked: bool) -> None:
        """Start the container from a snapshot where there is one, else provision it."""
        is_kept = snapshot.exists()
        self.log.progress(f"starting a container with {self.engine.name}" + (", provisioned before" if is_kept else ""))
        with self.log.timed("create"):
            self._create(config, image, snapshot.image if is_kept and snapshot.image else image.name)
        if is_kept:
            with self.log.timed("restore"):
                self._restore(snapshot)
        else:
            self._provision(snapshot, is_checked=is_checked)
        self._start_mocks()

    def release(self) -> None:
        """Let the universe exist as long as its container runs, whatever becomes of this process."""
        process = self._process()
        if process is None:
            raise TwinError("twin_gone", f"{self.container} does not run", "see `logs`, and launch another")
        self.folder.update(phase="ready", holder=process)

    def _process(self) -> ProcessIdentity | None:
        """Return the container's first process; None when it does not run."""
        if self._first is None or not self._first.is_running():
            pid = self.engine.init_pid(self.container)
            self._first = ProcessIdentity.of(pid) if pid is not None else None
        return self._first

    def _services_config(self) -> ServicesConfig:
        profile, path = self.profile, self.folder.path
        for folder in (self.folder.sockets, path / "services", path / "wheels", path / "guest"):
            folder.mkdir(mode=0o755, exist_ok=True)
        make_private(self._home.cache / "downloads")
        allowed = [mirror_hosts() if item == "@apt" else (item,) for item in profile.network.allow]
        return ServicesConfig(
            sockets=self.folder.sockets,
            state=path / "services",
            log=self.folder.requests,
            cache=self._home.cache / "downloads",
            wheels=path / "wheels",
            names=tuple(package.name for package in profile.packages),
            repositories=profile.repositories,
            allow=tuple(dict.fromkeys(host for hosts in allowed for host in hosts)),
            rewrites=profile.rewrites,
            mocks=profile.mocks,
            ports=profile.access.ports,
            inside=tuple(self.engine.exec_argv(self.container, profile.user.uid)),
            universe=path,
        )

    def _config(self) -> ServicesConfig:
        path = self.folder.services_config
        return ServicesConfig.load(path) if path.exists() else self._services_config()

    def _served(self, config: ServicesConfig) -> Served:
        return Served.load(config) if self.folder.services_config.exists() else Served()

    def _start_services(self, config: ServicesConfig) -> tuple[Served, list[dict[str, Any]]]:
        config.save(self.folder.services_config)
        answer = start_process(
            "amplifier_digital_twin.services.process",
            self.folder.services_config,
            self.folder.services_log,
            lambda process: self.folder.update(services=process),
        )
        served = Served.load(config)
        for note in served.notes:
            self.log.progress(f"note: {note}")
        return served, answer["ports"]

    def _gather_wheels(self, config: ServicesConfig, served: Served, image: Image) -> None:
        @contextmanager
        def builder() -> Iterator[tuple[Place, Mapping[str, str]]]:
            self.log.progress("building wheels in a throw-away container")
            place = self.place._replace(container=f"{self.container}{_BUILD}")
            self._create(config, image, image.name, place.container)
            try:
                place.make_directory(place.user.home)
                yield place, self.environment(place.user)
            finally:
                self.engine.remove(place.container)

        assert config.wheels is not None
        base_key = f"{self.engine.name} {image_key(self.profile.base)}"
        gather(self.profile, served, self._home.cache, base_key, builder, config.wheels)

    def _create(self, config: ServicesConfig, base: Image, image: str, container: str = "") -> None:
        """Create a container with everything that is mounted in it."""
        profile, user = self.profile, self.profile.user
        spec = ContainerSpec(
            name=container or self.container,
            image=image,
            labels={LABEL_ID: self.id, LABEL_HOME: str(self._home.path), LABEL_USER: str(os.geteuid())},
            uid=user.uid,
            hostname=profile.access.hostname or self.name or self.id,
            limits=profile.limits,
            network=profile.network.mode,
            lifetime=self._lease_until - time.time(),
            folder=self.folder.path,
            script=_first_process(PORTS if profile.has_services else {}),
            mounts=self._mounts(config, base),
        )
        self.engine.create(spec)

    def _mounts(self, config: ServicesConfig, base: Image) -> dict[str, Path]:
        """Return what is mounted where, after writing the files that are made for it."""
        profile = self.profile
        texts = guest_files(config) if profile.has_services else {}
        texts |= _accounts(profile.user) if base.is_ours else {}
        mounts = {MOUNT: self.folder.sockets} if profile.has_services else {}
        for target, text in texts.items():
            mounts[target] = self.folder.path / "guest" / target.strip("/").replace("/", "-")
            # In place, because a mount shows the file it was made with.
            mounts[target].write_text(text, encoding="utf-8")
        return mounts | {f"/usr/local/bin/{name}": path for name, path in self._tools().items()}

    def _tools(self) -> dict[str, Path]:
        return {name: _portable(name) for name in self.profile.base.tools if name in PORTABLE}

    # -- provisioning and snapshots --

    def _provisioned(self, config: ServicesConfig, served: Served) -> Snapshot:
        """Return where the result of provisioning is kept: the name says everything that it depends on."""
        profile = self.profile
        wanted = {"base", "user", "environment", "network", "uv", "rewrites", "mocks"}
        parts: list[Any] = [_SNAPSHOT, self.engine.name, image_key(profile.base), profile.limits.disk]
        parts += [profile.model_dump(mode="json", include=wanted), sorted(self.secrets)]
        parts += [command.model_dump(mode="json") for command in profile.provision.commands]
        parts += [
            [file.model_dump(mode="json", exclude={"src"}), _digest(file.src)] for file in profile.provision.files
        ]
        parts += [[same_repository(item.url), sorted(item.commits.items())] for item in served.repositories]
        parts += [guest_files(config) if profile.has_services else {}]
        parts += [[name, path.stat().st_size] for name, path in self._tools().items()]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
        image = _PROVISIONED_IMAGE.format(key) if self._is_whole() else ""
        return Snapshot(self._home.cache / "provisioned" / key, image)

    def _is_whole(self) -> bool:
        """Whether commands may change more than the sized file systems."""
        limits, commands = self.profile.limits, self.profile.provision.commands
        return self.profile.user.uid == 0 or limits.disk is None or any(item.user == "root" for item in commands)

    def _provision(self, snapshot: Snapshot, *, is_checked: bool) -> None:
        profile, log = self.profile, self.log
        with log.timed("provision"):
            if profile.user.uid != 0:
                self.place.make_directory(profile.user.home)
            for file in profile.provision.files:
                log.progress(f"copying {file.src.name} to {file.dest}")
                self.push(file)
            self.run_commands(profile.provision.commands)
        if not (profile.provision.files or profile.provision.commands):
            return
        if not is_checked and profile.has_services:
            with log.timed("provenance"):
                self._refuse_strangers()
        if found := self._files_with_secrets():
            log.progress(f"note: the next launch provisions again: a secret is in {', '.join(found[:5])}")
            return
        with log.timed("snapshot"):
            self._keep(snapshot)
            _forget_old_snapshots(self.engine, snapshot.folder.parent)

    def _refuse_strangers(self) -> None:
        wrong = [finding for finding in self.provenance("all") if not finding.is_ok]
        if wrong:
            said = "; ".join(f"{finding.name} {finding.version}: {finding.reason}" for finding in wrong[:5])
            remedy = "install from the profile's repositories and packages; `check` with {provenance: all} lists all"
            raise TwinError("provenance_mismatch", f"installed, but not as served: {said}", remedy)

    def _files_with_secrets(self) -> list[str]:
        """Return the files inside that hold a secret; raise TwinError when that cannot be found out."""
        lines = {max(value.splitlines(), key=len, default="") for value in self.secrets.values()}
        needles = sorted(line for line in lines if len(line) >= SHORTEST_SECRET)
        if not needles:
            return []
        data = "\n".join([*needles, ""]).encode("utf-8", "surrogateescape")
        search = Command(["/bin/sh", "-c", _SEARCH], self.profile.user.uid, timeout=120, stdin=data)
        done = self.engine.run(self.container, search)
        names = done.stdout.decode("utf-8", "backslashreplace").splitlines()
        if done.is_timed_out or (done.exit_code not in (0, 1, 2) and not names):
            raise TwinError("secret_in_files", "whether files hold a secret cannot be found out", "see `logs`")
        return names

    def _keep(self, snapshot: Snapshot) -> None:
        """Keep the files of the universe; a snapshot of that name is replaced."""
        make_private(snapshot.folder.parent)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=snapshot.folder.parent) as directory:
            fresh = snapshot._replace(folder=Path(directory, "snapshot"))
            fresh.folder.mkdir(mode=0o700)
            if self.profile.limits.disk is not None and self.profile.user.uid != 0:
                with fresh.archive.open("wb") as archive:
                    self.engine.copy_out(self.container, _KEEP, self.profile.user.uid, archive, _LARGEST_SNAPSHOT)
            if snapshot.image:
                self.engine.commit(self.container, snapshot.image)
            (fresh.folder / "complete").touch()
            with locked(snapshot.folder.with_suffix(".lock")):
                shutil.rmtree(snapshot.folder, ignore_errors=True)
                fresh.folder.rename(snapshot.folder)

    def _restore(self, snapshot: Snapshot) -> None:
        uid = self.profile.user.uid
        if snapshot.archive.exists():
            with snapshot.archive.open("rb") as archive:
                self.engine.copy_in(self.container, archive, uid, uid, "/")
        os.utime(snapshot.folder)

    def snapshot(self, name: str) -> dict[str, Any]:
        """Keep the file system as it is under a name, for `reset`."""
        if found := self._files_with_secrets():
            said = f"a secret is in {', '.join(found[:5])}: no snapshot is made of it"
            raise TwinError("secret_in_files", said, "let programs take secrets from their environment")
        self._keep(self._named_snapshot(check_name(name)))
        self.folder.update(snapshots=tuple(dict.fromkeys((*self.folder.read().snapshots, name))))
        return {"snapshot": name}

    def _named_snapshot(self, name: str) -> Snapshot:
        image = SNAPSHOT_IMAGE.format(f"{self.id}-{name}") if self._is_whole() else ""
        return Snapshot(self.folder.path / "snapshots" / name, image)

    def reset(self, name: str | None) -> dict[str, Any]:
        """Take the file system back to a snapshot, or to its start; everything that runs inside ends."""
        if name is not None:
            check_name(name)
        image = ensure_image(self.engine, self.profile.base, self._home.cache, self.log.progress)
        config = self._config()
        snapshot = self._provisioned(config, self._served(config)) if name is None else self._named_snapshot(name)
        if name is not None and not snapshot.exists():
            known = ", ".join(self.folder.read().snapshots) or "none"
            raise TwinError("snapshot_missing", f"no snapshot {name!r}: {known}", "`snapshot ID NAME` makes one")
        self.folder.update(phase="launching", holder=ProcessIdentity.of(os.getpid()))
        self.engine.remove(self.container)
        self._begin(config, image, snapshot, is_checked=True)
        self.release()
        return {"snapshot": name, "reset": True}

    # -- using --

    def environment(self, user: User) -> dict[str, str]:
        """Return the variables that a command inside gets, secrets left out."""
        path = f"{user.home}/.local/bin:{_PATH}"
        found = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "PATH": path, "LANG": "C.UTF-8"}
        if self.profile.has_services:
            found |= guest_environment(self._config())
            if self.profile.uv.github_fast_path:
                found.pop("UV_NO_GITHUB_FAST_PATH", None)
        return found | self.profile.environment

    def user(self, name: str | None) -> User:
        """Return the user that a command names: the profile's, or root. Raises TwinError."""
        known = {self.profile.user.name: self.profile.user, "root": ROOT, None: self.profile.user}
        if name not in known:
            remedy = f"the users are {self.profile.user.name} and root"
            raise TwinError("user_unknown", f"there is no user {name!r} in this universe", remedy)
        return known[name]

    def run(
        self,
        command: str | Sequence[str],
        *,
        user: str | None = None,
        timeout: float | None = None,
        is_streamed: bool = False,
        stdin: bytes = b"",
    ) -> Finished:
        """Run a shell command, or the words of one, in the user's home; how it ends is for the caller to judge."""
        who = self.user(user)
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        seconds = max(1.0, self._lease_until - time.time()) if timeout is None else timeout
        inner = Command(argv, who.uid, who.home, self.environment(who), self.secrets, seconds, stdin)
        finished = self.engine.run(self.container, inner, is_streamed=is_streamed)
        self.log.event(
            "command",
            run=command if isinstance(command, str) else list(command),
            user=who.name,
            exit_code=finished.exit_code,
            timed_out=finished.is_timed_out,
            seconds=round(finished.seconds, 3),
            stdout=end_of(finished.stdout),
            stderr=end_of(finished.stderr),
        )
        return finished

    def run_commands(self, commands: Sequence[model.Command]) -> None:
        """Run commands one after the other; raise TwinError at the first that fails."""
        for command in commands:
            text = command.run.strip()
            self.log.progress(f"$ {text}")
            finished = self.run(command.run, user=command.user, timeout=min(command.timeout, self.time_left()))
            if finished.is_timed_out:
                self.time_left()
                remedy = "give it a longer `timeout` in the profile, or find out what it waits for"
                raise TwinError("provision_failed", f"`{text}` was not done after {command.timeout:g} s", remedy)
            if finished.exit_code != 0:
                words = self.log.secrets.masked(end_of(finished.stderr) or end_of(finished.stdout))
                said = f"`{text}` ended with exit code {finished.exit_code}:\n{words}"
                remedy = "`launch --keep` leaves the universe as it is, to look around in it with `exec`"
                raise TwinError("provision_failed", said, remedy)

    def time_left(self) -> float:
        """Return how long launching or checking may still take; raise TwinError when the time is over."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            said = f"it was not done after {self.profile.limits.wall:g} s"
            raise TwinError("wall_limit", said, "raise `limits.wall` in the profile")
        return left

    def restart_wall_time(self) -> None:
        """Give what comes next the whole wall time."""
        self._deadline = time.monotonic() + self.profile.limits.wall

    def push(self, file: model.PushedFile) -> str:
        """Copy a file or directory of the host into the universe; return where it is there."""
        target = self.place.push(file)
        self.log.event("file_pushed", source=str(file.src), target=target)
        return target

    def pull(self, source: str, destination: Path) -> dict[str, Any]:
        """Copy files of the universe to the host; links are left out, and named."""
        result = self.place.pull(source, destination)
        self.log.event("file_pulled", source=source, target=str(destination))
        return result

    def check_readiness(self, *, once: bool = False) -> list[dict[str, Any]]:
        """Look at every sign of readiness until all are there or their time is up; `once`: a single time."""
        from amplifier_digital_twin.readiness import wait_ready

        return [wait_ready(self, item, once=once) for item in self.profile.readiness]

    def update(self) -> dict[str, Any]:
        """Serve the repositories as they are now, build wheels again if the profile says so, run its commands."""
        self.restart_wall_time()
        state, config = self.folder.read(), self._config()
        if state.services is not None:
            end_processes([state.services])
            hosts = {each["container"]: each["host"] for each in state.ports}
            ports = tuple(each.model_copy(update={"host": hosts[each.container]}) for each in config.ports)
            self._start_services(config.model_copy(update={"ports": ports}))
        if self.profile.update.refresh_packages and self.profile.packages:
            assert config.wheels is not None
            for wheel in config.wheels.glob("*.whl"):
                wheel.unlink()
            image = ensure_image(self.engine, self.profile.base, self._home.cache, self.log.progress)
            self._gather_wheels(config, self._served(config), image)
            self._mounts(config, image)
        self.run_commands(self.profile.update.commands)
        return {"updated": True, "readiness": self.check_readiness()}

    def provenance(self, names: Any) -> list[Any]:
        """Compare installed packages (`all`, or some names) with what was served."""
        from amplifier_digital_twin.provenance import survey_command, survey_script, verify

        served = self._served(self._config())
        done = self.run(survey_command(served), timeout=300, stdin=survey_script().encode())
        if done.exit_code != 0:
            said = f"what is installed cannot be listed: {end_of(done.stderr)}"
            raise TwinError("provenance_unknown", said, "see `logs`")
        return verify(served, done.stdout, names)

    def refused_hosts(self) -> frozenset[str]:
        """Return the hosts that services refused so far."""
        lines = self.folder.requests.read_bytes().splitlines() if self.folder.requests.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith(b"}")]
        return frozenset(str(entry["host"]) for entry in entries if entry.get("allowed") is False)

    def status(self) -> dict[str, Any]:
        """Return what the universe is: its parts, and whether its container runs."""
        state = self.folder.read()
        return {
            "backend": self.engine.name,
            "container": self.container,
            "running": self._process() is not None,
            "base": self.profile.base.image,
            "user": self.profile.user.name,
            "ports": list(state.ports),
            "snapshots": list(state.snapshots),
        }

    def _start_mocks(self) -> None:
        for mock in self.profile.mocks:
            self.log.progress(f"starting the mock {mock.name}")
            log = f"/tmp/mock-{mock.name}.log"
            self.run(f"PORT={mock.port} nohup sh -c {shlex.quote(mock.run)} > {log} 2>&1 < /dev/null &", timeout=30)
            look = f"for try in $(seq 150); do socat -u OPEN:/dev/null TCP:127.0.0.1:{mock.port} 2>/dev/null && exit 0"
            if self.run(f"{look}; sleep 0.2; done; exit 1", timeout=60).exit_code != 0:
                words = end_of(self.run(f"tail -c 1000 {log}", timeout=30).stdout)
                said = f"the mock {mock.name!r} does not listen on port {mock.port}: {words}"
                raise TwinError("mock_failed", said, "let its command listen on 127.0.0.1 and that port")


def identifier_of(container: str) -> str:
    """Return the identifier of the universe that a container is of."""
    return container.removeprefix(_CONTAINER).removesuffix(_BUILD)


def _first_process(ports: Mapping[str, int]) -> str:
    """Return the script of the container's first process: bridges to the services, and nothing else, until it ends."""
    lines = ["trap 'exit 0' TERM INT"]
    for name, port in ports.items():
        listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=128"
        lines.append(f"test -S {MOUNT}/{name} && {{ socat {listen} UNIX-CONNECT:{MOUNT}/{name} & }}")
    # It waits in pieces, so that it also reaps what processes leave behind when they end.
    lines.append("while :; do sleep 3600 & wait $!; done")
    return "\n".join(lines)


def _accounts(user: User) -> dict[str, str]:
    """Return the account files of our base images, with the profile's user."""
    people = ["root:x:0:0:root:/root:/bin/bash", "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin"]
    people += ["nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"]
    groups = ["root:x:0:", "adm:x:4:", "tty:x:5:", "disk:x:6:", "mail:x:8:", "shadow:x:42:", "utmp:x:43:"]
    groups += ["staff:x:50:", "nogroup:x:65534:"]
    if user.uid != 0:
        people.append(f"{user.name}:x:{user.uid}:{user.uid}::{user.home}:/bin/bash")
        groups.append(f"{user.name}:x:{user.uid}:")
    return {"/etc/passwd": "\n".join([*people, ""]), "/etc/group": "\n".join([*groups, ""])}


def _portable(name: str) -> Path:
    """Return a program of the host that needs nothing besides itself; raise TwinError when there is none."""
    beside = Path(sys.executable).parent / name
    for candidate in (str(beside), find_program(name, os.environ.get("PATH"))):
        # A shim of a version manager is a script that leads back to the host.
        if candidate and Path(candidate).is_file():
            with Path(candidate).open("rb") as file:
                if file.read(4) == _ELF:
                    return Path(candidate).resolve()
    remedy = f"install it on the host (`pip install {name}`), or take it out of `base.tools`"
    raise TwinError("tool_missing", f"the profile asks for the program `{name}`, which the host lacks", remedy)


def _digest(path: Path) -> str:
    """Return one hash for a file, or for everything in a directory: names, permissions, contents, where links lead."""
    total = hashlib.sha256()
    for each in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
        name = os.fsencode(each.relative_to(path)) if each != path else b""
        total.update(b"%d:%s:%o:" % (len(name), name, each.lstat().st_mode))
        if each.is_symlink():
            total.update(os.fsencode(os.readlink(each)))
        elif each.is_file():
            total.update(hashlib.sha256(each.read_bytes()).digest())
    return total.hexdigest()


def _forget_old_snapshots(engine: Engine, folder: Path) -> None:
    kept = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in [path for path in kept if not path.name.startswith(".")][:-_KEPT_SNAPSHOTS]:
        shutil.rmtree(old, ignore_errors=True)
        old.with_suffix(".lock").unlink(missing_ok=True)
        engine.remove_image(_PROVISIONED_IMAGE.format(old.name))
