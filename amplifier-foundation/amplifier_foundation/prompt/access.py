"""Decide which files may go into a prompt, and read them: the only way from the disk into a prompt.

Every such read is a `filesystem.read` action under the rules of the session. The text that names the file decides the
rest:

| text | may include, unless a rule denies or asks |
|---|---|
| typed by the user in this turn | any file, also one that a rule asks about: typing its name is the answer |
| the user's own instruction file | files of the project and below Amplifier's home, and what a rule allows |
| of a bundle, or a skill | files of the project and below its own root, and what a rule allows |
| of the plan, of unknown origin | files of the project, and what a rule allows |
| of the project | files of the project; if it is trusted, also what a rule allows |

A bundle inside the project gets from a person's rules only what the project gets. The project is its whole repository
here, if that belongs to the user and does not contain the home folder: instruction files at the root of a repository
apply to the projects in it. The files that a file mentions are decided by its own location, and never get more than the
text that mentioned it. A rule that denies is absolute. No person is asked about a file of a prompt: one that a rule
asks about is left out, unless it was typed.

The target of a link is what is decided on and read; its folder is held open meanwhile. A link inside the project, or
inside a bundle, that leads out of it is refused, even if the user typed its name.

Amplifier's key file is always refused. Text that the user did not type gets no well-known stores of credentials, and
no session records unless a rule of the user allows them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from amplifier_foundation.prompt.instructions import repository_root
from amplifier_foundation.prompt.mention_resolver import MentionError, MentionResolver, is_credential
from amplifier_foundation.prompt.text_files import IsHidden, TextFile, TextFiles, read_bytes, readable_name
from amplifier_kit.guard.files.place import FileError, Place, reach
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.approvals.answered_by import AnsweredBy
    from amplifier_foundation.policy.permissions import Judgement, Permissions

__all__ = ["PLAN", "PROJECT", "TYPED", "USER", "Origin", "PromptAccess", "PromptFile", "ReadDeniedError"]

_READ: Final = "filesystem.read"
#: The tool whose rules hold as well: a rule that keeps it from a file keeps the file from the model.
_TOOL: Final = "read_file"


class ReadDeniedError(MentionError):
    """A file may not go into a prompt; the text is the reason, with the rule if there is one."""

    code = "prompt_read_denied"

    def __init__(self, reason: str, decided_by: AnsweredBy) -> None:
        super().__init__(reason)
        self.decided_by = decided_by


class Origin(FrozenStruct):
    """Where the text that names a file comes from; `root` is the folder below which it may read."""

    kind: Literal["typed", "user", "bundle", "plan", "project"]
    root: Path | None = None


TYPED: Final = Origin("typed")
USER: Final = Origin("user")
PLAN: Final = Origin("plan")
PROJECT: Final = Origin("project")


class PromptFile(FrozenStruct):
    """A file that goes into a prompt, its real path, and who allowed it."""

    file: TextFile
    real: Path
    decided_by: AnsweredBy


class PromptAccess:
    """Read files into the prompts of one session."""

    def __init__(
        self,
        resolver: MentionResolver,
        rules: Callable[[], Sequence[Permissions]],
        is_trusted: Callable[[], bool],
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Decide by all of `rules`; `is_trusted` returns whether the user trusts the project.

        `texts` has the files that instructions come from, by the hash of the instruction.
        """
        self.resolver: Final = resolver
        self.project: Final = resolver.project
        self.home: Final = resolver.home
        self._rules = rules
        self._is_trusted = is_trusted
        self._texts = dict(texts or {})
        self._files = TextFiles()

    def read(self, path: Path, origin: Origin) -> PromptFile:
        """Return the text of a file, or the listing of a folder, by its absolute path.

        Raises ReadDeniedError if it may not be read, MentionError if it is missing, UnusableFileError if it is not
        text.
        """
        with self._granted(path, origin) as (place, by):
            return PromptFile(self._files.read(place, self._hidden), place.path, by)

    def read_bytes(self, path: Path, origin: Origin, largest: int) -> bytes:
        """Return the first `largest` bytes of a file; raises as `read` does."""
        with self._granted(path, origin) as (place, _):
            return read_bytes(place, largest)

    def check(self, path: Path, origin: Origin) -> None:
        """Raise ReadDeniedError or MentionError if a file may not be read; it is not read."""
        with self._granted(path, origin):
            return

    def check_source(self, file: Path) -> None:
        """Raise ReadDeniedError if a rule denies the file that an instruction was taken from."""
        judged = self._judge(file, Path(os.path.realpath(file)))
        if judged.verdict == "deny" and not judged.is_uncovered:
            raise ReadDeniedError(f"the instruction in {file} is denied: {judged.reason}", judged.answered_by)

    def origin_of_text(self, text: str) -> Origin:
        """Return the origin of an instruction by the file that contains it, if that is known."""
        file = self.file_of_text(text)
        return PLAN if file is None else self.origin_at(Path(os.path.realpath(file)))

    def file_of_text(self, text: str) -> Path | None:
        """Return the file that contains an instruction, None if unknown."""
        found = self._texts.get(text_hash(text)) if self._texts else None
        return Path(found) if found is not None else None

    def origin_at(self, real: Path) -> Origin:
        """Return the origin of a text by the path of its file; the innermost known folder counts."""
        places = [(root, Origin("bundle", root)) for root in self._bundle_roots()]
        places += [(root, PROJECT) for root in self._project_roots()]
        if not real.is_relative_to(self.home.cache.resolve()):  # fetched files are not the user's
            places.append((self.home.path.resolve(), USER))
        found = [(root, origin) for root, origin in places if real.is_relative_to(root)]
        return max(found, key=lambda one: len(one[0].parts))[1] if found else PLAN

    def origin_near(self, path: Path) -> Origin:
        """Return the origin of a file by the folder in its name, even if it is a link to another."""
        try:
            return self.origin_at(path.absolute().parent.resolve())
        except (OSError, RuntimeError, ValueError):  # not a valid path
            return PLAN

    def nested(self, origin: Origin, real: Path) -> Origin:
        """Return the origin of a file that a text of `origin` mentions: it never gets more than that text."""
        if origin.kind == "project":
            return PROJECT
        found = self.origin_at(real)
        return PLAN if found.kind == "user" and origin.kind not in ("user", "typed") else found

    # -- deciding --

    @contextmanager
    def _granted(self, path: Path, origin: Origin) -> Iterator[tuple[Place, AnsweredBy]]:
        """Hold open what a path leads to, and yield it with who allowed the read."""
        named = os.path.normpath(path)
        try:
            place = reach(named)
        except (FileError, ValueError) as error:
            raise _missing(path) from error
        with place:
            try:
                exists = place.status() is not None
            except FileError as error:
                raise MentionError(f"{path} cannot be read: {error}") from error
            if not exists:
                raise _missing(path)
            yield place, self._decide(place, Path(named), origin)

    def _decide(self, place: Place, named: Path, origin: Origin) -> AnsweredBy:
        """Return who allows a read; raise ReadDeniedError if it is denied or not allowed."""
        from amplifier_foundation.approvals.answered_by import person_at

        real = place.path
        if self._is_keys(place):
            raise _refused(f"{named} holds the keys, which never go into a prompt", "keys never go into a prompt")
        judged = self._judge(named, real)
        if judged.verdict == "deny" and not judged.is_uncovered:
            raise ReadDeniedError(f"{named} is denied: {judged.reason}", judged.answered_by)
        if origin.kind == "typed":
            if judged.verdict != "allow":
                self._refuse_way_out(named, real)
            return judged.answered_by if judged.verdict == "allow" else person_at("mention")
        if is_credential(real):
            raise _refused(
                f"{named} is a store of credentials: only the user may mention it", "credentials are only read if typed"
            )
        if judged.verdict == "ask":
            raise ReadDeniedError(
                f"{named} is not read, because a rule asks for it ({judged.reason}) and no person is asked about files "
                "of a prompt: type its name in a prompt, or allow it by a rule",
                judged.answered_by,
            )
        if self._is_record(real) and judged.scope in ("", "default"):
            raise _refused(f"{named} is the record of a session", "records of sessions are only read if typed")
        return self._by_place(named, real, origin, judged)

    def _by_place(self, named: Path, real: Path, origin: Origin, judged: Judgement) -> AnsweredBy:
        """Decide on a file that no rule denies or asks about."""
        is_project = any(real.is_relative_to(root) for root in self._project_roots())
        is_allowed = judged.verdict == "allow"
        if is_allowed and (is_project or not self._needs_trust(origin, judged) or self._is_trusted()):
            return judged.answered_by
        if is_project and not real.is_relative_to(self.project):
            return _by_default("files of the repository that the project lies in")
        if origin.root is not None and origin.root != Path("/") and real.is_relative_to(origin.root):
            return _by_default("files below the root of what mentions them")
        if origin.kind == "user" and real.is_relative_to(self.home.path.resolve()):
            return _by_default("the user's own files, for the user's own instructions")
        where = str(named) if real == named else f"{named} leads to {real}, which"
        if is_allowed:
            raise _denied_by_default(
                f"{where} is outside of the project, which is not trusted: its files may mention only its own files"
            )
        raise _denied_by_default(
            f"{where} is outside of the project and of the folders that the text that mentions it may read: "
            f"type its path in a prompt, or allow it by a rule"
        )

    def _needs_trust(self, origin: Origin, judged: Judgement) -> bool:
        """Return whether a rule allows a text files elsewhere only if the project is trusted.

        A bundle in the project gets what the product's own rules allow: the content of bundles that it includes.
        """
        root = origin.root
        is_in_project = root is not None and any(root.is_relative_to(place) for place in self._project_roots())
        return origin.kind == "project" or (is_in_project and judged.scope != "default")

    def _judge(self, named: Path, real: Path) -> Judgement:
        """Return the strictest verdict of all rules, on the real path of a file and on the path that names it."""
        from amplifier_foundation.policy.permissions import Judgement, strictest

        paths = {"path": list(dict.fromkeys((str(named), str(real))))}
        try:
            rules = self._rules()
        except Exception as error:  # a fault here must not allow a read
            return Judgement("deny", f"the rules cannot be loaded: {type(error).__name__}: {error}")
        return strictest(
            permissions.judge(_READ, details)
            for permissions in rules
            for details in (paths, {**paths, "tool_name": _TOOL})
        )

    def _hidden(self) -> IsHidden | None:
        """Return a predicate for the paths that listings must not show; None if no rule hides any."""
        known = [permissions.hidden(_TOOL) for permissions in self._rules()]
        hidden = [is_hidden for is_hidden in known if is_hidden is not None]
        return (lambda path: any(is_hidden(path) for is_hidden in hidden)) if hidden else None

    def _refuse_way_out(self, named: Path, real: Path) -> None:
        """Raise ReadDeniedError if a link inside the project, or inside a bundle, leads out of it."""
        if named == real:
            return
        roots = [*self._project_roots(), *self._bundle_roots()]
        for prefix in (named, *named.parents):
            # The path itself may have become a link: what was opened counts, and the real path of its folder.
            way = real if prefix == named else Path(os.path.realpath(prefix))
            for root in roots:
                if (way.is_relative_to(root) or prefix.is_relative_to(root)) and not real.is_relative_to(root):
                    what = "the project" if root in self._project_roots() else "its bundle"
                    raise _denied_by_default(
                        f"{named} leads to {real}, which is outside of {what}: type that path itself"
                    )

    # -- places --

    def _project_roots(self) -> list[Path]:
        """Return the project and the root of its repository; one that is the whole disk does not count."""
        root = repository_root(self.project)
        return [self.project] if root in (self.project, Path("/")) else [self.project, root]

    def _bundle_roots(self) -> list[Path]:
        roots = (root.resolve() for root in self.resolver.namespaces.values())
        return [root for root in dict.fromkeys(roots) if root != Path("/")]

    def _is_keys(self, place: Place) -> bool:
        keys = self.home.keys
        if place.path == Path(os.path.realpath(keys)):
            return True
        try:
            known, found = os.stat(keys), place.status()
        except (OSError, FileError):
            return False
        return found is not None and (known.st_dev, known.st_ino) == (found.st_dev, found.st_ino)

    def _is_record(self, real: Path) -> bool:
        """Return whether a file belongs to a session record; False if the project itself is among them."""
        records = self.home.projects.resolve()
        return real.is_relative_to(records) and not self.project.is_relative_to(records)


def text_hash(text: str) -> str:
    """Return the hash that identifies an instruction."""
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _missing(path: Path) -> MentionError:
    return MentionError(f"{readable_name(path)} cannot be found, or is a link that leads nowhere")


def _by_default(rule: str) -> AnsweredBy:
    return {"kind": "default", "rule": rule, "scope": "default"}


def _refused(reason: str, rule: str) -> ReadDeniedError:
    return ReadDeniedError(reason, _by_default(rule))


def _denied_by_default(reason: str) -> ReadDeniedError:
    from amplifier_foundation.approvals.answered_by import NOBODY

    return ReadDeniedError(reason, NOBODY)
