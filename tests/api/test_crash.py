"""The operator killed at each of its writes: the next one repeats none of them and loses none."""

import pytest

from tests.api.conftest import LEASE, OperatorFactory
from tests.api.support import audit
from tests.api.support.api import Api, until
from tests.api.support.jobs import job, jobs
from tests.api.support.process import OperatorProcess
from tests.api.support.proxy import Door
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, creates, pod_names, pods, status

# Writes of a job's start, with margin.
ROUNDS_MAX = 20


class Victim:
    """The operator that the door kills."""

    process: OperatorProcess | None = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    async def is_dead(self) -> bool:
        return self.process is not None and self.process.returncode is not None


@pytest.mark.parametrize(
    "swallow",
    [
        pytest.param(True, id="before it hears that the write was done"),
        pytest.param(False, id="after it heard, before the next write is done"),
    ],
)
@pytest.mark.timeout(240)
async def test_each_pod_is_made_once_whenever_the_operator_is_killed(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory, swallow: bool
) -> None:
    await api.create(jobs(namespace), job(namespace, "a"))
    victim = Victim()
    rounds = 0
    async with Door(prepared, victim.kill, swallow=swallow) as door:
        while set(await pods(api, namespace)) != pod_names("a") and rounds < ROUNDS_MAX:
            rounds += 1
            door.let_in = 1
            kubeconfig = operators.kubeconfig(f"door-{rounds}", door.url)
            victim.process = operators(f"operator-{rounds}", KUBECONFIG=kubeconfig)
            await until("the operator is killed at its write", victim.is_dead, seconds=40)
            if await api.find(LEASE):
                await api.delete(LEASE)
    operators("last")
    made = await all_pods(api, namespace, pod_names("a"))
    assert rounds > len(made), "each write was to be a round of its own"
    assert creates(prepared, namespace) == sorted(made)

    async def first_run() -> bool:
        return (await status(api, namespace)).get("run") == 1

    await until("the job is in its first run", first_run)
    refused = [r for r in audit.writes(prepared.audit_log, namespace) if r.code >= 500]
    assert not refused
