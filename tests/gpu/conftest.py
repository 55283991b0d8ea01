"""The stand-ins for NVML, CUDA and NCCL."""

from tests.cuda.stub import bench_of, cuda_libraries, play_bench
from tests.nvml.stub import nvml_library, play

__all__ = ["bench_of", "cuda_libraries", "nvml_library", "play", "play_bench"]
