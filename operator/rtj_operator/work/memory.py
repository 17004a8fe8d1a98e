"""What this process remembers of a job beside the caches. Nothing of it is needed to be correct:
a new leader finds all of it out again, at the price of a request or two."""

import time
from dataclasses import dataclass, field
from typing import Final, Literal

from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.kube.errors import ApiError
from rtj_operator.policy.observation import Refusal
from rtj_operator.work.queue import JobKey

type Role = Literal["worker", "coordinator"]

# A name that belongs to somebody else is tried again after this, and forgotten when nobody has
# wanted it for as long as the second.
CONFLICT_SECONDS: Final = 5.0
CONFLICT_FORGET_SECONDS: Final = 20.0
# A pass that found out what was to be known before it is repeated after this.
AGAIN_SECONDS: Final = 0.1
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
    # The incarnation that the coordinator's Service selects; None: not known.
    service_incarnation: int | None = None
    # time.monotonic() of the last look (0: never) and of the next.
    looked_at: float = 0.0
    look_at: float = 0.0
    # What cannot be read or made right: "Kind/name" -> the server's words, and when to try again.
    _problems: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])

    @property
    def problems(self) -> dict[str, str]:
        """What cannot be read or made right: "Kind/name" -> the server's words."""
        return {child: words for child, (words, _) in self._problems.items()}

    @property
    def retry_at(self) -> float | None:
        """time.monotonic() at which a child with a problem should be tried again."""
        return min((until for _, until in self._problems.values()), default=None)

    def clear_problems(self) -> None:
        """Nobody wants the children any more."""
        self._problems.clear()

    def failed(self, child: str, words: str, again_seconds: float) -> None:
        """The child cannot be read or made right now."""
        self._problems[child] = (words, time.monotonic() + again_seconds)

    def mended(self, child: str) -> None:
        """The child is as it should be, or somebody else's."""
        self._problems.pop(child, None)


@dataclass(slots=True)
class JobMemory:
    """One job (by UID)."""

    uid: str
    read: ReadSpec | None = None
    children: Children = field(default_factory=Children)
    # Names of pods that are missing and were asked for: they are gone.
    gone: set[str] = field(default_factory=set[str])
    # Incarnations whose pod name is somebody's who will go: (role, slot) -> the highest one.
    occupied: dict[tuple[Role, int], int] = field(default_factory=dict[tuple[Role, int], int])
    # By kind or child, and when something of it may be tried again.
    _refusals: dict[str, tuple[Refusal, float]] = field(
        default_factory=dict[str, tuple[Refusal, float]]
    )
    _conflicts: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    _again: bool = False

    @property
    def retry_seconds(self) -> float | None:
        """When what was refused or found taken should be tried again; None: nothing was."""
        now = time.monotonic()
        waits = [max(0.0, until - now) for _, until in self._refusals.values()]
        if self._again:
            waits.append(AGAIN_SECONDS)
        if self.conflicts:
            waits.append(CONFLICT_SECONDS)
        return min(waits, default=None)

    @property
    def refusal(self) -> Refusal | None:
        """The one to tell: of the kind that has been refused for longest."""
        return next((refusal for refusal, _ in self._refusals.values()), None)

    def again(self) -> None:
        """This pass found out what the next one should know soon."""
        self._again = True

    def occupy(self, role: Role, slot: int, incarnation: int) -> None:
        """A pod name is held by somebody who will go: the next incarnations are free of it."""
        known = self.occupied.get((role, slot), -1)
        self.occupied[role, slot] = max(known, incarnation)

    def paused(self, what: str) -> bool:
        """Whether nothing of that kind, or not that child, is to be made yet: it was refused."""
        known = self._refusals.get(what)
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

    def refused(self, kind: str, name: str, error: ApiError, *, child: str = "") -> None:
        """The server refused a child; its words are kept for a condition. The whole kind is paused,
        or that `child` alone."""
        pause = REFUSED_PAUSE_SECONDS
        if error.code == 429:
            asked = max(error.retry_after_seconds, THROTTLED_PAUSE_SECONDS)
            pause = min(asked, REFUSED_PAUSE_SECONDS)
        refusal = Refusal(kind=kind, name=name, code=error.code, message=error.message)
        self._refusals[child or kind] = (refusal, time.monotonic() + pause)

    def accepted(self, what: str) -> None:
        """The server took it: an earlier refusal is over."""
        self._refusals.pop(what, None)

    def drop_unwanted(self) -> None:
        """Forget refusals of what was not tried again when it might be: nobody wants it any more.
        To be called at the end of a pass."""
        now = time.monotonic()
        self._refusals = {k: v for k, v in self._refusals.items() if v[1] > now}
        self._again = False


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
