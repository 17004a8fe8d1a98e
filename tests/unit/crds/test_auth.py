"""Proofs of the handshake: what a stranger says is wrong, never an error."""

import pytest

from rtj_api import auth
from rtj_api.capabilities import SEALED_FRAMES
from rtj_api.messages import Hello, encode

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


def test_what_a_server_announced_is_part_of_the_proof() -> None:
    announced = auth.said(HELLO, (SEALED_FRAMES,))
    proof = auth.proof(KEY, "server", announced, NONCE)
    assert auth.proves(KEY, "server", announced, NONCE, proof)
    for told in ((), ("other",), (SEALED_FRAMES, "other")):
        assert not auth.proves(KEY, "server", auth.said(HELLO, told), NONCE, proof)
    moved = f'{NONCE}\n["{SEALED_FRAMES}"]'
    assert not auth.proves(KEY, "server", HELLO, moved, proof)


def test_two_names_are_not_one_with_a_comma() -> None:
    assert auth.said(HELLO, ("a", "b")) != auth.said(HELLO, ("a,b",))


def test_a_client_of_an_earlier_version_is_told_of_no_capabilities() -> None:
    assert auth.announced((SEALED_FRAMES,), ()) == ()
    assert auth.said(HELLO, ()) == HELLO
    assert b"capabilities" not in encode(Hello(role="worker", job_uid="u", nonce="n"))


def channels(key: bytes = KEY) -> tuple[auth.Channel, auth.Channel]:
    return auth.Channel(KEY, "client", HELLO, NONCE), auth.Channel(key, "server", HELLO, NONCE)


def test_sealed_frames_are_opened_in_order_on_both_ways() -> None:
    client, server = channels()
    for number in range(3):
        frame = b"frame %d" % number
        assert server.open(client.seal(frame)) == frame
        assert client.open(server.seal(frame)) == frame


@pytest.mark.parametrize("number", range(5))
def test_what_is_not_the_next_frame_of_the_other_side_is_not_opened(number: int) -> None:
    client, server = channels()
    assert server.open(client.seal(b"first")) == b"first"
    first, second = client.seal(b"second"), client.seal(b"third")
    wrong: bytes | str = (
        second,  # left out, or swapped
        first[:-1] + b"!",  # changed
        bytes([first[0] ^ 1]) + first[1:],
        first.decode(errors="replace"),  # no seal
        b"",
    )[number]
    with pytest.raises(auth.BrokenSeal):
        server.open(wrong)


def test_no_frame_is_opened_twice_nor_by_its_sender_nor_by_another_connection() -> None:
    client, server = channels()
    frame = client.seal(b"frame")
    with pytest.raises(auth.BrokenSeal):
        auth.Channel(KEY, "client", HELLO, NONCE).open(frame)
    with pytest.raises(auth.BrokenSeal):
        auth.Channel(KEY, "server", HELLO, "other").open(frame)
    with pytest.raises(auth.BrokenSeal):
        channels(b"q" * 32)[1].open(frame)
    assert server.open(frame) == b"frame"
    with pytest.raises(auth.BrokenSeal):
        server.open(frame)


def test_frames_are_sealed_only_if_both_sides_say_that_they_can() -> None:
    both = ((SEALED_FRAMES,), ("other", SEALED_FRAMES))
    assert auth.Channel.agreed(KEY, "client", HELLO, NONCE, *both)
    assert not auth.Channel.agreed(KEY, "client", HELLO, NONCE, (SEALED_FRAMES,), ())
