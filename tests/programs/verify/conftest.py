from tests.cuda.stub import bench_of, cuda_libraries, cuda_without_nccl, play_bench
from tests.nvml.stub import nvml_library, play

__all__ = ["bench_of", "cuda_libraries", "cuda_without_nccl", "nvml_library", "play", "play_bench"]
