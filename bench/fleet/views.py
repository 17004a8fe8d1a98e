"""Plays the coordinators of many small jobs in one process: the real view protocol, and a step a
second.

`python -m bench.fleet.views CONFIG` follows the coordinator pods and listens at the address of each
that runs. A thousand real coordinators would need more memory than the rest of the fleet, and what
is measured with them is the operator.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.fleet.watch import Watch, pod_runs
from rtj_api import auth, names
from rtj_api.messages import JobDirective, JobView, LauncherState, WorkerView
from tests.api.support.api import Json
from tests.api.support.coordinator import Coordinator
from tests.api.support.jobs import core

STEP_SECONDS: Final = 1.0


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are."""

    url: str
    token: str
    namespace: str
    master_key: str


class Views:
    """The coordinators of all pods that run."""

    def __init__(self, config: Config) -> None:
        self._key = bytes.fromhex(config.master_key)
        self._players: dict[str, asyncio.Task[None]] = {}
        self._watch = Watch(
            config.url,
            config.token,
            core(config.namespace, "pods"),
            self._heard,
            f"{names.LABEL_ROLE}={names.ROLE_COORDINATOR}",
        )

    async def run(self) -> None:
        """Work until killed."""
        await self._watch.run()

    def _heard(self, kind: str, pod: Json) -> None:
        uid: str = pod["metadata"]["uid"]
        runs = kind != "DELETED" and pod_runs(pod)
        if runs and uid not in self._players:
            self._players[uid] = asyncio.create_task(self._play(pod))
        elif not runs and uid in self._players:
            self._players.pop(uid).cancel()

    async def _play(self, pod: Json) -> None:
        labels = pod["metadata"]["labels"]
        key = auth.job_key(self._key, labels[names.LABEL_JOB_UID])
        incarnation = int(labels[names.LABEL_INCARNATION])
        async with Coordinator(pod["status"]["podIP"], key, incarnation) as coordinator:
            while True:
                if coordinator.directives:
                    await coordinator.tell(_view(incarnation, coordinator.directives[-1]))
                await asyncio.sleep(STEP_SECONDS)


def _view(incarnation: int, directive: JobDirective) -> JobView:
    step = int(time.monotonic() / STEP_SECONDS)
    workers = tuple(
        WorkerView(
            slot=slot,
            incarnation=0,
            pod_uid=uid,
            connected=True,
            position=slot,
            launcher=LauncherState(
                state="training", run=directive.run, position=slot, launch=0, pid=1
            ),
            step=step,
        )
        for uid, slot in directive.pods.items()
    )
    return JobView(
        coordinator_incarnation=incarnation,
        epoch=directive.epoch,
        directive_number=directive.number,
        run=directive.run,
        round=0,
        control="running",
        workers=workers,
        step=step,
        highest_step=step,
        ranks_training=len(workers),
    )


def main() -> None:
    """Entry point of the process."""
    config = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config)
    asyncio.run(Views(config).run())


if __name__ == "__main__":
    main()
