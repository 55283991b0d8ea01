"""How sure a cause is: golden cases, and that it agrees with the word for the pod."""

import pytest

from webhook.insight.explain.causes import Sureness, sureness
from webhook.insight.explain.findings import Finding, Verdict


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        pytest.param(Finding("links", Verdict.FAILS, "none", code="GT330"), Sureness.CERTAIN, id="no link"),
        pytest.param(Finding("links", Verdict.HOLDS, "all"), None, id="links"),
        pytest.param(Finding("visibility", Verdict.FAILS, "hidden", stops=True), Sureness.CERTAIN, id="stops"),
        pytest.param(Finding("visibility", Verdict.FAILS, "hidden"), None, id="stops not all"),
        pytest.param(Finding("start", Verdict.FAILS, "12", stops=True), Sureness.SEEN, id="the start failed"),
        pytest.param(Finding("control", Verdict.FAILS, "on", code="GT210"), Sureness.REPORTED, id="library"),
        pytest.param(Finding("control", Verdict.UNKNOWN, "on", code="GT211"), None, id="perhaps the library"),
        pytest.param(Finding("whole-cards", Verdict.FAILS, "half", code="GT208"), Sureness.REPORTED, id="slice"),
        pytest.param(Finding("bandwidth", Verdict.FAILS, "a link is down", code="GT332"), None, id="less bandwidth"),
        pytest.param(Finding("injected", Verdict.FAILS, "no", code="GT155"), None, id="not prepared"),
        pytest.param(Finding("nvlink-use", Verdict.HINT, "none", code="GT900"), Sureness.SEEN, id="unused"),
        pytest.param(Finding("keys", Verdict.HINT, "gpu-topology/group", code="GT168"), None, id="a hint about keys"),
    ],
)
def test_a_cause_is_certain_seen_or_reported(finding: Finding, expected: Sureness | None) -> None:
    assert sureness(finding) == expected
