"""Events on a real API server: counted up when repeated, made anew when gone, never a flood."""

from collections.abc import AsyncGenerator

import pytest

from rtj_api.reasons import EventReason
from rtj_operator.events import BURST, EventRecorder
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.credentials import Credentials
from rtj_operator.policy.decision import EmitEvent
from rtj_operator.render.objects import JobRef
from tests.api.support.api import Api, Json
from tests.api.support.jobs import core


@pytest.fixture
async def recorder(as_admin: None) -> AsyncGenerator[EventRecorder]:
    async with KubeClient(Credentials(), lambda: 60.0) as client:
        yield EventRecorder(client, "test")


def a_job(namespace: str) -> JobRef:
    return JobRef(namespace=namespace, name="a", uid="11111111-2222-3333-4444-555555555555")


def said(message: str) -> EmitEvent:
    return EmitEvent(type="Warning", reason=EventReason.FAULT_DETECTED, message=message)


async def found(api: Api, namespace: str) -> list[Json]:
    return await api.items(core(namespace, "events"))


async def test_same_event_is_one_object_that_counts(
    api: Api, namespace: str, recorder: EventRecorder
) -> None:
    for _ in range(3):
        await recorder.emit(a_job(namespace), said("rank 3 died"))
    await recorder.emit(a_job(namespace), said("rank 4 died"))
    counts = {event["message"]: event["count"] for event in await found(api, namespace)}
    assert counts == {"rank 3 died": 3, "rank 4 died": 1}


async def test_event_that_was_removed_is_written_anew(
    api: Api, namespace: str, recorder: EventRecorder
) -> None:
    await recorder.emit(a_job(namespace), said("rank 3 died"))
    (event,) = await found(api, namespace)
    await api.delete(core(namespace, "events", event["metadata"]["name"]))
    await recorder.emit(a_job(namespace), said("rank 3 died"))
    (again,) = await found(api, namespace)
    assert again["count"] == 1


async def test_flood_is_cut(api: Api, namespace: str, recorder: EventRecorder) -> None:
    for number in range(BURST + 10):
        await recorder.emit(a_job(namespace), said(f"rank {number} died"))
    assert len(await found(api, namespace)) == BURST
