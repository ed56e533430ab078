#!/usr/bin/env python3
"""Tests of draw_charts.py, and that the committed charts show what the tables say."""

import unittest
import xml.etree.ElementTree

import draw_charts

TABLE = """
## Zen 4

| work | model | Quire | of limit | peer | its | ratio |
|---|---|---|---|---|---|---|
| decode | BF16 | 15.0 (13.7 to 18.3) | 88% (85% to 100%) | other | 11.2 | 1.34 |

## Zen 3

| decode | Q4_0 | 1.0 | 1% | other | 1.0 | 1.0 |
"""


def figure(engine, value, low=None, high=None, model="BF16"):
    return {"chart": "one-stream", "work": "decode", "model": model, "peer": "other", "engine": engine,
            "value": value, "low": low, "high": high}


class TestDrawCharts(unittest.TestCase):
    def test_figures_of_the_table_are_founded(self):
        tables = draw_charts.table_rows(TABLE)
        figures = [figure("Quire", 15, 13.7, 18.3), figure("of limit", 88, 85, 100), figure("other", 11.2)]
        self.assertEqual(draw_charts.unfounded(figures, tables), [])

    def test_another_figure_another_spread_or_no_row_is_not(self):
        tables = draw_charts.table_rows(TABLE)
        for wrong in (figure("Quire", 15.1, 13.7, 18.3), figure("Quire", 15, 13.7, 18.4), figure("Quire", 15),
                      figure("other", 15), figure("Quire", 1, model="Q4_0")):
            self.assertEqual(len(draw_charts.unfounded([wrong], tables)), 1, wrong)

    def test_bars_are_as_long_as_their_values(self):
        figures = [figure("Quire", 20), figure("OpenVINO", 10)]
        svg = xml.etree.ElementTree.fromstring(draw_charts.draw("one-stream", figures))
        bars = [float(each.get("width")) for each in svg.iter("{http://www.w3.org/2000/svg}rect")
                if each.get("rx")]
        self.assertEqual(bars[0], 2 * bars[1])

    def test_the_committed_charts(self):
        figures = draw_charts.read_figures(draw_charts.FOLDER / "figures.csv")
        self.assertEqual(draw_charts.unfounded(
            figures, draw_charts.table_rows((draw_charts.FOLDER / "peers.md").read_text())), [])
        self.assertEqual({row["chart"] for row in figures}, set(draw_charts.TITLES))
        for chart in draw_charts.TITLES:
            self.assertEqual((draw_charts.FOLDER / f"{chart}.svg").read_text(),
                             draw_charts.draw(chart, [row for row in figures if row["chart"] == chart]),
                             "run scripts/draw_charts.py")


if __name__ == "__main__":
    unittest.main()
