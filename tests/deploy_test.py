"""What is in deploy/ is right: by the tools that know the formats, and held against the program.

    tests/deploy_test.py PROGRAM SOURCE_DIR     (by `make check-deploy`)
"""

import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import unittest

import kubernetes_validate

from cli_support import PROGRAM, SMOLLM2, SOURCE
from deploy_support import (DEPLOY, KUBERNETES, VERSION, flag_value, load, run_tool, serve_flags,
                            unit, with_flag)
from serve_support import TIMEOUT, Server, main, wait_until

UNITS = ("quire.service", "quire@.service")
# Of systemd-analyze security, in tenths of its points: 0 is all closed, 100 all open.
MOST_EXPOSED = 15


def values(name, key):
    return [value for each, value in unit(name)["Service"] if each == key]


class Systemd(unittest.TestCase):
    def test_systemd_takes_the_units(self):
        for name in UNITS:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                text = (DEPLOY / "systemd" / name).read_text()
                copy = pathlib.Path(folder, name)
                copy.write_text(text.replace("/usr/bin/quire", str(pathlib.Path(PROGRAM).resolve())))
                self.assertEqual(run_tool("systemd-analyze", "verify", "--man=no", copy), "")

    def test_they_are_closed(self):
        for name in UNITS:
            with self.subTest(name):
                run_tool("systemd-analyze", "security", "--offline=true",
                         f"--threshold={MOST_EXPOSED}", DEPLOY / "systemd" / name)

    def test_both_are_closed_alike(self):
        def hardening(name):
            pairs = unit(name)["Service"]
            first = next(i for i, (key, _) in enumerate(pairs) if key == "AmbientCapabilities")
            return [pair for pair in pairs[first:] if pair[0] != "UMask"]
        self.assertGreater(len(hardening(UNITS[0])), 25)
        self.assertEqual(hardening(UNITS[0]), hardening(UNITS[1]))

    def test_the_flags_exist(self):
        for name in UNITS:
            [command] = values(name, "ExecStart")
            flags = set(re.findall(r"--[a-z-]+", command))
            self.assertIn("--shutdown-timeout", flags)
            self.assertLessEqual(flags, serve_flags())

    def test_requests_in_flight_have_time_to_finish(self):
        for name in UNITS:
            [command] = values(name, "ExecStart")
            [stop] = values(name, "TimeoutStopSec")
            drain = int(flag_value(shlex.split(command), "--shutdown-timeout"))
            self.assertGreaterEqual(int(stop), drain + 10)
            self.assertEqual(values(name, "KillSignal"), ["SIGTERM"])

    def test_the_settings_start_a_server(self):
        text = (DEPLOY / "systemd/quire.env").read_text()
        [line] = re.findall(r"^QUIRE_ARGS=(.*)$", text, re.MULTILINE)
        args = with_flag(shlex.split(line), "--port", 0)
        self.assertEqual(flag_value(args, "--host"), "127.0.0.1")
        with tempfile.TemporaryDirectory() as state:
            command = [PROGRAM, "serve", "--simulate-step-ms", 0, "--shutdown-timeout", 30,
                       "--model", SMOLLM2, "--batch-database", pathlib.Path(state, "db"), *args]
            with Server(command=command) as server:
                self.assertEqual(server.get("/health").status, 200)

    def test_the_server_tells_systemd_that_it_is_ready_lives_and_stops(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "notify")
            manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.addCleanup(manager.close)
            manager.bind(str(path))
            manager.settimeout(TIMEOUT)
            command = ["env", f"NOTIFY_SOCKET={path}", "WATCHDOG_USEC=60000000", PROGRAM, "serve",
                       "--model", SMOLLM2, "--port", 0, "--simulate-step-ms", 0,
                       "--batch-database", pathlib.Path(folder, "db")]
            with Server(command=command) as server:
                self.assertEqual(manager.recv(64), b"READY=1")
                self.assertEqual(manager.recv(64), b"WATCHDOG=1")
                server.terminate()
                wait_until(lambda: manager.recv(64) == b"STOPPING=1", "it says that it stops")
                self.assertEqual(server.wait(), 0)


class Docker(unittest.TestCase):
    def setUp(self):
        self.text = (DEPLOY / "docker/Dockerfile").read_text()

    def test_hadolint_takes_the_dockerfile(self):
        self.assertEqual(run_tool("hadolint", "--failure-threshold", "style",
                                  DEPLOY / "docker/Dockerfile"), "")

    def command(self):
        [line] = re.findall(r"^CMD (\[.*\])$", self.text, re.MULTILINE)
        return json.loads(line)

    def test_the_health_check_asks_the_port_that_is_served(self):
        port = flag_value(self.command(), "--port")
        self.assertIn(f"EXPOSE {port}\n", self.text)
        self.assertIn(f'"http://127.0.0.1:{port}/health"', self.text)

    def test_its_command_starts_a_server(self):
        args = self.command()
        self.assertEqual(args[0], "serve")
        self.assertEqual(flag_value(args, "--model"), "/models")
        args = with_flag(with_flag(args, "--port", 0), "--model", SMOLLM2)
        with tempfile.TemporaryDirectory() as state:
            command = [PROGRAM, *args, "--simulate-step-ms", 0, "--batch-database",
                       pathlib.Path(state, "db")]
            with Server(command=command) as server:
                self.assertEqual(server.get("/health").status, 200)

    def test_its_user_is_the_one_that_kubernetes_names(self):
        [user, group] = re.search(r"^USER (\d+):(\d+)$", self.text, re.MULTILINE).groups()
        self.assertIn(f"--uid {user}", self.text)
        self.assertIn(f"--gid {group}", self.text)
        security = load(KUBERNETES / "deployment.yaml")["spec"]["template"]["spec"]["securityContext"]
        self.assertEqual((security["runAsUser"], security["runAsGroup"]), (int(user), int(group)))

    def test_what_the_build_needs_is_not_left_out(self):
        ignored = (SOURCE / ".dockerignore").read_text().split("\n")
        for name in ("src", "cmake", "deploy", "docs", "scripts", "README.md", "CMakeLists.txt",
                     "CMakePresets.json", "Makefile"):
            self.assertNotIn(name, ignored)


class Yaml(unittest.TestCase):
    def test_yamllint_takes_every_file(self):
        run_tool("yamllint", "--strict", "-c", DEPLOY / ".yamllint", DEPLOY)


class Pods:
    """What holds for a container on Kubernetes, with KServe or without."""

    container = None  # of the manifest
    grace_s = None

    def probes(self):
        return {name: self.container[name]["httpGet"]
                for name in ("startupProbe", "readinessProbe", "livenessProbe")}

    def test_its_arguments_start_a_server_that_the_probes_find(self):
        args = [each.replace("{{.Name}}", "a-model") for each in self.container["args"]]
        self.assertEqual(args[0], "serve")
        args = with_flag(with_flag(args, "--port", 0), "--model", SMOLLM2)
        args = with_flag(args, "--log-format", "text")  # by which the test knows where it is
        with tempfile.TemporaryDirectory() as state:
            command = [PROGRAM, *args, "--simulate-step-ms", 0, "--api-key", "secret",
                       "--batch-database", pathlib.Path(state, "db")]
            with Server(command=command) as server:
                for name, probe in self.probes().items():
                    self.assertEqual(server.get(probe["path"]).status, 200, name)
                self.assertEqual(server.get("/metrics").status, 401)

    def test_ports_agree(self):
        port = int(flag_value(self.container["args"], "--port"))
        [declared] = self.container["ports"]
        self.assertEqual(declared["containerPort"], port)
        for name, probe in self.probes().items():
            self.assertIn(probe["port"], (port, declared["name"]), name)

    def test_requests_in_flight_have_time_to_finish(self):
        word, seconds = self.container["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(word, "sleep")
        drain = int(flag_value(self.container["args"], "--shutdown-timeout"))
        self.assertGreaterEqual(self.grace_s, int(seconds) + drain + 5)

    def test_it_may_do_little(self):
        security = self.container["securityContext"]
        self.assertFalse(security["allowPrivilegeEscalation"])
        self.assertTrue(security["readOnlyRootFilesystem"])
        self.assertEqual(security["capabilities"], {"drop": ["ALL"]})

    def test_what_it_writes_to_is_mounted(self):
        mounts = {each["mountPath"]: each for each in self.container["volumeMounts"]}
        self.assertNotIn("readOnly", mounts["/var/lib/quire"])


class Kubernetes(Pods, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kustomization = load(KUBERNETES / "kustomization.yaml")
        cls.resources = {}
        for name in cls.kustomization["resources"]:
            resource = load(KUBERNETES / name)
            cls.resources[resource["kind"]] = resource
        cls.template = cls.resources["Deployment"]["spec"]["template"]
        [cls.container] = cls.template["spec"]["containers"]
        cls.grace_s = cls.template["spec"]["terminationGracePeriodSeconds"]

    def test_kubernetes_takes_every_resource(self):
        for resource in self.resources.values():
            with self.subTest(resource["kind"]):
                kubernetes_validate.validate(resource, "1.37", strict=True)

    def test_the_kustomization_has_every_manifest(self):
        others = {"kustomization.yaml", "prometheus-adapter.yaml", "prometheus-scrape.yaml"}
        self.assertEqual(set(self.kustomization["resources"]) | others,
                         {path.name for path in KUBERNETES.iterdir()})
        [image] = self.kustomization["images"]
        self.assertEqual(image["newTag"], VERSION)
        self.assertEqual(image["name"], self.container["image"])

    def test_everything_selects_the_pods(self):
        labels = self.template["metadata"]["labels"].items()
        for selector in (self.resources["Deployment"]["spec"]["selector"]["matchLabels"],
                         self.resources["Service"]["spec"]["selector"],
                         self.resources["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
            self.assertLessEqual(selector.items(), labels)
        [port] = self.resources["Service"]["spec"]["ports"]
        self.assertEqual(port["targetPort"], self.container["ports"][0]["name"])
        target = self.resources["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
        self.assertEqual(target["name"], self.resources["Deployment"]["metadata"]["name"])

    def test_volumes_are_those_that_are_claimed(self):
        volumes = {each["name"]: each for each in self.template["spec"]["volumes"]}
        mounted = {each["name"] for each in self.container["volumeMounts"]}
        self.assertEqual(mounted, set(volumes))
        self.assertEqual(volumes["model"]["persistentVolumeClaim"]["claimName"],
                         self.resources["PersistentVolumeClaim"]["metadata"]["name"])

    def test_it_meets_the_restricted_standard(self):
        security = self.template["spec"]["securityContext"]
        self.assertTrue(security["runAsNonRoot"])
        self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})

    def test_the_autoscaler_asks_for_the_metric_that_the_adapter_gives(self):
        [metric] = self.resources["HorizontalPodAutoscaler"]["spec"]["metrics"]
        [rule] = load(KUBERNETES / "prometheus-adapter.yaml")["rules"]["custom"]
        self.assertEqual(metric["pods"]["metric"]["name"], rule["name"]["as"])
        [job] = load(KUBERNETES / "prometheus-scrape.yaml")["scrape_configs"]
        given = {each.get("target_label") for each in job["relabel_configs"]}
        self.assertLessEqual(set(rule["resources"]["overrides"]), given)


class KServe(Pods, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = load(DEPLOY / "kserve/serving-runtime.yaml")
        cls.service = load(DEPLOY / "kserve/inference-service.yaml")
        [cls.container] = cls.runtime["spec"]["containers"]
        cls.grace_s = cls.service["spec"]["predictor"]["terminationGracePeriodSeconds"]

    def test_kubernetes_takes_its_container(self):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
               "spec": {"containers": [self.container], "volumes": self.runtime["spec"]["volumes"]}}
        kubernetes_validate.validate(pod, "1.37", strict=True)

    def test_it_is_what_kserve_expects(self):
        self.assertEqual(self.runtime["apiVersion"], "serving.kserve.io/v1alpha1")
        self.assertEqual(self.service["apiVersion"], "serving.kserve.io/v1beta1")
        self.assertEqual(self.container["name"], "kserve-container")
        self.assertEqual(flag_value(self.container["args"], "--model"), "/mnt/models")
        self.assertEqual(flag_value(self.container["args"], "--port"), "8080")

    def test_the_service_uses_the_runtime(self):
        model = self.service["spec"]["predictor"]["model"]
        self.assertEqual(model["runtime"], self.runtime["metadata"]["name"])
        formats = [each["name"] for each in self.runtime["spec"]["supportedModelFormats"]]
        self.assertIn(model["modelFormat"]["name"], formats)

    def test_the_image_is_this_version(self):
        self.assertTrue(self.container["image"].endswith(f":{VERSION}"))


class Package(unittest.TestCase):
    def test_the_manual_page_has_every_command(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "quire.1")
            subprocess.run([sys.executable, "-B", SOURCE / "scripts/make_man_page.py", PROGRAM,
                            DEPLOY / "debian/quire.1.in", page], timeout=TIMEOUT, check=True)
            text = page.read_text()
        self.assertRegex(text, r"\n\.TP\n\.B serve\nServe a model over HTTP")
        self.assertRegex(text, r"\n\.TP\n\.B bench\n")
        self.assertNotIn("@", text.replace("quire@", ""))

    def test_the_changelog_has_this_version(self):
        self.assertTrue((DEPLOY / "debian/changelog").read_text().startswith(f"quire ({VERSION})"))

    def test_the_maintainer_scripts_are_clean(self):
        scripts = [DEPLOY / "debian" / name for name in ("postinst", "prerm", "postrm")]
        self.assertTrue(all(os.access(each, os.X_OK) for each in scripts))
        run_tool("shellcheck", *scripts)


if __name__ == "__main__":
    main()
