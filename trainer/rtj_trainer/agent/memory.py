"""Whether the kernel's OOM killer struck in this container, as its cgroup counts it."""

from pathlib import Path
from typing import Final

# cgroup v2 and v1 as a container sees its own.
_FILES: Final = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
)


class OomWatch:
    """Remembers the counter of OOM kills, so that a later one shows."""

    def __init__(self, files: tuple[Path, ...] = _FILES) -> None:
        self._files = files
        self._seen = self._count()

    def struck(self) -> bool:
        """Whether there was an OOM kill since the last question."""
        count = self._count()
        struck = count > self._seen
        self._seen = count
        return struck

    def _count(self) -> int:
        for file in self._files:
            try:
                lines = file.read_text().splitlines()
            except OSError:
                continue
            for line in lines:
                name, _, value = line.partition(" ")
                if name == "oom_kill" and value.strip().isdecimal():
                    return int(value)
        return 0
