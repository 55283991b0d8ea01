"""The declarations of the functions of CUDA's driver and of NCCL that are called.

Names are those that the libraries export. A name without a suffix is often an old ABI with other arguments: ``cuda.h``
redirects ``cuMemAlloc`` to ``cuMemAlloc_v2``. tests/programs/verify/test_headers.py compares the declarations with
cuda.h of CUDA 12.9 and 13.5 and with nccl.h 2.18. They were compared with nccl.h 2.32 too.
"""

from collections.abc import Mapping, Sequence
from ctypes import (
    POINTER,
    Structure,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ulonglong,
    c_ushort,
    c_void_p,
)
from typing import Any

UUID_BYTES, IPC_HANDLE_BYTES, FABRIC_HANDLE_BYTES, UNIQUE_ID_BYTES = 16, 64, 64, 128


class Uuid(Structure):
    """``CUuuid``."""

    _fields_ = [("bytes", c_ubyte * UUID_BYTES)]


class IpcMemHandle(Structure):
    """``CUipcMemHandle``; passed by value."""

    _fields_ = [("reserved", c_ubyte * IPC_HANDLE_BYTES)]


class FabricHandle(Structure):
    """``CUmemFabricHandle``."""

    _fields_ = [("data", c_ubyte * FABRIC_HANDLE_BYTES)]


class UniqueId(Structure):
    """``ncclUniqueId``."""

    _fields_ = [("internal", c_ubyte * UNIQUE_ID_BYTES)]


class MemLocation(Structure):
    """``CUmemLocation``."""

    _fields_ = [("type", c_int), ("id", c_int)]


class MemAllocationFlags(Structure):
    """``CUmemAllocationProp.allocFlags``."""

    _fields_ = [
        ("compression_type", c_ubyte),
        ("gpu_direct_rdma_capable", c_ubyte),
        ("usage", c_ushort),
        ("reserved", c_ubyte * 4),
    ]


class MemAllocationProp(Structure):
    """``CUmemAllocationProp``."""

    _fields_ = [
        ("type", c_int),
        ("requested_handle_types", c_int),
        ("location", MemLocation),
        ("win32_handle_meta_data", c_void_p),
        ("alloc_flags", MemAllocationFlags),
    ]


class MemAccessDesc(Structure):
    """``CUmemAccessDesc``."""

    _fields_ = [("location", MemLocation), ("flags", c_int)]


Device = c_int
Context = Stream = Event = Communicator = c_void_p
DevicePointer = AllocationHandle = c_uint64

Prototypes = Mapping[str, Sequence[Any]]
"""The argument types of each function. Each function returns an int, 0 for success."""

CUDA: Prototypes = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(Device), c_int),
    "cuDeviceGetUuid_v2": (POINTER(Uuid), Device),
    "cuDevicePrimaryCtxRetain": (POINTER(Context), Device),
    "cuDevicePrimaryCtxRelease_v2": (Device,),
    "cuCtxSetCurrent": (Context,),
    "cuDeviceCanAccessPeer": (POINTER(c_int), Device, Device),
    "cuDeviceGetP2PAttribute": (POINTER(c_int), c_int, Device, Device),
    "cuCtxEnablePeerAccess": (Context, c_uint),
    "cuCtxDisablePeerAccess": (Context,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(DevicePointer), c_size_t),
    "cuMemFree_v2": (DevicePointer,),
    "cuMemsetD32_v2": (DevicePointer, c_uint, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, DevicePointer, c_size_t),
    "cuMemcpyPeerAsync": (DevicePointer, Context, DevicePointer, Context, c_size_t, Stream),
    "cuMemcpyDtoDAsync_v2": (DevicePointer, DevicePointer, c_size_t, Stream),
    "cuStreamCreate": (POINTER(Stream), c_uint),
    "cuStreamDestroy_v2": (Stream,),
    "cuStreamSynchronize": (Stream,),
    "cuEventCreate": (POINTER(Event), c_uint),
    "cuEventDestroy_v2": (Event,),
    "cuEventRecord": (Event, Stream),
    "cuEventSynchronize": (Event,),
    "cuEventElapsedTime": (POINTER(c_float), Event, Event),
    "cuIpcGetMemHandle": (POINTER(IpcMemHandle), DevicePointer),
    "cuIpcOpenMemHandle_v2": (POINTER(DevicePointer), IpcMemHandle, c_uint),
    "cuIpcCloseMemHandle": (DevicePointer,),
    "cuMemGetAllocationGranularity": (POINTER(c_size_t), POINTER(MemAllocationProp), c_int),
    "cuMemCreate": (POINTER(AllocationHandle), c_size_t, POINTER(MemAllocationProp), c_ulonglong),
    "cuMemRelease": (AllocationHandle,),
    "cuMemExportToShareableHandle": (c_void_p, AllocationHandle, c_int, c_ulonglong),
    "cuMemImportFromShareableHandle": (POINTER(AllocationHandle), c_void_p, c_int),
    "cuMemAddressReserve": (POINTER(DevicePointer), c_size_t, c_size_t, DevicePointer, c_ulonglong),
    "cuMemAddressFree": (DevicePointer, c_size_t),
    "cuMemMap": (DevicePointer, c_size_t, c_size_t, AllocationHandle, c_ulonglong),
    "cuMemUnmap": (DevicePointer, c_size_t),
    "cuMemSetAccess": (DevicePointer, c_size_t, POINTER(MemAccessDesc), c_size_t),
}

NCCL: Prototypes = {
    "ncclGetVersion": (POINTER(c_int),),
    "ncclGetUniqueId": (POINTER(UniqueId),),
    "ncclCommInitAll": (POINTER(Communicator), c_int, POINTER(c_int)),
    "ncclCommDestroy": (Communicator,),
    "ncclAllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, Communicator, Stream),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}
