"""vLLM's command lines with only the program's name changed.

    serve_vllm_args_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import subprocess
import unittest
import urllib.parse

import openai

from cli_support import PROGRAM, SMOLLM2
from serve_support import TIMEOUT, Server, free_port, main, need_model

# Tokens are made up where a test is about flags only: the one thing that vLLM's users do not type.
SIMULATE = ("--simulate-step-ms", 0)


class CommandLines(unittest.TestCase):
    def serve(self, *args):
        return Server(command=[PROGRAM, "serve", *args])

    def test_the_server_of_the_tutorials(self):
        port = free_port()
        with self.serve("--model", SMOLLM2, "--host", "127.0.0.1", "--port", port,
                        "--max-model-len", 256, "--gpu-memory-utilization", 0.5,
                        "--dtype", "bfloat16") as server:
            self.assertEqual(server.port, port)
            with openai.OpenAI(base_url=f"http://localhost:{port}/v1", api_key="EMPTY") as client:
                model = client.models.list().data[0]
                self.assertEqual(model.id, SMOLLM2.name)
                self.assertEqual(model.max_model_len, 256)
                answer = client.completions.create(model=str(SMOLLM2), prompt="San Francisco is a",
                                                   max_tokens=8, temperature=0)
                self.assertEqual(answer.usage.completion_tokens, 8)
                chat = client.chat.completions.create(
                    model=str(SMOLLM2), max_tokens=12, temperature=0,
                    messages=[{"role": "user", "content": "What is the capital of Japan?"}])
                self.assertIn("Tokyo", chat.choices[0].message.content)

    def test_the_model_as_argument(self):
        with self.serve(SMOLLM2, "--port", free_port(), *SIMULATE) as server:
            models = server.get("/v1/models")
            self.assertEqual([model["id"] for model in models.json["data"]], [SMOLLM2.name])
            self.assertNotIn(str(SMOLLM2.parent).encode(), models.body)
            path = urllib.parse.quote(str(SMOLLM2), safe="")
            for name in (SMOLLM2.name, path, "HuggingFaceTB/SmolLM2-135M-Instruct",
                         "HuggingFaceTB%2FSmolLM2-135M-Instruct"):
                self.assertEqual(server.get(f"/v1/models/{name}").status, 200, name)

    def test_the_root_path(self):
        with self.serve(SMOLLM2, "--port", free_port(), "--root-path", "/quire", *SIMULATE) as server:
            for path in ("/quire/v1/models", "/v1/models", "/quire/health"):
                self.assertEqual(server.get(path).status, 200, path)
            self.assertEqual(server.get("/quirk/v1/models").status, 404)

    def test_flags_with_a_job(self):
        with self.serve(SMOLLM2, "--port", free_port(), "--served-model-name", "one", "two",
                        "--max-model-len", "1k", "--max-num-seqs", 8, "--max-num-batched-tokens", 256,
                        "--block-size", 16, "--enable-prefix-caching", "--seed", 3, "--dtype", "auto",
                        "--kv-cache-dtype", "auto", "--scheduling-policy", "priority",
                        "--enable-chunked-prefill", "--max-logprobs", 5,
                        "--generation-config", "vllm", *SIMULATE) as server:
            models = server.get("/v1/models").json["data"]
            self.assertEqual([model["id"] for model in models], ["one", "two"])
            self.assertEqual(models[0]["max_model_len"], 1000)
            for name in ("one", "two"):
                body = {"model": name, "prompt": "x", "max_tokens": 1}
                self.assertEqual(server.post("/v1/completions", body).json["model"], name)
            refused = server.post("/v1/completions", {"prompt": "x", "logprobs": 6})
            self.assertEqual(refused.status, 400)

    def test_the_key(self):
        with Server(command=[PROGRAM, "serve", SMOLLM2, "--port", free_port(), "--api-key", "secret",
                             *SIMULATE], key="secret") as server:
            self.assertEqual(server.get("/v1/models").status, 200)
            wrong = server.get("/v1/models", {"Authorization": "Bearer EMPTY"})
            self.assertEqual(wrong.status, 401)
            self.assertNotIn("secret", server.log())

    def test_flags_without_meaning_here_are_noted(self):
        with self.serve(SMOLLM2, "--port", free_port(), "--enforce-eager", "--disable-log-stats",
                        "--swap-space", 4, "--trust-remote-code", "--tensor-parallel-size", 1,
                        *SIMULATE) as server:
            self.assertIn("--enforce-eager", server.log())
            self.assertNotIn("--tensor-parallel-size", server.log())

    def test_flags_that_cannot_be_met_are_refused_by_name(self):
        need_model()
        for flags in (["--tensor-parallel-size", "2"], ["--enable-lora"],
                      ["--speculative-config", '{"method": "eagle3", "num_speculative_tokens": 3}'],
                      ["--quantization", "awq"]):
            with self.subTest(flags):
                result = subprocess.run([PROGRAM, "serve", str(SMOLLM2), *flags], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        timeout=TIMEOUT)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(flags[0], result.stdout)

    def test_an_unknown_flag(self):
        result = subprocess.run([PROGRAM, "serve", "--max-modle-len", "5"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
        self.assertEqual(result.returncode, 64)
        self.assertIn("--max-modle-len", result.stdout)


if __name__ == "__main__":
    main()
