"""The Events of a pass: of many of one kind the first, which says how many follow."""

from collections import Counter
from dataclasses import replace
from typing import Final

from rtj_operator.policy.decision import EmitEvent

# Events of one kind that are told singly in one pass.
ALIKE_MAX: Final = 3


def fold_alike(events: tuple[EmitEvent, ...]) -> tuple[EmitEvent, ...]:
    """The Events to emit, in order."""
    kinds = Counter((event.type, event.reason) for event in events)
    kept: list[EmitEvent] = []
    told: set[tuple[str, str]] = set()
    for event in events:
        kind = event.type, event.reason
        if kinds[kind] <= ALIKE_MAX:
            kept.append(event)
        elif kind not in told:
            told.add(kind)
            text = f"{kinds[kind]} at once; the first: {event.message}"
            kept.append(replace(event, message=text[:1024]))
    return tuple(kept)
