"""A small typed client: few verbs, a timeout on each, and one gate before every mutation.

The gate is the fence of leadership: it says how many seconds of the lease are left on the boot
clock, and a mutation gets no longer than that, so that none of a former leader's requests can
arrive in the time of the next one.

Watches, requests and the lease have connections of their own: a hundred open watches, or as many
requests that hang, take none from a renewal.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

import aiohttp
import msgspec

from rtj_api import names
from rtj_operator import metrics
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.errors import ApiError, NotLeader, Unreachable, api_error
from rtj_operator.kube.objects import (
    LEASES,
    Lease,
    ListMeta,
    ObjectList,
    Resource,
    View,
    WatchEvent,
)

REQUEST_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
# A mutation is not begun with less than this left of the lease.
MIN_LEASE_SECONDS: Final = 0.5
PAGE_SIZE: Final = 500
# Requests under way at once, beside watches and the lease.
REQUEST_CONNECTIONS: Final = 64
LEASE_CONNECTIONS: Final = 2
MAX_WATCH_LINE_BYTES: Final = 16 * 1024 * 1024

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"

# What an API server or its load balancer answers while it cannot: nothing was done for sure only
# after a look.
_TRANSPORT_ERRORS: Final = (aiohttp.ClientError, TimeoutError, OSError)


class PatchOperation(msgspec.Struct, frozen=True):
    """One operation of a JSON patch (RFC 6902)."""

    op: str
    path: str
    value: Any = None


class Deleted(View, frozen=True, kw_only=True):
    """Answer of a DELETE: a Status when the object is gone, else the object as it terminates."""

    kind: str = ""


class KubeClient:
    """Requests to one API server. Close it with `async with`.

    Every method raises ApiError (see `kube.errors`) when the server refuses and Unreachable when
    there is no answer in time; the mutating ones raise NotLeader too.
    """

    def __init__(self, credentials: Credentials, lease_left: Callable[[], float]) -> None:
        self._credentials = credentials
        self._lease_left = lease_left
        connection = credentials.connection
        self._server = connection.server.rstrip("/")
        self._requests = _session(credentials.tls, REQUEST_CONNECTIONS)
        self._leases = _session(credentials.tls, LEASE_CONNECTIONS)
        # As many as there are watches: each holds one for as long as it lasts.
        self._watches = _session(credentials.tls, 0)

    async def __aenter__(self) -> "KubeClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (self._requests, self._leases, self._watches):
            await session.close()

    # --- reading -------------------------------------------------------------------------------

    async def get[T](self, resource: Resource[T], namespace: str, name: str) -> T:
        """One object, live."""
        path = resource.path(namespace, name)
        return msgspec.json.decode(await self._request("GET", path), type=resource.view)

    async def list_page[T](
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selector: str = "",
        limit: int = PAGE_SIZE,
        continue_: str = "",
    ) -> ObjectList[T]:
        """One page of a consistent list; `metadata.continue_` leads to the next."""
        query = {"limit": str(limit), "labelSelector": selector, "continue": continue_}
        query = {key: value for key, value in query.items() if value}
        body = await self._request("GET", resource.path(namespace), query=query, verb="LIST")
        # A type made at run time is beyond what a checker follows.
        page_type = cast("type[ObjectList[T]]", ObjectList[resource.view])  # pyright: ignore
        return msgspec.json.decode(body, type=page_type)

    async def list_all[T](
        self, resource: Resource[T], namespace: str = "", *, selector: str = ""
    ) -> ObjectList[T]:
        """The whole list, read in pages; all pages are of the first one's resourceVersion."""
        page = await self.list_page(resource, namespace, selector=selector)
        version, items = page.metadata.resource_version, list(page.items)
        while page.metadata.continue_:
            page = await self.list_page(
                resource, namespace, selector=selector, continue_=page.metadata.continue_
            )
            items.extend(page.items)
        return ObjectList[T](metadata=ListMeta(resource_version=version), items=tuple(items))

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource[Any],
        namespace: str,
        *,
        selector: str,
        version: str,
        timeout_seconds: int,
    ) -> AsyncGenerator[AsyncGenerator[WatchEvent]]:
        """Changes since `version`, with bookmarks; the server ends it after `timeout_seconds`."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(timeout_seconds),
        }
        if selector:
            query["labelSelector"] = selector
        path = resource.path(namespace)
        try:
            async with self._watches.get(
                self._server + path, params=query, headers=self._headers()
            ) as response:
                metrics.count_request("WATCH", resource.plural, response.status)
                if response.status >= 400:
                    raise self._error(f"WATCH {path}", response.status, await response.read())
                async with contextlib.aclosing(_lines(response.content)) as events:
                    yield events
        except _TRANSPORT_ERRORS as error:
            metrics.count_request("WATCH", resource.plural, 0)
            raise Unreachable(f"WATCH {path}: {str(error) or type(error).__name__}") from error

    async def probe(self) -> None:
        """A cheap read, to tell a dead stream from a dead API server."""
        await self._request("GET", "/version")

    # --- writing -------------------------------------------------------------------------------

    async def create[T](self, resource: Resource[T], namespace: str, body: Mapping[str, Any]) -> T:
        """POST; a field that this server does not know is refused, not dropped in silence."""
        answer = await self._mutate(
            "POST",
            resource.path(namespace),
            body=msgspec.json.encode(body),
            query={"fieldValidation": "Strict", "fieldManager": names.FIELD_MANAGER},
        )
        return msgspec.json.decode(answer, type=resource.view)

    async def delete[T](
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_seconds: int | None = None,
    ) -> T | None:
        """DELETE of exactly this UID. None: it is gone; else the object as it terminates."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        answer = await self._mutate(
            "DELETE", resource.path(namespace, name), body=msgspec.json.encode(options)
        )
        if msgspec.json.decode(answer, type=Deleted).kind == "Status":
            return None
        return msgspec.json.decode(answer, type=resource.view)

    async def json_patch[T](
        self, resource: Resource[T], namespace: str, name: str, patch: Sequence[PatchOperation]
    ) -> T:
        """JSON patch; raises Invalid when one of its `test` operations fails."""
        answer = await self._mutate(
            "PATCH",
            resource.path(namespace, name),
            body=msgspec.json.encode(patch),
            query={"fieldManager": names.FIELD_MANAGER},
            content_type=JSON_PATCH,
        )
        return msgspec.json.decode(answer, type=resource.view)

    async def apply_status[T](
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        version: str,
        status: Mapping[str, Any],
    ) -> T:
        """Server-side apply of the whole status; raises Conflict when `version` is not the newest.

        Forced: after a `kubectl edit --subresource=status` it would be refused for ever.
        """
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": version},
            "status": status,
        }
        answer = await self._mutate(
            "PATCH",
            resource.path(namespace, name, "status"),
            body=msgspec.json.encode(body),
            query={"fieldManager": names.FIELD_MANAGER, "force": "true"},
            content_type=APPLY,
        )
        return msgspec.json.decode(answer, type=resource.view)

    # --- the leader lease ------------------------------------------------------------------------

    async def get_lease(self, namespace: str, name: str, *, seconds: float) -> Lease:
        """The leader lease, live."""
        path = LEASES.path(namespace, name)
        answer = await self._request("GET", path, session=self._leases, seconds=seconds)
        return msgspec.json.decode(answer, type=Lease)

    async def put_lease(
        self, namespace: str, name: str, body: Mapping[str, Any], *, seconds: float
    ) -> Lease:
        """Create (no name) or replace the leader lease itself: the one write that the gate lets
        pass, since it is what opens it."""
        answer = await self._request(
            "PUT" if name else "POST",
            LEASES.path(namespace, name),
            body=msgspec.json.encode(body),
            session=self._leases,
            seconds=seconds,
        )
        return msgspec.json.decode(answer, type=Lease)

    # --- below -----------------------------------------------------------------------------------

    async def _mutate(
        self,
        verb: str,
        path: str,
        *,
        body: bytes,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> bytes:
        left = self._lease_left()
        if left < MIN_LEASE_SECONDS:
            raise NotLeader(f"{verb} {path} not sent: the lease is not held")
        seconds = min(REQUEST_SECONDS, left)
        return await self._request(
            verb, path, body=body, query=query, content_type=content_type, seconds=seconds
        )

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        seconds: float = REQUEST_SECONDS,
        verb: str = "",
        session: aiohttp.ClientSession | None = None,
    ) -> bytes:
        what = f"{verb or method} {path}"

        async def send() -> tuple[int, bytes]:
            code = 0
            try:
                async with (session or self._requests).request(
                    method,
                    self._server + path,
                    data=body,
                    params=query,
                    headers={**self._headers(), "Content-Type": content_type},
                ) as response:
                    code = response.status
                    return code, await response.read()
            finally:
                metrics.count_request(verb or method, _plural(path), code)

        try:
            async with asyncio.timeout(seconds):
                code, answer = await send()
                if code == HTTPStatus.UNAUTHORIZED:
                    # Nothing was done. A token that ran out early is replaced, and all is well.
                    await self._credentials.renewed()
                    code, answer = await send()
        except _TRANSPORT_ERRORS as error:
            raise Unreachable(f"{what}: {str(error) or type(error).__name__}") from error
        if code >= 400:
            raise self._error(what, code, answer)
        return answer

    def _error(self, what: str, code: int, answer: bytes) -> ApiError:
        if code == HTTPStatus.UNAUTHORIZED:
            self._credentials.renew()
        return api_error(what, code, answer)

    def _headers(self) -> dict[str, str]:
        connection = self._credentials.connection
        return {"Accept": JSON, "User-Agent": names.FIELD_MANAGER, **connection.as_http_headers()}


def _session(ssl_context: ssl.SSLContext, connections: int) -> aiohttp.ClientSession:
    """Connections of one purpose; 0: as many as are asked for."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=ssl_context, limit=connections),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        # Proxies of the environment are for the pods' own traffic, not for the API server.
        trust_env=False,
    )


def _plural(path: str) -> str:
    """The resource of a path, for the metric's label: never a name, so that it stays bounded."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"]:
        rest = rest[2:]
    return rest[0] if rest else parts[0]


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[WatchEvent]:
    """Lines of a watch; aiohttp's own readline stops at 64 KiB, and a job may be larger."""
    buffer = bytearray()
    async for chunk in content.iter_any():
        buffer += chunk
        if len(buffer) > MAX_WATCH_LINE_BYTES:
            raise Unreachable(f"a line of a watch is over {MAX_WATCH_LINE_BYTES} bytes")
        *lines, rest = bytes(buffer).split(b"\n") if b"\n" in chunk else (bytes(buffer),)
        if not lines:
            continue
        buffer = bytearray(rest)
        for line in lines:
            if line:
                yield msgspec.json.decode(line, type=WatchEvent)
