"""What one side may understand beyond the protocol's version, by name.

Each side announces its own in the handshake, where both proofs cover them (see `rtj_api.auth`); a
feature is used only with a neighbour that announced it.
"""

from typing import Final

# Frames from the Welcome on carry a code, so that none can be changed, repeated or put in.
SEALED_FRAMES: Final = "sealed-frames"
# Coordinator: obeys JobDirective.active. Agent: keeps a second link to a standby coordinator.
STANDBY: Final = "standby-coordinator"

# What operator, coordinator and agent of this version announce.
OPERATOR: Final = (SEALED_FRAMES,)
COORDINATOR: Final = (SEALED_FRAMES, STANDBY)
AGENT: Final = (SEALED_FRAMES, STANDBY)
