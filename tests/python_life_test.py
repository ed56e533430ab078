"""Life with Python: signals, forks, threads, the interpreter's end, memory.

    python_life_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import re
import signal
import subprocess
import sys
import unittest

from python_support import PACKAGE, SMOLLM2, TINY, main, needs, python

# The beginning of each program: an engine whose steps take a while, and a request that does not end.
SLOW = f"""
import os, signal, sys, threading, time
import quire
llm = quire.LLM({str(TINY)!r}, simulate_step_ms=5)
ENDLESS = quire.SamplingParams(max_tokens=None, ignore_eos=True)
SHORT = quire.SamplingParams(max_tokens=2, ignore_eos=True)
"""


class Signals(unittest.TestCase):
    def test_ctrl_c_keeps_what_is_finished(self):
        done = python(SLOW + """
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    llm.generate(["a", "b", "c"], [SHORT, quire.SamplingParams(max_tokens=240, ignore_eos=True), SHORT], use_tqdm=False)
    print("no interrupt")
except KeyboardInterrupt as interrupt:
    print(type(interrupt).__name__, str(interrupt))
    for output in interrupt.outputs:
        print(output.outputs[0].finish_reason, len(output.outputs[0].token_ids) > 0)
print(len(llm.generate("goes on", SHORT, use_tqdm=False)))
""")
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.splitlines(), [
            "GenerationInterrupted 2 of 3 requests were finished; they are in .outputs",
            "length True", "abort True", "length True", "1"])

    def test_what_has_not_begun_is_none(self):
        done = python(SLOW.replace("simulate_step_ms=5", "simulate_step_ms=5, max_num_seqs=1") + """
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    llm.generate(["a"] * 9, ENDLESS, use_tqdm=False)
except KeyboardInterrupt as interrupt:
    print([output is None for output in interrupt.outputs])
""")
        self.assertEqual(done.stdout.strip(), str([False] * 2 + [True] * 7), done.stderr)


class Processes(unittest.TestCase):
    def test_a_fork_is_told(self):
        done = python(SLOW + """
child = os.fork()
if child == 0:
    for call in (lambda: llm.generate("x", SHORT, use_tqdm=False), lambda: llm.get_tokenizer().encode("x"), llm.engine_state):
        try:
            call()
        except quire.UnavailableError as error:
            print("spawn" in str(error), flush=True)
    llm.close()
    sys.exit(0)
print(os.waitpid(child, 0)[1], flush=True)
print(len(llm.generate("x", SHORT, use_tqdm=False)))
""")
        self.assertEqual(done.stdout.split(), ["True"] * 3 + ["0", "1"], done.stderr)

    def test_a_fork_may_load_its_own(self):
        done = python(SLOW + f"""
child = os.fork()
if child == 0:
    with quire.LLM({str(TINY)!r}) as own:
        print(len(own.generate("x", SHORT, use_tqdm=False)[0].outputs[0].token_ids), flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1])
""")
        self.assertEqual(done.stdout.split(), ["2", "0"], done.stderr)

    def test_spawn(self):
        program = f"""
import multiprocessing, sys
def work(prompt):
    import quire
    with quire.LLM({str(TINY)!r}) as llm:
        return llm.generate(prompt, quire.SamplingParams(temperature=0, max_tokens=4), use_tqdm=False)[0]
if __name__ == "__main__":
    import quire
    here = work("the cat")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work, ["the cat"]).outputs == here.outputs)
"""
        import os
        import pathlib
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "spawning.py")
            path.write_text(program)
            done = subprocess.run([sys.executable, "-B", str(path)], stdout=subprocess.PIPE, text=True, timeout=120,
                                  env=dict(os.environ, PYTHONPATH=str(PACKAGE)))
        self.assertEqual(done.stdout.strip(), "True")

    def test_a_subinterpreter_is_refused(self):
        done = python("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
try:
    failure = interpreters.run_string(other, "import sys, os\\nsys.path.insert(0, os.environ['PYTHONPATH'])\\nimport quire")
    print(failure)
except Exception as error:
    print(error)
""")
        self.assertIn("subinterpreter", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)


class TheEnd(unittest.TestCase):
    def test_of_the_interpreter_with_requests_in_flight(self):
        done = python(SLOW + """
def work():
    try:
        llm.generate(["x"] * 8, ENDLESS, use_tqdm=False)
    except quire.UnavailableError as error:
        print("closed", flush=True)
threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
time.sleep(0.3)
""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_of_the_interpreter_with_a_stream(self):
        done = python(SLOW + f"""
import asyncio
engine = quire.AsyncLLM({str(TINY)!r}, simulate_step_ms=5)
async def begin():
    async for output in engine.generate("x", ENDLESS):
        return len(output.outputs[0].token_ids)
print(asyncio.run(begin()))
""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_of_an_engine_while_others_wait_for_it(self):
        done = python(SLOW + """
said = []
def work():
    try:
        llm.generate(["x"] * 4, ENDLESS, use_tqdm=False)
    except quire.UnavailableError as error:
        said.append("closed")
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
time.sleep(0.2)
llm.close()
for thread in threads: thread.join()
print(said)
""")
        self.assertEqual(done.stdout.strip(), str(["closed"] * 3), done.stderr)

    def test_gives_memory_and_threads_back(self):
        done = python(f"""
import gc, os, threading
import quire
def measure():
    status = open("/proc/self/status").read()
    return [int(next(l for l in status.splitlines() if l.startswith(name)).split()[1]) for name in ("VmRSS:", "Threads:")]
def once():
    with quire.LLM({str(TINY)!r}, threads=2) as llm:
        llm.generate(["the cat"] * 8, quire.SamplingParams(max_tokens=20, ignore_eos=True), use_tqdm=False)
# The allocator's arenas and Python's caches are as large as they get after three.
for _ in range(3): once()
gc.collect(); first = measure()
for _ in range(10): once()
gc.collect(); last = measure()
print(last[0] / first[0], last[1] - first[1])
""")
        ratio, threads = done.stdout.split()
        self.assertLess(float(ratio), 1.02)
        self.assertEqual(threads, "0")


class Sleep(unittest.TestCase):
    @needs(SMOLLM2)
    def test_gives_memory_back_until_it_wakes(self):
        done = python(f"""
import os
import quire
def measure():
    status = open("/proc/self/status").read()
    return [int(next(l for l in status.splitlines() if l.startswith(name)).split()[1]) for name in ("VmRSS:", "Threads:")]
params = quire.SamplingParams(temperature=0, max_tokens=8)
before = measure()
llm = quire.LLM({str(SMOLLM2)!r}, threads=2, max_model_len=512, max_num_seqs=4)
first = llm.generate("the cat", params, use_tqdm=False)
awake = measure()
llm.sleep()
asleep = measure()
print(awake[0] - asleep[0] > 60_000, asleep[1] - before[1], llm.is_sleeping)
for call in (lambda: llm.generate("x", params, use_tqdm=False), llm.engine_state, llm.reset_prefix_cache):
    try: call()
    except quire.UnavailableError as error: print("wake_up" in str(error))
llm.sleep()
llm.wake_up()
llm.wake_up()
print(llm.generate("the cat", params, use_tqdm=False)[0].outputs == first[0].outputs, llm.is_sleeping)
llm.sleep()
llm.close()
try: llm.generate("x", params, use_tqdm=False)
except quire.UnavailableError as error: print("closed" in str(error))
llm.wake_up()
print(repr(llm)[-8:])
""")
        # The thread that forwards log records stays.
        self.assertEqual(done.stdout.split("\n"), ["True 1 True", "True", "True", "True", "True False", "True", " closed)", ""],
                         done.stderr)

    def test_is_refused_while_requests_run(self):
        done = python(SLOW + """
thread = threading.Thread(target=lambda: llm.generate("x", quire.SamplingParams(max_tokens=100, ignore_eos=True), use_tqdm=False))
thread.start()
time.sleep(0.2)
try: llm.sleep()
except quire.UnavailableError as error: print(error)
thread.join()
try: llm.sleep(3)
except ValueError as error: print(error)
llm.sleep()
print(llm.is_sleeping)
""")
        self.assertEqual(done.stdout.splitlines(), [
            "sleep: requests run or wait; call it when they have ended", "sleep: level: 3 is not 1 or 2", "True"], done.stderr)


class Threads(unittest.TestCase):
    def test_call_generate_at_once(self):
        done = python(SLOW.replace("simulate_step_ms=5", "max_num_seqs=4") + """
GREEDY = quire.SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
prompts = [["a", "b"], ["c"], ["the cat"] * 5, ["x", "y", "z"]] * 4
alone = [llm.generate(each, GREEDY, use_tqdm=False) for each in prompts]
results = [None] * len(prompts)
def work(i): results[i] = llm.generate(prompts[i], GREEDY, use_tqdm=False)
threads = [threading.Thread(target=work, args=[i]) for i in range(len(prompts))]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(all([o.outputs for o in a] == [o.outputs for o in b] for a, b in zip(alone, results)))
""")
        self.assertEqual(done.stdout.strip(), "True", done.stderr)

    def test_others_go_on_while_one_waits(self):
        done = python(SLOW + """
thread = threading.Thread(target=lambda: llm.generate("x", quire.SamplingParams(max_tokens=200, ignore_eos=True), use_tqdm=False))
thread.start()
turns = 0
while thread.is_alive():
    turns += 1
    time.sleep(0.001)
print(turns > 100)
""")
        self.assertEqual(done.stdout.strip(), "True", done.stderr)

    def test_a_queue_that_others_have_filled_is_waited_for(self):
        done = python(SLOW.replace("simulate_step_ms=5", "simulate_step_ms=1, max_num_seqs=2, max_queued_requests=2") + """
results = []
def work(): results.append(len(llm.generate(["x"] * 10, SHORT, use_tqdm=False)))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(results)
""")
        self.assertEqual(done.stdout.strip(), str([10] * 4), done.stderr)


class Logs(unittest.TestCase):
    def test_logging_gets_the_engines_records(self):
        done = python(f"""
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
import quire
quire.LLM({str(TINY)!r}, simulate_step_ms=1).close()
quire.LLM({str(TINY)!r}).close()
""")
        self.assertRegex(done.stdout, r"(?m)^quire WARNING simulated: no weights are loaded")
        self.assertRegex(done.stdout, r"(?m)^quire INFO memory: ")
        self.assertEqual(done.stderr, "")

    def test_nothing_is_printed_unasked(self):
        done = python(f"import quire\nquire.LLM({str(TINY)!r}).close()")
        self.assertEqual((done.stdout, done.stderr), ("", ""))


if __name__ == "__main__":
    main()
