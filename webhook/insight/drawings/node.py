"""The drawing of a node, which the page shows and ``topology show -o svg`` writes.

Templates write the markup. They escape every value, and make control characters and marks that turn the direction of a
text visible.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from textwrap import wrap
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import Gpu, LostGpu, NodeTopology
from webhook.hardware.topology.sets import GpuSet
from webhook.insight.drawings.layout import Layout, Link, lay_out, nvlinks
from webhook.insight.drawings.sentences import mig_gpus, names, notes, outline, properties
from webhook.words.printable import printable

_SCALE, _MARGIN, _LINE = 3, 24, 20
_LINE_LENGTH = 66
"""Characters of a line of text beside the narrowest drawing, at most."""
_NOTES = 6
"""Notes that are shown at most. More of them would push the drawing itself away."""
_LINE_END = re.compile(r"(?<=[>}])(?<!doctype html>)\s*\n\s*(?=[<{]|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnGpu:
    """A GPU of the drawing."""

    index: int
    class_: str
    """The classes of ``node.css`` that show its state and its health."""
    title: str
    """The tooltip."""
    mark: str = ""
    """The letters in its box."""
    fill: str = ""
    """The colour of its box; empty: the colour of its classes."""
    href: str = ""
    """The address that a click opens; empty: none."""


class Drawing(NamedTuple):
    """A drawn node, to be put into an ``svg`` element of that size."""

    layout: Layout
    content: Markup


class _Compact(Extension):
    """A Jinja extension that removes line ends between tags, which only lay out the template."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:  # noqa: ARG002 - jinja2's
        return _LINE_END.sub("", source)


def environment(package: str) -> Environment:
    """Returns the environment of the templates of a package, which escapes all values and refuses missing ones."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        extensions=[_Compact],
        auto_reload=False,
    )


def _shown(value: object) -> object:
    """Returns a value as it is shown. Markup of a macro, which is another type than ``str``, stays as it is."""
    if type(value) is str:
        return printable(value)
    return f"{round(value, 2):g}" if isinstance(value, float) else value


_TEMPLATES = environment(__package__)


def style() -> str:
    """Returns the style sheet of the drawing."""
    return files(__package__).joinpath("templates", "node.css").read_text(encoding="utf-8")


def drawing(links: Sequence[Link], gpus: Iterable[DrawnGpu]) -> Drawing:
    """Returns the drawing of a node.

    Args:
        links: The NVLinks. Those of other GPUs are left out.
        gpus: The GPUs.
    """
    drawn = sorted(gpus, key=lambda gpu: gpu.index)
    layout = lay_out([gpu.index for gpu in drawn], links)
    content = _TEMPLATES.get_template("node.svg").render(layout=layout, gpus=drawn)
    return Drawing(layout, Markup(content))  # noqa: S704 - escaped there


def draw(topology: NodeTopology, chosen: GpuSet | None = None) -> str:
    """Returns the drawing of a topology as an SVG document, in ASCII.

    Args:
        topology: The node.
        chosen: A set of GPUs of the node to mark, with its ring.
    """
    drawn = drawing(tuple(nvlinks(topology)), _gpus(topology, chosen))
    above = [f"{outline(topology)}, from {topology.source}", *_first(notes(topology)), *_worth(topology, chosen)]
    lines = [line for text in above for line in wrap(printable(text), _LINE_LENGTH)]
    legend = wrap("; ".join(_legend(drawn.layout, chosen)), _LINE_LENGTH)
    top = _MARGIN + _LINE * (len(lines) + 2)
    foot = top + drawn.layout.height * _SCALE + 2 * _LINE
    text = _TEMPLATES.get_template("topology.svg").render(
        topology=topology,
        drawing=drawn.content,
        lines=lines,
        legend=legend,
        style=Markup(style()),  # noqa: S704 - our own file
        scale=_SCALE,
        margin=_MARGIN,
        line=_LINE,
        top=top,
        foot=foot,
        width=max(drawn.layout.width * _SCALE + 2 * _MARGIN, 540),
        height=foot + _LINE * len(legend),
    )
    return text.encode("ascii", "xmlcharrefreplace").decode() + "\n"


def _gpus(topology: NodeTopology, chosen: GpuSet | None) -> Iterator[DrawnGpu]:
    members = set(chosen.gpus) if chosen else set()
    places = {index: position for position, index in enumerate(chosen.ring, 1)} if chosen and chosen.ring[1:] else {}
    ailing = node_health(topology).ailing
    every: tuple[Gpu | LostGpu, ...] = (*topology.gpus, *topology.lost)
    for gpu in every:
        is_lost = isinstance(gpu, LostGpu)
        classes = [
            "broken" if is_lost else "links-down" if gpu.index in ailing else "ok",
            "selected" if gpu.index in members else "aside" if members else "",
        ]
        said = gpu.problem if isinstance(gpu, LostGpu) else gpu.name
        yield DrawnGpu(
            index=gpu.index,
            class_=" ".join(filter(None, classes)),
            title=f"GPU{gpu.index}: {said}",
            mark=str(places.get(gpu.index, "")),
        )


def _legend(layout: Layout, chosen: GpuSet | None) -> Iterator[str]:
    """Yields what the colours and lines of the drawing mean."""
    classes = {class_ for stroke in layout.strokes for class_ in stroke.class_.split()}
    yield "green: NVLinks" if classes else "no NVLink is reported"
    if "link" in classes:
        yield "the widths of lines: 1, 2 or 3, and more NVLinks"
    if layout.bar:
        yield "bar: NVSwitches"
    if classes & {"down", "lost"}:
        yield "red lines: NVLinks that are down"
    if chosen:
        yield "violet: chosen GPUs" + (", with their places in the ring" if chosen.ring[1:] else "")


def _first(found: list[str]) -> list[str]:
    more = len(found) - _NOTES
    return [*found[:_NOTES], f"and {more} more findings"] if more > 0 else found


def _worth(topology: NodeTopology, chosen: GpuSet | None) -> Iterator[str]:
    """Yields the properties of the chosen set as one sentence."""
    if chosen:
        values = (f"{name} {value}" for name, value in properties(chosen, mig_gpus(topology, chosen)))
        yield "; ".join([f"Chosen: {names(chosen.gpus)}", chosen.link.value, *values])
