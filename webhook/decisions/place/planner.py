"""The rounds of the planner, each of which decides about all pods at one moment."""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.place.gated_pods import WaitingPods
from webhook.decisions.place.observation import compare, compare_parts
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.released_pods import FollowedPods
from webhook.decisions.place.round import PlannerReport, Round, Scene
from webhook.decisions.place.world import World
from webhook.decisions.place.writes import Write
from webhook.objects.pod import Namespace
from webhook.objects.workload import WorkloadRef
from webhook.words.choices import Slices


class Planner:
    """Decides which pods are changed and how. It changes nothing but its own memory.

    Args:
        world: The pods and nodes of the cluster.
        policy: The configuration.
        namespaces: Returns the namespace of a name.
        cpu: Returns the seconds of CPU that this thread has spent. Without it a round takes all the time it needs.
    """

    def __init__(
        self,
        world: World,
        policy: AdmitPolicy,
        *,
        namespaces: Callable[[str], Namespace],
        cpu: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._scene = Scene(world, policy, namespaces, cpu)
        self._followed = FollowedPods(self._scene)
        self._waiting = WaitingPods(self._scene)
        self.report = PlannerReport()
        """The report of the last round."""

    @property
    def wishes(self) -> Collection[WorkloadRef]:
        """The objects for which the last round asked."""
        return self._scene.wishes

    def decide(
        self, now: float, at: datetime, busy: Collection[str] = (), put_off: Collection[str] = ()
    ) -> list[Write]:
        """Returns the writes that are to be made now.

        Args:
            now: Seconds of a clock that never goes back.
            at: The time, for people.
            busy: The keys of the pods whose last write is not known to be done. Nothing is decided about them.
            put_off: Those of them whose last write is known to have changed nothing. No cards are held for them.
        """
        scene = self._scene
        scene.intents.settle(busy, put_off)
        scene.memory.note_put_off(filter(None, map(scene.world.unbound.get, put_off)), now)
        scene.memory.arrive(scene.world.arrived, now)
        scene.world.arrived.clear()
        scene.shares.begin()
        scene.begin_wishes()
        on_their_way = scene.intents.nodes()
        is_thorough = scene.memory.is_time_for_all(now)
        this = Round(now, at, busy, is_thorough, in_flight=len(on_their_way), releasing=set(on_their_way))
        writes = [*self._bound(this), *self._followed.decide(this), *self._waiting.decide(this)]
        scene.memory.forget({pod.uid for pod in scene.world.unbound.values()})
        if is_thorough:
            scene.world.forget_workloads(scene.wishes)
        self.report = this.report
        return writes

    def _bound(self, this: Round) -> Iterator[Write]:
        newly = self._scene.world.newly_bound
        while newly:
            before, after = newly.popleft()
            if pin_of(before):
                yield from self._followed.bound(before, after, this)
            elif before.unbound is None:
                if self._scene.settings.slices is not Slices.OFF:
                    yield from compare_parts(self._scene, after)
            elif self._scene.settings.mode.observes:
                yield from compare(self._scene, before, after)
