"""Volumes of workers and coordinator, and where the trainer container sees them."""

from pathlib import PurePosixPath
from typing import Final

from rtj_api import names
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.render.objects import JobRef, Manifest
from rtj_operator.render.profiles import Profile

# All begin with rules.VOLUME_PREFIX, which a template may not use.
SHM: Final = "rtj-shm"
RUN: Final = "rtj-run"
KEY: Final = "rtj-key"
CHECKPOINTS: Final = "rtj-checkpoints"

SHM_PATH: Final = "/dev/shm"
RUN_MOUNT: Final[Manifest] = {"name": RUN, "mountPath": names.RUN_DIR}
KEY_MOUNT: Final[Manifest] = {
    "name": KEY,
    "mountPath": str(PurePosixPath(names.KEY_FILE).parent),
    "readOnly": True,
}


def worker_volumes(
    job: JobRef, spec: ResilientTrainingJobSpec, profile: Profile, mounts: list[Manifest]
) -> list[Manifest]:
    """Those of ours that the trainer container mounts."""
    available = [
        {
            "name": SHM,
            "emptyDir": {"medium": "Memory", "sizeLimit": profile.instance.shm},
        },
        *shared_volumes(job),
    ]
    if spec.storage.checkpoints is not None:
        claim = {"claimName": spec.storage.checkpoints.claim_name}
        available.append({"name": CHECKPOINTS, "persistentVolumeClaim": claim})
    used = {mount["name"] for mount in mounts}
    return [volume for volume in available if volume["name"] in used]


def shared_volumes(job: JobRef) -> list[Manifest]:
    """Those of every pod of the job."""
    return [
        {"name": RUN, "emptyDir": {}},
        # Readable by any user of the container, since the template chooses who that is; the pod's
        # only other user is the script that the key is there to protect.
        {"name": KEY, "secret": {"secretName": names.key_secret(job.name, job.uid)}},
    ]


def worker_mounts(spec: ResilientTrainingJobSpec, user: list[Manifest]) -> list[Manifest]:
    """The user's mounts, and ours at the paths that they leave free."""
    ours: list[Manifest] = [{"name": SHM, "mountPath": SHM_PATH}, RUN_MOUNT, KEY_MOUNT]
    checkpoints = spec.storage.checkpoints
    if checkpoints is not None:
        ours.append({"name": CHECKPOINTS, "mountPath": checkpoints.mount_path})
    taken = {_path(mount) for mount in user}
    return [*user, *(mount for mount in ours if _path(mount) not in taken)]


def _path(mount: Manifest) -> PurePosixPath:
    return PurePosixPath(str(mount.get("mountPath", "")))
