"""Mutual HMAC challenge of both sockets, and the job's key.

A bearer token sent to a re-used pod address would leak, so neither side ever sends the key:
the client sends its Hello with a nonce, the server answers with a nonce and a proof, the client
with a proof of its own. Both proofs cover the whole Hello and what the server announced, so that
nothing of it can be changed, left out or put in.

From the Welcome on the frames are sealed, if both sides announced that they can. TCP carries them
in order, so each side counts: what is put in, left out, repeated, swapped or sent back to its
sender does not fit, and the connection ends.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from rtj_api import capabilities

NONCE_BYTES: Final = 32
_SEAL_BYTES: Final = 16
_COUNTER_BYTES: Final = 8

type Side = Literal["client", "server"]


class BrokenSeal(Exception):
    """A frame is not the one that the other side sent at this place."""


def job_key(master_key: bytes, job_uid: str) -> bytes:
    """The job's key, derived so that the operator never has to read a Secret."""
    return hmac.digest(master_key, b"rtj-job-key:" + job_uid.encode(), hashlib.sha256)


def new_nonce() -> str:
    """A fresh nonce, hex."""
    return secrets.token_hex(NONCE_BYTES)


def announced(ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    """What a server announces: nothing to a client that does not, whose proofs do not cover it."""
    return tuple(ours) if theirs else ()


def said(hello: bytes, server_capabilities: Sequence[str]) -> bytes:
    """What proofs and seals cover: the Hello's bytes as sent, and what the server announced."""
    if not server_capabilities:
        return hello
    return hello + b"\n" + msgspec.json.encode(server_capabilities)


def proof(key: bytes, side: Side, said: bytes, server_nonce: str) -> str:
    """Proof of one side over what was said, hex."""
    return _derive(key, side, said, server_nonce).hex()


def proves(key: bytes, side: Side, said: bytes, server_nonce: str, given: str) -> bool:
    """Whether `given`, any text at all, is that side's proof, in constant time."""
    wanted = proof(key, side, said, server_nonce)
    # As bytes: texts are compared only if both are ASCII.
    return hmac.compare_digest(wanted.encode(), given.encode(errors="replace"))


class Channel:
    """Seals the frames that one side sends, and opens those of the other, each in order."""

    def __init__(self, key: bytes, side: Side, said: bytes, server_nonce: str) -> None:
        mine, other = ("client", "server") if side == "client" else ("server", "client")
        self._sending = _derive(key, f"seal-{mine}", said, server_nonce)
        self._receiving = _derive(key, f"seal-{other}", said, server_nonce)
        self._sent = 0
        self._received = 0

    @classmethod
    def agreed(
        cls,
        key: bytes,
        side: Side,
        said: bytes,
        server_nonce: str,
        *announcements: Sequence[str],
    ) -> "Channel | None":
        """The channel, if all announced that they seal frames."""
        if all(capabilities.SEALED_FRAMES in each for each in announcements):
            return cls(key, side, said, server_nonce)
        return None

    def seal(self, frame: bytes) -> bytes:
        """The next frame as it is sent."""
        code = _seal(self._sending, self._sent, frame)
        self._sent += 1
        return code + frame

    def open(self, data: bytes | str) -> bytes:
        """The next frame as it was before; raises BrokenSeal, and the connection is of no use."""
        if isinstance(data, str):
            raise BrokenSeal("frame without a seal")
        code, frame = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        if not hmac.compare_digest(code, _seal(self._receiving, self._received, frame)):
            raise BrokenSeal(f"frame {self._received} is not what the other side sent")
        self._received += 1
        return frame


def _seal(key: bytes, number: int, frame: bytes) -> bytes:
    message = number.to_bytes(_COUNTER_BYTES) + frame
    return hmac.digest(key, message, hashlib.sha256)[:_SEAL_BYTES]


def _derive(key: bytes, purpose: str, said: bytes, server_nonce: str) -> bytes:
    nonce = server_nonce.encode(errors="replace")
    message = b"\n".join((purpose.encode(), hashlib.sha256(said).digest(), nonce))
    return hmac.digest(key, message, hashlib.sha256)
