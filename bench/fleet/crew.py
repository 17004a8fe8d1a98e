"""The processes that play the agents of a job, by groups of slots that can fall silent together."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.fleet.agents import Config, Line
from tests.children import ending_with_us


class Group:
    """One process with the agents of some slots."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, reading: asyncio.Task[None]):
        self.name = name
        self._process = process
        self._reading = reading

    def freeze(self) -> None:
        """All its agents fall silent, their connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """They go on as if no time had passed."""
        self._process.send_signal(signal.SIGCONT)

    async def close(self) -> None:
        """End the process."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self._reading.cancel()


class Crew:
    """All groups of one job, and the newest directive of each agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = asyncio.Condition()
        self.groups: dict[str, Group] = {}
        # Pod UID -> newest directive, and time of the newest beat where these are told.
        self.directives: dict[str, Line] = {}
        self.beats: dict[str, float] = {}

    async def start(self, name: str, config: Config) -> None:
        """Start a group."""
        path = self._folder / f"agents-{name}.json"
        path.write_bytes(msgspec.json.encode(config))
        with (self._folder / f"agents-{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *ending_with_us([sys.executable, "-m", "bench.fleet.agents", path]),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        self.groups[name] = Group(name, process, asyncio.create_task(self._read(process)))

    async def until(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until it holds, looking at each line."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(holds)
        except TimeoutError:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}") from None

    def training(self, run: int) -> list[Line]:
        """Agents that are told to train in that run."""
        return [d for d in self.directives.values() if (d.state, d.run) == ("train", run)]

    async def close(self) -> None:
        """End all groups."""
        for group in self.groups.values():
            await group.close()
        self.groups.clear()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        decoder = msgspec.json.Decoder(Line)
        while raw := await process.stdout.readline():
            line = decoder.decode(raw)
            if line.state == "beat":
                self.beats[line.uid] = line.at
            else:
                self.directives[line.uid] = line
            async with self._changed:
                self._changed.notify_all()
