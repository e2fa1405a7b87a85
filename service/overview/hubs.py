"""A hub for each project whose overview somebody reads, and one for the admins."""

from service.overview.hub import OverviewHub
from service.services import Services


class OverviewHubs:
    """The hubs of an application, each built when it is first asked for.

    Args:
        services: Parts of the service.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._hubs: dict[str | None, OverviewHub] = {}

    def of(self, project: str | None) -> OverviewHub:
        """Return the hub of a project; None: of the whole installation."""
        if project not in self._hubs:
            self._hubs[project] = OverviewHub(self._services, project=project)
        return self._hubs[project]

    async def close(self) -> None:
        """End the reading tasks."""
        for hub in self._hubs.values():
            await hub.close()
