"""What the tests of the operator wait for."""

import time
from collections.abc import Callable

from tests.api.support import audit
from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core, jobs
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer

PASSES = 'rtj_reconcile_seconds_count{result="done"}'


async def pods(api: Api, namespace: str) -> dict[str, str]:
    """Name -> UID."""
    items = await api.items(core(namespace, "pods"))
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}


async def all_pods(api: Api, namespace: str, want: set[str], seconds: float = 20) -> dict[str, str]:
    """Wait for exactly these pods; name -> UID."""

    async def complete() -> dict[str, str]:
        found = await pods(api, namespace)
        return found if set(found) == want else {}

    return await until(f"pods {sorted(want)}", complete, seconds)


def creates(server: ApiServer, namespace: str) -> list[str]:
    """Names of pods, each as often as the operator created it."""
    found = audit.writes(server.audit_log, namespace, "pods")
    return sorted(r.name for r in found if r.verb == "create" and r.code == 201)


def pod_names(job: str, workers: int = 2) -> set[str]:
    """Pods of a job that has just begun."""
    return {f"{job}-coordinator-0", *(f"{job}-worker-{slot}-0" for slot in range(workers))}


async def status(api: Api, namespace: str, name: str = "a") -> Json:
    """The job's status."""
    return (await api.get(jobs(namespace, name))).get("status", {})


async def condition(api: Api, namespace: str, type_: str, reason: str, name: str = "a") -> Json:
    """Wait for a condition with that reason."""

    async def look() -> Json | None:
        conditions = (await status(api, namespace, name)).get("conditions", [])
        return next((c for c in conditions if (c["type"], c["reason"]) == (type_, reason)), None)

    found = await until(f"condition {type_} with reason {reason}", look)
    assert found is not None
    return found


async def leads(process: OperatorProcess, seconds: float = 40) -> None:
    """Wait until an operator leads."""

    async def leading() -> bool:
        return process.probe("/readyz") == 200 and process.metrics().get("rtj_leader") == 1

    await until(f"{process.name} leads", leading, seconds=seconds)


async def passes(process: OperatorProcess, more: int, seconds: float = 30) -> None:
    """Wait until the operator has looked so many more times at some job."""
    before = process.metrics().get(PASSES, 0)

    async def looked() -> bool:
        return process.metrics().get(PASSES, 0) >= before + more

    await until(f"{more} more passes", looked, seconds)


def until_sync(what: str, look: Callable[[], bool], seconds: float = 30) -> None:
    """Look until it is true, in a test without an event loop of its own."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)
