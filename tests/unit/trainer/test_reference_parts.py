"""Parts of the reference trainer that need no process group."""

import pytest
import torch

from rtj_trainer.reference.data import Tokens
from rtj_trainer.reference.model import Llama, rotate, rotation_angles
from rtj_trainer.reference.options import Options, parse

SMALL = Options(dim=32, layers=2, heads=4, kv_heads=2, vocab=64, seq=12, batch=2)


def _tokens(rank: int = 0, seed: int = 0) -> Tokens:
    return Tokens(seed=seed, rank=rank, vocab=64, batch=2, seq=12)


def test_stream_goes_on_exactly_where_its_state_was_taken():
    stream = _tokens()
    stream.take()
    state = stream.state_dict()
    want = [stream.take() for _ in range(3)]

    resumed = _tokens()
    resumed.load_state_dict(state)
    for inputs, targets in want:
        again = resumed.take()
        assert torch.equal(again[0], inputs)
        assert torch.equal(again[1], targets)


def test_ranks_and_seeds_see_different_tokens():
    batches = [_tokens(rank=0), _tokens(rank=1), _tokens(seed=1)]
    first, second, third = (stream.take()[0] for stream in batches)
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)


def test_targets_are_the_tokens_that_follow():
    inputs, targets = _tokens().take()
    assert inputs.shape == targets.shape == (2, 12)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_model_cannot_look_ahead():
    torch.manual_seed(0)
    model = Llama(SMALL)
    tokens = torch.randint(64, (1, 12))
    changed = tokens.clone()
    changed[0, 8] = (changed[0, 8] + 1) % 64
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :8], after[:, :8])
    assert not torch.equal(before[:, 8:], after[:, 8:])


def test_rotation_keeps_lengths_and_depends_on_distance_only():
    angles = rotation_angles(12, 8)
    query, key = torch.randn(8), torch.randn(8)
    queries, keys = (rotate(x.expand(12, 8), angles) for x in (query, key))
    assert torch.allclose(queries.norm(dim=-1), query.norm().expand(12), atol=1e-5)
    assert torch.allclose(queries[5] @ keys[2], queries[9] @ keys[6], atol=1e-4)


def test_one_step_lowers_the_loss_on_the_same_tokens():
    torch.manual_seed(0)
    model, (inputs, targets) = Llama(SMALL), _tokens().take()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses: list[float] = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < losses[0]


def test_checkpoint_folder_comes_from_the_job_unless_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RTJ_CHECKPOINT_DIR", "/checkpoints")
    assert str(parse([]).checkpoint_dir) == "/checkpoints"
    assert str(parse(["--checkpoint-dir", "/elsewhere"]).checkpoint_dir) == "/elsewhere"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["--dim", "30", "--heads", "4"], "--dim 30 must be an even multiple of --heads 4"),
        (["--heads", "8", "--kv-heads", "3"], "--heads 8 must be a multiple of --kv-heads"),
        (["--steps", "0"], "--steps must be at least 1"),
    ],
)
def test_option_that_cannot_work_is_refused_by_name(
    arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        parse(arguments)
    assert want in capsys.readouterr().err
