"""The config keys of the module."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict

from amplifier_kit.config import Config, PathText, expects

__all__ = ["StatusConfig"]

_Number = Annotated[int, Field(ge=0)]
_Commits = Annotated[_Number, BeforeValidator(lambda value: 0 if value is False else value)]
_Patterns = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Strict(False), expects("a list of patterns")]
_Seconds = Annotated[float, Field(gt=0), expects("a positive number of seconds")]


class StatusConfig(Config):
    """What a bundle may set."""

    priority: int = Field(0, description="When the handler runs; lower is earlier.")
    working_dir: PathText | None = Field(None, description="The folder; null for the session's working directory.")
    include_session: bool = Field(True, description="Show the ids of the session and its parent.")
    include_datetime: bool = Field(True, description="Show the date and time.")
    datetime_include_timezone: bool = Field(False, description="Show the time zone too.")
    include_git: bool = Field(True, description="Show the state of the git repository.")
    git_timeout: _Seconds = Field(1.0, description="Seconds that git may take in all.")
    git_include_branch: bool = Field(True, description="Show the current branch.")
    git_include_main_branch: bool = Field(True, description="Show the main branch.")
    git_include_status: bool = Field(True, description="Show what has changed.")
    git_include_commits: _Commits = Field(5, description="Recent commits to show; true for five, false for none.")
    git_status_include_untracked: bool = Field(True, description="Show untracked files.")
    git_status_max_lines: _Number | None = Field(100, description="Lines of the status; null for all.")
    git_status_max_tracked: _Number | None = Field(50, description="Tracked files; null for all.")
    git_status_max_untracked: _Number | None = Field(20, description="Untracked files; null for all.")
    git_status_enable_path_filtering: bool = Field(True, description="Leave out or shorten files that tools make.")
    git_status_tier1_patterns_extend: _Patterns = Field((), description="More patterns of files to leave out.")
    git_status_tier2_patterns_extend: _Patterns = Field((), description="More patterns of files to limit.")
    git_status_tier2_limit: _Number | None = Field(10, description="Files of the second kind; null for all.")
    git_status_show_filter_summary: bool = Field(True, description="Say how many files were left out.")

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Tell whether a value leaves a key at its default: null, and true for the number of commits."""
        return value is None or (key == "git_include_commits" and value is True)
