"""The config keys of the module."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from amplifier_kit.config import Config, Count, PathText, Texts, expects

__all__ = ["PlanSkills", "SkillsConfig", "Visibility"]

#: One folder may stand without a list.
_Folders = Annotated[
    Texts,
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    expects("a folder or a list of folders"),
]


class Visibility(Config):
    """How the model learns which skills there are; true and false stand for `{enabled: ...}`."""

    enabled: bool = Field(True, description="Whether the model is shown the names of skills.")
    max_skills_visible: Annotated[int, Field(ge=0)] = Field(
        50, description="Skills that are named; others are counted."
    )
    placement: Literal["request", "prefix"] = Field(
        "request", description="`request`: with each request, never stored; `prefix`: in the system part."
    )
    priority: int = Field(20, description="When the handler runs; lower is earlier.")
    inject_role: Literal["system", "user", "assistant"] = Field("user", description="Role of the list of skills.")

    @model_validator(mode="before")
    @classmethod
    def _read_switch(cls, data: Any) -> Any:
        return {"enabled": data} if isinstance(data, bool) else data


class SkillsConfig(Config):
    """What a bundle may set. `skills_dir` is another name of `skills_dirs`."""

    skills_dirs: _Folders | None = Field(
        None, description="Where skills are looked for, in place of the plan's and the default folders."
    )
    skills: _Folders = Field((), description="Further folders.")
    visibility: Visibility = Field(default_factory=Visibility.model_construct)
    max_skill_bytes: Count = Field(200_000, description="Bytes that are read of one SKILL.md.")
    working_dir: PathText | None = Field(
        None, description="Where relative folders begin; null for the session's working directory."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "skills_dir" not in data:
            return data
        rest = {key: value for key, value in data.items() if key != "skills_dir"}
        return rest if rest.get("skills_dirs") is not None else {**rest, "skills_dirs": data["skills_dir"]}


class PlanSkills(Config):
    """The section `skills` of a plan."""

    dirs: _Folders = ()
