"""Effects that fail: the others happen all the same, Events too, and the pass is repeated."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from rtj_api.reasons import EventReason
from rtj_operator.events import EventRecorder
from rtj_operator.kube.errors import ApiError, KubeError, NotLeader, Refused, Status, Unreachable
from rtj_operator.kube.objects import Object, Resource
from rtj_operator.policy.decision import CreatePod, DeleteJob, EmitEvent
from rtj_operator.work.act import Actor
from rtj_operator.work.caches import Caches
from rtj_operator.work.children import ChildKeeper
from rtj_operator.work.confirm import Confirmer
from rtj_operator.work.memory import JobMemory
from rtj_operator.work.views import Views
from tests.unit.policy import build

POD = CreatePod(role="worker", slot=0, incarnation=0)
EVENT = EmitEvent(type="Normal", reason=EventReason.STARTED, message="Starting")
NO = Status(code=500, message="no")
TRAINER = {"name": "trainer", "image": "trainer", "args": ["train.py"]}


class Client:
    """Fails to create pods in one way; what else is asked of it is done."""

    def __init__(self, failure: KubeError) -> None:
        self.done: list[str] = []
        self._failure = failure

    async def create(self, resource: Resource[Any], namespace: str, body: Mapping[str, Any]) -> Any:
        if resource.kind == "Pod":
            raise self._failure
        self.done.append(resource.kind)
        return None

    async def delete(self, resource: Resource[Any], *_: Any, **__: Any) -> Object | None:
        self.done.append(resource.kind)
        return None


def actor(client: Client) -> Actor:
    as_client = cast("Any", client)
    caches = Caches(lambda _key: None, lambda _uid: None)
    children = ChildKeeper(as_client, cast("Any", None), lambda _: b"")
    confirmer = Confirmer(as_client, caches.pods, caches.nodes)
    views = Views(bytes(32), lambda _key, _seconds: None)
    return Actor(as_client, caches, children, confirmer, views, EventRecorder(as_client, "test"))


@pytest.mark.parametrize(
    ("failure", "raised", "done"),
    [
        pytest.param(Unreachable("no answer"), True, ["ResilientTrainingJob", "Event"], id="none"),
        pytest.param(
            ApiError("POST", NO), True, ["ResilientTrainingJob", "Event"], id="unforeseen"
        ),
        pytest.param(Refused("POST", NO), False, ["ResilientTrainingJob", "Event"], id="refused"),
        pytest.param(NotLeader("gone"), True, [], id="another one leads: hands off"),
    ],
)
async def test_answer_to_one_effect(failure: KubeError, raised: bool, done: list[str]) -> None:
    client = Client(failure)
    job = build.job(build.spec(template={"spec": {"containers": [TRAINER]}}))
    memory = JobMemory(uid=job.uid)
    work = actor(client).act(job, memory, (EVENT, POD, DeleteJob(uid=job.uid)))
    if raised:
        with pytest.raises(type(failure)):
            await work
    else:
        assert await work is not None, "to be tried again"
    assert client.done == done
