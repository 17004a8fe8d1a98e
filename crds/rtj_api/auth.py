"""Mutual HMAC challenge of both sockets, and the job's key.

A bearer token sent to a re-used pod address would leak, so neither side ever sends the key:
the client sends its Hello with a nonce, the server answers with a nonce and a proof, the client
with a proof of its own. Both proofs cover the whole Hello, so that nothing in it can be changed.
"""

import hashlib
import hmac
import secrets

NONCE_BYTES = 32


def job_key(master_key: bytes, job_uid: str) -> bytes:
    """The job's key, derived so that the operator never has to read a Secret."""
    return hmac.digest(master_key, b"rtj-job-key:" + job_uid.encode(), hashlib.sha256)


def new_nonce() -> str:
    """A fresh nonce, hex."""
    return secrets.token_hex(NONCE_BYTES)


def proof(key: bytes, side: str, hello: bytes, server_nonce: str) -> str:
    """Proof of one side ("server" or "client") over the Hello's bytes as sent, hex."""
    nonce = server_nonce.encode(errors="replace")
    message = b"\n".join((side.encode(), hashlib.sha256(hello).digest(), nonce))
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def proves(key: bytes, side: str, hello: bytes, server_nonce: str, given: str) -> bool:
    """Whether `given`, any text at all, is that side's proof, in constant time."""
    wanted = proof(key, side, hello, server_nonce)
    # As bytes: texts are compared only if both are ASCII.
    return hmac.compare_digest(wanted.encode(), given.encode(errors="replace"))
