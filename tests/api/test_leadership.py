"""Two operators: one leads, the other is warm; nothing is done twice whatever ends the leader."""

import asyncio
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.lease import Leadership
from tests.api.conftest import LEASE, OPERATOR_NAMESPACE, OperatorFactory
from tests.api.support.api import Api, until
from tests.api.support.jobs import job, jobs
from tests.api.support.proxy import Door
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, creates, leads, pod_names, pods

# From the kill to the first thing that the successor does.
TAKEOVER_SECONDS = 5


async def test_standby_takes_over_from_a_killed_leader_and_repeats_nothing(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory
) -> None:
    first = operators("first")
    await leads(first)
    second = operators("second")

    async def ready() -> bool:
        return second.probe("/readyz") == 200

    await until("the standby is warm", ready)
    await api.create(jobs(namespace), job(namespace, "a"))
    before = await all_pods(api, namespace, pod_names("a"))
    assert second.metrics()["rtj_leader"] == 0
    epoch = (await api.get(LEASE))["spec"]["leaseTransitions"]
    killed = time.monotonic()
    first.kill()
    await api.create(jobs(namespace), job(namespace, "b"))

    async def acted() -> bool:
        return any(pod.startswith("b-") for pod in await pods(api, namespace))

    await until("the standby acts", acted)
    assert time.monotonic() - killed <= TAKEOVER_SECONDS
    assert (await api.get(LEASE))["spec"]["leaseTransitions"] == epoch + 1
    after = await all_pods(api, namespace, pod_names("a") | pod_names("b"))
    assert before.items() <= after.items()
    assert creates(prepared, namespace) == sorted(after)


async def test_leader_that_ends_gives_up_the_lease_at_once(
    api: Api, namespace: str, operators: OperatorFactory
) -> None:
    first = operators("first")
    await leads(first)
    second = operators("second")

    async def ready() -> bool:
        return second.probe("/readyz") == 200

    await until("the standby is warm", ready)
    assert first.terminate() == 0
    await leads(second, seconds=5)


async def test_frozen_leader_that_wakes_up_writes_nothing_and_stands_by(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory
) -> None:
    first = operators("first")
    await leads(first)
    second = operators("second")
    first.signal(signal.SIGSTOP)
    await leads(second)
    await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace, pod_names("a"))
    first.signal(signal.SIGCONT)

    async def stands_by() -> bool:
        return first.metrics()["rtj_leader"] == 0

    await until("the former leader stands by", stands_by)
    await api.create(jobs(namespace), job(namespace, "b"))
    made = await all_pods(api, namespace, pod_names("a") | pod_names("b"))
    assert creates(prepared, namespace) == sorted(made)
    assert first.returncode is None


async def test_renewal_whose_answer_is_lost_does_not_cost_the_lease(
    api: Api, prepared: ApiServer, operators: OperatorFactory
) -> None:
    async with Door(prepared, lambda: None, swallow=False) as door:
        door.let_in = 1000
        leader = operators(KUBECONFIG=operators.kubeconfig("door", door.url))
        await leads(leader)
        for _ in range(3):
            door.mute_leases = 1

            async def muted() -> bool:
                return door.mute_leases == 0

            await until("a renewal is written and not answered", muted)
            before = (await api.get(LEASE))["spec"]["renewTime"]

            async def renewed(before: str = before) -> bool:
                return (await api.get(LEASE))["spec"]["renewTime"] > before

            await until("the next one is", renewed, seconds=3)
        assert len(leader.log_lines("started leading")) == 1
        assert not leader.log_lines("stopped leading")


async def test_forty_watched_namespaces_leave_the_lease_its_connections(
    api: Api, namespace: str, operators: OperatorFactory
) -> None:
    spaces = [namespace, *(f"{namespace}-{number}" for number in range(39))]
    for space in spaces[1:]:
        await api.create("/api/v1/namespaces", {"metadata": {"name": space}})
    leader = operators(RTJ_OPERATOR_NAMESPACES=",".join(spaces))
    await leads(leader)
    await api.create(jobs(spaces[-1]), job(spaces[-1], "a"))
    await all_pods(api, spaces[-1], pod_names("a"))
    for _ in range(3):
        before = (await api.get(LEASE))["spec"]["renewTime"]

        async def renewed(before: str = before) -> bool:
            return (await api.get(LEASE))["spec"]["renewTime"] > before

        await until("the lease is renewed", renewed, seconds=3)
    assert not leader.log_lines("stopped leading")
    await api.delete(jobs(spaces[-1]))


async def term_after(api: Api, spec: dict[str, object]) -> tuple[int, float]:
    """Epoch and unled seconds of a leadership that finds such a Lease."""
    name = LEASE.rpartition("/")[2]
    await api.create(LEASE.rpartition("/")[0], {"metadata": {"name": name}, "spec": spec})
    leadership = Leadership(OPERATOR_NAMESPACE, name, "test")
    try:
        async with KubeClient(Credentials(), leadership.left) as client:
            contending = asyncio.create_task(leadership.run(client))
            try:
                async with asyncio.timeout(10):
                    term = await leadership.begun()
            finally:
                contending.cancel()
                await asyncio.gather(contending, return_exceptions=True)
    finally:
        await api.delete(LEASE)
    return term.epoch, term.unled_seconds


@pytest.mark.usefixtures("as_admin")
async def test_term_says_for_how_long_nobody_led(api: Api) -> None:
    renewed = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec: dict[str, object] = {"leaseDurationSeconds": 1, "leaseTransitions": 7}
    epoch, unled = await term_after(api, {**spec, "holderIdentity": "former", "renewTime": renewed})
    assert epoch == 8
    assert unled == pytest.approx(3600, abs=10)
    assert await term_after(api, spec) == (8, 0.0)
