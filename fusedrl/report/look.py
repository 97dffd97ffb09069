"""How pages look, in light and dark, narrow and wide. A page is one file, which loads nothing and runs nothing."""

from fusedrl.trainers.sample_table import as_text

LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#a87400", "#2d8fc4", "#5b5b5b", "#7a4fb5")
DARK = ("#4ba3dd", "#ff8a3d", "#2fc79a", "#e59ac6", "#f0b52a", "#8fd0f5", "#b8b8b8", "#b695f0")
STYLE = """\
:root { color-scheme: light dark; --ink: #1c1f23; --page: #fff; --faint: #d8dbe0; --soft: #5d6470; LIGHT }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e4e7eb; --page: #15181c; --faint: #363c45; --soft: #a0a8b3; DARK } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 1.5em auto;
  max-width: 1060px; padding: 0 1em; }
a { color: var(--c0); } h2 { margin: 1.6em 0 .5em; font-size: 1.15em; } small, p { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(320px, 100%), 1fr)); gap: 1em; }
figure { margin: 0; min-width: 0; } svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; } .wide svg { min-width: 640px; }
svg text { fill: var(--soft); font-size: 11px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--faint); } polyline { fill: none; stroke-width: 1.6; }
.legend span { display: inline-block; margin-right: .8em; overflow-wrap: anywhere; }
.legend { font-size: 12px; min-height: 1.4em; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; }
code { overflow-wrap: anywhere; } .scroll { overflow-x: auto; max-height: 40em; } table { border-collapse: collapse; }
th, td { border: 1px solid var(--faint); padding: .2em .5em; text-align: left; vertical-align: top; }
td div { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 12em; max-width: 30em; overflow: auto; }
HUES"""
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
{style}</style></head><body>
<h1>{title}</h1>
{body}</body></html>
"""


def html_page(title: str, body: str) -> str:
    """The whole page; the title is text, the body HTML."""
    return PAGE.format(title=as_text(title), style=_style(), body=body)


def _style() -> str:
    hues = "".join(
        f".s{k} {{ stroke: var(--c{k}); }} .f{k} {{ fill: var(--c{k}); }} .b{k} {{ background: var(--c{k}); }}\n"
        for k in range(len(LIGHT))
    )
    light, dark = (" ".join(f"--c{k}: {c};" for k, c in enumerate(each)) for each in (LIGHT, DARK))
    return STYLE.replace("LIGHT", light).replace("DARK", dark).replace("HUES", hues)
