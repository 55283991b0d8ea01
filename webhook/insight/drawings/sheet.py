"""A picture as an SVG document of its own: paper, style, a title and a description."""

from collections.abc import Sequence

from webhook.insight.drawings.elements import Box, description, element, number, rounded, tooltip


def sheet(  # noqa: PLR0913 - what a picture has beside its parts
    class_: str, parts: Sequence[str], *, title: str, shows: str, style: str, width: float, height: float
) -> str:
    """The document, in ASCII.

    Args:
        class_: Of the picture; its ids begin with it, so that pictures of different classes can stand on one page.
        parts: What is drawn on the paper.
        title: What the picture is called.
        shows: What it shows, for those who do not see it.
        style: For all that has a class.
        width: Of the paper, like ``height`` in pixels.
        height: Of the paper.
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
