"""The view socket between operator and coordinator: who is believed, and how soon."""

import itertools
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from rtj_api import auth
from rtj_api.messages import FaultReport, JobView, LauncherState, Outcome, WorkerView
from tests.api.conftest import LEASE
from tests.api.support import audit
from tests.api.support.api import Api, until
from tests.api.support.coordinator import Coordinator
from tests.api.support.jobs import job, jobs
from tests.api.support.kubelet import Kubelet
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import PASSES, all_pods, pod_names, pods, status

_hosts = itertools.count(1)


def free_address() -> str:
    """An address of 127.0.0.0/8 that no other test uses."""
    return f"127.77.0.{next(_hosts)}"


class Scene:
    """A job whose pods run on two nodes, and its coordinator."""

    def __init__(self, api: Api, namespace: str, uids: dict[str, str], hand: Coordinator) -> None:
        self.api, self.namespace, self.uids, self.coordinator = api, namespace, uids, hand

    def view(self, step: int = -1, faults: tuple[FaultReport, ...] = ()) -> JobView:
        """Both workers train in run 1."""
        workers = tuple(
            WorkerView(
                slot=slot,
                incarnation=0,
                pod_uid=self.uids[f"a-worker-{slot}-0"],
                connected=True,
                position=slot,
                launcher=LauncherState(state="training", run=1, position=slot),
                step=step,
            )
            for slot in range(2)
        )
        last = self.coordinator.directives[-1] if self.coordinator.directives else None
        return JobView(
            coordinator_incarnation=0,
            epoch=last.epoch if last else 0,
            directive_number=last.number if last else 0,
            run=1,
            round=0,
            control="running",
            workers=workers,
            step=step,
            highest_step=step,
            ranks_training=2,
            faults=faults,
        )

    async def directed(self, count: int = 1) -> None:
        """Wait for so many directives."""

        async def told() -> bool:
            return len(self.coordinator.directives) >= count

        await until(f"directive {count}", told)

    async def reaches(self, phase: str) -> None:
        """Wait for a phase."""

        async def look() -> bool:
            return (await status(self.api, self.namespace)).get("phase") == phase

        await until(f"phase {phase}", look)


@asynccontextmanager
async def running_job(
    api: Api, namespace: str, kubelet: Kubelet, master_key: bytes, key: bytes | None = None
) -> AsyncGenerator[Scene]:
    """A job that runs; `key` in place of the right one makes the coordinator a liar."""
    made = await api.create(jobs(namespace), job(namespace, "a"))
    right = auth.job_key(master_key, made["metadata"]["uid"])
    address = free_address()
    async with Coordinator(address, key or right) as hand:
        uids = await all_pods(api, namespace, pod_names("a"))
        for number, name in enumerate(sorted(pod_names("a"))):
            node = f"{namespace}-n{number}"
            await kubelet.node(node)
            await kubelet.run(name, node, address)
        yield Scene(api, namespace, uids, hand)


async def test_directive_names_the_pods_and_the_leaders_epoch(
    api: Api, namespace: str, kubelet: Kubelet, master_key: bytes, operator: OperatorProcess
) -> None:
    async with running_job(api, namespace, kubelet, master_key) as scene:
        await scene.directed()

        async def complete() -> bool:
            return len(scene.coordinator.directives[-1].pods) == 2

        await until("both pods in the directive", complete)
        last = scene.coordinator.directives[-1]
        want = {scene.uids[f"a-worker-{slot}-0"]: slot for slot in range(2)}
        assert (last.run, last.nodes, last.pods, last.stop) == (1, 2, want, "none")
        assert last.epoch == (await api.get(LEASE))["spec"]["leaseTransitions"]
        assert scene.coordinator.hellos[0].epoch == last.epoch
        numbers = [directive.number for directive in scene.coordinator.directives]
        assert numbers == sorted(set(numbers))
    assert operator.returncode is None


@pytest.mark.usefixtures("operator")
async def test_fault_of_a_view_is_in_status_within_a_second(
    api: Api, namespace: str, kubelet: Kubelet, master_key: bytes
) -> None:
    async with running_job(api, namespace, kubelet, master_key) as scene:
        await scene.directed()
        await scene.coordinator.tell(scene.view(step=10))
        await scene.reaches("Running")
        fault = FaultReport(
            number=1,
            kind="exit",
            run=1,
            round=0,
            slot=1,
            incarnation=0,
            pod_uid=scene.uids["a-worker-1-0"],
            position=1,
            rank=1,
            exit_code=-9,
            detected_unix=time.time(),
            step=10,
        )
        told = time.monotonic()
        await scene.coordinator.tell(scene.view(step=10, faults=(fault,)))

        async def known() -> bool:
            return "lastFault" in await status(api, namespace)

        await until("the fault in status", known, seconds=1, pause=0.01)
        assert time.monotonic() - told <= 1.0
        assert (await status(api, namespace))["lastFault"]["class"] == "ProcessDied"


async def test_coordinator_without_the_key_is_told_nothing(
    api: Api, namespace: str, kubelet: Kubelet, master_key: bytes, operator: OperatorProcess
) -> None:
    wrong = b"\0" * 32
    async with running_job(api, namespace, kubelet, master_key, key=wrong) as scene:

        async def refused() -> bool:
            return operator.metrics().get('rtj_view_refused_total{reason="bad-proof"}', 0) >= 1

        await until("the refusal is counted", refused)
        assert scene.coordinator.directives == []
        assert set(scene.coordinator.refusals) <= {"client left"}


async def test_nonsense_of_a_coordinator_is_logged_once_and_ignored(
    api: Api, namespace: str, kubelet: Kubelet, master_key: bytes, operator: OperatorProcess
) -> None:
    async with running_job(api, namespace, kubelet, master_key) as scene:
        await scene.directed()
        for data in (b"{}", b"not json", b'{"t":"job_view","run":-5}', b'{"t":"unknown"}'):
            await scene.coordinator.send(data)
        await scene.coordinator.tell(scene.view(step=10))
        await scene.reaches("Running")
        assert scene.coordinator.connections == 1
    lines = operator.log_lines("not understood, ignored")
    assert len([line for line in lines if " WARNING " in line]) == 1


@pytest.mark.usefixtures("operator")
async def test_directive_is_sent_again_after_the_connection_was_cut(
    api: Api, namespace: str, kubelet: Kubelet, master_key: bytes
) -> None:
    async with running_job(api, namespace, kubelet, master_key) as scene:
        await scene.directed()
        await scene.coordinator.tell(scene.view(step=10))
        await scene.reaches("Running")
        before = len(scene.coordinator.directives)
        await scene.coordinator.cut()
        await scene.directed(before + 1)
        first, again = scene.coordinator.directives[before - 1], scene.coordinator.directives[-1]
        assert (again.run, again.pods, again.epoch) == (first.run, first.pods, first.epoch)
        assert again.number > first.number


async def test_steps_of_training_that_goes_well_are_heard_and_cost_no_look_and_no_write(
    api: Api,
    prepared: ApiServer,
    namespace: str,
    kubelet: Kubelet,
    master_key: bytes,
    operator: OperatorProcess,
) -> None:
    async with running_job(api, namespace, kubelet, master_key) as scene:
        await scene.directed()
        await scene.coordinator.tell(scene.view(step=10))
        await scene.reaches("Running")
        before = len(audit.writes(prepared.audit_log, namespace))
        looks = operator.metrics()[PASSES]
        began = time.monotonic()
        for step in range(11, 20):
            # The number of strangers at its door is told by the newest view alone.
            view = msgspec.structs.replace(scene.view(step=step), refused_hellos=step)
            await scene.coordinator.tell(view)
            await until("the view is heard", lambda step=step: heard(operator, step))
        minutes = (time.monotonic() - began) / 60
        assert operator.metrics()[PASSES] - looks <= 1 + minutes
        written = audit.writes(prepared.audit_log, namespace)[before:]
        assert len(written) <= 1 + minutes, written
        assert operator.rss_mb() <= 120


async def heard(operator: OperatorProcess, refused_hellos: int) -> bool:
    """Whether the operator's newest view of the only job has that many refused clients."""
    found = operator.metrics()
    return any(
        name.startswith("rtj_job_refused_hellos{") and value == refused_hellos
        for name, value in found.items()
    )


@pytest.mark.usefixtures("operator")
async def test_finished_training_completes_the_job_and_the_coordinator_goes_last(
    api: Api, namespace: str, kubelet: Kubelet, master_key: bytes
) -> None:
    async with running_job(api, namespace, kubelet, master_key) as scene:
        await scene.directed()
        await scene.coordinator.tell(scene.view(step=10))
        await scene.reaches("Running")
        finished = msgspec.structs.replace(
            scene.view(step=20), outcome=Outcome(state="succeeded"), ranks_training=0
        )
        await scene.coordinator.tell(finished)
        await scene.reaches("Complete")

        async def told_to_end() -> bool:
            return scene.coordinator.directives[-1].stop == "now"

        await until("the workers are told to end", told_to_end)
        for slot in range(2):
            await kubelet.end(f"a-worker-{slot}-0", 0)
        await kubelet.confirm_when_deleted("a-coordinator-0")
        assert set(await pods(api, namespace)) == {"a-worker-0-0", "a-worker-1-0"}
