"""A look at the engine while it works: GET /engine/live, GET /engine/state and `quire top`, which
shows the same, against a simulated engine.

    serve_live_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import contextlib
import http.client
import http.server
import json
import subprocess
import threading
import time

from cli_chat_support import ENVIRONMENT, Terminal
from cli_support import PROGRAM
from live_support import Load, live_events
from serve_support import TIMEOUT, Server, ServerTest, free_port, main, refusing_port, wait_until

CAUSES = {"queue_order", "max_num_seqs", "token_budget", "no_free_blocks", "preempted", "batch",
          "fork_parent", "step_time", "prefix_in_flight", "kv_fetch",
          "admission_pace"}


def top(*args):
    return subprocess.run([PROGRAM, "top", *map(str, args)], text=True, timeout=TIMEOUT, env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def rows(step):
    """[(slot, request, tokens), ...]"""
    return list(zip(step[3::3], step[4::3], step[5::3]))


class Live(ServerTest):
    flags = ("--max-num-seqs", 6, "--max-model-len", 8192)
    simulate = 5

    def tearDown(self):
        self.server.await_idle()

    def check_blocks(self, blocks):
        self.assertEqual(blocks["free"] + blocks["cached"] + blocks["used"], blocks["total"])
        runs = blocks["runs"]
        self.assertEqual(sum(runs[::2]), blocks["total"])
        self.assertLessEqual(len(runs), 2 * 4096)
        if blocks["per_cell"] == 1:
            counted = {"free": 0, "cached": 0, "used": 0}
            for size, use in zip(runs[::2], runs[1::2]):
                counted["free" if use == 0 else "cached" if use == 1 else "used"] += size
            self.assertEqual(counted, {each: blocks[each] for each in counted})
        return {(use - 4) // 2 for use in runs[1::2] if use >= 4}

    def await_load(self, running, waiting):
        def both():
            state = self.server.get("/engine/state").json
            return (state["num_running"], state["num_waiting"]) == (running, waiting)
        wait_until(both, f"{running} run and {waiting} wait")

    def await_no_viewer(self):
        """What was gathered for the viewers before is forgotten then."""
        wait_until(lambda: "latency" not in self.server.get("/engine/state").json, "nobody watches")

    def test_events_tell_who_holds_what(self):
        num_events, num_steps = 0, 0

        def seen_enough(event):
            nonlocal num_events, num_steps
            num_events += 1
            num_steps += len(event["steps"])
            # Tokens of steps that were long in coming are handed out at once, so not any event will do.
            return (num_events >= 8 and num_steps > 20
                    and event["state"]["latency"]["inter_token"].get("p50_ms", 0) > 4)

        self.await_no_viewer()
        with Load(self.server, 9, max_tokens=8000):
            self.await_load(6, 3)
            events = live_events(self.server, 200, until=seen_enough)
        next_number = None
        for event in events:
            state = event["state"]
            self.assertEqual((state["num_running"], state["num_waiting"]), (6, 3))
            running = {each["request"] for each in state["running"]}
            self.assertEqual(len(running), 6)
            self.assertLessEqual(self.check_blocks(state["blocks"]), running)
            self.assertEqual([each["wait"] for each in state["waiting"]],
                             ["max_num_seqs", "queue_order", "queue_order"])
            for each in state["waiting"]:
                self.assertGreater(each["waited_s"], 0)
            if event["steps_missed"]:  # the look came so late that there were more than are kept
                self.assertGreaterEqual(len(event["steps"]), 512)
                next_number += event["steps_missed"]
            for step in event["steps"]:
                if next_number is not None:
                    self.assertEqual(step[0], next_number)
                next_number = step[0] + 1
                slots = [slot for slot, _, _ in rows(step)]
                self.assertEqual(sorted(slots), list(range(6)))
        self.assertGreater(num_steps, 20)
        # Who goes on keeps its slot.
        held = {}
        for event in events:
            for step in event["steps"]:
                for slot, request, _ in rows(step):
                    self.assertEqual(held.setdefault(request, slot), slot)
        rates = events[-1]["state"]["per_second"]
        self.assertAlmostEqual(rates["output_tokens"], 6 * rates["steps"], delta=0.2 * rates["output_tokens"])
        self.assertGreater(events[-1]["state"]["latency"]["inter_token"]["p50_ms"], 4)

    def test_ids_are_those_of_the_answers(self):
        with Load(self.server, 1):
            state = wait_until(lambda: self.server.get("/engine/state").json["running"], "it runs")
        self.assertTrue(state[0]["id"].startswith("cmpl-"), state)

    def watch_one_request(self, prompt):
        """The events around a request of four tokens, and the seconds that it took."""
        seen = []
        watching, answered = threading.Event(), threading.Event()

        def idle_again(event):
            seen.append(event)
            watching.set()
            return answered.is_set() and not event["steps"] and any(each["steps"] for each in seen)

        self.await_no_viewer()
        thread = threading.Thread(target=lambda: live_events(self.server, until=idle_again))
        thread.start()
        self.assertTrue(watching.wait(TIMEOUT))
        start = time.monotonic()
        self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 4, "ignore_eos": True})
        elapsed = time.monotonic() - start
        answered.set()
        thread.join()
        return seen, elapsed

    def test_prompt_chunks_are_told_from_output(self):
        for number in range(5):
            seen, elapsed = self.watch_one_request(f"{number} word " * 150)
            first = [event["state"]["latency"]["first_token"] for event in seen]
            if any(each["count"] for each in first):
                break  # else no look was made in the two seconds for which it is remembered
        self.assertEqual(max(each["count"] for each in first), 1)
        self.assertLess(max(each.get("max_ms", 0) for each in first), 1000 * elapsed)
        tokens = [each for event in seen for step in event["steps"] for _, _, each in rows(step)]
        self.assertGreaterEqual(sum(each for each in tokens if each > 0), 300)
        self.assertEqual(tokens.count(0), 3)  # the first of the four comes with the prompt
        # Idle again, an event still comes, without steps.
        self.assertEqual(seen[-1]["state"]["num_running"], 0)

    def test_a_state_without_a_viewer(self):
        self.await_no_viewer()
        state = self.server.get("/engine/state").json
        self.assertEqual(state["num_running"], 0)
        self.assertNotIn("per_second", state)
        self.assertEqual(self.check_blocks(state["blocks"]), set())
        self.assertEqual(state["engine"]["max_num_seqs"], 6)

    def test_the_rate_is_bounded(self):
        for hz in ("0.5", "11", "nan", "inf", "x", ""):
            reply = self.server.get(f"/engine/live?hz={hz}")
            self.assert_error(reply, 400, message="hz: expected a number from 1 to 10")
            self.assertEqual(reply.error["param"], "hz")
        start = time.monotonic()
        live_events(self.server, 5, hz=2)
        # The first two events come at once, the others after half a second each.
        self.assertGreater(time.monotonic() - start, 1.4)
        reply = self.server.request("HEAD", "/engine/live")
        self.assertEqual((reply.status, reply.body), (200, b""))

    def test_viewers_are_bounded(self):
        with contextlib.ExitStack() as stack:
            for _ in range(64):
                connection = stack.enter_context(contextlib.closing(
                    http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)))
                connection.request("GET", "/engine/live?hz=1")
                self.assertEqual(connection.getresponse().status, 200)
            self.assert_error(self.server.get("/engine/live"), 429, message="64 viewers")
        wait_until(lambda: self.server.metrics()["quire_http_requests_running"] <= 1, "they have gone")
        self.assertEqual(len(live_events(self.server, 1)), 1)

    def test_top_prints_once(self):
        with Load(self.server, 8, max_tokens=8000):
            self.await_load(6, 2)
            plain = top("--base-url", self.server.url, "--once")
            state = json.loads(top("--base-url", self.server.url + "/v1/", "--json").stdout)
        self.assertEqual((plain.returncode, plain.stderr), (0, ""))
        self.assertNotIn("\x1b", plain.stdout)
        self.assertIn("running 6 of 6   waiting 2", plain.stdout)
        self.assertRegex(plain.stdout, r"output [\d.]+ tok/s")
        self.assertIn("slots ######", plain.stdout)
        self.assertEqual(plain.stdout.count("cmpl-"), 8)
        self.assertIn("max_num_seqs", plain.stdout)
        self.assertEqual(state["num_running"], 6)
        self.assertIn("per_second", state)

    def test_top_in_a_terminal(self):
        with Load(self.server, 2, max_tokens=8000):
            self.server.await_running(2)
            terminal = Terminal("--base-url", self.server.url, command="top")
            self.addCleanup(terminal.close)
            self.assertIn("\x1b[?1049h", terminal.expect("running 2 of 6"))
            terminal.expect("q: quit")
            terminal.expect("\x1b[H")  # drawn again
            terminal.type("q")
            self.assertIn("\x1b[?1049l", terminal.expect(None))
            self.assertEqual(terminal.end(), 0)

    def test_top_ends_with_ctrl_c(self):
        terminal = Terminal("--base-url", self.server.url, command="top")
        self.addCleanup(terminal.close)
        terminal.expect("q: quit")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 0)


class Key(ServerTest):
    key = "secret"

    def test_it_is_needed(self):
        connection = {"Authorization": "Bearer wrong"}
        self.assertEqual(self.server.get("/engine/live", connection).status, 401)
        self.assertEqual(self.server.get("/engine/state", connection).status, 401)
        self.assertEqual(self.server.get("/engine/state").status, 200)
        refused = top("--base-url", self.server.url, "--once")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("give its key with --api-key", refused.stderr)
        shown = top("--base-url", self.server.url, "--once", "--api-key", "secret")
        self.assertEqual(shown.returncode, 0, shown.stderr)


class Lifecycle(ServerTest):
    def test_a_viewer_does_not_hold_up_the_end(self):
        with Server("--shutdown-timeout", 3600, simulate=5) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
            with contextlib.closing(connection):
                connection.request("GET", "/engine/live")
                response = connection.getresponse()
                response.readline()
                server.terminate()
                rest = response.read().decode()
                self.assertIn("the server is shutting down", rest.rsplit("data: ", 1)[1])
                self.assertEqual(server.wait(), 0)

    def test_a_small_load_on_a_large_pool_is_told_exactly(self):
        # Few blocks are held before the first look: requests take them in turns.
        with Server("--block-size", 4, simulate=100) as server, Load(server, 4):
            server.await_running(4)
            state = live_events(server, 2)[-1]["state"]
            blocks = state["blocks"]
            self.assertGreater(blocks["total"], 100_000)
            self.assertEqual(blocks["per_cell"], 1)
            self.assertEqual(sum(blocks["runs"][::2]), blocks["total"])
            holders = {(use - 4) // 2 for use in blocks["runs"][1::2] if use >= 4}
            self.assertEqual(holders, {each["request"] for each in state["running"]})

    def test_top_follows_a_server_that_restarts(self):
        port = free_port()
        with Server("--port", port, simulate=5) as server:
            terminal = Terminal("--base-url", server.url, command="top")
            self.addCleanup(terminal.close)
            terminal.expect("q: quit")
        # What it says first is why the stream has ended, then that nobody is there.
        terminal.expect(f"trying again: http://127.0.0.1:{port}")
        with Server("--port", port, simulate=5):
            terminal.expect("q: quit")
            terminal.type("q")
            self.assertEqual(terminal.end(), 0)

    def test_top_says_what_is_wrong(self):
        with refusing_port() as port:
            nobody = top("--base-url", f"http://127.0.0.1:{port}", "--once")
        self.assertNotEqual(nobody.returncode, 0)
        self.assertIn("is the server running", nobody.stderr)
        other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        other.RequestHandlerClass = type("Old", (http.server.BaseHTTPRequestHandler,), {
            "do_GET": lambda handler: handler.send_error(404), "log_message": lambda *_: None})
        threading.Thread(target=other.serve_forever, daemon=True).start()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        old = top("--base-url", f"http://127.0.0.1:{other.server_address[1]}", "--once")
        self.assertNotEqual(old.returncode, 0)
        self.assertIn("has no /engine/live", old.stderr)


if __name__ == "__main__":
    main()
