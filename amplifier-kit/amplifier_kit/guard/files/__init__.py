"""Read and write files below allowed folders, without following links unchecked or leaving half-written files."""

from amplifier_kit.guard.files.changes import Change, Stopped, apply_changes, check_writable, exclusive_access
from amplifier_kit.guard.files.place import FileError, Place, Roots, as_file_error, discloses, reach, shown
from amplifier_kit.guard.files.read import LARGEST_TEXT, Snapshot, open_file, read_content
from amplifier_kit.guard.files.text import (
    SAMPLE,
    LineMatch,
    Text,
    TextFormat,
    decode,
    encode,
    find_lines,
    is_binary,
    nearest_line,
    newline_of,
    sniff,
)
from amplifier_kit.guard.files.workspace import READ, WRITE, FileAccess, FileCall, FileConfig, Workspace, Written

__all__ = [
    "LARGEST_TEXT",
    "READ",
    "SAMPLE",
    "WRITE",
    "Change",
    "FileAccess",
    "FileCall",
    "FileConfig",
    "FileError",
    "LineMatch",
    "Place",
    "Roots",
    "Snapshot",
    "Stopped",
    "Text",
    "TextFormat",
    "Workspace",
    "Written",
    "apply_changes",
    "as_file_error",
    "check_writable",
    "decode",
    "discloses",
    "encode",
    "exclusive_access",
    "find_lines",
    "is_binary",
    "nearest_line",
    "newline_of",
    "open_file",
    "reach",
    "read_content",
    "shown",
    "sniff",
]
