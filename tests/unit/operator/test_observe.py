"""What is read live for a snapshot, and when."""

from typing import Any, cast

import pytest

from rtj_operator.kube.errors import Unreachable
from rtj_operator.kube.lease import Term
from rtj_operator.kube.objects import Job, Meta
from rtj_operator.policy.observation import ClaimObservation
from rtj_operator.work.caches import Caches
from rtj_operator.work.memory import JobMemory
from rtj_operator.work.observe import Observer
from rtj_operator.work.views import Views
from tests.unit.policy import build

SPEC = build.spec(
    storage={"checkpoints": {"claimName": "checkpoints"}},
    template={
        "spec": {"containers": [{"name": "trainer", "image": "trainer", "args": ["train.py"]}]}
    },
)


class Claims:
    """A claim that cannot be read."""

    async def read(self, namespace: str, name: str) -> ClaimObservation:
        raise Unreachable(f"GET {namespace}/{name}: no answer")


class Confirmer:
    """Nothing is missing."""

    async def confirm(self, job: object, memory: JobMemory) -> None:
        """Nothing is read."""


def a_job(**status: Any) -> Job:
    return Job(
        metadata=Meta(namespace="ns", name="a", uid="u", generation=1),
        spec=SPEC.model_dump(mode="json", by_alias=True, exclude_none=True),
        status={"format": 1, **status},
    )


@pytest.mark.parametrize(
    ("status", "needed"),
    [
        pytest.param({}, True, id="new"),
        pytest.param({"run": 1, "phase": "Running"}, False, id="training"),
        pytest.param({"run": 1, "phase": "Recovering"}, False, id="recovering"),
        pytest.param({"run": 1, "phase": "Suspending"}, True, id="may resume when it has left"),
        pytest.param({"run": 1, "phase": "Suspended"}, True, id="may resume"),
        pytest.param({"run": 1, "phase": "Complete"}, False, id="over"),
    ],
)
async def test_claim_that_cannot_be_read_holds_up_a_start_alone(
    status: dict[str, Any], needed: bool
) -> None:
    caches = Caches(lambda _key: None, lambda _uid: None)
    views = Views(bytes(32), lambda _key, _seconds: None)
    observer = Observer(caches, cast("Any", Claims()), cast("Any", Confirmer()), views)
    looking = observer.observe(
        a_job(**status), JobMemory(uid="u"), Term(epoch=1, unled_seconds=0.0)
    )
    if needed:
        with pytest.raises(Unreachable):
            await looking
    else:
        assert (await looking).claim is None
