"""The explanations of error codes of CUDA's driver and of NCCL."""

from collections.abc import Mapping

from webhook.programs.verify.library import MISSING

_CUDA: Mapping[int, str] = {
    1: "invalid value; of a shared handle: the card of the other process is not visible here",
    2: "out of memory",
    3: "the driver is not initialised",
    100: "no CUDA device is visible: see CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES",
    101: "no such device",
    201: "invalid context; of a shared handle: both processes have the same PID value, or the thread has no context",
    205: "the memory cannot be mapped",
    208: "the memory is mapped already",
    217: "peer access is not supported between these cards",
    304: "a call of the operating system failed",
    401: "the operation is not possible in the present state: does the fabric manager run, and do the NVSwitches work?",
    704: "peer access is enabled already",
    711: "too many peers",
    719: "the card reported a fault: see dmesg",
    800: "not permitted",
    801: "not supported",
    802: "the system is not ready: is the fabric manager running?",
    803: "the driver and libcuda are of different versions",
    999: "unknown error",
}
_NCCL: Mapping[int, str] = {
    1: "a call of CUDA failed: see NCCL_DEBUG=INFO",
    2: "a call of the system failed: see NCCL_DEBUG=INFO",
    3: "NCCL found an error of its own",
    4: "invalid argument",
    5: "invalid usage",
    6: "another rank failed",
    7: "the call goes on in the background",
    8: "another rank gave no answer in time",
}


def explained(function: str, code: int) -> str:
    """Returns a sentence about an error code, such as ``cuInit returned 802: the system is not ready``."""
    if code == MISSING:
        return f"the library has no {function}: it is too old"
    words = (_NCCL if function.startswith("nccl") else _CUDA).get(code)
    return f"{function} returned {code}" + (f": {words}" if words else "")
