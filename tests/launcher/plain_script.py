"""A training script as people have them, which knows nothing of us. Program of test_endings."""

import torch
import torch.distributed as dist


def main() -> None:
    """Four optimizer steps, then exit code 0."""
    dist.init_process_group("gloo")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(4):
        model(torch.ones(2, 4)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
