"""The operator is killed at each write of a recovery, before it hears that the write was done and
before the next is done. What is left in the end is what an operator that lives leaves, and nothing
was done twice.

Each sweep is one recovery in which every operator lives for one write only. All sweeps run side by
side, each with a namespace and a lease of its own.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from rtj_api import names
from tests.api.conftest import ACCOUNT, OPERATOR_NAMESPACE, OperatorFactory
from tests.api.support import audit
from tests.api.support.api import Api, Json, until
from tests.api.support.gang import Gang
from tests.api.support.jobs import core
from tests.api.support.process import OperatorProcess
from tests.api.support.proxy import Door
from tests.api.support.server import ApiServer
from tests.api.support.waits import status

# Writes of the longest recovery, with margin.
ROUNDS_MAX = 30
NO_LIMIT = 10**6
RBAC = "/apis/rbac.authorization.k8s.io/v1"
# What a recovery does beside its own status; Events are told as well as may be.
EFFECTS = frozenset({"pods", "services", "secrets", "networkpolicies", "nodes"})


@dataclass(frozen=True, slots=True)
class Story:
    """A fault, and whether status says that it was met."""

    strike: Callable[[Gang], Awaitable[None]]
    met: Callable[[Json], bool]


async def _lose_node(gang: Gang) -> None:
    await gang.lose_node("a-worker-1-0")


async def _end_control(gang: Gang) -> None:
    gang.end_control()


async def _end_coordinator(gang: Gang) -> None:
    await gang.end_coordinator()


STORIES = {
    "node replacement": Story(_lose_node, lambda s: s.get("incarnations") == {"1": 1}),
    "gang restart": Story(_end_control, lambda s: s.get("run") == 2),
    "coordinator fail-over": Story(
        _end_coordinator, lambda s: s["coordinator"]["incarnation"] == 1
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a recovery left behind, and what was done for it."""

    run: int
    incarnations: dict[str, int]
    coordinator: int
    restarts: Json
    pods: frozenset[str]
    service: Json
    tainted: frozenset[str]
    effects: Counter[tuple[str, str, str]]


class Sweep:
    """One recovery in a namespace of its own."""

    def __init__(
        self, api: Api, server: ApiServer, operators: OperatorFactory, master_key: bytes
    ) -> None:
        self._api, self._server, self._operators = api, server, operators
        self._master_key = master_key
        self._namespace = f"sweep-{secrets.token_hex(4)}"
        self._process: OperatorProcess | None = None
        self._number = 0

    async def run(self, story: Story, *, killed: bool, swallow: bool) -> tuple[Outcome, int]:
        """The outcome, and how often the operator was killed."""
        await self._prepare()
        kills = 0
        async with (
            Gang(self._api, self._namespace, self._master_key) as gang,
            Door(self._server, self._kill, swallow=swallow) as door,
        ):
            door.let_in = NO_LIMIT
            self._start(door)
            await gang.trains()
            before = self._written()
            door.let_in = 1 if killed else NO_LIMIT
            await story.strike(gang)
            while not await self._over(gang, story) and kills < ROUNDS_MAX:
                kills += 1
                await self._restart(door)
            self._kill()
            outcome = await self._outcome(gang, before)
        return outcome, kills

    async def _prepare(self) -> None:
        """A namespace in which the operator may hold its lease."""
        await self._api.create("/api/v1/namespaces", {"metadata": {"name": self._namespace}})
        role = f"{RBAC}/namespaces/{self._namespace}"
        verbs = ["create", "get", "update"]
        rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
        named = {"metadata": {"name": "lease"}}
        await self._api.create(f"{role}/roles", {**named, "rules": [rule]})
        account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": OPERATOR_NAMESPACE}
        group = "rbac.authorization.k8s.io"
        binding = {
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "lease"},
            "subjects": [account],
        }
        await self._api.create(f"{role}/rolebindings", {**named, **binding})

    def _start(self, door: Door) -> None:
        self._number += 1
        name = f"{self._namespace}-{self._number}"
        self._process = self._operators(
            name,
            KUBECONFIG=self._operators.kubeconfig(name, door.url),
            RTJ_OPERATOR_NAMESPACES=self._namespace,
            RTJ_OPERATOR_LEASE_NAMESPACE=self._namespace,
        )

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def _restart(self, door: Door) -> None:
        lease = (
            f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}"
            "/leases/resilient-training-operator"
        )
        if await self._api.find(lease):
            await self._api.delete(lease)
        door.let_in = 1
        self._start(door)

    async def _over(self, gang: Gang, story: Story) -> bool:
        """Wait until the operator was killed (False), or the recovery is over (True)."""

        async def look() -> str:
            assert self._process is not None
            gang.check()
            if self._process.returncode is not None:
                return "killed"
            found = await status(self._api, self._namespace)
            done = story.met(found) and "recovery" not in found and found["phase"] == "Running"
            return "over" if done else ""

        try:
            return await until("the recovery is over or the operator is killed", look, 40) == "over"
        except AssertionError as error:
            raise AssertionError(f"{error}; {await status(self._api, self._namespace)}") from error

    def _written(self) -> int:
        return len(audit.writes(self._server.audit_log, None))

    async def _outcome(self, gang: Gang, before: int) -> Outcome:
        found = await status(self._api, self._namespace)
        service = await self._api.get(core(self._namespace, "services", "a-coordinator"))
        pods = await self._api.items(core(self._namespace, "pods"))
        written = audit.writes(self._server.audit_log, None)[before:]
        effects = Counter(
            (request.verb, request.resource, request.name.removeprefix(self._namespace))
            for request in written
            if request.resource in EFFECTS
            and request.code < 300
            and (request.namespace == self._namespace or request.name.startswith(self._namespace))
        )
        tainted: set[str] = set()
        for pod in gang.lost:
            node = await self._api.find(f"/api/v1/nodes/{gang.node_of(pod)}")
            taints = node["spec"].get("taints", []) if node else []
            tainted |= {pod for taint in taints if taint["key"] == names.TAINT_FAULTY}
        return Outcome(
            run=found["run"],
            incarnations=found.get("incarnations", {}),
            coordinator=found["coordinator"]["incarnation"],
            restarts=found["restarts"],
            pods=frozenset(pod["metadata"]["name"] for pod in pods),
            service=service["spec"]["selector"] | {names.LABEL_JOB_UID: ""},
            tainted=frozenset(tainted),
            effects=effects,
        )


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.timeout(300)
async def test_recovery_ends_alike_wherever_the_operator_is_killed(
    api: Api,
    prepared: ApiServer,
    operators: OperatorFactory,
    master_key: bytes,
    name: str,
) -> None:
    def sweep(*, killed: bool, swallow: bool) -> Awaitable[tuple[Outcome, int]]:
        return Sweep(api, prepared, operators, master_key).run(
            STORIES[name], killed=killed, swallow=swallow
        )

    (calm, none), (before, some), (after, many) = await asyncio.gather(
        sweep(killed=False, swallow=False),
        sweep(killed=True, swallow=True),
        sweep(killed=True, swallow=False),
    )
    assert none == 0
    assert min(some, many) >= 2
    assert before == calm
    assert after == calm
    # A pod on a node that is gone is deleted, and then by force: nobody confirms its end.
    repeated = {what for what, count in calm.effects.items() if count > 1}
    assert all(verb == "delete" for verb, _, _ in repeated)
