"""The ladder's table as docs/reference.md and the diagram of docs/concepts.md show it."""

from collections.abc import Iterable
from enum import StrEnum

from docs.generate.markdown import table
from rtj_api.ladder import Rung
from rtj_operator.policy.incident.transitions import (
    TRANSITIONS,
    Blame,
    Cost,
    Outcome,
    Replace,
    Suspect,
    Transition,
)


def rows() -> str:
    """Every row of the table, in the order in which they are tried."""
    head = (
        "class",
        "rung so far",
        "outcome",
        "suspect",
        "next rung",
        "replaces",
        "blames",
        "budget",
    )
    return table(head, (_row(row) for row in TRANSITIONS))


def words_of_table() -> str:
    """What the words of the table mean."""
    meanings = {
        Outcome.NEW: "the fault opens an incident",
        Outcome.AGAIN: "a fault came before any new step",
        Outcome.OVERDUE: "the rung's deadline passed without a new step",
        Outcome.SPENT: "the rung has no recovery left in its window",
        Suspect.NOBODY: "no single worker",
        Suspect.WORKER: "one worker, but not its node, or there is no other node",
        Suspect.NODE: "the node of one worker",
        Replace.RUN: "every launcher starts anew; pods stay",
        Blame.STRIKE: "one more of `spec.resilience.node.strikes`",
        Blame.EXCLUDE: "the job keeps off the node",
        Cost.DISPLACED: "`spec.resilience.displaced`, then the rung's own",
    }
    return table(("word", "means"), ((word.value, text) for word, text in meanings.items()))


def diagram() -> str:
    """A state diagram of how an incident climbs, in Mermaid."""
    lines: dict[str, list[str]] = {}
    for row in TRANSITIONS:
        for begin in _begins(row):
            arrow = f"    {begin} --> {row.next.value}"
            lines.setdefault(arrow, []).append(_label(row))
    body = "\n".join(f"{arrow}: {'; '.join(dict.fromkeys(why))}" for arrow, why in lines.items())
    return f"```mermaid\nstateDiagram-v2\n{body}\n```"


def _begins(row: Transition) -> Iterable[str]:
    return ("[*]",) if Outcome.NEW in row.outcomes else (row.rung.value if row.rung else "",)


def _label(row: Transition) -> str:
    if Outcome.NEW in row.outcomes:
        return row.fault_class.value if row.fault_class else "any"
    outcomes = _all_or(row.outcomes, Outcome, but=(Outcome.NEW,))
    suspects = _all_or(row.suspects, Suspect)
    return f"{outcomes} ({suspects})" if suspects != "any" else outcomes


def _row(row: Transition) -> tuple[str, ...]:
    return (
        f"`{row.fault_class.value}`" if row.fault_class else "any",
        row.rung.value if row.rung else "-",
        _all_or(row.outcomes, Outcome, but=(Outcome.NEW,)),
        _all_or(row.suspects, Suspect),
        row.next.value,
        row.replace.value,
        row.blame.value,
        row.cost.value if row.next is not Rung.FAILED else "-",
    )


def _all_or[E: StrEnum](some: frozenset[E], kind: type[E], but: tuple[E, ...] = ()) -> str:
    """The words in their order; "any" for all that can be."""
    if some >= {word for word in kind if word not in but}:
        return "any"
    return ", ".join(word.value for word in kind if word in some)
