#!/usr/bin/env python3
"""Draws the charts of docs/performance.md from docs/performance/figures.csv, as SVG beside it.

    scripts/draw_charts.py

A line of that file is a figure of the tables of docs/performance/peers.md (Zen 4), and one that is not there
is an error: work, model and peer are its row as it stands there; engine is "Quire" or the peer's name for tokens a second, "of limit" for the share of the limit in percent. low and
high are the lowest and highest run, empty where there was one.
"""

import csv
import pathlib
import re
import sys
from xml.sax.saxutils import escape

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance"
TITLES = {
    "serving": ("16 requests at once over HTTP: output tokens/s",
                "1.1B model, two cores of an AMD EPYC (Zen 4); alternating runs, whiskers: lowest and highest"),
    "one-stream": ("One stream: output tokens/s",
                   "1.1B model, two cores of an AMD EPYC (Zen 4); alternating runs, whiskers: lowest and highest"),
    "of-limit": ("Share of what memory or arithmetic allow, in percent",
                 "1.1B model, two cores of an AMD EPYC (Zen 4); whiskers: lowest and highest run"),
}
COLOURS = {"Quire": "#1f6f8b", "of limit": "#1f6f8b", "llama.cpp": "#b08d57", "OpenVINO": "#8a7fa8",
           "vLLM": "#9aa37a"}
WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 760, 250, 70, 17, 12, 66


def read_figures(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        for key in ("value", "low", "high"):
            row[key] = float(row[key]) if row[key] else None
    return rows


def table_rows(text):
    """(work, model, peer) to (Quire's figure, of limit, the peer's figure) in the first table with such a head."""
    rows = {}
    section = re.search(r"(?ms)^## Zen 4\n(.*?)^##? ", text + "\n## ")[1]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 7:
            work, model, quire, limit, peer, its, _ = cells
            rows[work, model, peer] = (quire, limit, its)
    return rows


def figure_text(row):
    """A figure as the tables have it: `95.0 (93.7 to 96.3)`, `85% (81% to 87%)`."""
    form = "{:.0f}%" if row["engine"] == "of limit" else "{:.1f}"
    text = form.format(row["value"])
    if row["low"] is not None:
        text += f" ({form.format(row['low'])} to {form.format(row['high'])})"
    return text


def unfounded(figures, tables):
    """One line for each figure that is in no row of the tables."""
    problems = []
    for row in figures:
        found = tables.get((row["work"], row["model"], row["peer"]))
        column = {"Quire": 0, "of limit": 1}.get(row["engine"], 2)
        if found is None or found[column] != figure_text(row):
            problems.append(f"{row['chart']}: {row['work']}, {row['model']}, {row['engine']} {figure_text(row)}: "
                            f"the table has {found[column] if found else 'no such row'}")
    return problems


def label(row):
    model = row["model"].replace(", a scale a row", "")
    if row["chart"] == "of-limit":
        return f"{row['work']}, {model}"
    return f"{model}, beside {row['peer'].split(' (')[0]}"


def draw(chart, rows):
    """The chart as SVG: horizontal bars, those of one row of the table together."""
    title, subtitle = TITLES[chart]
    longest = max(row["high"] or row["value"] for row in rows)
    if chart == "of-limit":
        longest = max(longest, 100)
    scale = (WIDTH - LEFT - RIGHT) / longest
    out = []
    y = TOP
    last = None
    for row in rows:
        group = (row["work"], row["model"], row["peer"])
        first = group != last
        y += GAP if first and last else 0
        last = group
        width = row["value"] * scale
        middle = y + BAR / 2
        name = label(row) if first else ""
        out.append(f'<text x="{LEFT - 10}" y="{middle + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" rx="2" '
                   f'fill="{COLOURS[row["engine"]]}"/>')
        end = width
        if row["low"] is not None:
            low, high = row["low"] * scale, row["high"] * scale
            end = max(width, high)
            out.append(f'<path d="M{LEFT + low:.1f} {middle - 1}H{LEFT + high:.1f}" stroke="#222" fill="none"/>')
        value = figure_text(row).split(" (")[0]
        what = "" if chart == "of-limit" else f' {row["engine"]}'
        out.append(f'<text x="{LEFT + end + 6:.1f}" y="{middle + 4:.1f}">{escape(value + what)}</text>')
        y += BAR
    if chart == "of-limit":
        x = LEFT + 100 * scale
        out.append(f'<path d="M{x:.1f} {TOP - 6}V{y}" stroke="#a33" stroke-dasharray="4 3" fill="none"/>')
    extra = 70 if chart != "of-limit" else 0
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + extra} {y + 16}" role="img" '
            f'font-family="sans-serif" font-size="13" fill="#222">\n'
            f'<title>{escape(title)}</title>\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n'
            f'<text x="16" y="26" font-size="16" font-weight="bold">{escape(title)}</text>\n'
            f'<text x="16" y="46" font-size="12" fill="#555">{escape(subtitle)}</text>\n'
            + "\n".join(out) + "\n</svg>\n")


def main():
    figures = read_figures(FOLDER / "figures.csv")
    problems = unfounded(figures, table_rows((FOLDER / "peers.md").read_text()))
    for chart in TITLES:
        (FOLDER / f"{chart}.svg").write_text(draw(chart, [row for row in figures if row["chart"] == chart]))
    for problem in problems:
        print(f"draw_charts: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
