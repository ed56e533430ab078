"""`quire plan`: what it says of models that are here and of those that are not.

    cli_plan_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

from cli_support import SMOLLM2, SOURCE, STORIES, TINY, needs, run

CONFIGS = SOURCE / "examples/configs"
GIB = 2**30


def plan(*args):
    result = run("plan", *args, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def table(kind, *args):
    return plan("--table", kind, *args)["rows"]


def models(*names):
    return ",".join(str(CONFIGS / f"{name}.json") for name in names)


class Plan(unittest.TestCase):
    def check_like_inspect(self, model):
        inspected = json.loads(run("inspect", model, "--max-model-len", 64, "--json").stdout)
        planned = plan(model, "--device", "xeon-8480", "--max-model-len", 64, "--input-len", 32, "--output-len", 32)
        self.assertEqual(planned["weight_bytes"], inspected["memory_plan"]["weight_bytes"])
        kv_dtype = "bf16" if planned["kv_bytes_per_token"] == inspected["kv_bytes_per_token"]["bfloat16"] else "fp32"
        for name, key in (("bf16", "bfloat16"), ("fp32", "float32")):
            again = plan(model, "--kv-cache-dtype", name, "--max-model-len", 64, "--input-len", 32, "--output-len", 32)
            self.assertEqual(again["kv_bytes_per_token"], inspected["kv_bytes_per_token"][key])
        self.assertIn(kv_dtype, ("bf16", "fp32"))

    def test_weights_of_models_that_are_here_are_those_that_inspect_plans(self):
        self.check_like_inspect(TINY / "hf")
        self.check_like_inspect(TINY / "tiny_llama_q4_0.gguf")

    @needs(STORIES)
    def test_stories(self):
        self.check_like_inspect(STORIES)

    @needs(SMOLLM2)
    def test_the_bundled_model(self):
        self.check_like_inspect(SMOLLM2)

    def test_parameters_are_those_that_authors_publish(self):
        for name, parameters in (("llama-2-7b", 6738415616), ("llama-2-13b", 13015864320),
                                 ("llama-2-70b", 68976648192), ("mistral-7b-v0.3", 7248023552),
                                 ("llama-3.1-8b", 8030261248), ("llama-3.1-70b", 70553706496),
                                 ("llama-3.1-405b", 405853388800), ("falcon-7b", 6921720704),
                                 ("deepseek-v3", 671026419200)):
            report = plan(CONFIGS / f"{name}.json", "--device", "b200")
            self.assertEqual(report["parameters"], parameters, name)
        self.assertEqual(report["dtype"], "fp8")
        self.assertAlmostEqual(report["active_parameters"] / 1e9, 37.55, places=2)

    def test_a_configuration_folder_without_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "some-model"
            target.mkdir()
            (target / "config.json").write_text((CONFIGS / "llama-2-7b.json").read_text())
            report = plan(target, "--device", "h100")
            self.assertEqual((report["model"], report["parameters"]), ("some-model", 6738415616))

    def test_one_device(self):
        report = plan(CONFIGS / "llama-3.1-70b.json", "--device", "h100", "--dtype", "fp8", "--max-model-len", "8k",
                      "--tp", 4)
        self.assertEqual(report["kv_bytes_per_sequence"], 8000 * 327680)
        each = report["plans"][0]
        self.assertEqual((each["tp"], each["computed_in"], each["memory"]["sequences"]), (4, "fp8", 81))
        self.assertEqual(each["prefill"]["bound"], "compute")
        batches = each["decode"]
        self.assertEqual([step["batch"] for step in batches], [1, 2, 4, 8, 16, 32, 64, 128, 256])
        for before, after in zip(batches, batches[1:]):
            self.assertLess(before["ideal_ms"], after["ideal_ms"])
            self.assertLess(before["tokens_per_s"], after["tokens_per_s"])
            self.assertGreater(before["usd_per_million_output_tokens"], after["usd_per_million_output_tokens"])
        for step in batches:
            self.assertLess(step["ideal_ms"], step["expected_ms"])
        text = run("plan", CONFIGS / "llama-3.1-70b.json", "--device", "h100", "--dtype", "fp8", "--max-model-len",
                   "8k", "--tp", 4).stdout
        documented = re.search(r"^```\n(model           llama-3.1-70b.*?)^\.\.\.$", (SOURCE / "docs/planning.md").read_text(),
                               re.M | re.S)[1]
        self.assertTrue(text.startswith(documented), text)

    def test_every_device(self):
        report = plan(CONFIGS / "llama-3.1-70b.json", "--max-model-len", "8k")
        plans = {each["device"]["name"]: each for each in report["plans"]}
        self.assertEqual(len(plans), len(plan("--list-devices")["devices"]))
        self.assertEqual(plans["h200"]["tp"], 2)  # 131.4 GiB of weights, 118.2 of one
        self.assertEqual(plans["b200"]["tp"], 1)
        self.assertFalse(plans["rtx4090"]["tp"] < 8)

    def test_stages_of_layers(self):
        model = CONFIGS / "llama-3.1-70b.json"
        args = (model, "--device", "h100", "--dtype", "fp8", "--max-model-len", "8k", "--tp", 1)
        found = {pp: plan(*args, "--pp", pp)["plans"][0] for pp in (2, 4)}
        two, four = found[2], found[4]
        self.assertEqual([(stage["count"], stage["footprint"]["num_layers"]) for stage in two["stages"]], [(1, 40), (1, 40)])
        whole = plan(*args, "--pp", 2)["weight_bytes"]
        self.assertAlmostEqual(sum(stage["count"] * stage["footprint"]["weight_bytes"] for stage in four["stages"]) / whole, 1)
        self.assertEqual(max(stage["footprint"]["weight_bytes"] for stage in four["stages"]), four["memory"]["weights"])
        self.assertEqual(four["usd_per_hour"], 2 * two["usd_per_hour"])
        self.assertGreater(four["memory"]["sequences"], 2 * two["memory"]["sequences"])
        # One request is not faster for more stages, and many are.
        self.assertGreater(four["prefill"]["expected_ms"], two["prefill"]["expected_ms"])
        first, last = ({pp: each["decode"][i] for pp, each in found.items()} for i in (0, -1))
        self.assertGreater(first[4]["expected_ms"], first[2]["expected_ms"])
        self.assertGreater(last[4]["tokens_per_s"], 1.5 * last[2]["tokens_per_s"])
        text = run("plan", *args, "--pp", 2).stdout
        self.assertIn("2 stages of 1 device: 40 40 layers", text)
        far = (model, "--device", "xeon-8480", "--max-model-len", "8k", "--pp", 2)
        slow = plan(*far, "--transfer-gbs", "0.1")["plans"][0]
        fast = plan(*far)["plans"][0]
        self.assertGreater(slow["prefill"]["ideal_ms"], fast["prefill"]["ideal_ms"] + 100)  # 1024 x 8192 x 2 bytes
        # Without --pp there are stages only where one cannot hold the model, or for a load where more are cheaper.
        big = plan(CONFIGS / "llama-3.1-405b.json", "--device", "h100", "--max-model-len", "16k")["plans"][0]
        self.assertEqual((big["tp"], big["pp"], big["fits"]), (8, 2, True))
        load = plan(CONFIGS / "llama-3.1-405b.json", "--device", "h100", "--qps", 1, "--input-len", "1k", "--output-len", 100)
        (able,) = [each for each in load["options"] if "obstacle" not in each and each["tp"] == 8]
        self.assertGreater(able["pp"], 1)
        self.assertEqual(able["devices"], able["replicas"] * 8 * able["pp"])

    def test_a_wanted_load(self):
        args = (CONFIGS / "llama-3.1-8b.json", "--qps", 5, "--input-len", "2k", "--output-len", 300, "--ttft", "1s")
        options = plan(*args, "--tpot", "50ms")["options"]
        able = [each for each in options if "obstacle" not in each]
        prices = [each["usd_per_hour"] for each in able if each["usd_per_hour"] is not None]
        self.assertEqual(prices, sorted(prices))
        for each in able:
            self.assertLessEqual(each["tpot_ms"], 50)
            self.assertLessEqual(each["ttft_ms"], 1000)
            self.assertGreaterEqual(each["max_qps_per_replica"] * each["replicas"], 5 * 0.999999)
        self.assertTrue(any("one sequence alone" in each.get("obstacle", "") for each in options))
        own = plan(*args, "--tpot", "50ms", "--device", "h100", "--tp", 1, "--price-per-hour", 2)["options"]
        self.assertEqual([(each["device"], each["usd_per_hour"]) for each in own], [("h100", 2 * own[0]["replicas"])])
        refused = run("plan", *args, "--tpot", "10us")
        self.assertEqual(refused.returncode, 78)
        self.assertIn("carries this load", refused.stderr)

    def test_ones_own_devices(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            device = {"name": "ours", "memory_gb": 64, "bandwidth_gbs": 100, "teraflops": {"fp32": 1}, "source": "us",
                      "date": "2026-11", "memory_efficiency": 1}
            json.dump({"devices": [device]}, file)
            file.flush()
            each = plan(CONFIGS / "llama-2-7b.json", "--devices", file.name, "--device", "ours")["plans"][0]
        self.assertEqual(each["computed_in"], "fp32")
        self.assertIsNone(each["usd_per_hour"])
        self.assertAlmostEqual(each["decode"][0]["ideal_ms"], each["decode"][0]["bytes"] / 100e9 * 1e3, places=6)

    def test_what_is_wrong_is_refused_by_name(self):
        model = CONFIGS / "llama-3.1-70b.json"
        for args, code, said in (
                ([model, "--device", "h1000"], 64, "did you mean h100?"),
                ([model, "--device", "h100", "--tp", 3], 64, "--tp 3 does not divide 64 attention heads"),
                ([model, "--device", "xeon-8480", "--tp", 2], 64, "split over at most 1 of xeon-8480"),
                ([model, "--device", "h100", "--tp", 1, "--pp", 1], 78, "llama-3.1-70b takes 131.42 GiB of weights"),
                ([model, "--device", "h100", "--pp", 81], 64, "--pp 81: the model has 80 layers"),
                ([model, "--device", "h100", "--tp", 1, "--pp", 2, "--dtype", "fp32"], 78, "each h100 of stage 2 of 2"),
                ([model, "--device", "h100", "--max-model-len", 200000], 64, "up to 131072 tokens"),
                ([model, "--input-len", 4096, "--max-model-len", 4096], 64, "more than a sequence of 4096"),
                ([model, "--dtype", "int3"], 64, 'no weights of type "int3"'),
                ([model, "--ttft", "soon"], 64, '"soon" is not a time'),
                ([model, "--devices", "/no/such/file.json"], 66, "/no/such/file.json"),
                (["/no/such/config.json"], 66, "/no/such/config.json"),
                (["--table", "weights", "--parameters", "7"], 64, '"7" is not a number of parameters')):
            with self.subTest(args):
                result = run("plan", *args)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(said, result.stderr)


class Tables(unittest.TestCase):
    """The numbers that docs/planning.md has, and the field knows."""

    def test_weights(self):
        rows = {row.pop("parameters"): list(row.values()) for row in table("weights")}
        self.assertEqual(rows["7B"], [28, 14, 7, 3.5])
        self.assertEqual(rows["70B"], [280, 140, 70, 35])
        self.assertEqual(rows["671B"], [2684, 1342, 671, 335.5])

    def test_kv(self):
        rows = table("kv", "--models", models("llama-2-7b", "llama-2-13b", "llama-2-70b", "mistral-7b-v0.3"),
                     "--max-model-len", 4096)
        self.assertEqual([(row["bytes/token"], row["GiB/sequence"]) for row in rows],
                         [(524288, 2), (819200, 3.125), (327680, 1.25), (131072, 0.5)])

    def test_attention(self):
        rows = table("attention", "--models", models("llama-2-7b", "llama-3.1-8b", "falcon-7b", "deepseek-v3"),
                     "--max-model-len", 2048)
        self.assertEqual([row["own"] for row in rows], ["MHA", "GQA-8", "MQA", "MLA"])
        self.assertEqual([row["bytes/token"] for row in rows], [524288, 131072, 8192, 70272])
        self.assertEqual([row["as MHA"] for row in rows], [524288, 524288, 581632, 4997120])

    def test_batches_of_a_70b(self):
        rows = table("batch", CONFIGS / "llama-3.1-70b.json", "--max-model-len", 4096)
        self.assertEqual([row["batch"] for row in rows], [1, 2, 4, 8, 16, 32])
        self.assertEqual([row["KV GiB"] for row in rows], [1.25 * row["batch"] for row in rows])
        self.assertEqual(rows[0]["KV GiB"] * GIB, 80 * 8 * 128 * 2 * 2 * 4096)

    def test_the_documents_tables_are_the_programs(self):
        text = (SOURCE / "docs/planning.md").read_text()
        commands = re.findall(r"^quire plan (.*--table .*)$", text, re.M)
        self.assertEqual(len(commands), 4)
        for command in commands:
            printed = run("plan", *command.replace("$C", str(CONFIGS)).split()).stdout.partition("\n\n")[0]
            self.assertIn(f"```\n{printed}\n```", text, command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
