"""Whether nvrx-control of the present run works, from two witnesses. Pure.

The control container tells of its process's end at once; only the store's silence tells of one that
is frozen (launchers then block in a store call and notice nothing).
"""

from typing import Final, Literal

from rtj_trainer.coordinator.control_wire import ControlStatus

# How long the control container may be out of reach, and a running store silent.
_LINK_SECONDS: Final = 3.0
_STORE_SECONDS: Final = 6.0


class ControlState:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._run = -1
        self._status = ControlStatus()
        self._linked = False
        self._link_changed_at = 0.0
        self._heard_at = 0.0
        self._dead = ""

    @property
    def dead(self) -> str:
        """Why the run's nvrx-control is lost for good, "" while it is not."""
        return self._dead

    @property
    def running(self) -> bool:
        """Whether its store is to be used."""
        status = self._status
        return not self._dead and (status.run, status.state) == (self._run, "running")

    @property
    def state(self) -> Literal["starting", "running", "dead"]:
        """For the job view."""
        if self._dead:
            return "dead"
        return "running" if self.running else "starting"

    def begin(self, run: int, now: float) -> None:
        """A new run is wanted."""
        self._run = run
        self._dead = ""
        self._heard_at = now
        self._link_changed_at = now

    def tell(self, status: ControlStatus, now: float) -> None:
        """What the control container said."""
        self._linked = True
        self._link_changed_at = now
        self._status = status
        self._heard_at = now

    def lose_link(self, now: float) -> None:
        """The control container's socket closed."""
        if self._linked:
            self._linked = False
            self._link_changed_at = now

    def hear_store(self, now: float) -> None:
        """The store answered."""
        self._heard_at = max(self._heard_at, now)

    def forgive(self, seconds: float) -> None:
        """Put all silence off: it was this process that did not listen."""
        self._heard_at += seconds
        self._link_changed_at += seconds

    def judge(self, now: float) -> None:
        """Look whether it is lost; it stays so until a new run begins."""
        status = self._status
        if self._dead:
            return
        if status.run == self._run and status.state == "exited":
            self._dead = _end(status)
        elif not self._linked and now - self._link_changed_at > _LINK_SECONDS and self._ran():
            self._dead = f"the control container was out of reach for {_LINK_SECONDS:.0f} s"
        elif self.running and now - self._heard_at > _STORE_SECONDS:
            self._dead = f"the rendezvous store did not answer for {_STORE_SECONDS:.0f} s"

    def end(self, reason: str) -> None:
        """NVRx ended the run by itself, nvrx-control follows."""
        self._dead = self._dead or reason

    def _ran(self) -> bool:
        return self._status.run == self._run


def _end(status: ControlStatus) -> str:
    name = f"nvrx-control of run {status.run}"
    if status.exit_code is None:
        return f"{name} ended with its container, which was restarted"
    if status.exit_code == 0:
        return f"{name} ended with 0: NVRx closed the rendezvous for good"
    return f"{name} ended with {status.exit_code}"
