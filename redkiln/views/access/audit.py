"""The audit log, as the API shows it."""

from datetime import datetime

from pydantic import BaseModel


class AuditView(BaseModel):
    """One change, or one refused attempt at one.

    Attributes:
        key_id: Id of the key; `local` on a service without keys.
        project: Project of the key.
        action: Method and path of the request, such as `POST /v1/jobs/{job_id}/cancel`.
        object: Id or name of what was changed.
        outcome: `done`, `forbidden`, `not_found`, `conflict` or `unprocessable`.
        address: Address that the request came from; behind a proxy, the proxy's.
    """

    id: str
    at: datetime
    key_id: str
    key_name: str
    project: str
    action: str
    object: str
    outcome: str
    address: str
