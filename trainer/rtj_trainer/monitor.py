"""Heartbeats to NVRx's rank monitor, which ends a rank that has gone silent."""

import logging
import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

log = logging.getLogger(__name__)

_ENV_SOCKET: Final = "FT_RANK_MONITOR_IPC_SOCKET"
# Timeouts are tens of seconds and a heartbeat is a system call: more often is waste.
_MIN_INTERVAL_SECONDS: Final = 0.25


class RankMonitor:
    """A client of the rank monitor that ft_launcher started beside this rank.

    A monitor that refuses heartbeats is given up with a log line: training goes on unwatched
    rather than end for it. (NVRx 0.7's monitor refuses everything once two processes in a row
    have left it before their first heartbeat.)
    """

    def __init__(self, client: "RankMonitorClient") -> None:
        self._client = client
        self._next = 0.0
        self._refused = False

    @classmethod
    def from_env(cls) -> "RankMonitor | None":
        """The client of this rank's monitor; None when ft_launcher did not start this process."""
        if _ENV_SOCKET not in os.environ:
            return None
        from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

        return cls(RankMonitorClient())

    def enter(self) -> None:
        """Start the initial timeout, anew for a training that was entered again."""
        if self._refused:
            return
        try:
            if self._client.is_initialized:
                self._client.shutdown_workload_monitoring()
            self._client.init_workload_monitoring()
        except Exception as error:  # what NVRx raises here is no public type
            self._give_up(error)
        self._next = 0.0

    def beat(self) -> None:
        """Tell the monitor that this rank makes progress, if it has not just been told."""
        now = time.monotonic()
        if self._refused or now < self._next:
            return
        if not self._client.is_initialized:
            self.enter()
        try:
            self._client.send_heartbeat()
        except Exception as error:
            self._give_up(error)
        self._next = now + _MIN_INTERVAL_SECONDS

    def _give_up(self, error: Exception) -> None:
        self._refused = True
        log.warning("NVRx's rank monitor refuses heartbeats, this rank goes unwatched: %s", error)
