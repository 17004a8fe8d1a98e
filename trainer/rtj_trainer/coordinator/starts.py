"""Holds the next round back while starts fail in a row. Pure but for chance.

What fails before the first step of a round often fails for what the job shares with others: storage
that is down, a hub that limits requests. Starting again at once would use up the job's recoveries
within a minute, and many jobs at once would keep down what they wait for.
"""

import random
from collections.abc import Callable
from typing import Final

import msgspec

_FIRST_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 160.0
# Each hold is shorter by up to this part, so that jobs that failed together start apart.
_JITTER: Final = 0.25


class Starts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a restarted container must know of this."""

    failures: int = 0
    held_until_unix: float = 0.0


# Run, round and in-process iteration: what starts, once.
Life = tuple[int, int, int]


class StartWatch:
    """Monotonic seconds. The first failure in a row costs no wait."""

    def __init__(
        self, kept: Starts, wall_offset: float, chance: Callable[[], float] = random.random
    ) -> None:
        self._failures = kept.failures
        self._held_until = kept.held_until_unix - wall_offset
        self._wall_offset = wall_offset
        self._chance = chance
        self._failed: Life = (-1, -1, -1)

    @property
    def kept(self) -> Starts:
        """What a restarted container must know."""
        if not self._failures:
            return Starts()
        until = round(self._held_until + self._wall_offset, 3)
        return Starts(failures=self._failures, held_until_unix=until)

    def holds(self, now: float) -> bool:
        """Whether no round may start now."""
        return bool(self._failures) and now < self._held_until

    def fail(self, life: Life, now: float) -> float:
        """A process of that life ended before a step; returns for how long rounds are held now.

        However many ranks fail, a life fails once.
        """
        if life > self._failed:
            self._failed = life
            self._failures += 1
            self._held_until = now + self._pause()
        return round(max(0.0, self._held_until - now), 3)

    def succeed(self) -> None:
        """A step was made."""
        self._failures = 0

    def _pause(self) -> float:
        if self._failures < 2:
            return 0.0
        longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self._failures - 2, 30))
        return longest * (1.0 - _JITTER * self._chance())
