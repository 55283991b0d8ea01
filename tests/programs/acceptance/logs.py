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
