"""The agent's last words, where the kubelet picks them up."""

import logging
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from rtj_api.messages import TerminationMessage

# The kubelet cuts what is longer, and a cut JSON is none.
_MAX_BYTES: Final = 4096
_SHORT_TEXT: Final = 500
_log = logging.getLogger(__name__)


def leave_word(path: Path, message: TerminationMessage) -> None:
    """Write the termination message; a log that cannot be written is no reason not to end."""
    data = msgspec.json.encode(message)
    if len(data) > _MAX_BYTES:
        data = msgspec.json.encode(replace(message, message=message.message[-_SHORT_TEXT:]))
    try:
        path.write_bytes(data)
    except OSError as error:
        _log.warning("termination message not written to %s: %s", path, error)
