"""Options of the reference trainer."""

import argparse
import os
from dataclasses import dataclass, field, fields
from pathlib import Path

from rtj_api import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to train, for how long, and where to save."""

    steps: int = field(default=100, metadata={"help": "steps in all"})
    step_seconds: float = field(
        default=0.0, metadata={"help": "least seconds a step takes: a pace for small models"}
    )
    save_every: int = field(default=10, metadata={"help": "steps between checkpoints, 0: none"})
    log_every: int = field(
        default=1, metadata={"help": "steps between loss lines and votes on leaving"}
    )
    seed: int = field(default=0, metadata={"help": "of weights and tokens"})
    learning_rate: float = field(default=3e-3, metadata={"help": "of AdamW"})
    dim: int = field(default=128, metadata={"help": "width of the model"})
    layers: int = field(default=4, metadata={"help": "decoder blocks"})
    heads: int = field(default=8, metadata={"help": "attention heads"})
    kv_heads: int = field(default=4, metadata={"help": "key and value heads, a divisor of heads"})
    vocab: int = field(default=2048, metadata={"help": "different tokens"})
    seq: int = field(default=64, metadata={"help": "tokens in a sequence"})
    batch: int = field(default=4, metadata={"help": "sequences in a step of one rank"})
    checkpoint_dir: Path | None = field(
        default=None, metadata={"help": f"default: ${names.ENV_CHECKPOINT_DIR}; none: no saves"}
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, by name."""
        if self.dim % self.heads or (self.dim // self.heads) % 2:
            raise ValueError(f"--dim {self.dim} must be an even multiple of --heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"--heads {self.heads} must be a multiple of --kv-heads")
        for name in ("steps", "log_every", "layers", "vocab", "seq", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1")


def parse(arguments: list[str] | None = None) -> Options:
    """From the command line; ends the program with a message on a bad option."""
    parser = argparse.ArgumentParser(
        prog="python -m rtj_trainer.reference",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for option in fields(Options):
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            type=Path if option.name == "checkpoint_dir" else type(option.default),
            default=option.default,
            help=option.metadata["help"],
        )
    given = vars(parser.parse_args(arguments))
    if given["checkpoint_dir"] is None and (folder := os.environ.get(names.ENV_CHECKPOINT_DIR)):
        given["checkpoint_dir"] = Path(folder)
    try:
        return Options(**given)
    except ValueError as error:
        parser.error(str(error))
