"""Torch's TCPStore spoken without torch, so that the coordinator need not import it.

The wire format is torch's internal one (TCPStoreBackend.hpp, torch 2.13): a byte for the query,
lengths as little-endian 64 bit. tests/unit/trainer/test_coordinator_store.py holds it against the
real server. Keys are never deleted here, so that a key found present can be read afterwards.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Final, Self

MAGIC: Final = 0x3C85F7CE
# No value of a rendezvous comes near it; a longer one means that the stream is out of step.
MAX_VALUE_BYTES: Final = 1024 * 1024
_PREFIX: Final = "/"
_PING: Final = 0x52544A
_READY: Final = 0


class StoreError(Exception):
    """The store cannot be reached, answered nonsense or not in time; the client is closed."""


class _Query(IntEnum):
    VALIDATE = 0
    COMPARE_SET = 2
    GET = 3
    ADD = 4
    CHECK = 5
    PING = 13


class StoreClient:
    """One connection to a TCPStore. Requests are answered in order; callers may overlap."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_seconds: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout_seconds = timeout_seconds
        self._turn = asyncio.Lock()
        self._closed = False

    @classmethod
    async def connect(cls, host: str, port: int, timeout_seconds: float = 2.0) -> Self:
        """Connect and check that a TCPStore answers; raises StoreError."""
        try:
            async with asyncio.timeout(timeout_seconds):
                reader, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError) as error:
            raise StoreError(f"store {host}:{port} cannot be reached: {error!r}") from error
        client = cls(reader, writer, timeout_seconds)
        await client._ask(_validation(), client._read_pong)
        return client

    @property
    def closed(self) -> bool:
        """Whether the client can no longer be used."""
        return self._closed

    def close(self) -> None:
        """Close the connection at once."""
        self._closed = True
        self._writer.transport.abort()

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Values of those keys that exist, in two round trips; raises StoreError."""
        checks = b"".join(_query(_Query.CHECK, _count(1), _key(key)) for key in keys)
        ready = await self._ask(checks, lambda: self._read_each(len(keys), self._read_ready))
        present = [key for key, is_there in zip(keys, ready, strict=True) if is_there]
        gets = b"".join(_query(_Query.GET, _key(key)) for key in present)
        values = await self._ask(gets, lambda: self._read_each(len(present), self._read_value))
        return dict(zip(present, values, strict=True))

    async def get(self, key: str) -> bytes | None:
        """The value of a key, None when there is none; raises StoreError."""
        return (await self.get_many([key])).get(key)

    async def compare_set(self, key: str, expected: bytes, wanted: bytes) -> bytes:
        """Set `wanted` if the value is `expected` (b"": no such key); returns the value then held.

        Raises StoreError.
        """
        query = _query(_Query.COMPARE_SET, _key(key), _text(expected), _text(wanted))
        return await self._ask(query, self._read_value)

    async def add(self, key: str, amount: int) -> int:
        """Add to a counter that starts at 0; returns the sum. Raises StoreError."""
        query = _query(_Query.ADD, _key(key), struct.pack("<q", amount))
        return await self._ask(query, self._read_sum)

    async def _ask[T](self, query: bytes, read: Callable[[], Awaitable[T]]) -> T:
        async with self._turn:
            if self._closed:
                raise StoreError("store connection is closed")
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    self._writer.write(query)
                    return await read()
            except (OSError, EOFError, TimeoutError) as error:
                self.close()
                raise StoreError(f"store did not answer: {error!r}") from error
            except BaseException:
                # The answer is still on its way: nobody else may read it as his own.
                self.close()
                raise

    async def _read_each[T](self, count: int, read: Callable[[], Awaitable[T]]) -> list[T]:
        return [await read() for _ in range(count)]

    async def _read_pong(self) -> None:
        (nonce,) = struct.unpack("<I", await self._reader.readexactly(4))
        if nonce != _PING:
            raise StoreError("what listens there is not a TCPStore of a known version")

    async def _read_ready(self) -> bool:
        return (await self._reader.readexactly(1))[0] == _READY

    async def _read_sum(self) -> int:
        (value,) = struct.unpack("<q", await self._reader.readexactly(8))
        return value

    async def _read_value(self) -> bytes:
        (length,) = struct.unpack("<Q", await self._reader.readexactly(8))
        if length > MAX_VALUE_BYTES:
            raise StoreError(f"store announced a value of {length} bytes")
        return await self._reader.readexactly(length)


def _validation() -> bytes:
    magic = _query(_Query.VALIDATE, struct.pack("<I", MAGIC))
    return magic + _query(_Query.PING, struct.pack("<I", _PING))


def _query(kind: _Query, *parts: bytes) -> bytes:
    return bytes((kind,)) + b"".join(parts)


def _count(number: int) -> bytes:
    return struct.pack("<Q", number)


def _text(data: bytes) -> bytes:
    return _count(len(data)) + data


def _key(key: str) -> bytes:
    return _text((_PREFIX + key).encode())
