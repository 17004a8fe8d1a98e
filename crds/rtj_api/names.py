"""Names on the wire: API group, labels, child objects, ports, mounted files.

Every name that two programs must agree on stands here and nowhere else.
"""

from typing import Final

GROUP: Final = "resilience.training"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "ResilientTrainingJob"
PLURAL: Final = "resilienttrainingjobs"
SHORT: Final = "rtj"
FIELD_MANAGER: Final = "resilient-training-operator"

# Longest job name whose longest child name is still a host name (63): "-worker-4160-99999".
NAME_MAX_LENGTH: Final = 40

LABEL_JOB: Final = f"{GROUP}/job"
LABEL_JOB_UID: Final = f"{GROUP}/job-uid"
LABEL_ROLE: Final = f"{GROUP}/role"
LABEL_SLOT: Final = f"{GROUP}/slot"
LABEL_INCARNATION: Final = f"{GROUP}/incarnation"
# Nodes that the pod's affinity keeps it off since the job excluded them, joined by commas.
ANNOTATION_EXCLUDED: Final = f"{GROUP}/excluded-nodes"
TAINT_FAULTY: Final = f"{GROUP}/faulty"

ROLE_WORKER: Final = "worker"
ROLE_COORDINATOR: Final = "coordinator"

CONTAINER_TRAINER: Final = "trainer"
CONTAINER_COORDINATOR: Final = "coordinator"
CONTAINER_CONTROL: Final = "control"

# Ports inside the job's pods. The store's is NVRx's default.
PORT_STORE: Final = 29500
PORT_WORKER_SOCKET: Final = 29600
PORT_VIEW_SOCKET: Final = 29601
PORT_METRICS: Final = 29602
PORT_CONTROL_HEALTH: Final = 29603

WORKER_SOCKET_PATH: Final = "/v1/worker"
VIEW_SOCKET_PATH: Final = "/v1/view"

# The job's key, 64 hex digits, in a mounted Secret.
KEY_FILE: Final = "/etc/rtj/key/key"
SECRET_KEY: Final = "key"

# Folder shared by the containers of the coordinator pod, and by agent and ranks in a worker pod.
RUN_DIR: Final = "/run/rtj"
CONTROL_SOCKET: Final = f"{RUN_DIR}/control.sock"
HEALTH_SOCKET: Final = f"{RUN_DIR}/health.sock"

# A rank exits with this code after an agreed "save and leave"; never 0, which means finished.
EXIT_SAVED: Final = 82
# ft_launcher's "do not restart".
EXIT_DO_NOT_RESTART: Final = 93


def worker_pod(job: str, slot: int, incarnation: int) -> str:
    """Name and host name of the pod that holds a slot."""
    return f"{job}-worker-{slot}-{incarnation}"


def coordinator_pod(job: str, incarnation: int) -> str:
    """Name and host name of one incarnation of the job's coordinator."""
    return f"{job}-coordinator-{incarnation}"


def coordinator_service(job: str) -> str:
    """ClusterIP Service whose selector is pinned to one coordinator incarnation."""
    return f"{job}-coordinator"


def workers_service(job: str) -> str:
    """Headless Service that gives workers their stable DNS names."""
    return f"{job}-workers"


def key_secret(job: str, uid: str) -> str:
    """Secret with the job's key. The UID is part of the name: the operator reads no Secret, so it
    could not tell one that a deleted job of the same name has left from its own."""
    return f"{job}-key-{uid[:8]}"


def network_policy(job: str) -> str:
    """NetworkPolicy that closes the job's ports to strangers."""
    return f"{job}-ingress"


def rendezvous_id(job_uid: str, run: int) -> str:
    """NVRx rendezvous id of a run; a launcher with another one must never be started."""
    return f"{job_uid}-{run}"


# Environment that the operator sets in the job's pods (agent, coordinator, control and ranks).
ENV_JOB_NAME: Final = "RTJ_JOB_NAME"
ENV_JOB_UID: Final = "RTJ_JOB_UID"
ENV_SLOT: Final = "RTJ_SLOT"
ENV_INCARNATION: Final = "RTJ_INCARNATION"
ENV_POD_NAME: Final = "RTJ_POD_NAME"
ENV_POD_UID: Final = "RTJ_POD_UID"
ENV_POD_IP: Final = "RTJ_POD_IP"
# Host of coordinator socket and rendezvous store (the pinned Service), in worker pods.
ENV_COORDINATOR_HOST: Final = "RTJ_COORDINATOR_HOST"
ENV_NODES: Final = "RTJ_NODES"
ENV_PROCESSES_PER_NODE: Final = "RTJ_PROCESSES_PER_NODE"
ENV_DEVICE: Final = "RTJ_DEVICE"  # "cuda" or "cpu", from the instance profile
ENV_CHECKPOINT_DIR: Final = "RTJ_CHECKPOINT_DIR"
# Seconds the pod may take to end after SIGTERM (its termination grace).
ENV_GRACE_SECONDS: Final = "RTJ_GRACE_SECONDS"
# The run (attempt of the whole gang) that a launcher serves; the agent sets it for the ranks.
ENV_RUN: Final = "RTJ_RUN"
# Folder of the ranks' shared-memory records, and where it is when the variable is not set.
ENV_SHM_DIR: Final = "RTJ_SHM_DIR"
SHM_DIR: Final = "/dev/shm/rtj"
# "0": ranks do not use NVRx's in-process restart (spec.resilience.inProcess.enabled).
ENV_IN_PROCESS: Final = "RTJ_IN_PROCESS"
# Faults on purpose, STEP:RANK:KIND separated by commas.
ENV_FAULT: Final = "RTJ_FAULT"

# Where the pods' programs find files and ports; set only where several of them share a host.
ENV_KEY_FILE: Final = "RTJ_KEY_FILE"
ENV_RUN_DIR: Final = "RTJ_RUN_DIR"
ENV_TERMINATION_LOG: Final = "RTJ_TERMINATION_LOG"
TERMINATION_LOG: Final = "/dev/termination-log"
ENV_WORKER_PORT: Final = "RTJ_WORKER_PORT"
ENV_VIEW_PORT: Final = "RTJ_VIEW_PORT"
ENV_STORE_PORT: Final = "RTJ_STORE_PORT"
ENV_METRICS_PORT: Final = "RTJ_METRICS_PORT"
# Address on which /metrics, /healthz and the coordinator's sockets listen; empty or not set: all.
ENV_METRICS_HOST: Final = "RTJ_METRICS_HOST"
