"""A hand that plays all that surrounds a job: nodes and kubelets, its coordinators, its training.

Each pod gets a node of its own and runs at once; the coordinator that counts tells of the workers
that the operator's directive names, and training makes steps while all of them live.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from rtj_api import auth
from rtj_api.messages import FaultReport, JobDirective, JobView, LauncherState, WorkerView
from tests.api.support.api import Api, ApiFailure, Json, until
from tests.api.support.coordinator import Coordinator
from tests.api.support.jobs import core, job, jobs
from tests.api.support.kubelet import Kubelet
from tests.api.support.waits import status

# Two coordinators a job, on addresses that nobody else uses.
_hosts = itertools.count(1)
NETWORK: Final = "127.78"
COORDINATORS: Final = 2
BEAT_SECONDS: Final = 0.1


class Gang:
    """A job `a` of two workers in its namespace. Use as a context manager."""

    def __init__(self, api: Api, namespace: str, master_key: bytes) -> None:
        self.api, self.namespace = api, namespace
        self.kubelet = Kubelet(api, namespace)
        # Pods whose node was lost: nobody hears of them, and nobody confirms their end.
        self.lost: set[str] = set()
        self.control_died = False
        self._master_key = master_key
        self._coordinators: list[Coordinator] = []
        self._nodes: set[str] = set()
        self._step = 0
        self._died_at = 0.0
        self._awake = asyncio.Lock()
        self._play: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        made = await self.api.create(jobs(self.namespace), job(self.namespace, "a"))
        key = auth.job_key(self._master_key, made["metadata"]["uid"])
        host = next(_hosts)
        for incarnation in range(COORDINATORS):
            hand = Coordinator(f"{NETWORK}.{host}.{1 + incarnation}", key, incarnation)
            await hand.__aenter__()
            self._coordinators.append(hand)
        self._play = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._play is not None:
            self._play.cancel()
            await asyncio.gather(self._play, return_exceptions=True)
        for hand in self._coordinators:
            await hand.__aexit__(kind, error, traceback)
        await self.kubelet.close()

    async def trains(self, seconds: float = 60) -> Json:
        """Wait until training goes on and no recovery is under way; returns the status."""

        async def look() -> Json | None:
            self.check()
            found = await status(self.api, self.namespace)
            ends = found.get("phase") == "Running" and "recovery" not in found
            return found if ends else None

        found = await until("training goes on", look, seconds)
        assert found is not None
        return found

    def check(self) -> None:
        """Fail if the play broke off."""
        if self._play is not None and self._play.done():
            self._play.result()

    async def lose_node(self, pod: str) -> None:
        """The node of a pod dies, and with it the pod's voice."""
        self.lost.add(pod)
        await self.api.delete(f"/api/v1/nodes/{self.node_of(pod)}")

    async def end_coordinator(self) -> None:
        """The first coordinator's containers end."""
        self.lost.add("a-coordinator-0")
        await self.kubelet.end("a-coordinator-0", 1)
        await self._coordinators[0].cut()

    async def while_it_rests(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something during which the play asks the API server nothing."""
        async with self._awake:
            await work()

    def node_of(self, pod: str) -> str:
        """Name of a pod's node."""
        return f"{self.namespace}-{pod}"

    async def _beat(self) -> None:
        while True:
            async with self._awake:
                pods = {p["metadata"]["name"]: p for p in await self._pods()}
                for name, pod in pods.items():
                    try:
                        await self._host(name, pod)
                    except ApiFailure as failure:
                        # Gone, or changed, since the list was made.
                        if failure.code not in (404, 409):
                            raise
                for hand in self._coordinators:
                    await self._tell(hand, pods)
            await asyncio.sleep(BEAT_SECONDS)

    async def _pods(self) -> list[Json]:
        return await self.api.items(core(self.namespace, "pods"))

    async def _host(self, name: str, pod: Json) -> None:
        if name in self.lost:
            return
        if "deletionTimestamp" in pod["metadata"]:
            await self.api.delete(core(self.namespace, "pods", name), grace_seconds=0)
        elif pod["status"].get("phase") == "Pending":
            if name not in self._nodes:
                self._nodes.add(name)
                await self.kubelet.node(self.node_of(name))
            await self.kubelet.run(name, self.node_of(name), self._address(name))

    def _address(self, name: str) -> str:
        role, number = name.split("-")[1], int(name.rsplit("-", 1)[1])
        if role == "coordinator":
            return self._coordinators[number].address
        return f"{NETWORK}.0.1"

    async def _tell(self, hand: Coordinator, pods: dict[str, Json]) -> None:
        own = f"a-coordinator-{hand.incarnation}"
        if own not in pods or own in self.lost or not hand.directives:
            return
        directive = hand.directives[-1]
        alive = {
            pod["metadata"]["uid"]: name
            for name, pod in pods.items()
            if name not in self.lost and pod["status"].get("phase") == "Running"
        }
        whole = len(directive.pods) == 2 and all(uid in alive for uid in directive.pods)
        dead = self.control_died and directive.run == 1
        self._step += whole and not dead
        await hand.tell(self._view(hand, directive, alive, dead=dead))

    def _view(
        self, hand: Coordinator, directive: JobDirective, alive: dict[str, str], *, dead: bool
    ) -> JobView:
        workers = tuple(
            WorkerView(
                slot=slot,
                incarnation=int(alive[uid].rsplit("-", 1)[1]) if uid in alive else 0,
                pod_uid=uid,
                connected=uid in alive,
                silent_seconds=0.0 if uid in alive else 60.0,
                position=slot,
                launcher=LauncherState(state="training", run=directive.run, position=slot),
                step=self._step,
            )
            for uid, slot in sorted(directive.pods.items(), key=lambda item: item[1])
        )
        faults = (self._control_fault(),) if self.control_died else ()
        return JobView(
            coordinator_incarnation=hand.incarnation,
            epoch=directive.epoch,
            directive_number=directive.number,
            run=directive.run,
            round=0,
            control="dead" if dead else "running",
            workers=workers,
            step=self._step,
            highest_step=self._step,
            ranks_training=sum(worker.connected for worker in workers),
            faults=faults,
        )

    def _control_fault(self) -> FaultReport:
        return FaultReport(number=1, kind="control", run=1, detected_unix=self._died_at)

    def end_control(self) -> None:
        """nvrx-control ends: all launchers must meet anew."""
        self._died_at = time.time()
        self.control_died = True
