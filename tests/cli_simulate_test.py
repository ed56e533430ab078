"""`quire simulate`: traffic in virtual time. What the field says of batching, memory and routers comes out of it.

    cli_simulate_test.py PROGRAM SOURCE_DIR
"""

import concurrent.futures
import json
import pathlib
import sys
import tempfile
import unittest

from cli_support import SOURCE, TINY, run
from serve_support import Server

CONFIGS = SOURCE / "examples/configs"
SMALL = [CONFIGS / "llama-3.1-8b.json", "--max-model-len", 4096]


def simulate(*args):
    result = run("simulate", *args, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def runs(*args):
    return {" ".join(each["settings"]): each for each in simulate(*args)["runs"]}


class Simulate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_load_and_what_it_costs(self):
        args = [*SMALL, "--num-requests", 400, "--qps", 8, "--input-len", 512, "--output-len", 128]
        report = simulate(*args, "--ttft", "200ms", "--tpot", "20ms", "--price-per-hour", 3.6)
        (run_,) = report["runs"]
        self.assertEqual((report["device"], run_["num_requests"], run_["num_rejected"]), ("h100", 400, 0))
        self.assertAlmostEqual(run_["requests_per_s"], 8, delta=1.2)
        self.assertAlmostEqual(run_["usd"], run_["duration_s"] * 0.001, places=6)
        tokens = run_["output_tokens_per_s"] * run_["duration_s"]
        self.assertAlmostEqual(tokens / 400, 128, delta=6)
        self.assertAlmostEqual(run_["usd_per_million_output_tokens"], run_["usd"] / tokens * 1e6, places=6)
        self.assertGreater(run_["good_share"], 0.9)
        self.assertEqual(run_["goodput"], run_["good_share"] * run_["requests_per_s"])
        self.assertLess(run_["busy"], 1)
        self.assertEqual(simulate(*args, "--ttft", "200ms", "--tpot", "20ms", "--price-per-hour", 3.6), report)
        strict = simulate(*args, "--tpot", "1us")["runs"][0]
        self.assertEqual(strict["good_share"], 0)

    def test_reserved_memory_is_mostly_empty(self):
        """Kwon et al. 2023 (vLLM): 60 to 80% of reserved KV memory is wasted, under 4% of paged."""
        found = runs(CONFIGS / "llama-2-13b.json", "--device", "a100-40gb", "--max-model-len", 2048, "--num-requests", 300,
                     "--qps", 0, "--input-len", 161, "--output-len", 338, "--length-spread", "geometric",
                     "--sweep", "kv=paged,reserved")
        paged, reserved = found["kv=paged"], found["kv=reserved"]
        self.assertLess(paged["kv_waste"], 0.04)
        self.assertTrue(0.6 < reserved["kv_waste"] < 0.85, reserved["kv_waste"])
        self.assertGreater(paged["output_tokens_per_s"], 1.5 * reserved["output_tokens_per_s"])

    def test_continuous_batching_with_lengths_that_vary(self):
        found = runs(*SMALL, "--num-requests", 400, "--qps", 0, "--input-len", 64, "--output-len", 128, "--length-spread",
                     "geometric", "--max-num-seqs", 32, "--sweep", "batching=static,continuous")
        ratio = (found["batching=continuous"]["output_tokens_per_s"] / found["batching=static"]["output_tokens_per_s"])
        self.assertGreater(ratio, 2)
        self.assertGreater(found["batching=static"]["tokens_discarded"], 0)

    def test_short_ones_first_start_sooner_on_average(self):
        args = [*SMALL, "--num-requests", 600, "--qps", 60, "--input-len", 500, "--output-len", 200,
                "--length-spread", "geometric", "--max-num-seqs", 16]
        swept = runs(*args, "--sweep", "scheduling-policy=fcfs,shortest,longest-prefix")
        mean = {name.removeprefix("scheduling-policy="): each["ttft_s"]["mean"] for name, each in swept.items()}
        self.assertLess(mean["shortest"], 0.8 * mean["fcfs"], mean)
        # Nothing is shared here.
        self.assertAlmostEqual(mean["longest-prefix"] / mean["fcfs"], 1, delta=0.02)

    def test_chunks_bound_what_others_wait_for(self):
        found = runs(*SMALL, "--num-requests", 200, "--qps", 6, "--input-len", 3000, "--output-len", 64, "--length-spread",
                     "fixed", "--sweep", "max-num-batched-tokens=512,1024,4096")
        longest = [found[f"max-num-batched-tokens={size}"]["longest_step_s"] for size in (512, 1024, 4096)]
        self.assertEqual(longest, sorted(longest))
        self.assertGreater(longest[2], 3 * longest[0])

    def test_a_router_that_knows_prefixes(self):
        report = simulate(*SMALL, "--num-requests", 600, "--qps", 40, "--input-len", 64, "--output-len", 16,
                          "--num-prefixes", 40, "--prefix-len", 1024, "--replicas", 4, "--kv-tokens", 24000,
                          "--sweep", "router=round-robin,least-loaded,prefix")
        found = {each["settings"][0]: each for each in report["runs"]}
        self.assertGreater(found["router=prefix"]["hit_rate"], found["router=round-robin"]["hit_rate"] + 0.1)
        self.assertEqual(sum(found["router=prefix"]["server_requests"]), 600)
        self.assertEqual(found["router=round-robin"]["server_requests"], [150] * 4)
        self.assertEqual(len(report["best"]), 1)

    def test_more_servers_keep_the_limits_that_one_does_not(self):
        found = runs(*SMALL, "--num-requests", 300, "--qps", 25, "--input-len", 1500, "--output-len", 100, "--ttft", "500ms",
                     "--sweep", "replicas=1,4")
        self.assertLess(found["replicas=1"]["good_share"], 0.9)
        self.assertGreater(found["replicas=4"]["good_share"], 0.95)

    def test_speculation_at_a_given_acceptance(self):
        """Leviathan et al. 2023: (1 - a^(n+1)) / (1 - a) tokens a step, which take little more than one alone."""
        args = [*SMALL, "--num-requests", 20, "--qps", 0, "--input-len", 64, "--output-len", 400, "--length-spread", "fixed",
                "--speculative-acceptance", 0.8, "--sweep", "num-speculative-tokens=0,4"]
        for batch, least, most in ((1, 2.9, 3.4), (256, 0.9, 3.1)):
            found = runs(*args, "--max-num-seqs", batch)
            without, drafted = (found[f"num-speculative-tokens={count}"] for count in (0, 4))
            self.assertEqual(without["draft_tokens"], 0)
            self.assertAlmostEqual(drafted["draft_tokens_accepted"] / drafted["draft_tokens"], 0.59, delta=0.02)
            ratio = drafted["output_tokens_per_s"] / without["output_tokens_per_s"]
            self.assertTrue(least < ratio < most, (batch, ratio))
        slow = simulate(*args[:-2], "--max-num-seqs", 1, "--num-speculative-tokens", 4, "--draft-time", "20ms")["runs"][0]
        self.assertLess(slow["output_tokens_per_s"], without["output_tokens_per_s"])

    def test_stages_and_the_memory_that_they_share(self):
        found = runs(CONFIGS / "llama-3.1-70b.json", "--max-model-len", 4096, "--num-requests", 60, "--qps", 0, "--device",
                     "h100", "--tp", 2, "--sweep", "pp=2,4")
        two, four = found["pp=2"], found["pp=4"]
        self.assertGreater(four["kv_tokens"], 2.5 * two["kv_tokens"])
        self.assertGreater(four["output_tokens_per_s"], two["output_tokens_per_s"])
        self.assertAlmostEqual(four["usd"] / four["duration_s"], 2 * two["usd"] / two["duration_s"])

    def test_stages_are_those_of_the_plan(self):
        """80 layers in three stages, the last with the output matrix: their room and their times are what quire plan says."""
        args = [CONFIGS / "llama-3.1-70b.json", "--max-model-len", 8000, "--device", "h100", "--dtype", "fp8", "--pp", 3,
                "--input-len", 1024, "--output-len", 2]
        (planned,) = json.loads(run("plan", *args, "--json").stdout)["plans"]
        alone = simulate(*args, "--num-requests", 1, "--length-spread", "fixed")["runs"][0]
        self.assertAlmostEqual(alone["ttft_s"]["p50"] / planned["prefill"]["expected_ms"] * 1e3, 1, places=6)
        self.assertAlmostEqual(alone["tpot_s"]["p50"] / planned["decode"][0]["expected_ms"] * 1e3, 1, places=3)
        memory = planned["memory"]
        tokens = memory["kv_cache"] / memory["kv_bytes_per_sequence"] * 8000
        self.assertTrue(tokens - 3 * 16 <= alone["kv_tokens"] <= tokens, (alone["kv_tokens"], tokens))

    def test_prompts_on_servers_of_their_own(self):
        found = runs(*SMALL, "--num-requests", 300, "--qps", 12, "--input-len", 3000, "--output-len", 200, "--replicas", 2,
                     "--max-num-batched-tokens", 4096, "--router", "least-loaded", "--sweep", "prefill-replicas=0,1")
        together, apart = found["prefill-replicas=0"], found["prefill-replicas=1"]
        self.assertLess(apart["tpot_s"]["p99"], 0.7 * together["tpot_s"]["p99"])
        self.assertGreater(apart["ttft_s"]["p50"], together["ttft_s"]["p50"])

    def test_a_page_with_charts(self):
        page = self.folder / "page.html"
        simulate(*SMALL, "--num-requests", 40, "--sweep", "replicas=1,2", "--html", page)
        text = page.read_text()
        for said in ("<title>quire simulate</title>", "best: replicas=", "--num-requests 40", "replicas=2", "USD/million"):
            self.assertIn(said, text)
        self.assertEqual(text.count("<svg"), 2 + 2 * 3)
        self.assertNotIn("<script", text)
        self.assertNotIn("nan", text.lower())

    def test_traces_in_public_layouts(self):
        azure = self.folder / "azure.csv"
        azure.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                         + "".join(f"2023-11-16 18:17:{i:02}.9799600,{100 + i},{10 + i}\n" for i in range(30)))
        report = simulate(*SMALL, "--trace", azure)
        self.assertIn("Azure", report["traffic"])
        self.assertEqual(report["runs"][0]["num_requests"], 30)
        self.assertGreater(report["runs"][0]["duration_s"], 29)
        mooncake = self.folder / "mooncake.jsonl"
        mooncake.write_text("".join(json.dumps({"timestamp": 200 * i, "input_length": 1100, "output_length": 20,
                                                "hash_ids": [1, 2, 100 + i]}) + "\n" for i in range(30)))
        found = runs(*SMALL, "--trace", mooncake, "--sweep", "enable-prefix-caching=on,off")
        # Two pieces of 512 of 1100 tokens, by all but the first.
        self.assertAlmostEqual(found["enable-prefix-caching=on"]["hit_rate"], 29 / 30 * 1024 / 1100, places=3)
        self.assertEqual(found["enable-prefix-caching=off"]["hit_rate"], 0)

    def test_an_event_log_of_ones_own(self):
        log = self.folder / "events"
        recorded = run("bench", "core", "--concurrency", 8, "--num-steps", 200, "--output-len", 20, "--event-log", log)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        report = simulate(*SMALL, "--event-log", log)
        self.assertEqual(report["traffic"], "an event log")
        self.assertGreater(report["runs"][0]["num_requests"], 50)

    def record(self, log):
        """What a server with room for four sequences, whose steps take 40 ms, does with 16 requests at once."""
        with Server("--event-log", log, "--max-num-seqs", 4, "--served-model-name", "tiny", "--max-model-len", 256,
                    model=TINY / "hf", simulate=40) as server:
            def one(number):
                fields = {"model": "tiny", "prompt": f"{number} " + "The quick brown fox " * 4, "max_tokens": 24,
                          "ignore_eos": True}
                self.assertEqual(server.post("/v1/completions", fields).status, 200)

            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                list(pool.map(one, range(16)))

    def test_what_another_setting_would_have_done(self):
        log, page = self.folder / "events", self.folder / "page.html"
        self.record(log)
        report = simulate("--event-log", log, "--max-num-seqs", 16, "--kv-tokens", 4096, "--html", page)
        recorded, same = report["recorded"], report["simulated"]
        (changed,) = report["runs"]
        self.assertEqual(changed["settings"], ["max-num-seqs=16", "kv-tokens=4096"])
        for each in (recorded, same, changed):
            self.assertEqual((each["num_requests"], each["num_rejected"]), (16, 0))
        self.assertAlmostEqual(same["output_tokens_per_s"] / recorded["output_tokens_per_s"], 1, delta=0.3)
        self.assertAlmostEqual(same["num_steps"] / recorded["num_steps"], 1, delta=0.1)
        self.assertGreater(changed["output_tokens_per_s"], 2.5 * same["output_tokens_per_s"])
        self.assertLess(changed["ttft_s"]["p50"], 0.5 * same["ttft_s"]["p50"])
        for said in ("recorded", "same settings, simulated", "max-num-seqs=16 kv-tokens=4096"):
            self.assertIn(said, page.read_text())
        # Each value of a sweep, on top of what a flag changes; and the settings that were recorded, written out.
        swept = simulate("--event-log", log, "--no-enable-prefix-caching", "--sweep", "max-num-seqs=1,4")["runs"]
        self.assertEqual([each["settings"] for each in swept],
                         [["enable-prefix-caching=off", f"max-num-seqs={count}"] for count in (1, 4)])
        self.assertEqual(swept[0]["hit_rate"], 0)
        self.assertLess(swept[0]["output_tokens_per_s"], 0.5 * swept[1]["output_tokens_per_s"])
        again = simulate("--event-log", log, "--max-num-seqs", 4)
        self.assertEqual({**again["runs"][0], "settings": []}, {**again["simulated"], "settings": []})
        # Costs from elsewhere are taken in proportion, so that the log's steps take what they took.
        costs = self.folder / "costs.json"
        costs.write_text(json.dumps({"tokens": [[1, 1000]], "row_ns": 0, "row_1024_keys_ns": 0, "prompt_1024_keys_ns": 0}))
        given = simulate("--event-log", log, "--step-cost", costs)
        self.assertAlmostEqual(given["simulated"]["output_tokens_per_s"] / recorded["output_tokens_per_s"], 1, delta=0.3)
        self.assertEqual(given["step_cost"]["tokens"], [[1, 1000]])
        self.assertGreater(min(factor for _, factor in given["step_cost"]["factors"]), 1000)
        # Which steps the log had, and how much of a run is made of such.
        self.assertIn("4 to 7", report["step_cost"]["steps_of_the_log"])
        self.assertGreater(same["recorded_step_share"], 0.8)
        self.assertLess(changed["recorded_step_share"], 0.5)
        text = run("simulate", "--event-log", log).stdout
        self.assertIn("against the recorded run", text)
        for args, said in ((["--tp", 2], "--tp: "), (["--device", "h100"], "--device: "), (["--kv", "reserved"], "--kv: "),
                           (["--sweep", "pp=2"], "--pp: ")):
            refused = run("simulate", "--event-log", log, *args)
            self.assertEqual(refused.returncode, 64, refused.stderr)
            self.assertIn(said, refused.stderr)

    def test_drafts_of_an_event_log(self):
        """A log's drafts come again at their places; without them, or with fewer, the output is the same."""
        log, costs = self.folder / "events", self.folder / "costs.json"
        ngram = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1}'
        with Server("--event-log", log, "--max-num-seqs", 1, "--served-model-name", "tiny", "--speculative-config", ngram,
                    model=TINY / "hf", simulate=20) as server:
            for seed in (3, 4):  # outputs of few tokens by chance, so that some guesses are right
                fields = {"model": "tiny", "prompt": "the cat sat on", "speculation": 4, "seed": seed, "max_tokens": 90,
                          "structured_outputs": {"regex": "[ab]{2000}"}}
                self.assertEqual(server.post("/v1/completions", fields).status, 200)
        costs.write_text(json.dumps({"tokens": [[1, 1_000_000], [2, 1_001_000]], "row_ns": 0, "row_1024_keys_ns": 0,
                                     "prompt_1024_keys_ns": 0}))
        args = ["--event-log", log, "--step-cost", costs]
        report = simulate(*args, "--sweep", "num-speculative-tokens=0,2,8")
        recorded, same = report["recorded"], report["simulated"]
        none, two, eight = report["runs"]
        for key in ("draft_tokens", "draft_tokens_accepted", "num_steps"):
            self.assertEqual(same[key], recorded[key], key)
        self.assertGreater(recorded["draft_tokens_accepted"], 10)
        self.assertTrue(any("those again" in note for note in report["notes"]), report["notes"])
        self.assertEqual((none["draft_tokens"], none["num_steps"]), (0, 2 * 90))  # a token a step
        self.assertGreater(none["duration_s"], same["duration_s"])
        self.assertGreater(two["draft_tokens_accepted"], 0)
        self.assertLess(two["draft_tokens_accepted"], same["draft_tokens_accepted"])
        self.assertGreaterEqual(eight["draft_tokens_accepted"], two["draft_tokens_accepted"])
        said = simulate(*args, "--speculative-acceptance", 0)["simulated"]
        self.assertEqual((said["draft_tokens_accepted"], said["num_steps"]), (0, 2 * 90))
        # Of a server without drafts nobody knows how many would have been right.
        self.record(self.folder / "plain")
        refused = run("simulate", "--event-log", self.folder / "plain", "--num-speculative-tokens", 4)
        self.assertEqual(refused.returncode, 64, refused.stderr)
        self.assertIn("give --speculative-acceptance", refused.stderr)

    def test_a_limit_of_steps(self):
        """Prompts are cut as the server cuts them, while others get their output."""
        found = runs(*SMALL, "--num-requests", 100, "--qps", 4, "--input-len", 3000, "--output-len", 64,
                     "--max-num-batched-tokens", 4096, "--sweep", "max-step-ms=0,30")
        self.assertGreater(found["max-step-ms=0"]["longest_step_s"], 0.1)
        self.assertLess(found["max-step-ms=30"]["longest_step_s"], 0.045)
        self.assertGreater(found["max-step-ms=30"]["ttft_s"]["p50"], found["max-step-ms=0"]["ttft_s"]["p50"])

    def test_files_of_kv_blocks(self):
        """More prefixes than the memory has room for: from files they come sooner than by computing, if the disk is fast."""
        args = [*SMALL, "--num-requests", 300, "--qps", 3, "--input-len", 64, "--output-len", 16, "--num-prefixes", 30,
                "--prefix-len", 2048, "--kv-tokens", 12000, "--max-num-seqs", 4]
        fast_disk = ["--kv-offload-gbs", 20]
        found = runs(*args, *fast_disk, "--sweep", "kv-offloading-size=0,16")
        without, with_files = found["kv-offloading-size=0"], found["kv-offloading-size=16"]
        self.assertEqual((without["num_kv_fetches"], without["fetched_rate"]), (0, 0))
        self.assertGreater(with_files["hit_rate"], without["hit_rate"] + 0.3)
        self.assertGreater(with_files["fetched_rate"], 0.3)
        self.assertGreater(with_files["blocks_offloaded"], 1000)
        # 128 blocks of 16 tokens of 128 KiB.
        self.assertAlmostEqual(with_files["fetch_s"], 128 * 16 * 131072 / 20e9, delta=0.005)
        found = runs(*args, "--kv-offloading-size", 16, "--sweep", "kv-offload-gbs=0.5,20")
        slow, fast = found["kv-offload-gbs=0.5"], found["kv-offload-gbs=20"]
        self.assertLess(fast["ttft_s"]["p50"], without["ttft_s"]["p50"])
        # What the disk would bring later than it is computed is computed, once that has been measured.
        self.assertLess(slow["num_kv_fetches"], fast["num_kv_fetches"] / 4)
        self.assertLess(slow["ttft_s"]["p50"], 1.5 * without["ttft_s"]["p50"])
        few = simulate(*args, *fast_disk, "--kv-offloading-size", 2)["runs"][0]
        self.assertLess(few["hit_rate"], with_files["hit_rate"] - 0.1)

    def test_costs_that_were_measured_here(self):
        costs = self.folder / "costs.json"
        measured = run("bench", "calibrate", TINY / "hf", "--max-model-len", 128, "--threads", 1, "--rounds", 2, "--output", costs)
        self.assertEqual(measured.returncode, 0, measured.stderr)
        written = json.loads(costs.read_text())
        self.assertEqual([tokens for tokens, _ in written["tokens"]][:6], [1, 2, 4, 8, 16, 32])
        self.assertGreater(written["tokens"][0][1], 0)
        for kind in written["kinds"]:
            self.assertGreaterEqual(kind["num_steps"], 4)
            self.assertGreaterEqual(kind["spread"], 0)
        costs.write_text(json.dumps({**written, "tokens": [[1, 10_000_000]], "row_ns": 0, "row_1024_keys_ns": 0,
                                     "prompt_1024_keys_ns": 0}))
        run_ = simulate(*SMALL, "--num-requests", 3, "--qps", 0, "--input-len", 10, "--output-len", 11, "--length-spread",
                        "fixed", "--step-cost", costs)["runs"][0]
        self.assertAlmostEqual(run_["ttft_s"]["p50"], 0.01)
        self.assertAlmostEqual(run_["tpot_s"]["p50"], 0.01)
        self.assertAlmostEqual(run_["duration_s"], 0.11)
        self.assertEqual(run_["num_steps"], 11)

    def test_what_is_wrong_is_refused_by_name(self):
        broken = self.folder / "trace.csv"
        broken.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,1,1\n")

        def wrong(number, **keys):
            file = self.folder / f"wrong{number}.json"
            file.write_text(json.dumps({"tokens": [[1, 9]], "row_ns": 0, "row_1024_keys_ns": 0, "prompt_1024_keys_ns": 0, **keys}))
            return file

        for args, code, said in (
                (["--device", "h1000"], 64, "did you mean h100?"),
                (["--trace", broken], 64, "trace.csv:2: expected a time"),
                (["--trace", "/no/such/trace"], 66, "/no/such/trace"),
                (["--sweep", "colour=red"], 64, '"colour" is no setting of a sweep'),
                (["--sweep", "kv=green"], 64, 'kv: expected one of paged, reserved, found "green"'),
                (["--sweep", "replicas=0"], 64, "replicas: expected a count"),
                (["--sweep", "replicas="], 64, "expected NAME=VALUE,VALUE"),
                (["--sweep", "pp=0"], 64, "pp: expected a count of 1"),
                (["--sweep", "max-step-ms=soon"], 64, "max-step-ms: expected milliseconds"),
                (["--max-step-ms", "-1"], 64, "max-step-ms: expected milliseconds"),
                (["--kv-offload-gbs", "0"], 64, "kv-offload-gbs: expected 0.001"),
                (["--kv-offloading-size", "1", "--no-enable-prefix-caching"], 64, "--kv-offloading-size: only KV blocks"),
                (["--pp", 33], 64, "--pp 33: the model has 32 layers"),
                (["--prefill-replicas", 1], 64, "none is left to go on with them"),
                (["--num-speculative-tokens", 4], 64, "--speculative-acceptance"),
                (["--num-speculative-tokens", 4, "--speculative-acceptance", "0.5", "--batching", "static"], 64, "no drafts"),
                (["--speculative-acceptance", "1.5"], 64, "1.5"),
                (["--html", self.folder / "no/page"], 74, "no/page"),
                (["--input-len", 5000], 64, "more than a sequence of 4096 tokens"),
                (["--step-cost", wrong(0, row_ns=-1)], 64, "row_ns: a cost is out of range"),
                (["--step-cost", wrong(1, tokens=[[2, 9], [1, 9]])], 64, "tokens: a cost is out of range"),
                (["--step-cost", wrong(2, tokens=[7])], 64, "tokens: expected an array of [tokens of a step, nanoseconds]"),
                (["--step-cost", wrong(3, tokens=None)], 64, "tokens"),
                (["--event-log", self.folder / "nothing"], 66, "nothing"),
                (["--device", "rtx4090", "--dtype", "fp32"], 78, "less than a block")):
            with self.subTest(args):
                result = run("simulate", *SMALL, *args)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(said, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
