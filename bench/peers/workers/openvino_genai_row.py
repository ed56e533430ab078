"""One row by OpenVINO GenAI's continuous batching, in process: MODEL KIND SIZE INPUT_LEN OUTPUT_LEN THREADS.

Runs in the environment that scripts/install_peers.sh makes; prints one JSON object.
"""

import json
import pathlib
import random
import statistics
import sys
import time

import numpy
import openvino
import openvino_genai


def main():
    model, kind = sys.argv[1:3]
    size, input_len, output_len, threads = map(int, sys.argv[3:7])
    begin = time.perf_counter()
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 2  # GB
    scheduler.max_num_batched_tokens = 512
    scheduler.max_num_seqs = max(size, 1) if kind != "prefill" else 1
    scheduler.enable_prefix_caching = False
    properties = {"INFERENCE_NUM_THREADS": threads}
    if kind == "restart":
        properties["CACHE_DIR"] = str(pathlib.Path(model).parent / "kept")
    pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", properties)
    if kind in ("start", "restart"):
        print(json.dumps({"value": time.perf_counter() - begin, "note": "in process: the pipeline's constructor"}))
        return

    draw = random.Random(1)
    handles = []  # a request ends with its handle

    def add(tokens, outputs):
        config = openvino_genai.GenerationConfig(max_new_tokens=outputs, ignore_eos=True)
        ids = [draw.randrange(1000, 30000) for _ in range(tokens)]
        handles.append(pipeline.add_request(
            len(handles), openvino.Tensor(numpy.array([ids], dtype=numpy.int64)), config))

    def finish():
        while pipeline.has_non_finished_requests():
            pipeline.step()

    add(16, 4)
    finish()
    begin = time.perf_counter()
    if kind == "prefill":
        add(size, 1)
        finish()
        result = {"value": size / (time.perf_counter() - begin)}
    elif kind == "decode":
        for _ in range(size):
            add(input_len, output_len + 1 + size * input_len // 512)
        while not all(handle.can_read() for handle in handles[-size:]):  # a first token of each
            pipeline.step()
        steps = []
        for _ in range(output_len):
            start = time.perf_counter()
            pipeline.step()
            steps.append(time.perf_counter() - start)
        result = {"value": size / statistics.fmean(steps)}
    else:
        for _ in range(size):
            add(input_len, output_len)
        arrivals = [[] for _ in range(size)]  # of each request's tokens
        while pipeline.has_non_finished_requests():
            pipeline.step()
            now = time.perf_counter() - begin
            for times, handle in zip(arrivals, handles[-size:]):
                if handle.can_read():
                    handle.read()
                    times.append(now)
        seconds = time.perf_counter() - begin
        gaps = [after - before for times in arrivals for before, after in zip(times, times[1:])]
        result = {"value": size * output_len / seconds, "ttft_p50_s": statistics.median(times[0] for times in arrivals),
                  "gap_p99_s": statistics.quantiles(gaps, n=100)[98], "note": "in process"}
    print(json.dumps(result))


main()
