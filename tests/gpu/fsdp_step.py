"""Training steps of a small model by PyTorch's FSDP, timed. ``torchrun --nproc-per-node=N fsdp_step.py RESULT.json``.

It stands by itself: it is run by the Python that has PyTorch, which has nothing of this project. Without a GPU it runs
on the CPU with gloo, which says nothing about NVLink and shows that the script runs.
"""

import functools
import json
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

WARM_UP, STEPS = 5, 20
WIDTH, LAYERS, BATCH = (4096, 16, 8) if torch.cuda.is_available() else (64, 2, 8)


def main() -> None:
    """One process for each GPU; the first writes the result."""
    backend, device = _begin()
    rank = torch.distributed.get_rank()
    layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    wrap = functools.partial(size_based_auto_wrap_policy, min_num_params=WIDTH * WIDTH)
    model = FullyShardedDataParallel(torch.nn.Sequential(*layers).to(device), auto_wrap_policy=wrap, device_id=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    times = [_step(model, optimizer, device) for _ in range(WARM_UP + STEPS)][WARM_UP:]
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(_result(backend, times)), encoding="utf-8")
    torch.distributed.destroy_process_group()


def _begin() -> tuple[str, torch.device]:
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(backend)
    if backend == "gloo":
        return backend, torch.device("cpu")
    torch.cuda.set_device(torch.distributed.get_rank() % torch.cuda.device_count())
    return backend, torch.device("cuda", torch.cuda.current_device())


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> float:
    """Seconds of one step on this GPU."""
    batch = torch.randn(BATCH, WIDTH, device=device)
    _wait(device)
    begin = time.perf_counter()
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    _wait(device)
    return time.perf_counter() - begin


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _result(backend: str, times: list[float]) -> dict[str, object]:
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else ""
    return {
        "backend": backend,
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "nccl": nccl,
        "ranks": torch.distributed.get_world_size(),
        "stepSeconds": times,
        "medianStepSeconds": statistics.median(times),
    }


if __name__ == "__main__":
    main()
