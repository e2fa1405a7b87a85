"""Options and defaults of the task `script`: a program of the user's own, run unchanged."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator

from redkiln.spec.job_spec import JobSpec
from redkiln.spec.job_weights import JOB_PREFIX
from redkiln.spec.strict import StrictModel
from redkiln.spec.written import read_duration

NAME: Literal["script"] = "script"

PLACEHOLDERS = ("data", "out", "checkpoints")
"""Placeholders in a command, in braces; the worker replaces them by folders."""
RESERVED_PREFIX = "REDKILN_"
SET_BY_WORKER = {
    "PATH": "programs are first looked up in the folders of the worker and the requirements",
    "HOME": "every script has its own home folder",
    "TMPDIR": "every script has its own folder for temporary files",
    **dict.fromkeys(
        (
            "ROCR_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
            "CUDA_VISIBLE_DEVICES",
            "GPU_DEVICE_ORDINAL",
        ),
        "a script sees the GPUs that were leased for it, numbered from 0; set their number in "
        "resources.gpus",
    ),
}
"""Variables that a script cannot set, and why."""
MAX_COMMAND_BYTES = 100_000
MAX_GROUPS = 100
"""Most metrics that a pattern can name."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Word = Annotated[str, StringConstraints(max_length=32_768)]
Variable = Annotated[str, StringConstraints(max_length=32_768)]
Requirement = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class Guard(StrictModel):
    """What to do with a script that asked for a GPU but does not use it.

    Use is judged by the GPU's memory and busy time, as reported in the driver's files.
    """

    action: Literal["stop", "warn", "off"] = Field(
        "stop",
        description="`stop` fails the job, `warn` adds a warning and lets it continue. Only "
        "applies with resources.device: gpu.",
    )
    minutes: float = Field(
        5.0,
        gt=0,
        le=1440,
        description="Time from the script's start until it must use the GPU, in minutes. Allow "
        "for downloads and imports.",
    )


class Limits(StrictModel):
    """Limits on a script's use of its worker; what is unset is not limited."""

    memory_bytes: int | None = Field(
        None,
        ge=64 * 1024**2,
        description="Main memory of all processes of the script together. Without a limit, the "
        "kernel ends the script before the worker if the host runs out of memory.",
    )
    processes: int = Field(4096, ge=8, le=1_000_000, description="Processes and threads at once.")
    disk_bytes: int = Field(
        64 * 1024**3,
        ge=1024**2,
        description="Size of all folders of the script together, and of any one file.",
    )


class Script(StrictModel):
    """The program to run, its environment, and how its output is read.

    Attributes:
        bundle: Code as a tar, uploaded earlier.
    """

    command: list[Word] = Field(
        min_length=1,
        max_length=1000,
        description="The program and its arguments, run in the bundle's folder without a shell. "
        "{data}, {out} and {checkpoints} are replaced by folders. With several GPUs, a Python "
        "program is started once for each, like torchrun does.",
    )
    bundle: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        description="sha256 of an uploaded code bundle; without one the folder is empty.",
    )
    start_from: (
        Annotated[str, StringConstraints(pattern=r"^job:job_[0-9A-Za-z_-]{1,64}$")] | None
    ) = Field(
        None,
        description="`job:<id>` of a script whose files in {checkpoints} this one starts with, "
        "such as a failed job whose code you have corrected. REDKILN_RESUME is then 1.",
    )
    requirements: list[Requirement] = Field(
        default_factory=list,
        max_length=1000,
        description="Lines of a requirements file, installed on top of the worker's packages; "
        "torch is never replaced.",
    )
    env: dict[str, Variable] = Field(
        default_factory=dict,
        max_length=200,
        description="Additional environment variables. Variables that select GPUs, PATH, HOME and "
        "TMPDIR are set by the worker. The values are stored with the job and shown to everyone "
        "who can see it: do not put secrets here.",
    )
    metrics_pattern: str | None = Field(
        None,
        max_length=2000,
        description="A regular expression (syntax of RE2) for lines of output. Its named groups "
        "become metrics; groups called `step`, `steps`, `epoch` and `epochs` become the progress.",
    )
    guard: Guard = Field(default_factory=Guard)
    limits: Limits = Field(default_factory=Limits)
    grace_seconds: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="Time from SIGTERM to SIGKILL if the job is cancelled, paused or out of time, "
        "in seconds or as text such as `2min`.",
    )

    _read_duration = field_validator("grace_seconds", mode="before")(read_duration)

    @field_validator("command")
    @classmethod
    def _check_command(cls, command: list[str]) -> list[str]:
        if not command[0].strip():
            raise ValueError("the program's name is empty")
        if sum(len(word.encode()) for word in command) > MAX_COMMAND_BYTES:
            raise ValueError(f"the command is longer than {MAX_COMMAND_BYTES} bytes")
        if any("\0" in word for word in command):
            raise ValueError("the command contains a NUL character")
        return command

    @field_validator("env")
    @classmethod
    def _check_variables(cls, env: dict[str, str]) -> dict[str, str]:
        for name, value in env.items():
            if _VARIABLE.fullmatch(name) is None:
                raise ValueError(
                    f"{name!r} is not a valid variable name; use letters, digits and `_`"
                )
            if name.startswith(RESERVED_PREFIX):
                raise ValueError(
                    f"{name} is reserved for the worker; use a name that does not start with "
                    f"{RESERVED_PREFIX}"
                )
            if name in SET_BY_WORKER:
                raise ValueError(f"{name} is set by the worker: {SET_BY_WORKER[name]}")
            if "\0" in value:
                raise ValueError(f"the value of {name} contains a NUL character")
        return env

    @field_validator("metrics_pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        names = compile_pattern(pattern).groupindex
        if not names:
            raise ValueError("the expression needs a named group, e.g. (?P<loss>[0-9.]+)")
        if len(names) > MAX_GROUPS:
            raise ValueError(f"the expression has more than {MAX_GROUPS} named groups")
        return pattern


def compile_pattern(pattern: str) -> Any:
    """Compile a metrics pattern with an engine that needs linear time, where it is installed.

    Service and worker have it (google-re2). A client without it checks with `re` that a pattern is
    an expression at all, and the service decides.

    Returns:
        A compiled pattern of `re2`, or of `re`.

    Raises:
        ValueError: The text is not a regular expression that RE2 accepts.
    """
    try:
        import re2
    except ImportError:
        try:
            return re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"not a valid regular expression: {error}") from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ValueError(
            f"not a valid regular expression: {why} (syntax of RE2: no look-around and no "
            "backreferences)"
        ) from None


class ScriptSpec(JobSpec):
    """A job that runs your own program on leased GPUs and keeps the files that it writes."""

    max_gpus: ClassVar[int] = 64
    reads_any_dataset: ClassVar[bool] = True
    required: ClassVar[dict[str, Any]] = {"script": {"command": ["python", "train.py"]}}

    task: Literal["script"] = NAME
    dataset: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="Data set: its id or name; the script finds it at {data}."
    )
    script: Script

    @property
    def start_job(self) -> str | None:
        """Id of the job whose checkpoints this one starts with; None if it starts without any."""
        found = self.script.start_from
        return None if found is None else found.removeprefix(JOB_PREFIX)

    @property
    def dataset_reference(self) -> str | None:
        """The data set as the owner named it; None if the script reads none."""
        return self.dataset


def find_missing_data(command: Sequence[str], dataset: str | None) -> str | None:
    """Say what to do if a command names {data} but the job has no data set; None if all is well."""
    if dataset is not None or not any("{data}" in word for word in command):
        return None
    return "the command uses {data}, but the job has no data set; name one, or remove {data}"


def find_misspelt(command: Sequence[str]) -> str | None:
    """Say which placeholder of a command is misspelt; None if none is.

    Only swapped, missing last, and capital letters count, because braces may mean something else.
    """
    for name in re.findall(r"\{(\w{2,20})\}", " ".join(command)):
        for known in set(PLACEHOLDERS) - {name}:
            is_cut = len(name) > 2 and known.startswith(name.lower())
            if is_cut or sorted(name.lower()) == sorted(known):
                return f"unknown placeholder {{{name}}}; did you mean {{{known}}}?"
    return None


def fill_in(word: str, places: dict[str, str]) -> str:
    """Replace the placeholders in a word of a command; other braces are kept.

    Args:
        word: Word of the command.
        places: Replacement for each of `PLACEHOLDERS`.
    """
    for name in PLACEHOLDERS:
        word = word.replace("{" + name + "}", places.get(name, ""))
    return word


SPEC = ScriptSpec
