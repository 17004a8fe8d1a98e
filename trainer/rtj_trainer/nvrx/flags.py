"""ft_launcher's command line and environment for one directive. Pure.

The flags are those that ran together with NVRx 0.7: its own restart budget, no-progress counter and
join timeout are out of the way, because budgets and waiting are the operator's.
"""

from typing import Final

from rtj_api import names
from rtj_api.messages import WorkerDirective
from rtj_trainer.agent.addresses import bracketed
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.nvrx.launcher_events import Order
from rtj_trainer.nvrx.limits import FOREVER_SECONDS, LAUNCHES, SURPLUS_NODES

_RENDEZVOUS: Final = (
    f"is_host=0,join_timeout={FOREVER_SECONDS},read_timeout=20,store_connect_wait_seconds=0"
)


def group_rank(position: int, launch: int) -> int:
    """The launcher's GROUP_RANK; raises ValueError when launches of a position are used up."""
    if not 0 <= launch < LAUNCHES:
        raise ValueError(f"launch {launch} of position {position} is not below {LAUNCHES}")
    return position * LAUNCHES + launch


def order(directive: WorkerDirective, config: AgentConfig) -> Order:
    """What our launcher process is to run for a `train` directive."""
    return Order(argv=arguments(directive, config), env=environment(directive))


def environment(directive: WorkerDirective) -> dict[str, str]:
    """Added to the launcher's environment, and so to that of the training processes."""
    return {
        "GROUP_RANK": str(group_rank(directive.position, directive.launch)),
        names.ENV_RUN: str(directive.run),
        names.ENV_IN_PROCESS: "1" if directive.in_process else "0",
    }


def arguments(directive: WorkerDirective, config: AgentConfig) -> tuple[str, ...]:
    """ft_launcher's arguments, the training program last."""
    flags = [
        f"--nnodes={directive.nodes}:{directive.nodes + SURPLUS_NODES}",
        f"--nproc-per-node={directive.processes_per_node}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={bracketed(directive.store_host)}:{config.store_port}",
        f"--rdzv-id={directive.rendezvous_id}",
        f"--rdzv-conf={_RENDEZVOUS}",
        f"--local-addr={config.pod_ip}",
        f"--log-dir={config.run_dir / 'elastic'}",
        "--monitor-interval=0.1",
        "--max-restarts=1000000",
        "--workers-stop-timeout=3",
        "--term-timeout=60",
        "--ft-max-no-progress-cycles=0",
        f"--ft-initial-rank-heartbeat-timeout={directive.initial_rank_timeout_seconds:g}",
        f"--ft-rank-heartbeat-timeout={directive.rank_timeout_seconds:g}",
        "--ft-workload-check-interval=1",
        f"--ft-node-health-check-endpoint=unix://{config.health_socket}",
    ]
    if config.device == "cpu":
        flags.append("--ft-gpu-memory-reclaim-timeout=0")
    return (*flags, *config.command)
