"""The memory layout of images, shared by the tasks that train convolutions."""

from typing import Literal

from pydantic import Field

from redkiln.spec.job_spec import Training

MemoryFormat = Literal["contiguous", "channels_last"]
"""Names of the memory formats in torch."""


class LaidOutTraining(Training):
    """Training of networks whose images and convolutions can have either layout."""

    memory_format: Literal["auto"] | MemoryFormat = Field(
        "auto",
        description="Memory layout of images and convolutions. `auto` measures both layouts if "
        "that takes a small part of the training, and otherwise chooses by device.",
    )
