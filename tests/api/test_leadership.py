"""Two operators: one leads, the other is warm; nothing is done twice whatever ends the leader."""

import signal
import time

from tests.api.conftest import LEASE, OperatorFactory
from tests.api.support.api import Api, until
from tests.api.support.jobs import job, jobs
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
