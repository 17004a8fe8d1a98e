"""NVRx 0.7's barrier rendezvous, read and steered from outside through its store.

NVRx has no liveness between nodes and no way to ask for a new round, so the coordinator does both
on the store's keys. These are NVRx's internals (ft_rendezvous_barrier.py); what writes does so
only by compare-and-set, because a plain write over a closed round wedges the rendezvous for good.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from rtj_trainer.nvrx.limits import LAUNCHES
from rtj_trainer.nvrx.store import StoreClient

OPEN: Final = b"0"
CLOSED: Final = b"1"
# A slot that NVRx reads as empty and that any later joiner may overwrite.
_EMPTY_SLOT: Final = b'{"round": -1, "payload": {}}'
# No address: whoever waits for a dead rank 0 is to fail at once, not after its read timeout.
_NOWHERE: Final = {"MASTER_ADDR": b"127.0.0.1", "MASTER_PORT": b"1"}
_SCAN: Final = 4


@dataclass(frozen=True, slots=True)
class Participant:
    """One launcher's entry in a round."""

    # Number of the store's slot, by order of joining (nothing to do with the job's slots).
    entry: int
    round: int
    infra_rank: int
    addr: str
    # Group rank that the closed round gave it; -1 while open or when it came too late.
    rank: int
    raw: bytes

    @property
    def position(self) -> int:
        """Place in the training that this launcher was started for."""
        return self.infra_rank // LAUNCHES

    @property
    def launch(self) -> int:
        """Which of the position's launchers this is."""
        return self.infra_rank % LAUNCHES


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the store says about a run at one moment."""

    # Highest closed round, -1 before the first.
    closed: int = -1
    # Whether the round after it is open for joining.
    open: bool = False
    # Members of the open round so far or, if none is open, of the closed one.
    participants: tuple[Participant, ...] = ()
    # NVRx's reason of a final end ("failure", "graceful", ...), "" while it goes on.
    shutdown: str = ""
    # Every launcher of the closed round saw all its ranks exit with 0.
    finished: bool = False

    @property
    def newest(self) -> int:
        """The round that `participants` belong to."""
        return self.closed + 1 if self.open else self.closed


class Rendezvous:
    """One run's rendezvous. Every method raises store.StoreError."""

    def __init__(self, store: StoreClient, rendezvous_id: str) -> None:
        self._store = store
        self._id = rendezvous_id
        self._closed = -1
        # (round, joined) of the closed round whose members are known, and these.
        self._known: tuple[int, int] = (-1, 0)
        self._members: tuple[Participant, ...] = ()

    async def exists(self) -> bool:
        """Whether nvrx-control has made this run's keys."""
        return await self._store.get(self._barrier("shutdown")) is not None

    async def read(self) -> Rounds:
        """The newest round and its members."""
        is_open = await self._advance()
        newest = self._closed + 1 if is_open else self._closed
        joined, shutdown, last_member = (
            self._barrier(f"join_count_{newest}"),
            self._barrier("shutdown"),
            self._worker_store(self._closed, "torchelastic/agent/terminal_state/last_member"),
        )
        values = await self._store.get_many([joined, shutdown, last_member])
        return Rounds(
            closed=self._closed,
            open=is_open,
            participants=await self._newest_members(newest, is_open, int(values.get(joined, b"0"))),
            shutdown=values.get(shutdown, b"").decode(errors="replace"),
            finished=last_member in values,
        )

    async def open_next(self, after: int) -> bool:
        """Open the round after the closed round `after`; harmless if it is open or over already.

        Returns whether it is open now.
        """
        done = await self._store.get_many([self._done(after), self._done(after + 1)])
        if done.get(self._done(after)) != CLOSED or self._done(after + 1) in done:
            return done.get(self._done(after + 1)) == OPEN
        return await self._store.compare_set(self._done(after + 1), b"", OPEN) == OPEN

    async def clear(self, participant: Participant) -> bool:
        """Take a dead launcher out of an open round; False if its entry has changed meanwhile."""
        key = self._barrier(f"slot_{participant.entry}")
        return await self._store.compare_set(key, participant.raw, _EMPTY_SLOT) == _EMPTY_SLOT

    async def release_master(self, round_number: int) -> None:
        """Free those who wait for the address of a rank 0 that died before it published one."""
        for name, value in _NOWHERE.items():
            await self._store.compare_set(self._worker_store(round_number, name), b"", value)

    async def take_launch(self, position: int) -> int:
        """A launch number that this position never had in this run, from 0."""
        return await self._store.add(f"rtj:{self._id}:launch_{position}", 1) - 1

    async def _advance(self) -> bool:
        """Move to the highest closed round; returns whether the next one is open."""
        while True:
            ahead = range(self._closed + 1, self._closed + 1 + _SCAN)
            done = await self._store.get_many([self._done(number) for number in ahead])
            for number in ahead:
                state = done.get(self._done(number))
                if state != CLOSED:
                    return state == OPEN
                self._closed = number

    async def _newest_members(
        self, newest: int, is_open: bool, joined: int
    ) -> tuple[Participant, ...]:
        """Members of the newest round; those of a closed one do not change any more."""
        if is_open:
            return await self._participants(newest, joined)
        if self._known != (newest, joined):
            self._members = await self._participants(newest, joined)
            self._known = (newest, joined)
        return self._members

    async def _participants(self, newest: int, joined: int) -> tuple[Participant, ...]:
        slots = [self._barrier(f"slot_{entry}") for entry in range(1, joined + 1)]
        values = await self._store.get_many(slots + [f"{slot}_rank" for slot in slots])
        found = (
            _participant(entry, newest, values.get(slot, b""), values.get(f"{slot}_rank", b""))
            for entry, slot in enumerate(slots, start=1)
        )
        return tuple(participant for participant in found if participant is not None)

    def _barrier(self, name: str) -> str:
        return f"ft_rendezvous_barrier:{self._id}:{name}"

    def _done(self, round_number: int) -> str:
        return self._barrier(f"round_done_{round_number}")

    def _worker_store(self, round_number: int, name: str) -> str:
        return f"torch.rendezvous.{self._id}.{round_number}/{name}"


def _participant(entry: int, newest: int, raw: bytes, raw_rank: bytes) -> Participant | None:
    """The entry if it is of the newest round and whole, else None."""
    payload = _fenced(raw, newest)
    try:
        infra_rank, addr = int(payload["infra_rank"]), str(payload["addr"])
        rank = int(_fenced(raw_rank, newest).get("rank", -1))
    except (KeyError, TypeError, ValueError):
        return None
    return Participant(entry, newest, infra_rank, addr, rank, raw)


def _fenced(raw: bytes, newest: int) -> dict[str, Any]:
    """Payload of a value that carries the round that wrote it, {} if another round did."""
    try:
        value = json.loads(raw)
        return value["payload"] if value["round"] == newest else {}
    except (KeyError, TypeError, ValueError):
        return {}
