"""A hand that plays the kubelet and the node: it only PATCHes what they would.

The API server is real; what is played is who reports to it.
"""

from datetime import UTC, datetime
from typing import Any

from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core

STRATEGIC = "application/strategic-merge-patch+json"


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kubelet:
    """Nodes and pods of one test."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._nodes: list[str] = []

    async def close(self) -> None:
        """Remove the nodes."""
        for name in self._nodes:
            if await self._api.find(f"/api/v1/nodes/{name}"):
                await self._api.delete(f"/api/v1/nodes/{name}")

    async def node(self, name: str, **labels: str) -> Json:
        """A node that is ready."""
        self._nodes.append(name)
        await self._api.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {"providerID": f"test:///{name}"},
            },
        )
        await self.ready(name, "True")
        return await self._api.get(f"/api/v1/nodes/{name}")

    async def ready(self, name: str, status: str) -> None:
        """The node's Ready condition."""
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "Test",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        body = {"status": {"conditions": [condition]}}
        await self._api.patch(f"/api/v1/nodes/{name}/status", body, STRATEGIC)

    async def run(self, pod: str, node: str, address: str) -> None:
        """Bind the pod, and report all its containers running."""
        found = await self._api.get(core(self._namespace, "pods", pod))
        if not found["spec"].get("nodeName"):
            binding = {
                "metadata": {"name": pod},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
            await self._api.create(core(self._namespace, "pods", pod, "binding"), binding)
        running = {"running": {"startedAt": now()}}
        await self._report(found, "Running", running, address, "True")

    async def end(self, pod: str, exit_code: int, message: str = "") -> None:
        """Report that all containers ended."""
        found = await self._api.get(core(self._namespace, "pods", pod))
        ended = {
            "terminated": {
                "exitCode": exit_code,
                "reason": "Error" if exit_code else "Completed",
                "message": message,
                "startedAt": now(),
                "finishedAt": now(),
            }
        }
        phase = "Failed" if exit_code else "Succeeded"
        await self._report(found, phase, ended, found["status"].get("podIP", ""), "False")

    async def confirm_when_deleted(self, pod: str) -> None:
        """Wait until the pod's deletion is asked for, then end it for good, as a kubelet does when
        its containers are gone."""
        path = core(self._namespace, "pods", pod)

        async def terminating() -> bool:
            return "deletionTimestamp" in (await self._api.get(path))["metadata"]

        await until(f"pod {pod} is being deleted", terminating)
        await self._api.delete(path, grace_seconds=0)

    async def _report(self, pod: Json, phase: str, state: Json, address: str, ready: str) -> None:
        statuses: list[dict[str, Any]] = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "restartCount": 0,
                "ready": ready == "True",
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ]
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": now()}
        body = {
            "status": {
                "phase": phase,
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": [condition],
                "containerStatuses": statuses,
            }
        }
        name = pod["metadata"]["name"]
        await self._api.patch(core(self._namespace, "pods", name, "status"), body, STRATEGIC)
