"""Heartbeats to NVRx's rank monitor, which ends a rank that has gone silent."""

import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

_ENV_SOCKET: Final = "FT_RANK_MONITOR_IPC_SOCKET"
# Timeouts are tens of seconds and a heartbeat is a system call: more often is waste.
_MIN_INTERVAL_SECONDS: Final = 0.25


class RankMonitor:
    """A client of the rank monitor that ft_launcher started beside this rank."""

    def __init__(self, client: "RankMonitorClient") -> None:
        self._client = client
        self._client.init_workload_monitoring()
        self._next = 0.0

    @classmethod
    def from_env(cls) -> "RankMonitor | None":
        """The client of this rank's monitor; None when ft_launcher did not start this process."""
        if _ENV_SOCKET not in os.environ:
            return None
        from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

        return cls(RankMonitorClient())

    def beat(self) -> None:
        """Tell the monitor that this rank lives, if it has not just been told."""
        now = time.monotonic()
        if now >= self._next:
            self._client.send_heartbeat()
            self._next = now + _MIN_INTERVAL_SECONDS

    def restart(self) -> None:
        """Start the initial timeout anew, for a training that was entered again."""
        if self._client.is_initialized:
            self._client.shutdown_workload_monitoring()
        self._client.init_workload_monitoring()
        self._next = 0.0
