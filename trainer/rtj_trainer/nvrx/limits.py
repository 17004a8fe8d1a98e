"""Numbers on which launchers, nvrx-control and coordinator must agree for NVRx 0.7."""

from typing import Final

# GROUP_RANK of a launcher is position * LAUNCHES + launch: NVRx sorts members by it, so that a
# position keeps its rank whoever holds it, and no two launches of a position are ever taken for one
# another (a repeated GROUP_RANK ends nvrx-control and the job).
LAUNCHES: Final = 10_000
# Surplus over the wanted nodes: NVRx ends the job when more nodes than that were ever unhealthy.
SURPLUS_NODES: Final = 1_000_000
# NVRx's join timeout must never bound the wait for a node: waiting is the operator's.
FOREVER_SECONDS: Final = 31_536_000
