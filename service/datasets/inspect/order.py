"""The service's order to the inspecting process."""

from typing import Literal

from pydantic import BaseModel

from redkiln.tables import TableOptions
from service.datasets.inspect.limits import Limits


class Order(BaseModel):
    """One inspection; its results are written next to the file with this order.

    Attributes:
        path: Path of the archive, or of the trusted root that contains the folder.
        below: Path components of the folder below that root.
        seed: Random seed of the sample order.
        options: The user's options for a table.
        parent_pid: Process that waits for the result; the inspection ends with it.
    """

    kind: Literal["archive", "folder"]
    path: str
    below: list[str] = []
    seed: int = 0
    options: TableOptions = TableOptions()
    num_processes: int = 1
    parent_pid: int
    limits: Limits = Limits()
