"""Who we are to the API server: the service account in a pod, a kubeconfig outside.

kopf's own readers are used, for kopf's watch and for our client alike, so that both always speak
as the same account. A kubeconfig is read by the `kubernetes` package, which also runs its exec
plugins (`aws eks get-token`).
"""

import asyncio
import dataclasses
import logging
import os
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import kopf

log = logging.getLogger(__name__)

# The kubelet renews the file of a token at four fifths of its life, which is ten minutes at least:
# whoever reads it every minute has a good one. A kubeconfig's plugin is a process each time.
FILE_LIFETIME: Final = timedelta(minutes=1)
PLUGIN_LIFETIME: Final = timedelta(minutes=5)
# A plugin that takes longer hangs; a failed reading is tried again after the second.
READ_SECONDS: Final = 30.0
RETRY: Final = timedelta(seconds=10)


def login(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo:
    """Connection and credentials, as a kopf login handler.

    Raises kopf.LoginError when neither a service account nor a kubeconfig is there.
    """
    account = kopf.login_with_service_account(settings=settings)
    if account is not None:
        return dataclasses.replace(
            account, server=_server(account.server), expiration=datetime.now(UTC) + FILE_LIFETIME
        )
    try:
        config = kopf.login_via_client(logger=log, settings=settings)
    except kopf.LoginError as error:
        raise kopf.LoginError(
            "no credentials for the API server: run in a pod with a service account token, "
            "or set KUBECONFIG"
        ) from error
    assert config is not None, "the kubernetes package is a dependency"
    return dataclasses.replace(config, expiration=datetime.now(UTC) + PLUGIN_LIFETIME)


def _server(fallback: str) -> str:
    """The address from the environment, as client-go takes it: it needs no working DNS."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return fallback
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


@dataclasses.dataclass(frozen=True)
class SharedConnection(kopf.ConnectionInfo):
    """A connection for one more client of this process: with the TLS context that all of them
    have, since making one takes 30 ms of the event loop."""

    tls: ssl.SSLContext | None = None

    def as_ssl_context(self) -> ssl.SSLContext:
        """That context."""
        return self.tls or super().as_ssl_context()


class Credentials:
    """The connection, read again when its token is due: in a thread, since a plugin may take its
    time, and while what is known is still good."""

    def __init__(self) -> None:
        self._settings = kopf.OperatorSettings()
        self._connection = login(self._settings)
        self.tls = self._connection.as_ssl_context()
        self._reading: asyncio.Task[None] | None = None

    @property
    def connection(self) -> kopf.ConnectionInfo:
        """Server, certificates and token, the newest that are known."""
        expiration = self._connection.expiration
        if expiration is not None and expiration <= datetime.now(UTC):
            self.renew()
        return self._connection

    @property
    def shared(self) -> SharedConnection:
        """The same for a kopf. kopf closes its watches when credentials expire, but the server
        checks them at connect alone: they do not expire, and kopf asks anew after a 401."""
        known = dataclasses.replace(self.connection, expiration=None)
        fields = {field.name: getattr(known, field.name) for field in dataclasses.fields(known)}
        return SharedConnection(**fields, tls=self.tls)

    def renew(self) -> None:
        """Have the token read again, for example after a 401; does not wait for it."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="credentials")

    async def renewed(self) -> None:
        """Have the token read again and wait for it, whether a better one is found or not."""
        self.renew()
        assert self._reading is not None
        # Others may wait for the same reading: who gives up leaves it to them.
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                self._connection = await asyncio.to_thread(login, self._settings)
        except Exception as error:
            # A plugin fails in ways of its own; the old token may do for a while.
            log.warning("credentials not renewed: %s", str(error) or type(error).__name__)
            self._connection = dataclasses.replace(
                self._connection, expiration=datetime.now(UTC) + RETRY
            )
