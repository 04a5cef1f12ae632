"""veRL on a machine without a GPU: the "cpu" platform, the rollout, and what veRL 0.9.1 offers no hook for.

    VERL_USE_EXTERNAL_MODULES=smoke.cpu_platform python3 -m verl.trainer.main_ppo trainer.device=cpu ...

`import verl` imports this module at the end of verl/__init__, in the driver and in every Ray process; importing it is all
that is needed. veRL asks for its platform once and its modules keep the answer, so no module listed before this one may
import an engine of veRL's.
"""

import functools
import os
from contextlib import contextmanager

import torch.distributed.fsdp
from verl.plugin.platform import PlatformBase, PlatformRegistry, platform_manager, set_platform

from smoke import cpu_device

ROLLOUT_NAME = "hf"  # actor_rollout_ref.rollout.name; veRL 0.9.1 has no rollout of this name left


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """One "device" a node: the host. Ray's GPU count is bookkeeping only (ray_init.num_gpus=1)."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = cpu_device

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"  # what torch.Tensor.to takes, in place of a device number

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str):
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def use_cpu_platform() -> None:
    """Make this process a CPU process for veRL. RuntimeError if veRL has already settled on another platform."""
    settled = platform_manager._current_platform
    if settled is not None and settled.device_name != "cpu":
        raise RuntimeError(
            f"smoke.cpu_platform came too late: veRL has settled on {settled.device_name!r}. "
            "Put it first in VERL_USE_EXTERNAL_MODULES."
        )
    if settled is None:
        set_platform(PlatformCPU())
    # The FSDP engines are registered for CUDA only and run anywhere; this is veRL's own switch for saying so.
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")


def register_rollout() -> None:
    """Make rollout.name=hf known. For replicas veRL has a registry; for the workers' side (0.9.1) only this dict."""
    from verl.workers.rollout import base, replica

    def load_replica() -> type[replica.RolloutReplica]:
        from smoke.cpu_rollout import CpuReplica

        return CpuReplica

    replica.RolloutReplicaRegistry.register(ROLLOUT_NAME, load_replica)
    base._ROLLOUT_REGISTRY[(ROLLOUT_NAME, "async")] = "smoke.cpu_rollout.CpuRollout"


def use_plain_gloo() -> None:
    """veRL 0.9.1 asks torch for "cpu:gloo,<device>:<backend>", and torch refuses one device named twice."""
    from verl.utils import distributed

    distributed.initialize_global_process_group_ray = functools.partial(
        distributed.initialize_global_process_group_ray, backend="gloo"
    )


def offload_without_pinning() -> None:
    """veRL 0.9.1 keeps the reference model under CPUOffloadPolicy(pin_memory=True); pinning needs an accelerator."""

    class UnpinnedCPUOffloadPolicy(torch.distributed.fsdp.CPUOffloadPolicy):
        def __init__(self, pin_memory: bool = True) -> None:
            super().__init__(pin_memory=False)

    torch.distributed.fsdp.CPUOffloadPolicy = UnpinnedCPUOffloadPolicy


use_cpu_platform()
use_plain_gloo()
offload_without_pinning()
register_rollout()
