# SPDX-License-Identifier: Apache-2.0
"""The demo's page: one HTML file that needs nothing else."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flightshmem.demo.summary import Step, Summary

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2733; --soft: #5b6b7a; --line: #dfe5ea; --page: #f6f8fa;
  --card: #fff; --bar: #2f6f9f; --good: #1f7a4d }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa7b3; --line: #2b3640;
  --page: #10161c; --card: #182129; --bar: #5aa2d6; --good: #57c08a } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0 }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 1.7rem; margin: 0 0 .3rem } h2 { font-size: 1.1rem; margin: 0 0 .8rem }
p { margin: .2rem 0 } .soft { color: var(--soft) }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: 1.2rem 1.4rem; margin-top: 1.2rem; overflow-x: auto }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1.2rem;
  margin-top: 1.2rem }
.tiles section { margin: 0 } .tiles b { display: block; font-size: 1.7rem; line-height: 1.2 }
.good { color: var(--good) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .85rem }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
tr:last-child td { border-bottom: 0 } .n { text-align: right; white-space: nowrap }
.w { width: 35% } .bar { background: var(--bar); height: .55rem; border-radius: .2rem; min-width: 2px }
.plot svg { width: 100%; height: auto }
"""


def write_report(summary: Summary, path: Path) -> None:
    """Write the page."""
    about = [{"what": name, "value": value} for name, value in summary.about.items()]
    sections = {
        "Steps": _steps(summary.steps),
        "What the model looks at": f'<div class="plot">{_importance_plot(summary.results.importances)}</div>',
        "Worst carriers": _table(summary.results.worst_carriers),
        "Predictions, read by another process over Arrow Flight": _table(summary.results.read_back),
        "Run on": _table(about),
    }
    body = "".join(f"<section><h2>{title}</h2>{content}</section>" for title, content in sections.items())
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>FlightSHMEM demo</title>'
        f"<style>{_STYLE}</style></head><body><main>{_heading(summary)}{_tiles(summary)}{body}"
        "</main></body></html>\n"
    )
    path.write_text(page, encoding="utf-8")


def _heading(summary: Summary) -> str:
    rows = summary.steps[0].rows if summary.steps else 0
    return (
        "<h1>Will this flight be late?</h1>"
        f'<p class="soft">FlightSHMEM demo: {rows:,} flights out of New York, joined with planes, weather '
        f"and airports on {summary.n_pes} PEs ({html.escape(summary.transport)}), learned by XGBoost in "
        "place, and served over Arrow Flight while the job ran.</p>"
    )


def _tiles(summary: Summary) -> str:
    seconds = sum(step.seconds for step in summary.steps)
    handed = f"bytes copied of {summary.results.matrix_bytes / 1e6:,.1f} MB handed to XGBoost"
    tiles = [
        (f"{summary.results.auc:.4f}", f"AUC (single process {summary.single_auc:.4f})", ""),
        (f"{summary.results.copied_bytes:,}", handed, "good"),
        (f"{seconds:.1f} s", "for all steps", ""),
    ]
    cells = (
        f'<section><b class="{kind}">{big}</b><span class="soft">{small}</span></section>'
        for big, small, kind in tiles
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _steps(steps: Sequence[Step]) -> str:
    longest = max((step.seconds for step in steps), default=1.0) or 1.0
    lines = [
        f'<tr><td>{html.escape(step.name)}<br><span class="soft">{html.escape(step.note)}</span></td>'
        f'<td class="n">{step.rows:,}</td><td class="n">{step.seconds:.2f}</td>'
        f'<td class="w"><div class="bar" style="width:{100 * step.seconds / longest:.1f}%"></div></td></tr>'
        for step in steps
    ]
    head = '<tr><th>step</th><th class="n">rows</th><th class="n">seconds</th><th></th></tr>'
    return f"<table>{head}{''.join(lines)}</table>"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in rows[0])
    lines = ("".join(f"<td>{html.escape(_text(value))}</td>" for value in row.values()) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _text(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _importance_plot(importances: Mapping[str, float]) -> str:
    """Draw the share of the model's gain that each feature brings, as inline SVG."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    total = sum(importances.values()) or 1.0
    ranked = sorted(importances.items(), key=lambda item: item[1])
    grey = "#7d8b99"  # readable on the light and on the dark page
    style = {"text.color": grey, "axes.labelcolor": grey, "xtick.color": grey, "ytick.color": grey}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "demo", "font.size": 10, **style}):
        figure, axes = pyplot.subplots(figsize=(8, 0.3 * len(ranked) + 0.6), layout="constrained")
        shares = [100 * gain / total for _, gain in ranked]
        bars = axes.barh([name for name, _ in ranked], shares, color="#3b82b5")
        axes.bar_label(bars, fmt="%.1f %%", padding=4, color=grey)
        axes.set_xlabel("share of total gain, %")
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axes.tick_params(left=False)
        axes.margins(x=0.12, y=0.01)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]
