"""ft_launcher's command line for a directive."""

from pathlib import Path

import pytest

from rtj_api.messages import WorkerDirective
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.nvrx import flags

_DIRECTIVE = WorkerDirective(
    state="train",
    run=4,
    position=1,
    launch=7,
    nodes=2,
    processes_per_node=8,
    rendezvous_id="uid-4",
    store_host="llama-coordinator",
    rank_timeout_seconds=600,
    initial_rank_timeout_seconds=1800.5,
)


def _config(device: str) -> AgentConfig:
    return AgentConfig(
        job_name="llama",
        job_uid="uid",
        slot=3,
        incarnation=0,
        pod_name="llama-worker-3-0",
        pod_uid="pod",
        pod_ip="10.0.0.7",
        coordinator_host="llama-coordinator",
        processes_per_node=8,
        device=device,
        grace_seconds=30,
        key=b"",
        command=("-m", "pkg.train"),
        run_dir=Path("/run/rtj"),
        shm_dir=Path("/dev/shm/rtj"),
        termination_log=Path("/dev/termination-log"),
    )


def test_flags_follow_the_directive():
    arguments = flags.arguments(_DIRECTIVE, _config("cuda"))
    for flag in (
        "--nnodes=2:1000002",
        "--nproc-per-node=8",
        "--rdzv-endpoint=llama-coordinator:29500",
        "--rdzv-id=uid-4",
        "--local-addr=10.0.0.7",
        "--ft-rank-heartbeat-timeout=600",
        "--ft-initial-rank-heartbeat-timeout=1800.5",
        "--ft-node-health-check-endpoint=unix:///run/rtj/health.sock",
    ):
        assert flag in arguments
    assert arguments[-2:] == ("-m", "pkg.train")


def test_only_a_cpu_skips_the_wait_for_gpu_memory():
    skip = "--ft-gpu-memory-reclaim-timeout=0"
    assert skip in flags.arguments(_DIRECTIVE, _config("cpu"))
    assert skip not in flags.arguments(_DIRECTIVE, _config("cuda"))


def test_environment_carries_rank_run_and_mode():
    assert flags.environment(_DIRECTIVE) == {
        "GROUP_RANK": "10007",
        "RTJ_RUN": "4",
        "RTJ_IN_PROCESS": "1",
    }


def test_launches_of_neighbouring_positions_never_meet():
    assert flags.group_rank(0, 9_999) < flags.group_rank(1, 0)
    with pytest.raises(ValueError, match="launch 10000 of position 0"):
        flags.group_rank(0, 10_000)
