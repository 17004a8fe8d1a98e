"""A range of loopback addresses for the pods of one fleet, which no other fleet uses meanwhile."""

import random
import socket
from typing import Final

# Of 127.64.0.0/10: one second octet a fleet, 65,534 pods.
_OCTETS: Final = range(64, 128)
_PORT: Final = 29_599


class PodRange:
    """Held by a bound socket, so that the kernel gives it back however this process ends."""

    def __init__(self) -> None:
        octets = list(_OCTETS)
        random.shuffle(octets)
        for octet in octets:
            holder = socket.socket()
            try:
                holder.bind((f"127.{octet}.255.254", _PORT))
            except OSError:
                holder.close()
                continue
            self._holder = holder
            self.cidr = f"127.{octet}.0.0/16"
            return
        raise RuntimeError("all address ranges of 127.64.0.0/10 are taken by other fleets")

    def close(self) -> None:
        """Give the range back."""
        self._holder.close()
