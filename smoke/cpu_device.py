"""The part of `torch.cuda` that veRL calls, for a process without an accelerator.

Streams, events and device numbers are torch.cpu's own. Memory, in bytes, is the process's resident memory and the host's,
so that veRL's memory metrics stay meaningful. Nothing is cached or shared between processes, so freeing is a no-op.
"""

import resource

import psutil
from torch import get_rng_state, set_rng_state  # noqa: F401
from torch.cpu import (  # noqa: F401  (veRL looks them up here)
    Event,
    Stream,
    current_device,
    current_stream,
    device_count,
    is_available,
    set_device,
    stream,
    synchronize,
)


def get_device_name(device: int = 0) -> str:
    return "CPU"


def mem_get_info(device: int = 0) -> tuple[int, int]:
    """(free, total) memory of the host."""
    memory = psutil.virtual_memory()
    return memory.available, memory.total


def memory_allocated(device: int = 0) -> int:
    return psutil.Process().memory_info().rss


def max_memory_allocated(device: int = 0) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def empty_cache() -> None:
    pass


def ipc_collect() -> None:
    pass
