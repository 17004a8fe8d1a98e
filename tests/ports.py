"""Ports for the servers that tests start."""

import random
import socket

# Below those that the kernel gives to outgoing connections, which may take one at any moment.
_RANGE = range(10_000, 32_000)
_random = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody holds on any address, and that this process gave to nobody before."""
    while True:
        port = _random.choice(_RANGE)
        if port in _given:
            continue
        try:
            with socket.create_server(("", port)):
                _given.add(port)
                return port
        except OSError:
            continue
