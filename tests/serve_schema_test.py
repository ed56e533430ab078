"""Everything that the server answers, against the published description of OpenAI's API.

    serve_schema_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import functools
import json

import jsonschema
import openai
import referencing
import referencing.jsonschema

from cli_support import SHARED
from serve_support import ServerTest, main, missing, wait_until

DESCRIPTION = SHARED / "data/protocols/openai-inference.openapi.json"
CHAT = [{"role": "user", "content": "Name a color."}]


def without_nullable(value):
    """The description with `nullable: true`, a word of OpenAPI 3.0 that it uses here and there, as
    JSON Schema says it."""
    if isinstance(value, list):
        return [without_nullable(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {key: without_nullable(each) for key, each in value.items()}
    if value.get("nullable") is not True:
        return plain
    del plain["nullable"]
    return {"anyOf": [plain, {"type": "null"}]}


@functools.cache
def registry():
    document = without_nullable(json.loads(DESCRIPTION.read_text()))
    resource = referencing.Resource(document, referencing.jsonschema.DRAFT202012)
    return referencing.Registry().with_resource("urn:api", resource)


@functools.cache
def validator(name):
    """Checks a value against a schema of the description."""
    schema = {"$ref": f"urn:api#/components/schemas/{name}"}
    return jsonschema.Draft202012Validator(schema, registry=registry())


def without_nulls(value):
    """A Response object, or an event about one, without the nulls that the Open Responses specification requires and
    OpenAI's description of its own answers does not know."""
    response = value.get("response", value)
    if response.get("object") != "response":
        return value
    required = ("safety_identifier", "prompt_cache_key", "usage")
    plain = {key: item for key, item in response.items() if item is not None or key not in required}
    return {**value, "response": plain} if "response" in value else plain


class SchemaTest(ServerTest):
    flags = ("--max-model-len", 512, "--served-model-name", "a-model")

    @classmethod
    def setUpClass(cls):
        if not DESCRIPTION.exists():
            missing(DESCRIPTION, "it is not part of the project")
        super().setUpClass()

    def assert_valid(self, value, name):
        value = without_nulls(value)
        errors = sorted(validator(name).iter_errors(value), key=lambda error: error.path)
        if errors:
            error = jsonschema.exceptions.best_match(errors)
            self.fail(f"{name}: {error.json_path}: {error.message[:500]}\n{json.dumps(value)[:1000]}")

    def ask(self, path, body, name):
        reply = self.server.post(path, {"model": "a-model", **body})
        self.assertEqual(reply.status, 200, reply.body)
        self.assert_valid(reply.json, name)
        return reply.json

    def stream(self, path, body, name):
        reply = self.server.post(path, {"model": "a-model", "stream": True, **body})
        self.assertEqual(reply.headers.get_content_type(), "text/event-stream")
        for event in reply.events:
            self.assert_valid(event, name)
        return reply.events


class TheCheckItself(SchemaTest):
    def test_it_finds_what_is_wrong(self):
        good = self.ask("/v1/completions", {"prompt": "Red"}, "CreateCompletionResponse")
        for broken in ({**good, "object": "else"}, {**good, "usage": {"total_tokens": "many"}},
                       {key: value for key, value in good.items() if key != "choices"}):
            self.assertFalse(validator("CreateCompletionResponse").is_valid(broken))


class Completions(SchemaTest):
    schema = "CreateCompletionResponse"

    def test_answers(self):
        for body in ({}, {"logprobs": 3}, {"n": 3, "temperature": 1}, {"prompt": ["Red", "Blue"]},
                     {"stop": ["e", "a", "o"]},
                     {"return_token_ids": True, "return_sampling_params": True}):
            with self.subTest(body):
                self.ask("/v1/completions", {"prompt": "Red", "max_tokens": 4, **body}, self.schema)

    def test_echo_with_logprobs(self):
        # The first token has no probability: null, as OpenAI has it, though the description does not.
        reply = self.server.post("/v1/completions", {"prompt": "Red Green Blue", "max_tokens": 0,
                                                     "echo": True, "logprobs": 1})
        answer = reply.json
        logprobs = answer["choices"][0]["logprobs"]
        for name in ("token_logprobs", "top_logprobs"):
            self.assertIsNone(logprobs[name].pop(0))
            self.assertTrue(logprobs[name])
        self.assert_valid(answer, self.schema)

    def test_chunks(self):
        # OpenAI's description has one schema for the answer and the chunk, whose finish_reason may
        # not be null in it, though OpenAI's own chunks have null until the last; so does the client.
        reply = self.server.post("/v1/completions", {
            "model": "a-model", "prompt": "Red", "max_tokens": 4, "stream": True, "logprobs": 2,
            "n": 2, "stream_options": {"include_usage": True}})
        for event in reply.events:
            for choice in event["choices"]:
                if choice["finish_reason"] is None:
                    choice["finish_reason"] = "stop"
            if event.get("usage", 0) is None:
                del event["usage"]
            self.assert_valid(event, self.schema)


class ChatCompletions(SchemaTest):
    def test_answers(self):
        for body in ({}, {"logprobs": True, "top_logprobs": 3}, {"n": 3}, {"tools": []},
                     {"stop": ["e", "a", "o"]}, {"return_token_ids": True}):
            with self.subTest(body):
                self.ask("/v1/chat/completions", {"messages": CHAT, "max_tokens": 4, **body},
                         "CreateChatCompletionResponse")

    def test_chunks(self):
        for body in ({}, {"logprobs": True, "top_logprobs": 3}, {"n": 2},
                     {"stream_options": {"include_usage": True}},
                     {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}):
            with self.subTest(body):
                self.stream("/v1/chat/completions", {"messages": CHAT, "max_tokens": 4, **body},
                            "CreateChatCompletionStreamResponse")


class Responses(SchemaTest):
    def test_answers(self):
        for body in ({}, {"instructions": "Be short.", "metadata": {"a": "b"}},
                     {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
                     {"include": ["message.output_text.logprobs"], "top_logprobs": 2}):
            with self.subTest(body):
                answer = self.ask("/v1/responses", {"input": "Hi", "max_output_tokens": 16, **body},
                                  "Response")
                stored = self.server.get(f"/v1/responses/{answer['id']}")
                self.assert_valid(stored.json, "Response")
                items = self.server.get(f"/v1/responses/{answer['id']}/input_items")
                self.assert_valid(items.json, "ResponseItemList")

    def test_events(self):
        events = self.server.post("/v1/responses", {
            "model": "a-model", "input": "Hi", "max_output_tokens": 16, "stream": True})
        seen = []
        for line in events.body.decode().splitlines():
            if line.startswith("data: ") and line != "data: [DONE]":
                event = json.loads(line[6:])
                self.assert_valid(event, "ResponseStreamEvent")
                seen.append(event["type"])
        self.assertEqual(seen[0], "response.created")
        self.assertIn(seen[-1], ("response.completed", "response.incomplete"))


class Others(SchemaTest):
    def test_models(self):
        self.assert_valid(self.server.get("/v1/models").json, "ListModelsResponse")
        self.assert_valid(self.server.get("/v1/models/a-model").json, "Model")

    def test_embeddings(self):
        for body in ({"input": "Red"}, {"input": ["Red", "Blue"]}, {"input": [1, 2]},
                     {"input": [[1], [2, 3]], "dimensions": 4}):
            with self.subTest(body):
                self.ask("/v1/embeddings", body, "CreateEmbeddingResponse")

    def test_files_and_batches(self):
        line = {"custom_id": "a", "method": "POST", "url": "/v1/completions",
                "body": {"model": "a-model", "prompt": "Red", "max_tokens": 2}}
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="EMPTY") as client:
            upload = client.files.create(file=("a.jsonl", (json.dumps(line) + "\n").encode()),
                                         purpose="batch")
            batch = client.batches.create(input_file_id=upload.id, endpoint="/v1/completions",
                                          completion_window="24h")
        path = f"/v1/batches/{batch.id}"
        wait_until(lambda: self.server.get(path).json["status"] == "completed", "it is completed")
        done = self.server.get(path).json
        self.assert_valid(done, "Batch")
        self.assert_valid(self.server.get("/v1/batches").json, "ListBatchesResponse")
        self.assert_valid(self.server.get("/v1/files").json, "ListFilesResponse")
        self.assert_valid(self.server.get(f"/v1/files/{upload.id}").json, "OpenAIFile")
        answer = self.server.get(f"/v1/files/{done['output_file_id']}/content").json
        self.assert_valid(answer["response"]["body"], "CreateCompletionResponse")
        deleted = self.server.request("DELETE", f"/v1/files/{upload.id}")
        self.assert_valid(deleted.json, "DeleteFileResponse")

    def test_errors(self):
        for path, body in (("/v1/completions", {"prompt": "Red", "temperature": -1}),
                           ("/v1/chat/completions", {}), ("/v1/embeddings", {"input": ""}),
                           ("/v1/responses", {"input": 3}), ("/v1/nothing", {}),
                           ("/v1/completions", {"prompt": "Red", "model": "else"})):
            with self.subTest(path):
                reply = self.server.post(path, body)
                self.assertGreaterEqual(reply.status, 400)
                self.assert_valid(reply.json, "ErrorResponse")


if __name__ == "__main__":
    main()
