"""quire.serve(): a server in the process of its engine.

    python_serve_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import asyncio
import http.client
import json
import pathlib
import socket
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from python_support import TINY, main, python

import quire

GREEDY = quire.SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
LONG = {"prompt": "the cat", "max_tokens": 200, "ignore_eos": True, "temperature": 0}


def post(server, fields, key=None, route="/completions"):
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
    request = urllib.request.Request(server.base_url + route, json.dumps(fields).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def pins_of(server):
    with urllib.request.urlopen(server.base_url + "/prefixes", timeout=60) as answer:
        return json.load(answer)["data"]


def text_of(server, prompt):
    fields = {"prompt": prompt, "temperature": 0, "max_tokens": 8, "ignore_eos": True}
    return post(server, fields)["choices"][0]["text"]


def begin_stream(server, fields=LONG):
    """A connection whose stream has begun."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({**fields, "stream": True}),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.readline().startswith(b"data: ")
    return connection, answer


def rest_of(answer):
    try:
        return answer.read()
    except (http.client.IncompleteRead, ConnectionError) as error:
        return getattr(error, "partial", b"")


def refuses_connections(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Answers(unittest.TestCase):
    def test_as_the_engine_does(self):
        with quire.LLM(TINY, max_num_seqs=4) as llm:
            (expected,) = llm.generate("the cat", GREEDY, use_tqdm=False)
            with quire.serve(llm, disable_page=True) as server:
                self.assertEqual(server.url, f"http://127.0.0.1:{server.port}")
                self.assertEqual(server.base_url, server.url + "/v1")
                self.assertEqual(text_of(server, "the cat"), expected.outputs[0].text)
                self.assertIs(server.llm, llm)
                self.assertFalse(server.closed)
            self.assertTrue(server.closed)
            self.assertIn("closed", repr(server))
            self.assertTrue(refuses_connections(server.port))
            server.close()
            # The engine goes on.
            self.assertEqual(llm.generate("the cat", GREEDY, use_tqdm=False)[0].outputs, expected.outputs)

    def test_with_an_engine_of_its_own(self):
        with quire.serve(TINY, max_num_seqs=2, disable_page=True) as server:
            text = text_of(server, "the cat")
            (same,) = server.llm.generate("the cat", GREEDY, use_tqdm=False)
            self.assertEqual(server.llm.info["max_num_seqs"], 2)
        self.assertEqual(same.outputs[0].text, text)
        with self.assertRaisesRegex(quire.UnavailableError, "closed"):
            server.llm.generate("the cat", GREEDY, use_tqdm=False)

    def test_while_others_use_the_engine(self):
        prompts = ["the cat", "a", "b c", "x y z"] * 6
        with quire.LLM(TINY, max_num_seqs=4) as llm:
            alone = [output.outputs[0] for output in llm.generate(prompts, GREEDY, use_tqdm=False)]
            with quire.serve(llm, disable_page=True, log_requests=False) as server:
                served = [None] * len(prompts)

                def ask(first):
                    for i in range(first, len(prompts), 4):
                        served[i] = text_of(server, prompts[i])
                threads = [threading.Thread(target=ask, args=[i]) for i in range(4)]
                for thread in threads:
                    thread.start()
                together = [output.outputs[0] for output in llm.generate(prompts, GREEDY, use_tqdm=False)]
                for thread in threads:
                    thread.join()
        self.assertEqual([each.token_ids for each in together], [each.token_ids for each in alone])
        self.assertEqual(served, [each.text for each in alone])

    def test_sleep_does_not_lose_pins_silently(self):
        pin = {"name": "cat", "prompt": list(range(5, 45)), "ttl_seconds": 600}
        with quire.LLM(TINY, block_size=4, max_pinned_share=0.25) as llm:
            with quire.serve(llm, disable_page=True) as server:
                self.assertEqual(post(server, pin, route="/prefixes")["tokens"], 40)
            # The engine goes on, and so does what is pinned in it.
            with self.assertRaisesRegex(quire.UnavailableError, "1 prefixes are pinned.*level=2"):
                llm.sleep()
            with quire.serve(llm, disable_page=True) as server:
                self.assertEqual([each["name"] for each in pins_of(server)], ["cat"])
            llm.sleep(level=2)
            llm.wake_up()
            with quire.serve(llm, disable_page=True) as server:
                self.assertEqual(pins_of(server), [])
                post(server, pin, route="/prefixes")
                llm.reset_prefix_cache()
                self.assertEqual(pins_of(server), [])
            llm.sleep()

    def test_for_an_event_loop(self):
        async def both(engine, server):
            served = asyncio.create_task(asyncio.to_thread(text_of, server, "the cat"))
            async for output in engine.generate("the cat", GREEDY):
                pass
            return output.outputs[0].text, await served
        engine = quire.AsyncLLM(TINY)
        with quire.serve(engine, disable_page=True) as server:
            own, served = asyncio.run(both(engine, server))
        self.assertEqual(own, served)
        engine.close()

    def test_with_a_key_and_a_name(self):
        with quire.LLM(TINY) as llm:
            with quire.serve(llm, api_key=["one", "two"], served_model_name="tiny") as server:
                for key in ("one", "two"):
                    self.assertEqual(post(server, {"prompt": "a", "max_tokens": 1}, key)["model"], "tiny")
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    post(server, {"prompt": "a"}, "three")
                self.assertEqual(refused.exception.code, 401)
                refused.exception.close()

    def test_at_a_socket(self):
        with tempfile.TemporaryDirectory() as folder, quire.LLM(TINY) as llm:
            path = pathlib.Path(folder, "quire.sock")
            with quire.serve(llm, uds=path) as server:
                self.assertEqual((server.url, server.port), (f"unix:{path}", 0))
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                    client.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.assertIn(b"200", client.recv(100))
            self.assertFalse(path.exists())

    def test_steps_are_counted_and_shown(self):
        with quire.LLM(TINY) as llm, quire.serve(llm) as server:
            text_of(server, "the cat")
            with urllib.request.urlopen(server.url + "/metrics", timeout=60) as answer:
                metrics = answer.read().decode()
            self.assertRegex(metrics, r"vllm:request_success_total\{.*finished_reason=\"length\".*\} 1")
            self.assertRegex(metrics, r"vllm:iteration_tokens_total_count\{.*\} [1-9]")


class Closing(unittest.TestCase):
    def test_ends_its_own_requests_alone(self):
        with quire.LLM(TINY, simulate_step_ms=5) as llm:
            server = quire.serve(llm, disable_page=True)
            streams = [begin_stream(server) for _ in range(3)]
            own = []
            params = quire.SamplingParams(max_tokens=150, ignore_eos=True, temperature=0)
            thread = threading.Thread(target=lambda: own.extend(llm.generate(["a"] * 2, params, use_tqdm=False)))
            thread.start()
            while llm.engine_state()["stats"]["num_running"] < 5:
                time.sleep(0.01)
            server.close(timeout=0)
            # Not one of its requests is left when it returns.
            state = llm.engine_state()
            self.assertEqual([each["request_id"].startswith("cmpl-") for each in state["running"]], [False] * 2)
            self.assertEqual(state["stats"]["num_waiting"], 0)
            for connection, answer in streams:
                self.assertNotIn(b"[DONE]", rest_of(answer))
                connection.close()
            thread.join()
            self.assertEqual([len(each.outputs[0].token_ids) for each in own], [150] * 2)

    def test_lets_requests_finish(self):
        with quire.LLM(TINY, simulate_step_ms=2) as llm:
            server = quire.serve(llm, disable_page=True)
            connection, answer = begin_stream(server)
            server.close()
            self.assertIn(b"[DONE]", rest_of(answer))
            connection.close()

    def test_gives_back_the_room_of_prompts_that_had_not_begun(self):
        with quire.LLM(TINY, simulate_step_ms=5, max_num_seqs=1, max_queued_requests=64) as llm:
            for _ in range(3):
                server = quire.serve(llm, disable_page=True)
                connection, answer = begin_stream(server, {**LONG, "prompt": ["a"] * 60})
                server.close(timeout=0)
                rest_of(answer)
                connection.close()
            short = quire.SamplingParams(max_tokens=1)
            self.assertEqual(len(llm.generate(["a"] * 65, short, use_tqdm=False)), 65)

    def test_of_the_engine_closes_its_server_first(self):
        llm = quire.LLM(TINY, simulate_step_ms=5)
        server = quire.serve(llm, disable_page=True)
        connection, answer = begin_stream(server)
        llm.close()
        self.assertTrue(server.closed)
        self.assertNotIn(b"[DONE]", rest_of(answer))
        connection.close()
        self.assertTrue(refuses_connections(server.port))

    def test_a_time_that_is_none(self):
        with quire.LLM(TINY) as llm, quire.serve(llm) as server:
            for timeout in (-1, float("nan")):
                with self.assertRaisesRegex(ValueError, "timeout"):
                    server.close(timeout)
            self.assertFalse(server.closed)

    def test_gives_memory_and_threads_back(self):
        done = python(f"""
import gc, threading, urllib.request
import quire
def measure():
    status = open("/proc/self/status").read()
    return [int(next(l for l in status.splitlines() if l.startswith(name)).split()[1]) for name in ("VmRSS:", "Threads:")]
llm = quire.LLM({str(TINY)!r}, threads=1)
def once():
    with quire.serve(llm, port=port) as server:
        urllib.request.urlopen(server.url + "/v1/models").read()
        return server.port
port = 0
port = once()  # and then the same one again and again
for _ in range(4): once()
gc.collect(); first = measure()
for _ in range(10): once()
gc.collect(); last = measure()
print(last[0] / first[0], last[1] - first[1])
""")
        ratio, threads = done.stdout.split()
        self.assertLess(float(ratio), 1.05)
        self.assertEqual(threads, "0", done.stderr)


class Refusals(unittest.TestCase):
    def test_a_second_server(self):
        with quire.LLM(TINY) as llm:
            first = quire.serve(llm)
            with self.assertRaisesRegex(quire.UnavailableError, first.url) as refused:
                quire.serve(llm)
            self.assertEqual((refused.exception.code, refused.exception.remedy), ("UNAVAILABLE", "close that first"))
            with self.assertRaisesRegex(quire.UnavailableError, "sleep"):
                llm.sleep()
            first.close()
            with quire.serve(llm, port=first.port) as again:
                self.assertEqual(again.port, first.port)
                text_of(again, "a")

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            # Also before a model is loaded.
            for model in (TINY, "/nowhere/model.gguf"):
                with self.assertRaisesRegex(quire.UnavailableError, f"127.0.0.1:{port}: it is in use") as refused:
                    quire.serve(model, port=port)
                self.assertIn("--port", refused.exception.remedy)

    def test_keywords(self):
        with quire.LLM(TINY) as llm:
            for flags, message in (
                    ({"api_kye": "x"}, 'no setting "api_kye"; did you mean api_key'),
                    ({"max_conections": 3}, "did you mean max_connections"),
                    ({"max_num_seqs": 3}, "max_num_seqs is a setting of the engine.*LLM"),
                    ({"simulate_step_ms": 3}, "is a setting of the engine"),
                    ({"log_format": "json"}, 'no setting "log_format"'),
                    ({"port": 70_000}, "--port"),
                    ({"port": "http"}, "--port"),
                    ({"max_connections": 0}, "--max-connections"),
                    ({"prefix_cache_scope": "mine"}, "--prefix-cache-scope.*key"),
                    ({"shutdown_timeout": -1}, "--shutdown-timeout"),
                    ({"root_path": "quire/"}, "--root-path"),
                    ({"price_per_hour": "much"}, "--price-per-hour"),
                    ({"served_model_name": [1]}, "served_model_name: expected a list of strings"),
                    ({"api_key": b"x"}, "no setting is a bytes"),
            ):
                with self.subTest(flags), self.assertRaisesRegex(quire.InvalidArgumentError, message) as refused:
                    quire.serve(llm, **flags)
                self.assertEqual(refused.exception.code, "INVALID_ARGUMENT")
        for flags, message in (
                ({"max_num_sesq": 3}, "did you mean max_num_seqs"),
                ({"api_kye": "x"}, "did you mean api_key"),
                ({"max_num_seqs": 0}, "--max-num-seqs 0"),
        ):
            with self.subTest(flags), self.assertRaisesRegex(quire.InvalidArgumentError, message):
                quire.serve("/nowhere/model.gguf", **flags)
        with self.assertRaisesRegex(quire.UnimplementedError, "tensor-parallel-size"):
            quire.serve("/nowhere/model.gguf", tensor_parallel_size=2)

    def test_a_model_that_is_not_there(self):
        with self.assertRaisesRegex(quire.NotFoundError, "/nowhere"):
            quire.serve("/nowhere/model.gguf")

    def test_a_closed_engine(self):
        llm = quire.LLM(TINY)
        llm.close()
        with self.assertRaisesRegex(quire.UnavailableError, "closed"):
            quire.serve(llm)

    def test_a_certificate_that_is_none(self):
        with quire.LLM(TINY) as llm, self.assertRaisesRegex(quire.ConfigError, "--ssl-certfile"):
            quire.serve(llm, ssl_certfile="/nowhere.pem")


SERVING = f"""
import http.client, logging, os, signal, socket, sys, threading, time, urllib.request
import quire
llm = quire.LLM({str(TINY)!r}, simulate_step_ms=5)
server = quire.serve(llm, disable_page=True)
def begin_stream():
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/v1/completions",
                       '{{"prompt": "a", "max_tokens": 240, "ignore_eos": true, "stream": true}}',
                       {{"Content-Type": "application/json"}})
    answer = connection.getresponse()
    answer.readline()
    return answer
"""


class Life(unittest.TestCase):
    def test_the_interpreter_ends_with_requests_in_flight(self):
        done = python(SERVING + "answer = begin_stream()\nprint(answer.status)")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "200\n", ""))

    def test_of_an_own_engine_too(self):
        done = python(SERVING + f"other = quire.serve({str(TINY)!r})\nprint(other.port != server.port)")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))

    def test_a_server_that_nobody_holds(self):
        done = python(SERVING + """
import gc
port = server.port
del server, llm
gc.collect()
print(socket.socket().connect_ex(("127.0.0.1", port)) != 0)
""")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))

    def test_ctrl_c_ends_the_wait_for_requests(self):
        done = python(SERVING + """
answer = begin_stream()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    server.close()
except KeyboardInterrupt:
    print(time.monotonic() - begin < 1, server.closed, llm.engine_state()["stats"]["num_running"])
""")
        self.assertEqual((done.stdout, done.stderr), ("True True 0\n", ""))

    def test_a_fork(self):
        done = python(SERVING + """
child = os.fork()
if child == 0:
    try: quire.serve(llm)
    except quire.UnavailableError as error: print("spawn" in str(error), flush=True)
    server.close()
    sys.exit(0)
print(os.waitpid(child, 0)[1], flush=True)
print(urllib.request.urlopen(server.url + "/ready").status, server.closed)
""")
        self.assertEqual(done.stdout.splitlines(), ["True", "0", "200 False"], done.stderr)

    def test_the_log(self):
        done = python("""
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
""" + SERVING + """
urllib.request.urlopen(urllib.request.Request(server.base_url + "/completions", b'{"prompt": "a", "max_tokens": 1}',
                                              {"Content-Type": "application/json"})).read()
server.close()
""")
        self.assertRegex(done.stdout, r"(?m)^quire INFO serving hf on http://127.0.0.1:\d+$")
        self.assertRegex(done.stdout, r"(?m)^quire INFO request id=cmpl-\S+ prompt_tokens=2 ")
        self.assertEqual(done.stderr, "")

    def test_a_logits_processor_cannot_close_it(self):
        said = []

        def process(output_token_ids, row):
            try:
                server.close()
            except quire.UnavailableError as error:
                said.append(str(error))
        with quire.LLM(TINY) as llm, quire.serve(llm) as server:
            params = quire.SamplingParams(max_tokens=1, logits_processors=[process])
            llm.generate("a", params, use_tqdm=False)
            self.assertEqual(len(said), 1)
            self.assertIn("another thread", said[0])
            self.assertFalse(server.closed)


if __name__ == "__main__":
    main()
