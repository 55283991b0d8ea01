"""The dashboard: Grafana can import it, and each of its panels shows something that exists."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.observe.exposed import exposed
from tests.observe.expressions import labels_left, mistakes, series_of
from tests.observe.test_rules import recorded

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "deploy" / "chart" / "files" / "dashboard.json").read_text()
)
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
UNITS = {
    "_seconds_bucket": "s",
    "_age_seconds": "s",
    "discovery_seconds": "s",
    "waiting_seconds": "s",
    "_bytes": "bytes",
    "_gbps_bucket": "GBs",
    "_ratio": "percentunit",
}
"""Units of series whose names say so; a certificate's end is shown as the days until then."""


def expressions(panel: dict[str, Any]) -> list[str]:
    """As Prometheus gets them from Grafana."""
    return [target["expr"].replace("$__rate_interval", "5m") for target in panel["targets"]]


def test_it_can_be_imported_without_a_database_of_grafana() -> None:
    assert DASHBOARD["id"] is None
    assert re.fullmatch(r"[a-z0-9-]{1,40}", DASHBOARD["uid"])
    assert DASHBOARD["title"] == "GPU topology webhook"
    assert "__inputs" not in DASHBOARD


def test_the_data_source_and_the_namespace_can_be_chosen() -> None:
    source, namespace = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (namespace["name"], namespace["datasource"]) == ("namespace", SOURCE)
    assert namespace["query"]["query"] == "label_values(gpu_topology_webhook_build_info, namespace)"
    assert "gpu_topology_webhook_build_info" in exposed().series


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for one, other in combinations((panel["gridPos"] for panel in DASHBOARD["panels"]), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in DASHBOARD["panels"])


def test_every_panel_asks_the_chosen_data_source() -> None:
    for panel in PANELS:
        assert panel["datasource"] == SOURCE, panel["title"]
        assert all(target["datasource"] == SOURCE for target in panel["targets"])
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0, panel["title"]


def test_every_series_label_and_value_of_a_panel_exists() -> None:
    for panel in PANELS:
        for expression in expressions(panel):
            assert mistakes(expression, exposed(), recorded()) == [], panel["title"]


def test_every_series_of_ours_is_that_of_the_chosen_namespace() -> None:
    for panel in PANELS:
        for expression in expressions(panel):
            ours = len(re.findall(r"gpu_topology_\w+(?::\w+)?", expression))
            assert expression.count('namespace=~"$namespace"') == ours, panel["title"]


def test_every_label_of_a_legend_is_left_by_its_expression() -> None:
    for panel in PANELS:
        for target, expression in zip(panel["targets"], expressions(panel), strict=True):
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert named <= labels_left(expression, exposed(), recorded()), panel["title"]


def test_every_panel_has_the_unit_of_what_it_shows() -> None:
    for panel in PANELS:
        unit = panel["fieldConfig"]["defaults"]["unit"]
        for expression in expressions(panel):
            for series in series_of(expression):
                wanted = {unit for ending, unit in UNITS.items() if series.endswith(ending)}
                if ":ratio_" in series:
                    wanted = {"percentunit"}
                elif "rate(" in expression and not wanted:
                    wanted = {"reqps"}
                elif series.endswith("_timestamp_seconds"):
                    wanted = {"d"}
                assert unit in (wanted or {"short", "none"}), panel["title"]
