"""The dashboard and the alerts of deploy/ ask for what the server has: each metric, label and value is
looked up in a scrape of a server that has worked.

    tests/deploy_metrics_test.py PROGRAM SOURCE_DIR     (by `make check-deploy`)
"""

import json
import pathlib
import re
import tempfile
import unittest

import yaml

from deploy_support import DEPLOY, KUBERNETES, load, run_tool
from serve_support import ServerTest, main

METRIC = re.compile(r"\b((?:vllm:|quire_)[a-z0-9_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!=|!~|=)"([^"]*)"')
BY_PROMETHEUS = {"instance", "job", "namespace", "pod"}  # labels that the scrape adds


def dashboard():
    return json.loads((DEPLOY / "grafana/quire-dashboard.json").read_text())


def panel_queries():
    return {f"{panel['title']} {target['refId']}": target["expr"]
            for panel in dashboard()["panels"] for target in panel.get("targets", [])}


def alert_queries():
    groups = load(DEPLOY / "prometheus/alerts.yml")["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


class Prometheus(unittest.TestCase):
    def test_promtool_takes_rules_and_settings(self):
        run_tool("promtool", "check", "rules", DEPLOY / "prometheus/alerts.yml")
        run_tool("promtool", "check", "config", DEPLOY / "prometheus/prometheus.yml")

    def test_alerts_fire_when_they_should(self):
        run_tool("promtool", "test", "rules", DEPLOY / "prometheus/alerts_test.yml")

    def test_each_alert_has_a_case_that_fires_it(self):
        cases = load(DEPLOY / "prometheus/alerts_test.yml")["tests"]
        fired = {case["alertname"] for test in cases for case in test["alert_rule_test"]
                 if case["exp_alerts"]}
        self.assertEqual(fired, set(alert_queries()))

    def test_the_queries_of_the_dashboard_are_well_formed(self):
        rules = [{"record": f"query{i}", "expr": expr.replace("$__rate_interval", "5m")}
                 for i, expr in enumerate(panel_queries().values())]
        self.assertGreater(len(rules), 30)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rules.yml")
            path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
            run_tool("promtool", "check", "rules", path)


class Dashboard(unittest.TestCase):
    def test_panels_are_apart_and_within_the_grid(self):
        taken = {}
        for panel in dashboard()["panels"]:
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    self.assertNotIn((x, y), taken, (panel["title"], taken.get((x, y))))
                    taken[x, y] = panel["title"]

    def test_names_are_not_used_twice(self):
        panels = dashboard()["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        self.assertEqual(len({panel["title"] for panel in panels}), len(panels))

    def test_every_panel_asks_the_chosen_source_and_servers(self):
        names = {each["name"] for each in dashboard()["templating"]["list"]}
        self.assertEqual(names, {"datasource", "model", "instance"})
        for title, expr in panel_queries().items():
            for _, labels in METRIC.findall(expr):
                self.assertIn('model_name=~"$model",instance=~"$instance"', labels, title)


class Metrics(ServerTest):
    flags = ("--max-num-seqs", 2)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        body = {"prompt": "The same beginning of a prompt, twice over.", "max_tokens": 4}
        for _ in range(2):
            assert cls.server.post("/v1/completions", body).status == 200
        cls.samples = {}  # name: the sets of labels that it has
        for line in cls.server.get("/metrics").body.decode().splitlines():
            if match := re.match(r"([a-z_:0-9]+)\{(.*)\} ", line):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
                cls.samples.setdefault(match[1], []).append(labels)

    def check(self, title, expr):
        found = METRIC.findall(expr)
        self.assertTrue(found or expr.startswith("up{"), title)
        for name, labels in found:
            self.assertIn(name, self.samples, title)
            known = self.samples[name]
            for label, operator, value in MATCHER.findall(labels):
                if label in BY_PROMETHEUS:
                    continue
                have = {each.get(label) for each in known}
                self.assertNotIn(None, have, f"{title}: {name} has no label {label}")
                if not value.startswith("$"):
                    for each in value.split("|") if "~" in operator else [value]:
                        self.assertIn(each, have, f"{title}: {name}, {label}")

    def test_each_metric_of_the_dashboard_exists(self):
        for title, expr in panel_queries().items():
            with self.subTest(title):
                self.check(title, expr)
        for each in dashboard()["templating"]["list"]:
            if each["type"] == "query":
                inner = re.fullmatch(r"label_values\((.*), (\w+)\)", each["definition"])
                self.check(each["name"], inner[1])
                self.assertIn(inner[2], {"model_name", "instance"})

    def test_each_metric_of_an_alert_exists(self):
        for title, expr in alert_queries().items():
            with self.subTest(title):
                self.check(title, expr)

    def test_the_metric_of_the_autoscaler_exists(self):
        [rule] = load(KUBERNETES / "prometheus-adapter.yaml")["rules"]["custom"]
        name = re.search(r'__name__="([^"]*)"', rule["seriesQuery"])[1]
        self.assertIn(name, self.samples)
        self.assertRegex(name, rule["name"]["matches"])

    def test_a_metric_that_is_not_there_is_noticed(self):
        for wrong in ("quire_no_such_metric", 'quire_blocks{state="lost"}', 'quire_blocks{colour="red"}'):
            with self.assertRaises(AssertionError, msg=wrong):
                self.check("wrong", wrong)


if __name__ == "__main__":
    main()
