"""Made-up tokens that a model can learn, the same for a given seed, position and rank."""

from typing import Any

import torch

_NOISE = 0.1
_MIX = 1_000_003


class Tokens:
    """An endless stream of batches; its state is the number of batches taken.

    Each token is followed by its image under a fixed permutation, but for some noise.
    """

    def __init__(self, *, seed: int, rank: int, vocab: int, batch: int, seq: int) -> None:
        self._seed, self._rank = seed, rank
        self._vocab, self._batch, self._seq = vocab, batch, seq
        self._next = torch.randperm(vocab, generator=torch.Generator().manual_seed(seed))
        self._position = 0

    def take(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The next batch: tokens, and for each the one that follows."""
        tokens = self._sequence(self._position)
        self._position += 1
        return tokens[:, :-1], tokens[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {"position": self._position}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._position = state_dict["position"]

    def _sequence(self, position: int) -> torch.Tensor:
        seed = ((self._seed * _MIX + position) * _MIX + self._rank) % 2**63
        generator = torch.Generator().manual_seed(seed)
        shape = (self._batch, self._seq + 1)
        tokens = torch.randint(self._vocab, shape, generator=generator)
        follows = torch.rand(shape, generator=generator) >= _NOISE
        for place in range(1, self._seq + 1):
            image = self._next[tokens[:, place - 1]]
            tokens[:, place] = torch.where(follows[:, place], image, tokens[:, place])
        return tokens
