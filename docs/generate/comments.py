"""What is written beside the members of an enum: the meaning that people read in the reference.

Reasons and classes carry their meaning as a comment, where who adds one sees the others.
"""

import inspect
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_MEMBER: Final = re.compile(r'^    [A-Z_]+ = "(?P<value>\w+)"(?:  # (?P<meaning>.+))?$')
_GROUP: Final = re.compile(r"^    # (?P<group>.+)$")


class Undocumented(ValueError):
    """A member without a comment."""


@dataclass(frozen=True, slots=True)
class Word:
    """One member: its value, the comment beside it, and the comment line above its group."""

    value: str
    meaning: str
    group: str


def words(enum: type[StrEnum]) -> tuple[Word, ...]:
    """All members in order; raises Undocumented, which names one without a comment."""
    found: list[Word] = []
    group = ""
    for line in inspect.getsource(enum).splitlines():
        if heading := _GROUP.match(line):
            group = heading["group"]
        elif member := _MEMBER.match(line):
            if not member["meaning"]:
                raise Undocumented(f"{enum.__name__}.{member['value']}: say beside it when it is")
            found.append(Word(member["value"], member["meaning"], group))
    if [word.value for word in found] != [str(member) for member in enum]:
        raise Undocumented(f"{enum.__name__}: not one member a line")
    return tuple(found)
