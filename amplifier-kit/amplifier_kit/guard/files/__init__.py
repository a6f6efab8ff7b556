"""Read and write files below allowed folders: no link is followed unseen, no file is ever half-written."""

from amplifier_kit.guard.files.changes import Change, apply_changes, check_writable
from amplifier_kit.guard.files.errors import FileError, shown, telling_of, told
from amplifier_kit.guard.files.matching import LineMatch, find_lines
from amplifier_kit.guard.files.nearest import nearest_line
from amplifier_kit.guard.files.reading import LARGEST_TEXT, Content, Snapshot, open_file, read_content
from amplifier_kit.guard.files.roots import Roots
from amplifier_kit.guard.files.settings import FileSettings
from amplifier_kit.guard.files.staging import Staged, Stopped
from amplifier_kit.guard.files.text import SAMPLE, Text, TextFormat, decode, encode, is_binary, newline_of, sniff
from amplifier_kit.guard.files.threads import alone_with, in_thread
from amplifier_kit.guard.files.walk import Identity, Place, reach
from amplifier_kit.guard.files.workspace import READ, WRITE, FileCall, Workspace, Written

__all__ = [
    "LARGEST_TEXT",
    "READ",
    "SAMPLE",
    "WRITE",
    "Change",
    "Content",
    "FileCall",
    "FileError",
    "FileSettings",
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
    "alone_with",
    "apply_changes",
    "check_writable",
    "decode",
    "encode",
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
    "telling_of",
    "told",
]
