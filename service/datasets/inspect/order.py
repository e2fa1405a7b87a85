"""What the service asks the inspecting process to look at."""

from typing import Literal

from pydantic import BaseModel

from redkiln.tables import TableOptions
from service.datasets.inspect.limits import Limits


class Order(BaseModel):
    """One inspection; results are left beside the file that holds this.

    Attributes:
        path: of the archive's file, or of the trusted root that a folder lies below.
        below: the folder's components below that root.
        seed: freezes the order of the samples.
        options: what the owner said about a table.
        parent_pid: who waits for the result; the process ends with it.
    """

    kind: Literal["archive", "folder"]
    path: str
    below: list[str] = []
    seed: int = 0
    options: TableOptions = TableOptions()
    num_processes: int = 1
    parent_pid: int
    limits: Limits = Limits()
