"""Opens a device with tinygrad: `python -m worker.engines.trial WEBGPU:1002:67df`."""

import sys
import tempfile
from pathlib import Path

from worker.engines.tinygrad_device import open_tinygrad
from worker.process.failed import TrainingFailed


def main() -> None:
    """Print the name of the opened device, or print the reason and exit with 1."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            opened = open_tinygrad(Path(folder), sys.argv[1])
        except TrainingFailed as error:
            sys.stdout.write(f"{error}\n")
            sys.exit(1)
    sys.stdout.write(f"{opened.device_name}\n")


if __name__ == "__main__":
    main()
