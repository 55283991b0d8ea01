"""Debug logs of NCCL, in the words of its source; host names and PIDs are made up."""

WITH_LINKS = """\
# nThread 1 nGpus 2
gpu-host:101:101 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /work/topology/nccl-topo.xml
gpu-host:101:101 [0] NCCL INFO NCCL version 2.27.3+cuda12.9
gpu-host:101:120 [0] NCCL INFO === System : maxBw 370.8 totalBw 370.8 ===
gpu-host:101:120 [0] NCCL INFO Channel 00/02 :    0   1
gpu-host:101:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-host:101:121 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/direct pointer
gpu-host:101:121 [1] NCCL INFO Connected all rings
gpu-host:101:121 [1] NCCL INFO comm 0x55cd1a0bf930 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2b000 - Init COMPLETE
"""

WITHOUT_LINKS = """\
gpu-host:201:201 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /work/topology/nccl-topo.xml
gpu-host:201:201 [0] NCCL INFO NCCL version 2.27.3+cuda12.9
gpu-host:201:220 [0] NCCL INFO === System : maxBw 48.0 totalBw 48.0 ===
gpu-host:201:220 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
gpu-host:201:220 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels
gpu-host:201:221 [1] NCCL INFO Channel 01/0 : 15[7] -> 0[0] [send] via NET/Socket/0
"""

UNREAD = """\
gpu-host:101:101 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /work/topology/nccl-topo.xml
gpu-host:101:120 [0] NCCL INFO Could not open XML topology file /work/topology/nccl-topo.xml : No such file or directory
gpu-host:101:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
"""

BROKEN = """\
gpu-host:101:101 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /work/topology/nccl-topo.xml
[0] graph/xml.cc:149 NCCL WARN XML Parse error : expecting '<', got '?'
gpu-host:101:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
"""

_NVLS = """\
gpu-host:101:101 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /work/topology/nccl-topo.xml
gpu-host:101:101 [0] NCCL INFO NCCL version 2.30.7+cuda13.0
gpu-host:101:120 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)
gpu-host:101:120 [0] NCCL INFO === System : maxBw 370.8 totalBw 370.8 ===
gpu-host:101:120 [0] NCCL INFO Channel 00/24 :    0   1   2   3   4   5   6   7
gpu-host:101:120 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels
"""

WITH_NVLS = f"""\
{_NVLS}\
gpu-host:101:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
gpu-host:101:121 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM
gpu-host:101:120 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1
"""
"""NVSwitches, with NCCL_RUNTIME_CONNECT=0: rings are connected beside NVLS."""

NVLS_ALONE = f"""\
{_NVLS}\
gpu-host:101:120 [0] NCCL INFO comm 0x55cd1a0bf930 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 - Init COMPLETE
"""
"""NVSwitches and cuMem without it: only the algorithm that is used is connected, and it names no pair."""

L40S = """\
gpu-host:301:301 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /work/topology/nccl-topo.xml
gpu-host:301:301 [0] NCCL INFO NCCL version 2.27.3+cuda12.9
gpu-host:301:320 [0] NCCL INFO === System : maxBw 24.0 totalBw 24.0 ===
gpu-host:301:320 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
gpu-host:301:321 [1] NCCL INFO Channel 00 : 1[1] -> 2[2] via SHM/direct/direct
gpu-host:301:322 [2] NCCL INFO Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM
gpu-host:301:323 [3] NCCL INFO Channel 00 : 3[3] -> 4[4] via SHM/direct/direct
gpu-host:301:324 [4] NCCL INFO Channel 00/0 : 4[4] -> 5[5] via P2P/CUMEM
gpu-host:301:325 [5] NCCL INFO Channel 00 : 5[5] -> 6[6] via SHM/direct/direct
gpu-host:301:326 [6] NCCL INFO Channel 00/0 : 6[6] -> 7[7] via P2P/CUMEM
gpu-host:301:327 [7] NCCL INFO Channel 00 : 7[7] -> 0[0] via SHM/direct/direct
"""
"""No NVLink, two cards below each PCIe switch: shared memory from switch to switch is NCCL's own choice."""

BRIDGED = """\
gpu-host:401:401 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /work/topology/nccl-topo.xml
gpu-host:401:401 [0] NCCL INFO NCCL version 2.27.3+cuda12.9
gpu-host:401:420 [0] NCCL INFO === System : maxBw 240.0 totalBw 240.0 ===
gpu-host:401:420 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
gpu-host:401:421 [1] NCCL INFO Channel 00 : 1[1] -> 2[2] via SHM/direct/direct
gpu-host:401:422 [2] NCCL INFO Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM
gpu-host:401:423 [3] NCCL INFO Channel 00 : 3[3] -> 0[0] via SHM/direct/direct
"""
"""Two bridged pairs of A100."""
