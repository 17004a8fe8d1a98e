"""A name server that does not answer delays no connection."""

import threading
import time

import pytest

from rtj_trainer.agent.addresses import Addresses
from tests.api.support.api import until


class Server:
    """Answers lookups with what it holds, while it answers."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.asked = 0
        self.answering = threading.Event()
        self.answering.set()

    def look_up(self, host: str) -> tuple[str, ...]:
        self.asked += 1
        assert self.answering.wait(30)
        if not self.answers:
            raise OSError(f"{host}: no such name")
        return self.answers


async def test_known_addresses_are_used_while_a_lookup_hangs_and_only_one_hangs() -> None:
    server = Server("10.0.0.1")
    addresses = Addresses("job-coordinator", server.look_up)
    assert await addresses.newest() == ("10.0.0.1",)
    server.answering.clear()
    started = time.monotonic()
    for _ in range(20):
        assert await addresses.newest() == ("10.0.0.1",)
    assert time.monotonic() - started < 1.0
    assert server.asked == 2
    server.answers = ("10.0.0.2",)
    server.answering.set()

    async def new() -> bool:
        return await addresses.newest() == ("10.0.0.2",)

    await until("the new address", new)


async def test_a_name_that_was_never_known_is_told_and_asked_for_again() -> None:
    server = Server()
    addresses = Addresses("job-coordinator", server.look_up)
    with pytest.raises(OSError, match="no such name"):
        await addresses.newest()
    server.answers = ("10.0.0.1",)
    assert await addresses.newest() == ("10.0.0.1",)
    server.answers = ()
    assert await addresses.newest() == ("10.0.0.1",)


async def test_an_address_needs_no_lookup() -> None:
    server = Server()
    for host in ("10.0.0.7", "fd00::7"):
        assert await Addresses(host, server.look_up).newest() == (host,)
    assert server.asked == 0
