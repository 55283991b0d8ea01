#!/bin/sh
# Starts the plugin with the first Python for which this archive has libraries.
here=$(dirname "$(readlink -f "$0")")
for python in ${GPU_TOPOLOGY_PYTHON:-python3 python3.13 python3.12 python3.11}; do
    found=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if [ -d "$here/$found" ]; then
        exec "$python" -s "$here/main.py" "$@"
    fi
done
echo "kubectl gpu-topology: expected Python 3.11, 3.12 or 3.13 as python3 in PATH, found none. Install one, or name it with GPU_TOPOLOGY_PYTHON" >&2
exit 1
