"""An honest tenant in another namespace, who creates pods all the time and sees how long it takes."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from bench.proc import cpu_ns
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import gpu_pod
from webhook.words.names import INJECTED

PAUSE_S = 0.05
TIMEOUT_S = 120.0
ATTEMPTS = 100


@dataclass
class Probes:
    """What became of the pods.

    Attributes:
        sent: How many requests there were.
        waits: What each pod waited until it was created, in seconds.
        most_cpu_ms: The most CPU time of the replica while one of them waited.
        faults: Answers that are not a pod that was injected.
    """

    sent: int = 0
    waits: list[float] = field(default_factory=list)
    most_cpu_ms: float = 0.0
    faults: list[str] = field(default_factory=list)

    def wait(self, share: float) -> float:
        """The seconds within which such a share of the pods was created."""
        return sorted(self.waits)[min(int(share * len(self.waits)), len(self.waits) - 1)]


@contextmanager
def probing(control_plane: ControlPlane, token: str, namespace: str, replica: Callable[[], int]) -> Iterator[Probes]:
    """Creates dry-run pods one after the other in this namespace; one before it begins, and one after its end."""
    found, ending = Probes(), threading.Event()
    place = urlsplit(control_plane.url)
    trust = ssl.create_default_context(cafile=control_plane.ca_file)
    connection = HTTPSConnection(place.hostname or "", place.port, context=trust, timeout=TIMEOUT_S)
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps(gpu_pod("honest", {})).encode()

    def is_created() -> bool:
        found.sent += 1
        try:
            connection.request("POST", path, body=body, headers=headers)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, HTTPException) as error:
            connection.close()  # the next request opens it again
            found.faults.append(repr(error))
            return False
        if answer.status == 201 and INJECTED.encode() in said:
            return True
        found.faults.append(f"{answer.status}: {said[:300].decode(errors='replace')}")
        return False

    def probe() -> None:
        """One pod, tried again as controllers do."""
        begin, spent = time.monotonic(), _cpu_ms(replica())
        for _ in range(ATTEMPTS):
            if is_created():
                break
            time.sleep(PAUSE_S)
        found.waits.append(time.monotonic() - begin)
        found.most_cpu_ms = max(found.most_cpu_ms, _cpu_ms(replica()) - spent)

    def go() -> None:
        while not ending.wait(PAUSE_S):
            probe()

    probe()
    thread = threading.Thread(target=go, name="honest tenant")
    thread.start()
    try:
        yield found
    finally:
        ending.set()
        thread.join()
        probe()
        connection.close()


def _cpu_ms(replica: int) -> float:
    """The CPU time of the replica; none while it does not run."""
    try:
        return cpu_ns(replica) / 1e6
    except FileNotFoundError:
        return 0.0
