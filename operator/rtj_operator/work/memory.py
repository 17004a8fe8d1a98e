"""What this process remembers of a job beside the caches. Nothing of it is needed to be correct:
a new leader finds all of it out again, at the price of a request or two."""

import time
from dataclasses import dataclass, field
from typing import Final

from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.kube.errors import ApiError
from rtj_operator.policy.observation import Refusal
from rtj_operator.work.queue import JobKey

# A name that belongs to somebody else is tried again after this, and forgotten when nobody has
# wanted it for as long as the second.
CONFLICT_SECONDS: Final = 5.0
CONFLICT_FORGET_SECONDS: Final = 20.0
# Creates after a refusal: at most two a minute.
REFUSED_PAUSE_SECONDS: Final = 30.0
# A throttling server says when to come back; this at least.
THROTTLED_PAUSE_SECONDS: Final = 1.0


@dataclass(slots=True)
class ReadSpec:
    """A generation's spec as it was read: it is validated once, not at every look."""

    generation: int
    spec: ResilientTrainingJobSpec | None
    problem: str


@dataclass(slots=True)
class Children:
    """Services, Secret, NetworkPolicy ("Kind/name") known to be there and ours."""

    present: set[str] = field(default_factory=set[str])
    service_incarnation: int | None = None
    # time.monotonic() of the last look; 0: never.
    looked_at: float = 0.0


@dataclass(slots=True)
class JobMemory:
    """One job (by UID)."""

    uid: str
    read: ReadSpec | None = None
    children: Children = field(default_factory=Children)
    # By kind, and when something of it may be tried again.
    _refusals: dict[str, tuple[Refusal, float]] = field(
        default_factory=dict[str, tuple[Refusal, float]]
    )
    _conflicts: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])

    @property
    def retry_seconds(self) -> float | None:
        """When what was refused or found taken should be tried again; None: nothing was."""
        now = time.monotonic()
        waits = [max(0.0, until - now) for _, until in self._refusals.values()]
        if self.conflicts:
            waits.append(CONFLICT_SECONDS)
        return min(waits, default=None)

    @property
    def refusal(self) -> Refusal | None:
        """The one to tell: of the kind that has been refused for longest."""
        return next((refusal for refusal, _ in self._refusals.values()), None)

    def paused(self, kind: str) -> bool:
        """Whether nothing of that kind is to be created yet, because of a refusal."""
        known = self._refusals.get(kind)
        return known is not None and time.monotonic() < known[1]

    @property
    def conflicts(self) -> dict[str, str]:
        """Names held by somebody else, "Kind/name" -> by whom."""
        oldest = time.monotonic() - CONFLICT_FORGET_SECONDS
        self._conflicts = {k: v for k, v in self._conflicts.items() if v[1] > oldest}
        return {name: owner for name, (owner, _) in self._conflicts.items()}

    def conflict(self, child: str, owner: str) -> None:
        """A child's name belongs to somebody else, as was seen now."""
        self._conflicts[child] = (owner, time.monotonic())

    def resolved(self, child: str) -> None:
        """The name is ours or free."""
        self._conflicts.pop(child, None)

    def waits(self, child: str) -> bool:
        """Whether the name was found taken so lately that it is not tried yet."""
        known = self._conflicts.get(child)
        return known is not None and time.monotonic() - known[1] < CONFLICT_SECONDS

    def refused(self, kind: str, name: str, error: ApiError) -> None:
        """The server refused a child; its words are kept for a condition."""
        pause = REFUSED_PAUSE_SECONDS
        if error.code == 429:
            asked = max(error.retry_after_seconds, THROTTLED_PAUSE_SECONDS)
            pause = min(asked, REFUSED_PAUSE_SECONDS)
        refusal = Refusal(kind=kind, name=name, code=error.code, message=error.message)
        self._refusals[kind] = (refusal, time.monotonic() + pause)

    def accepted(self, kind: str) -> None:
        """The server took a child of that kind: an earlier refusal is over."""
        self._refusals.pop(kind, None)

    def drop_unwanted(self) -> None:
        """Forget refusals of what was not tried again when it might be: nobody wants it any more.
        To be called at the end of a pass."""
        now = time.monotonic()
        self._refusals = {k: v for k, v in self._refusals.items() if v[1] > now}


class Memories:
    """One JobMemory a job, begun anew when the name is taken by another UID."""

    def __init__(self) -> None:
        self._jobs: dict[JobKey, JobMemory] = {}

    def of(self, key: JobKey, uid: str) -> JobMemory:
        """The memory of that very job."""
        memory = self._jobs.get(key)
        if memory is None or memory.uid != uid:
            memory = self._jobs[key] = JobMemory(uid=uid)
        return memory

    def forget(self, key: JobKey) -> None:
        """The job is gone."""
        self._jobs.pop(key, None)
