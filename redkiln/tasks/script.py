"""Options and defaults of the task `script`: a program of the user's own, run as it stands."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator

from redkiln.spec import JobSpec, StrictModel

NAME: Literal["script"] = "script"

PLACEHOLDERS = ("data", "out", "checkpoints")
"""What a command may name in braces; the worker puts the folders in."""
RESERVED_PREFIX = "REDKILN_"
SET_BY_WORKER = {
    "PATH": "programs are found in the worker's and the requirements' folders first",
    "HOME": "a script has a home of its own",
    "TMPDIR": "a script has a folder of temporary files of its own",
    **dict.fromkeys(
        (
            "ROCR_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
            "CUDA_VISIBLE_DEVICES",
            "GPU_DEVICE_ORDINAL",
        ),
        "a script sees the GPUs that were leased for it, numbered from 0; resources.gpus says how "
        "many",
    ),
}
"""Variables that a script cannot set for itself, and why."""
MAX_COMMAND_BYTES = 100_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Word = Annotated[str, StringConstraints(max_length=32_768)]
Variable = Annotated[str, StringConstraints(max_length=32_768)]
Requirement = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class Guard(StrictModel):
    """What becomes of a script that asked for a GPU and leaves it alone.

    Looked at are the GPU's memory and busy time as the driver's files tell them.
    """

    action: Literal["stop", "warn", "off"] = Field(
        "stop",
        description="What happens to a script that asked for a GPU (`resources.device: gpu`) and "
        "does not use it: `stop` fails the job with the reason, `warn` lets it continue with a "
        "warning.",
    )
    minutes: float = Field(
        5.0,
        gt=0,
        le=1440,
        description="Minutes from the script's start until the check; downloads and imports take "
        "time.",
    )


class Limits(StrictModel):
    """What a script may take of its worker; nothing is limited that is left out."""

    memory_bytes: int | None = Field(
        None,
        ge=64 * 1024**2,
        description="Largest main memory of all its processes together. Without a limit, when the "
        "host runs out of memory, the kernel kills the script before the worker.",
    )
    processes: int = Field(
        4096, ge=8, le=1_000_000, description="Processes and threads at one time."
    )
    disk_bytes: int = Field(
        64 * 1024**3,
        ge=1024**2,
        description="Largest size of all its folders together, and of one file; 64 GiB by default.",
    )


class Script(StrictModel):
    """What is run, in what, and how it is understood.

    Attributes:
        bundle: the code as a tar, uploaded before.
    """

    command: list[Word] = Field(
        min_length=1,
        max_length=1000,
        description="The program and its arguments, run in the bundle's folder without a shell; "
        "`{data}`, `{out}` and `{checkpoints}` are replaced by folders. With several GPUs, a "
        "Python program is started once per GPU, as torchrun does.",
    )
    bundle: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="sha256 of an uploaded code bundle; without one, the folder is empty."
    )
    requirements: list[Requirement] = Field(
        default_factory=list,
        max_length=1000,
        description="Lines of a requirements file, installed over the worker's own packages; torch "
        "is never replaced.",
    )
    env: dict[str, Variable] = Field(
        default_factory=dict,
        max_length=200,
        description="Additional environment variables. The worker sets `PATH`, `HOME`, `TMPDIR` "
        "and those that select GPUs, and adds to `PYTHONPATH`. They are stored with the job and "
        "shown to everyone who may see it, so they must not hold secrets.",
    )
    metrics_pattern: str | None = Field(
        None,
        max_length=2000,
        description="Regular expression for lines of output. Its named groups become metrics; "
        "those named `step`, `steps`, `epoch` and `epochs` become the progress.",
    )
    guard: Guard = Field(default_factory=Guard)
    limits: Limits = Field(default_factory=Limits)
    grace_seconds: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="Seconds from SIGTERM to SIGKILL when the job is cancelled, paused or out of "
        "time.",
    )

    @field_validator("command")
    @classmethod
    def _check_command(cls, command: list[str]) -> list[str]:
        if not command[0].strip():
            raise ValueError("the program's name is empty")
        if sum(len(word.encode()) for word in command) > MAX_COMMAND_BYTES:
            raise ValueError(f"a command has at most {MAX_COMMAND_BYTES} bytes")
        if any("\0" in word for word in command):
            raise ValueError("a word of a command holds no NUL")
        return command

    @field_validator("env")
    @classmethod
    def _check_variables(cls, env: dict[str, str]) -> dict[str, str]:
        for name, value in env.items():
            if _VARIABLE.fullmatch(name) is None:
                raise ValueError(f"{name!r} is no name of a variable: letters, digits and `_`")
            if name.startswith(RESERVED_PREFIX):
                raise ValueError(f"{name} is the worker's to set; names of yours begin otherwise")
            if name in SET_BY_WORKER:
                raise ValueError(f"{name} is the worker's to set: {SET_BY_WORKER[name]}")
            if "\0" in value:
                raise ValueError(f"the value of {name} holds a NUL")
        return env

    @field_validator("metrics_pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        if not compiled.groupindex:
            raise ValueError("name what it finds: (?P<loss>[0-9.]+)")
        return pattern


class ScriptSpec(JobSpec):
    """A job that runs a program of yours on a leased GPU and keeps what it leaves."""

    max_gpus: ClassVar[int] = 64
    reads_any_dataset: ClassVar[bool] = True
    required: ClassVar[dict[str, Any]] = {"script": {"command": ["python", "train.py"]}}

    task: Literal["script"] = NAME
    dataset: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="A data set's id or name; the script finds it at `{data}`."
    )
    script: Script

    @property
    def dataset_reference(self) -> str | None:
        """The data set by its owner's word; None where the script reads none."""
        return self.dataset


def fill_in(word: str, places: dict[str, str]) -> str:
    """A word of a command with its placeholders filled in; other braces stay as they are.

    Args:
        word: as the spec has it.
        places: what stands for each of `PLACEHOLDERS`.
    """
    for name in PLACEHOLDERS:
        word = word.replace("{" + name + "}", places.get(name, ""))
    return word
