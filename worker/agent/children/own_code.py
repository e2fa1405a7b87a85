"""Confines the trainer and the export of a job whose network is its user's own code.

They are started like a script's program: with their own home folder, without the worker's secrets,
and with access to the job's folder, its data and the system's libraries. They share no cache with
other jobs, because the worker's caches hold compiled code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from redkiln.tasks.script import Limits
from worker.jobdir import JobDir, OrderPaths
from worker.script.bounds.bounds import Bounds
from worker.script.program.caches import Caches, build_caches
from worker.script.program.paths import ScriptPaths, shorten
from worker.script.program.variables import is_passed_on

FOLDER = "cache"
"""Folder in the job directory with its decoded images, compiled kernels and verdicts."""
CHANNEL_PREFIX = "REDKILN_TRAINER_"
"""Variables with which the agent and its children find each other."""


def own_paths(paths: OrderPaths, jobdir: JobDir) -> OrderPaths:
    """Return the folders of a job that runs its user's code; it shares only the models."""
    return OrderPaths(cache_dir=jobdir.root / FOLDER, models_dir=paths.resolved_models_dir)


@dataclass(frozen=True)
class OwnCode:
    """The folders and limits of one such job.

    Attributes:
        bounds: Resources that its processes may access.
        caches: Its folders of compiled kernels, and the worker's models.
    """

    paths: ScriptPaths
    bounds: Bounds
    caches: Caches

    @classmethod
    def prepare(cls, jobdir: JobDir, environment: Mapping[str, str]) -> "OwnCode":
        """Create a job's folders; none of its code has run yet.

        Args:
            jobdir: Job directory with its order.
            environment: Environment of a usual trainer on these GPUs.
        """
        order = jobdir.load_order()
        paths = ScriptPaths(jobdir.root / "script")
        paths.prepare()
        paths.prepare_tools()
        cache_dir = order.paths.cache_dir
        cache_dir.mkdir(parents=True, exist_ok=True)
        caches = build_caches(environment, paths=paths, cache_dir=cache_dir)
        data = order.dataset
        given = [] if data is None else [data.path, data.index_path]
        readable = [Path(path) for path in given if path is not None]
        bounds = Bounds(
            paths,
            Limits(),
            readable=[*readable, order.paths.resolved_models_dir, *caches.readable],
            writable=[jobdir.root],
            may_link=False,
            control_group=order.control_group,
        )
        return cls(paths, bounds, caches)

    def command(self, program: Sequence[str]) -> list[str]:
        """Build the command line that confines itself and becomes a program."""
        return self.bounds.command(program)

    def environment(self, usual: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process, from that of a usual one."""
        kept = {
            name: value
            for name, value in usual.items()
            if is_passed_on(name) or name.startswith(CHANNEL_PREFIX)
        }
        own = {
            "HOME": str(self.paths.home_dir),
            "TMPDIR": str(shorten(self.paths.temporary_dir)),
            "MPLCONFIGDIR": str(self.paths.home_dir / "matplotlib"),
            "PYTHONPATH": str(self.paths.own_lib_dir),
            # The folder in which children run is not readable.
            "PYTHONSAFEPATH": "1",
            "REDKILN_OUT": str(self.paths.out_dir),
        }
        return {**kept, **self.caches.environ, **own}
