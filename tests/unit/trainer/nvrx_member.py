"""Members of an NVRx rendezvous for tests: NVRx's own joining code without a launcher around it.

Reads lines `join GROUP_RANK ADDRESS` and forks one process per line; each writes
`joined GROUP_RANK RANK ROUND` once NVRx gave it a rank, and then waits to be killed.
"""

import os
import sys
from datetime import timedelta

from nvidia_resiliency_ext.fault_tolerance.ft_rendezvous_barrier import (
    _NodeDescGenerator,
    _RendezvousBarrierState,
)
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from rtj_trainer import prctl
from rtj_trainer.nvrx import patches


def join(port: int, rendezvous_id: str, nodes: int, address: str) -> None:
    """Join the open round, stay in it, follow into the rounds after it."""
    store = TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=20))
    state = _RendezvousBarrierState(store=store, run_id=rendezvous_id, join_timeout_seconds=3600)
    node = _NodeDescGenerator().generate(address)
    while True:
        rank, _ = state.perform_rendezvous(node, nodes, nodes + 1000)
        print(f"joined {os.environ['GROUP_RANK']} {rank} {state._round}", flush=True)


def main() -> None:
    """Serve lines until standard input ends; children die with this process."""
    port, rendezvous_id, nodes = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    patches.shorten_join_poll()
    for line in sys.stdin:
        _, group_rank, address = line.split()
        pid = os.fork()
        if pid == 0:
            prctl.die_with_parent()
            os.environ["GROUP_RANK"] = group_rank
            join(port, rendezvous_id, nodes, address)
        print(f"forked {group_rank} {pid}", flush=True)


if __name__ == "__main__":
    main()
