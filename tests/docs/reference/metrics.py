"""The tables of metrics: names, types, labels and help texts as Prometheus gets them."""

from tests.docs.parts import row
from tests.observe.exposed import EXPOSITIONS, family, metrics

PROGRAMS = tuple(EXPOSITIONS)


def metrics_table(program: str) -> list[str]:
    """The lines of the table of one program's metrics, in the order in which it exposes them.

    What an earlier program of the list exposes as well is left out: webhook and planner have the same caches.
    """
    earlier = PROGRAMS[: PROGRAMS.index(program)]
    known = {metric.name for other in earlier for metric in metrics(other)}
    rows = []
    for metric in metrics(program):
        if metric.name not in known:
            one = family(metric)
            labels = " ".join(f"`{label}`" for label in sorted(one.labels))
            rows.append(row((f"`{one.name}`", one.kind, labels, metric.documentation)))
    return [row(("metric", "type", "labels", "meaning")), "|---|---|---|---|", *rows]
