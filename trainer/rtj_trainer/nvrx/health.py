"""The launcher's health question, answered with the freshness of the worker's lease: the fence.

NVRx asks a node health service (gRPC on a Unix socket) right before each join of a round. Success
only while the directive says "train with exactly this launch" and the coordinator was heard lately:
so a worker that is cut off, or replaced without knowing it, cannot join a round behind its back.
The socket must exist before the launcher starts; an error or a timeout counts as healthy there.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from nvidia_resiliency_ext.shared_utils.proto import nvhcd_pb2, nvhcd_pb2_grpc

# Returns why the launcher must not join now, "" when it may.
Verdict = Callable[[], str]


class HealthService(nvhcd_pb2_grpc.HealthCheckServiceServicer):
    """Serves NVRx's node health protocol on a Unix socket."""

    def __init__(self, socket: Path, verdict: Verdict) -> None:
        self._socket = socket
        self._verdict = verdict
        self._server = grpc.aio.server()
        nvhcd_pb2_grpc.add_HealthCheckServiceServicer_to_server(self, self._server)

    @property
    def endpoint(self) -> str:
        """For --ft-node-health-check-endpoint."""
        return f"unix://{self._socket}"

    async def start(self) -> None:
        """Listen; raises RuntimeError when the socket cannot be bound."""
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        self._server.add_insecure_port(self.endpoint)
        await self._server.start()

    async def stop(self) -> None:
        """Stop at once."""
        await self._server.stop(None)

    async def RunHealthCheck(self, request: Any, context: Any) -> Any:
        """NVRx's question."""
        refusal = self._verdict()
        return nvhcd_pb2.HealthCheckResponse(
            success=not refusal,
            exit_code=1 if refusal else 0,
            output=json.dumps({"fail_count": 1 if refusal else 0}),
            error=refusal,
        )
