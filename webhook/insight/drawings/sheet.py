"""The frame of a picture as an SVG document of its own: paper, style, a title and a description."""

from collections.abc import Sequence

from webhook.insight.drawings.elements import Box, description, element, number, rounded, tooltip


def sheet(  # noqa: PLR0913 - what a picture has beside its parts
    class_: str, parts: Sequence[str], *, title: str, shows: str, style: str, width: float, height: float
) -> str:
    """Returns the document, in ASCII.

    Args:
        class_: Class of the picture; its ids begin with it, so that pictures of different classes fit on one page.
        parts: Elements that are drawn on the paper.
        title: Title of the picture.
        shows: Description of the picture, for people who do not see it.
        style: Style sheet for the classes of the picture.
        width: Width of the paper, like ``height`` in pixels.
        height: Height of the paper.
    """
    title_id, description_id = f"{class_}-title", f"{class_}-description"
    content = [
        tooltip(title, title_id),
        description(shows, description_id),
        element("style", style),
        rounded(Box(0.5, 0.5, width - 1, height - 1), "paper", 14),
        *parts,
    ]
    root = element(
        "svg",
        "\n",
        "\n".join(content),
        "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        class_=class_,
        aria_labelledby=f"{title_id} {description_id}",
    )
    return root.encode("ascii", "xmlcharrefreplace").decode() + "\n"
