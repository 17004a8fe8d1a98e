"""The containers of the coordinator pods that run: the real coordinator and the real control."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.fleet.watch import pod_runs
from rtj_api import auth, names
from tests.api.support.api import Json
from tests.children import ending_with_us
from tests.ports import free_port

STOP_SECONDS: Final = 15


@dataclass(slots=True)
class CoordinatorPod:
    """One coordinator pod's processes."""

    folder: Path
    address: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    @property
    def control_pid(self) -> int:
        """Process id of nvrx-control: a child of the prepared process, which is control's only
        child."""
        (prepared,) = _children(self.processes[1].pid)
        (control,) = _children(prepared)
        return control

    def start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        """Start one container's program."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    ending_with_us(command), env=environment, stdout=log, stderr=subprocess.STDOUT
                )
            )

    def kill(self) -> None:
        """End all at once, as the pod's deletion does."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(STOP_SECONDS)


class Coordinators:
    """Starts the containers of each coordinator pod when it runs and ends them when it is gone."""

    def __init__(self, folder: Path, master_key: bytes) -> None:
        self._folder = folder
        self._master_key = master_key
        self._pods: dict[str, CoordinatorPod] = {}

    def heard(self, kind: str, pod: Json) -> None:
        """What the watch says of a pod of the job."""
        if pod["metadata"]["labels"][names.LABEL_ROLE] != names.ROLE_COORDINATOR:
            return
        uid: str = pod["metadata"]["uid"]
        runs = kind != "DELETED" and pod_runs(pod)
        if runs and uid not in self._pods:
            self._pods[uid] = self._start(pod)
        elif not runs and uid in self._pods:
            self._pods.pop(uid).kill()

    @property
    def newest(self) -> CoordinatorPod:
        """The one that was started last."""
        return list(self._pods.values())[-1]

    def close(self) -> None:
        """End all."""
        for pod in self._pods.values():
            pod.kill()
        self._pods.clear()

    def _start(self, pod: Json) -> CoordinatorPod:
        meta = pod["metadata"]
        # The path of the socket in it may have 107 bytes.
        folder = self._folder / meta["labels"][names.LABEL_INCARNATION]
        folder.mkdir()
        job_uid = meta["labels"][names.LABEL_JOB_UID]
        key = folder / "key"
        key.write_text(auth.job_key(self._master_key, job_uid).hex())
        address = pod["status"]["podIP"]
        environment = {
            **{k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "VIRTUAL_ENV")},
            names.ENV_JOB_NAME: meta["labels"][names.LABEL_JOB],
            names.ENV_JOB_UID: job_uid,
            names.ENV_INCARNATION: meta["labels"][names.LABEL_INCARNATION],
            names.ENV_KEY_FILE: str(key),
            names.ENV_COORDINATOR_HOST: address,
            names.ENV_POD_IP: address,
            names.ENV_POD_NAME: meta["name"],
            names.ENV_POD_UID: meta["uid"],
            names.ENV_RUN_DIR: str(folder),
            names.ENV_STORE_PORT: str(free_port()),
            names.ENV_METRICS_HOST: address,
        }
        started = CoordinatorPod(folder, address)
        run = [sys.executable, "-m"]
        started.start("coordinator", [*run, "bench.fleet.pod_coordinator"], environment)
        started.start("control", [*run, "rtj_trainer.coordinator.control"], environment)
        return started


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
