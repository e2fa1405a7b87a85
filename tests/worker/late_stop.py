"""A request to stop that comes while a job is trained."""

from worker.process.lifetime import StopSignal


class LateStop(StopSignal):
    """Asks to stop after this many looks at it."""

    def __init__(self, looks):
        self.left = looks
        super().__init__()

    @property
    def requested(self):
        self.left -= 1
        return self.left < 0

    @requested.setter
    def requested(self, value):
        """Leave it to the count."""
