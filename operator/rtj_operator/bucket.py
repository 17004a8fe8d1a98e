"""A token bucket: some at once, then one after the other."""

import time
from typing import Final


class Bucket:
    """Holds `burst` tokens and gets one more every `refill_seconds`, up to `burst`."""

    def __init__(self, burst: int, refill_seconds: float) -> None:
        self._burst: Final = burst
        self._refill_seconds: Final = refill_seconds
        self._tokens = float(burst)
        self._at = time.monotonic()

    def take(self) -> bool:
        """Take a token, if there is one."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def wait_seconds(self) -> float:
        """Take a token, or the next one in advance; seconds until it is there. Who asks again
        before that waits for the same one."""
        self._refill()
        if self._tokens >= 0:
            self._tokens -= 1
        return max(0.0, -self._tokens * self._refill_seconds)

    def _refill(self) -> None:
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) / self._refill_seconds)
        self._at = now
