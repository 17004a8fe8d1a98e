"""Proofs of the handshake: what a stranger says is wrong, never an error."""

import pytest

from rtj_api import auth

KEY, HELLO, NONCE = b"k" * 32, b'{"t":"hello"}', "n"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="nothing"),
        pytest.param("00" * 32, id="another one"),
        pytest.param("é" * 64, id="beyond ASCII"),
        pytest.param("\ud800", id="half a character"),
    ],
)
def test_what_is_no_proof_proves_nothing(given: str) -> None:
    assert not auth.proves(KEY, "client", HELLO, NONCE, given)


def test_proof_holds_for_its_side_hello_and_nonce_alone() -> None:
    proof = auth.proof(KEY, "client", HELLO, NONCE)
    assert auth.proves(KEY, "client", HELLO, NONCE, proof)
    assert not auth.proves(KEY, "server", HELLO, NONCE, proof)
    assert not auth.proves(KEY, "client", HELLO + b" ", NONCE, proof)
    assert not auth.proves(KEY, "client", HELLO, "m", proof)
    assert not auth.proves(b"q" * 32, "client", HELLO, NONCE, proof)
