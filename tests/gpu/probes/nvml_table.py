"""What NVML says of each card: its links, and the fields that the agent and ``verify`` read, with errors and types."""

from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

from tests.gpu.probes.ending import ended, not_tried
from webhook.hardware.discovery.field_values import read_fields

LINK_FIELDS = (138, 139, 140, 141, 202, 204)
CARD_FIELDS = (91, 197, 198)


def main() -> None:
    """Read all cards."""
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        not_tried(f"NVML does not start: {error}")
    ended([_card(handle) for handle in handles])


def _card(handle: Any) -> Any:
    links = range(pynvml.NVML_NVLINK_MAX_LINKS)
    fields: list[int | tuple[int, int]] = [*CARD_FIELDS, *((field, link) for field in LINK_FIELDS for link in links)]
    return {
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "links": {link: _link(handle, link) for link in links},
        "fields": [
            {
                "field": each.field,
                "scope": each.scope,
                "error": each.error,
                "type": each.type,
                "value": each.value,
                "readAt": each.timestamp_us,
            }
            for each in read_fields(handle, fields)
        ],
        "memory": _told(lambda: str(pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2))),
    }


def _link(handle: Any, link: int) -> Any:
    return {
        "state": _told(lambda: pynvml.nvmlDeviceGetNvLinkState(handle, link)),
        "p2p": _told(lambda: pynvml.nvmlDeviceGetNvLinkCapability(handle, link, pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED)),
        "remoteType": _told(lambda: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)),
    }


def _told(ask: Any) -> Any:
    try:
        return ask()
    except pynvml.NVMLError as error:
        return f"error {error.value}"


if __name__ == "__main__":
    main()
