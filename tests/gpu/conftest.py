"""The stubs of NVML, CUDA and NCCL."""

from tests.cuda.stub import bench_of, cuda_libraries, play_bench
from tests.gpu.bare_machine import bare_machine
from tests.nvml.stub import nvml_library, play

__all__ = ["bare_machine", "bench_of", "cuda_libraries", "nvml_library", "play", "play_bench"]
