"""A pod: its row in the table, and what it waits for."""

from webhook.overview.model import Level, Pod, Verified
from webhook.overview.notable import is_slower
from webhook.page.findings import RANKS, badge, codes_of, opener, worst
from webhook.page.holders import hue, mark, workload
from webhook.page.picture import encoded, spans
from webhook.page.tree import DASH, Element, el
from webhook.page.words import Words

_VERIFIED = {Verified.YES: "✓", Verified.NO: "✖", Verified.UNKNOWN: DASH}


def row(pod: Pod, words: Words) -> Element:
    """The pod in the table."""
    level = worst(pod.findings)
    return el(
        "tr",
        el(
            "th",
            _swatch(pod),
            opener(f"pods/{pod.key}", pod.name),
            el("span", pod.namespace, class_="namespace"),
            scope="row",
        ),
        el("td", pod.owner or DASH),
        el("td", opener(f"nodes/{pod.node}", pod.node) if pod.node else el("span", words("waits"), class_="sign")),
        el("td", _cards(pod, words)),
        el("td", pod.profile or DASH),
        el("td", pod.link or DASH),
        _bandwidth(pod, words),
        el(
            "td",
            f"{_VERIFIED[pod.verified]} {words(f'verified.{pod.verified}')}",
            class_="bad" if pod.verified is Verified.NO else None,
        ),
        el("td", badge(level, len(pod.findings), words) or words("findings.none")),
        data_sort=f"{RANKS[level]}{pod.key}",
        data_columns=encoded(_columns(pod, level)),
        **_filters(pod),
    )


def _columns(pod: Pod, level: Level) -> list[str]:
    """What the table is sorted by, column by column."""
    speed = f"{pod.bandwidth:012.3f}" if pod.bandwidth is not None else ""
    return [
        *(pod.key, pod.owner, pod.node, f"{len(pod.cards) or pod.wanted or 0:06}", pod.profile, pod.link, speed),
        *(pod.verified.value, f"{RANKS[level]}{999999 - len(pod.findings):06}"),
    ]


def _filters(pod: Pod) -> dict[str, str]:
    return {
        "data_pod": pod.key,
        "data_namespaces": encoded([pod.namespace]),
        "data_codes": encoded(codes_of(pod.findings)),
        "data_search": f"{pod.key} {pod.owner} {pod.node}".lower(),
    }


def _swatch(pod: Pod) -> Element:
    """The colour and the letters of its cards."""
    return el("span", mark(pod), class_=f"swatch {hue(pod)}", aria_hidden="true")


def _cards(pod: Pod, words: Words) -> str:
    if pod.cards:
        return spans(pod.cards)
    return words("wants", number=pod.wanted) if pod.wanted is not None else words("wants.claims")


def _bandwidth(pod: Pod, words: Words) -> Element:
    if pod.bandwidth is None:
        return el("td", DASH, class_="number")
    text = f"{pod.bandwidth:g}"
    if not pod.best:
        return el("td", text, class_="number")
    label = words("bandwidth.of", found=text, best=f"{pod.best:g}")
    is_less = is_slower(pod)
    low = pod.best if is_less else 0
    bar = el("meter", min=0, max=pod.best, low=low, high=pod.best, optimum=pod.best, value=pod.bandwidth)
    bar.attributes["aria-label"] = label
    return el("td", el("span", label), bar, class_="number less" if is_less else "number")


def waiting(pod: Pod, words: Words) -> Element:
    """The pod among those that wait."""
    return el(
        "li",
        el(
            "p",
            _swatch(pod),
            opener(f"pods/{pod.key}", pod.key),
            " ",
            el("span", _cards(pod, words), class_="quiet"),
            class_="about",
        ),
        _reason(pod, words),
        data_sort=f"{workload(pod)}/{pod.key}",
        **_filters(pod),
    )


def _reason(pod: Pod, words: Words) -> Element:
    if not pod.waits_for:
        return el("p", words("waits.unknown"), class_="sentence")
    return el(
        "p",
        el("span", f"{words('column.waits')} ", class_="quiet"),
        el("span", pod.waits_for, lang="en"),
        class_="sentence",
    )


def facts(pod: Pod, words: Words) -> Element:
    """What the table says of the pod, line by line."""
    said = {
        "workload": pod.owner,
        "node": opener(f"nodes/{pod.node}", pod.node) if pod.node else words("waits"),
        "cards": _cards(pod, words),
        "profile": pod.profile,
        "link": pod.link,
        "bandwidth": ""
        if pod.bandwidth is None
        else words("bandwidth.of", found=f"{pod.bandwidth:g}", best=f"{pod.best or 0:g}"),
        "verified": " ".join(filter(None, (words(f"verified.{pod.verified}"), pod.why))),
        "waits": el("span", pod.waits_for, lang="en") if pod.waits_for else "",
    }
    rows = [el("div", el("dt", words(f"column.{name}")), el("dd", value)) for name, value in said.items() if value]
    return el("dl", *rows, class_="facts")
