"""The few calls to the API server that the cluster itself needs, with the admin's certificate."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from localcluster.errors import LocalClusterError
from localcluster.layout import Layout

TIMEOUT_SECONDS = 10
MERGE = "application/strategic-merge-patch+json"


class Api:
    """A connection a call: the server may have been restarted in between."""

    def __init__(self, layout: Layout) -> None:
        self._port = layout.api_port
        self._pki = layout.pki
        self.last_error = ""

    def ready(self) -> bool:
        """True when the server says that it serves; keeps the reason in `last_error` if not."""
        try:
            status, body = self._send("GET", "/readyz", None, "")
        except (OSError, http.client.HTTPException) as error:
            self.last_error = str(error)
            return False
        self.last_error = body.decode(errors="replace")[:200]
        return status == 200

    def get(self, path: str) -> dict[str, Any]:
        return self._call("GET", path, None, "")

    def exists(self, path: str) -> bool:
        return self._send("GET", path, None, "")[0] == 200

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", path, body, "application/json")

    def patch(self, path: str, body: dict[str, Any], kind: str = MERGE) -> dict[str, Any]:
        return self._call("PATCH", path, body, kind)

    def _call(self, method: str, path: str, body: object, kind: str) -> dict[str, Any]:
        status, answer = self._send(method, path, body, kind)
        if status >= 300:
            raise LocalClusterError(
                f"{method} {path}: the API server answered {status}: {answer.decode()[:500]}"
            )
        return json.loads(answer)

    def _send(self, method: str, path: str, body: object, kind: str) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=context, timeout=TIMEOUT_SECONDS
        )
        try:
            headers = {"Content-Type": kind} if kind else {}
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
