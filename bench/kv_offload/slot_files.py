#!/usr/bin/env python3
"""What a prompt costs that llama.cpp's server has saved as a slot's file: the peer of restore.py.

    bench/kv_offload/slot_files.py [--tokens 4096] [--rounds 5] [--folder DIR] [--json] -- LLAMA_SERVER MODEL.gguf [FLAGS...]

One slot computes the prompt of restore.py, is saved (POST /slots/0?action=save), and then is emptied and restored in turn, from a
file whose copy in memory was dropped; the time is that of the restoring and of the request for the answer's one token, which finds the prompt
in the slot. Unlike blocks in Quire's files, a slot's file is written and read by the client's own requests, whole.
"""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request

from restore import arguments, await_health, drop_copy, free_port, prompt_of, report


def call(url, body, timeout=3600):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return time.perf_counter() - begin, json.load(answer)


def start(options, folder):
    port = free_port()
    command = [options.program, "-m", options.model, "--port", port, "-c", options.tokens + 64, "-np", 1, "--slot-save-path", folder,
               "--no-webui", *options.flags]
    process = subprocess.Popen([str(each) for each in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    await_health(process, url)
    return process, url


def main():
    options = arguments(__doc__, "llama-server", 4096).parse_args()
    prompt = prompt_of(options.tokens + 1, 1)
    ask = {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": True, "id_slot": 0, "return_tokens": True}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        process, url = start(options, folder)
        try:
            computed, first = call(url + "/completion", ask)
            saved, _ = call(url + "/slots/0?action=save", {"filename": "slot"})
            file = pathlib.Path(folder, "slot")
            restored = []
            for _ in range(options.rounds):
                call(url + "/slots/0?action=erase", {})
                drop_copy(file)
                reading, told = call(url + "/slots/0?action=restore", {"filename": "slot"})
                asking, answer = call(url + "/completion", ask)
                if answer["tokens"] != first["tokens"]:
                    raise SystemExit("slot_files: another answer than before")
                restored.append(reading + asking)
            size = file.stat().st_size
        finally:
            process.terminate()
            process.wait()
    result = {"tokens": options.tokens, "file_bytes": size, "computed_s": computed, "saved_s": saved,
              "restored_s": statistics.median(restored), "restored_tokens": told["n_restored"],
              "computed_again_tokens": answer["timings"]["prompt_n"], "times_sooner": computed / statistics.median(restored)}
    report(result, options.json)


if __name__ == "__main__":
    main()
