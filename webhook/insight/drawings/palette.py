"""Colours and fonts of the picture, and the style sheet that applies to the picture alone."""

SANS = '-apple-system, "Segoe UI", Helvetica, Arial, sans-serif'
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"

NVLINK_SHADES = ("#116329", "#2da44e", "#6fdd8b")
"""Colours of links, from the most links between two GPUs to the fewest."""

# The picture has its own light background, so that it can stand on a dark page.
STYLE = f"""
.topology .paper {{ fill: #ffffff; stroke: #d0d7de; }}
.topology text {{ font-family: {SANS}; font-size: 12px; fill: #1f2328; }}
.topology .title {{ font-size: 22px; font-weight: 600; }}
.topology .subtitle {{ font-size: 13px; fill: #59636e; }}
.topology .problem {{ font-size: 13px; fill: #cf222e; }}
.topology .set {{ font-size: 13px; fill: #6639ba; }}
.topology .numa {{ fill: #f6f8fa; stroke: #d0d7de; }}
.topology .cpu {{ fill: #424a53; }}
.topology .cpu-name {{ fill: #ffffff; font-weight: 600; }}
.topology .cpu-list {{ fill: #d0d7de; font-size: 11px; text-anchor: end; }}
.topology .pcie {{ stroke: #8c959f; stroke-width: 2; fill: none; }}
.topology .switch {{ fill: #ddf4ff; stroke: #54aeff; }}
.topology .switch-name {{ font-size: 11px; fill: #0550ae; text-anchor: middle; }}
.topology .nic {{ fill: #fff8c5; stroke: #d4a72c; }}
.topology .nic-name {{ font-weight: 600; fill: #633c01; }}
.topology .nic-detail {{ font-size: 11px; fill: #7d4e00; }}
.topology .gpu {{ fill: #ffffff; stroke: #1a7f37; stroke-width: 1.5; }}
.topology .gpu-name {{ font-size: 15px; font-weight: 600; }}
.topology .gpu-memory {{ font-size: 11px; fill: #59636e; text-anchor: end; }}
.topology .mono {{ font-family: {MONO}; font-size: 11px; fill: #59636e; }}
.topology text.linked {{ font-size: 11px; fill: #1a7f37; }}
.topology text.plain {{ font-size: 11px; fill: #59636e; }}
.topology text.bad {{ font-size: 11px; fill: #cf222e; font-weight: 600; }}
.topology .gpu.plain {{ stroke: #8c959f; }}
.topology .gpu.bad {{ stroke: #cf222e; stroke-width: 2; }}
.topology .gpu.chosen {{ fill: #fbefff; stroke: #8250df; stroke-width: 3; }}
.topology .aside {{ opacity: .5; }}
.topology .lost {{ fill: #ffebe9; stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 4; }}
.topology .cross {{ stroke: #ff8182; stroke-width: 2; fill: none; }}
.topology .nothing {{ fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.5; stroke-dasharray: 6 5; }}
.topology .nothing-name {{ font-size: 18px; font-weight: 600; fill: #59636e; text-anchor: middle; }}
.topology .nvswitch {{ fill: #1a7f37; }}
.topology .nvswitch-name {{ font-size: 14px; font-weight: 600; fill: #ffffff; text-anchor: middle; }}
.topology .bundle {{ stroke: #2da44e; stroke-width: 2; fill: none; }}
.topology .nvlink {{ fill: none; stroke-linecap: butt; }}
.topology .down {{ stroke: #cf222e; fill: none; stroke-dasharray: 5 4; }}
.topology .c2c {{ stroke: #0a7d7d; stroke-width: 7; fill: none; }}
.topology .sys {{ stroke: #bc4c00; stroke-width: 2.5; fill: none; stroke-linejoin: round; }}
.topology .halo {{ stroke: #8250df; stroke-opacity: .4; fill: none; }}
.topology .casing {{ stroke: #ffffff; stroke-width: 6; fill: none; }}
.topology .ring {{ stroke: #8250df; stroke-width: 3; fill: none; }}
.topology .badge {{ fill: #8250df; stroke: #ffffff; stroke-width: 1.5; }}
.topology .badge-number {{ font-size: 11px; font-weight: 600; fill: #ffffff; text-anchor: middle; }}
.topology .legend {{ font-size: 12px; fill: #424a53; }}
"""
