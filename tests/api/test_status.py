"""What stands in status is reserved; what cannot be read there is left alone."""

import asyncio

import pytest

from rtj_api.status import FORMAT
from tests.api.support import audit
from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core, job, jobs
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, passes, pod_names, pods, status


async def invalid(api: Api, namespace: str) -> Json:
    """Wait for the Event that says what is wrong."""

    async def look() -> list[Json]:
        items = await api.items(core(namespace, "events"))
        return [event for event in items if event["reason"] == "Invalid"]

    return (await until("the Event", look))[0]


async def test_status_of_a_newer_operator_is_not_touched(
    api: Api, prepared: ApiServer, namespace: str, operator: OperatorProcess
) -> None:
    newer = {"format": FORMAT + 1, "phase": "Running"}
    await suspended_job(api, namespace)
    await asyncio.gather(
        passes(operator, 1), api.patch(jobs(namespace, "a", "status"), {"status": newer})
    )
    before = len(audit.writes(prepared.audit_log, namespace, "resilienttrainingjobs"))
    await api.patch(jobs(namespace, "a"), {"spec": {"suspend": False}})
    event = await invalid(api, namespace)
    assert "upgrade the operator" in event["message"]
    assert len(audit.writes(prepared.audit_log, namespace, "resilienttrainingjobs")) == before
    assert await pods(api, namespace) == {}


async def suspended_job(api: Api, namespace: str) -> None:
    """A job without pods, seen by the operator."""
    await api.create(jobs(namespace), job(namespace, "a", suspend=True))

    async def seen() -> bool:
        return bool(await status(api, namespace))

    await until("the job is seen", seen)


@pytest.mark.usefixtures("operator")
async def test_status_changed_by_hand_meanwhile_is_decided_anew(api: Api, namespace: str) -> None:
    await api.create(jobs(namespace), job(namespace, "a"))
    for number in range(20):
        # Each write makes the operator's view of the job an old one.
        note = {"metadata": {"annotations": {"note": str(number)}}}
        await api.patch(jobs(namespace, "a"), note)
    await all_pods(api, namespace, pod_names("a"))

    async def begun() -> bool:
        return (await status(api, namespace)).get("run") == 1

    await until("the first run is reserved", begun)
