"""What can go wrong with the API server, told apart by what a caller does about it."""

from http import HTTPStatus
from typing import Final

import msgspec


class KubeError(Exception):
    """Base: a request to the API server brought no result."""


class Unreachable(KubeError):
    """No answer in time. A mutation may have happened or not: look before repeating it."""


class NotLeader(KubeError):
    """A mutation was stopped before it was sent: this process does not hold the lease now."""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.StatusDetails."""

    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """metav1.Status: the server's words about a request, or an ERROR of a watch."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ApiError(KubeError):
    """The server said no."""

    def __init__(self, request: str, status: Status) -> None:
        super().__init__(f"{request}: {status.code} {status.reason}: {status.message}")
        self.status = status

    @property
    def code(self) -> int:
        """HTTP status code."""
        return self.status.code

    @property
    def message(self) -> str:
        """The server's words."""
        return self.status.message

    @property
    def retry_after_seconds(self) -> float:
        """How long the server asks to wait; 0 when it does not."""
        return float(self.status.details.retry_after_seconds) if self.status.details else 0.0


class NotFound(ApiError):
    """404."""


class AlreadyExists(ApiError):
    """409 of a create: an object of that name is there, perhaps a terminating one."""


class Conflict(ApiError):
    """409 of a write: resourceVersion or UID differ from what was asked for."""


class Gone(ApiError):
    """410: the history a watch or a continued list needs is compacted; list again."""


class Invalid(ApiError):
    """422: refused by schema or validation, or a JSON patch whose `test` failed."""


class Refused(ApiError):
    """400, 403 or 429: the server will not do this now; its words say why."""


_BY_CODE: Final[dict[int, type[ApiError]]] = {
    HTTPStatus.BAD_REQUEST: Refused,
    HTTPStatus.FORBIDDEN: Refused,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Gone,
    HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
    HTTPStatus.TOO_MANY_REQUESTS: Refused,
}


def api_error(request: str, code: int, body: bytes) -> ApiError:
    """The error for an answer of `code`; `body` is a Status, or whatever a proxy sent."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status(message=body[:200].decode(errors="replace"))
    # The HTTP code counts: an ERROR in a watch carries its own, a proxy's page carries none.
    status = msgspec.structs.replace(status, code=status.code or code)
    if status.code == HTTPStatus.CONFLICT and status.reason == "AlreadyExists":
        return AlreadyExists(request, status)
    return _BY_CODE.get(status.code, ApiError)(request, status)
