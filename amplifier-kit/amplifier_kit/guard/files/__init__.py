"""Read and write files below allowed folders, without following links unchecked or leaving half-written files."""

from amplifier_kit.guard.files.changes import Change, apply_changes, check_writable
from amplifier_kit.guard.files.config import FileAccess, FileConfig
from amplifier_kit.guard.files.errors import FileError, as_file_error, discloses, shown
from amplifier_kit.guard.files.line_search import LineMatch, find_lines, nearest_line
from amplifier_kit.guard.files.read import LARGEST_TEXT, Content, Snapshot, open_file, read_content
from amplifier_kit.guard.files.roots import Roots
from amplifier_kit.guard.files.staged_write import Staged, Stopped
from amplifier_kit.guard.files.text_format import SAMPLE, Text, TextFormat, decode, encode, is_binary, newline_of, sniff
from amplifier_kit.guard.files.threads import exclusive_access, in_thread
from amplifier_kit.guard.files.walk import Identity, Place, reach
from amplifier_kit.guard.files.workspace import READ, WRITE, FileCall, Workspace, Written

__all__ = [
    "LARGEST_TEXT",
    "READ",
    "SAMPLE",
    "WRITE",
    "Change",
    "Content",
    "FileAccess",
    "FileCall",
    "FileConfig",
    "FileError",
    "Identity",
    "LineMatch",
    "Place",
    "Roots",
    "Snapshot",
    "Staged",
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
    "in_thread",
    "is_binary",
    "nearest_line",
    "newline_of",
    "open_file",
    "reach",
    "read_content",
    "shown",
    "sniff",
]
