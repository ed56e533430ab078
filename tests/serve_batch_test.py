"""Files and batches with the openai client, across restarts and `kill -9`.

    serve_batch_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import openai

from cli_support import PROGRAM, SMOLLM2
from serve_schema_test import DESCRIPTION, validator
from serve_support import TIMEOUT, Server, main, missing, wait_until

ENDED = ("completed", "failed", "expired", "cancelled")


def lines(count):
    return [{"custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions",
             "body": {"max_tokens": 8, "temperature": 0,
                      "messages": [{"role": "user", "content": f"Count from {i}."}]}}
            for i in range(count)]


class BatchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quire-batch-")
        self.addCleanup(folder.cleanup)
        self.database = pathlib.Path(folder.name, "state", "batches.sqlite3")
        self.server = None

    def start(self, simulate=5):
        """A server on the test's database."""
        self.server = Server("--batch-database", self.database, "--max-model-len", 512,
                             simulate=simulate)
        self.addCleanup(lambda server=self.server: server.process.poll() is None and server.kill())
        self.client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="none", max_retries=0)

    def upload(self, content):
        return self.client.files.create(file=("../in.jsonl", content), purpose="batch")

    def create(self, content, endpoint="/v1/chat/completions"):
        if isinstance(content, list):
            content = "".join(json.dumps(line) + "\n" for line in content).encode()
        return self.client.batches.create(input_file_id=self.upload(content).id, endpoint=endpoint,
                                          completion_window="24h", metadata={"name": "value"})

    def done(self, batch):
        counts = self.client.batches.retrieve(batch.id).request_counts
        return counts.completed + counts.failed

    def end_of(self, batch):
        def ended():
            now = self.client.batches.retrieve(batch.id)
            return now if now.status in ENDED else None
        return wait_until(ended, "the batch ends")

    def records(self, file_id):
        return [json.loads(line) for line in self.client.files.content(file_id).text.splitlines()]

    def test_each_line_once_across_kills(self):
        given = lines(1500)
        given[5]["body"]["top_p"] = 7
        self.start(simulate=20)
        batch = self.create(given)
        progress = [0]
        for kill in range(4):
            target = progress[-1] + 40 + 17 * kill
            wait_until(lambda: self.done(batch) >= target, f"{target} lines are done")
            self.server.kill()
            self.start(simulate=20 if kill < 3 else 0)
            progress.append(self.done(batch))
        self.assertEqual(progress, sorted(set(progress)))  # nothing that was stored is lost
        self.assertLess(progress[-2], len(given))
        end = self.end_of(batch)
        self.assertEqual((end.status, end.request_counts.completed, end.request_counts.failed),
                         ("completed", len(given) - 1, 1))
        output, errors = self.records(end.output_file_id), self.records(end.error_file_id)
        self.assertEqual([record["custom_id"] for record in errors], ["line-5"])
        self.assertEqual(errors[0]["response"]["status_code"], 400)
        self.assertEqual(errors[0]["response"]["body"]["error"]["param"], "top_p")
        self.assertEqual(sorted(record["custom_id"] for record in output + errors),
                         sorted(line["custom_id"] for line in given))
        usages = [record["response"]["body"]["usage"] for record in output]
        self.assertEqual(end.usage.total_tokens, sum(usage["total_tokens"] for usage in usages))
        self.server.stop()

    def test_what_it_answers_is_valid(self):
        if not DESCRIPTION.exists():
            missing(DESCRIPTION, "it is not part of the project")
        self.start()
        batch = self.create(lines(3))
        batch_object = validator("Batch")
        batch_object.validate(batch.to_dict())
        end = self.end_of(batch)
        batch_object.validate(end.to_dict())
        for record in self.records(end.output_file_id):
            validator("CreateChatCompletionResponse").validate(record["response"]["body"])
        failed = self.end_of(self.create(b'{"x"'))
        self.assertEqual((failed.status, failed.errors.data[0].line), ("failed", 1))
        batch_object.validate(failed.to_dict())
        validator("ListBatchesResponse").validate(self.server.get("/v1/batches").json)
        files = self.server.get("/v1/files").json
        validator("ListFilesResponse").validate(files)
        self.assertEqual({file["filename"] for file in files["data"]},
                         {"in.jsonl", f"{batch.id}_output.jsonl"})
        self.assertEqual([each.id for each in self.client.batches.list(limit=1)],
                         [failed.id, batch.id])
        validator("DeleteFileResponse").validate(
            self.client.files.delete(end.input_file_id).to_dict())
        self.server.stop()

    def test_cancel_and_shutdown_in_mid_batch(self):
        self.start(simulate=50)
        cancelled, kept = self.create(lines(1500)), self.create(lines(600))
        wait_until(lambda: self.done(cancelled) > 0, "some lines are done")
        self.client.batches.cancel(cancelled.id)
        end = self.end_of(cancelled)
        self.assertEqual(end.status, "cancelled")
        self.assertEqual(len(self.records(end.output_file_id)), end.request_counts.completed)
        wait_until(lambda: self.server.metrics()['quire_requests{state="running"}'] > 0,
                   "the other batch runs")
        self.server.stop()
        self.start(simulate=1000)
        self.assertLess(self.done(kept), 600)  # the end did not wait for it
        self.server.kill()
        self.start()
        self.assertEqual(self.end_of(kept).request_counts.completed, 600)
        with self.assertRaises(openai.ConflictError):
            self.client.batches.cancel(kept.id)
        self.server.stop()

    def test_one_server_alone_has_the_database(self):
        self.start()
        second = subprocess.run(
            [PROGRAM, "serve", "--model", SMOLLM2, "--port", "0", "--simulate-step-ms", "0",
             "--batch-database", self.database],
            stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(second.returncode, 69, second.stderr)
        self.assertIn(str(self.database), second.stderr)
        self.assertIn("in use by another process", second.stderr)
        self.server.stop()

    def test_refusals(self):
        self.start()
        for call, error in (
                (lambda: self.client.files.create(file=("a", b"x"), purpose="fine-tune"),
                 openai.BadRequestError),
                (lambda: self.client.files.retrieve("file-none"), openai.NotFoundError),
                (lambda: self.client.batches.retrieve("batch_none"), openai.NotFoundError),
                (lambda: self.create(lines(1), "/v1/moderations"), openai.BadRequestError)):
            with self.assertRaises(error):
                call()
        self.assertEqual(self.server.post("/v1/files", "{}").status, 415)
        too_large = self.server.request("POST", "/v1/files", headers={
            "Content-Type": "multipart/form-data; boundary=B", "Content-Length": str(1 << 30)})
        self.assertEqual(too_large.status, 413)
        self.server.stop()


if __name__ == "__main__":
    main()
