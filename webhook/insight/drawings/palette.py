"""Colours and fonts of the picture, and the style sheet that applies to the picture alone."""

SANS = '-apple-system, "Segoe UI", Helvetica, Arial, sans-serif'

# The picture has its own light background, so that it can stand on a dark page.
STYLE = f"""
.topology .paper {{ fill: #ffffff; stroke: #d0d7de; }}
.topology text {{ font-family: {SANS}; font-size: 12px; fill: #1f2328; }}
.topology .title {{ font-size: 22px; font-weight: 600; }}
.topology .subtitle {{ font-size: 13px; fill: #59636e; }}
.topology .problem {{ font-size: 13px; fill: #cf222e; }}
.topology .set {{ font-size: 13px; fill: #6639ba; }}
.topology .key {{ fill: #59636e; }}
.topology .index {{ font-size: 8px; font-weight: 600; }}
.topology .mark {{ font-size: 13px; font-weight: 600; fill: #6639ba; text-anchor: middle; }}
.topology .gpu {{ fill: #ffffff; stroke: #1a7f37; }}
.topology .bad {{ fill: #ffffff; stroke: #cf222e; }}
.topology .lost {{ fill: #ffebe9; stroke: #cf222e; stroke-dasharray: 3 2; }}
.topology .chosen {{ fill: #fbefff; stroke: #8250df; stroke-width: 2; }}
.topology .aside {{ opacity: .5; }}
.topology .switches {{ fill: #116329; }}
.topology .up {{ stroke: #2da44e; fill: none; }}
.topology .down {{ stroke: #cf222e; fill: none; }}
.topology .link {{ stroke: #6fdd8b; stroke-width: 1.6; fill: none; }}
.topology .link.more {{ stroke: #2da44e; stroke-width: 2.2; }}
.topology .link.most {{ stroke: #116329; stroke-width: 3; }}
.topology .link.lost {{ stroke: #cf222e; stroke-dasharray: 4 2.5; fill: none; }}
.topology .cross {{ stroke: #cf222e; stroke-width: 2; fill: none; }}
"""
