"""Structured output by the clients that people use for it: the openai client's parse(), LangChain and
Pydantic AI, against servers whose tokens are noise, so that all sense is the schema's.

    serve_structured_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import enum
import json
import os

os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false", DO_NOT_TRACK="1")

import jsonschema  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from pydantic_ai import Agent, NativeOutput  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402
from serve_support import ServerTest, main  # noqa: E402

NAME = "a-model"
QUESTION = "Tell me of a city."
MESSAGES = [{"role": "user", "content": QUESTION}]


class Climate(enum.Enum):
    WARM = "warm"
    COLD = "cold"


class River(pydantic.BaseModel, extra="forbid"):
    name: str = pydantic.Field(max_length=12, pattern="^[a-z]+$")
    length_km: int = pydantic.Field(ge=1, le=7000)


class City(pydantic.BaseModel, extra="forbid"):
    name: str = pydantic.Field(min_length=1, max_length=12)
    population: int = pydantic.Field(ge=0, le=99_999_999)
    climate: Climate
    capital: bool
    rivers: list[River] = pydantic.Field(max_length=2)


class StructuredTest(ServerTest):
    flags = ("--served-model-name", NAME, "--max-model-len", 4096)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = cls.server.url + "/v1"
        cls.client = openai.OpenAI(base_url=cls.url, api_key="EMPTY", max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def seeds(self):
        return range(4)


class OpenAI(StructuredTest):
    def test_parse_of_chat_completions(self):
        for seed in self.seeds():
            answer = self.client.chat.completions.parse(
                model=NAME, messages=MESSAGES, response_format=City, seed=seed)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            self.assertIsInstance(answer.choices[0].message.parsed, City)

    def test_parse_of_responses(self):
        for seed in self.seeds():
            answer = self.client.responses.parse(
                model=NAME, input=QUESTION, text_format=City, extra_body={"seed": seed})
            self.assertIsInstance(answer.output_parsed, City)
            self.assertEqual(answer.text.format.type, "json_schema")

    def test_streams_are_parsed(self):
        with self.client.chat.completions.stream(
                model=NAME, messages=MESSAGES, response_format=City, seed=1) as stream:
            answer = stream.get_final_completion()
        self.assertIsInstance(answer.choices[0].message.parsed, City)

    def test_n_outputs(self):
        answer = self.client.chat.completions.parse(
            model=NAME, messages=MESSAGES, response_format=City, n=5, temperature=1)
        self.assertEqual([type(choice.message.parsed) for choice in answer.choices], [City] * 5)

    def test_json_mode(self):
        answer = self.client.chat.completions.create(
            model=NAME, messages=MESSAGES, max_tokens=3000,
            response_format={"type": "json_object"})
        if answer.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)
        else:
            self.assertTrue(answer.choices[0].message.content.lstrip().startswith("{"))

    def test_a_schema_that_cannot_be_is_an_error_that_names_it(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(
                model=NAME, messages=MESSAGES, response_format={
                    "type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "integr"}}})
        self.assertEqual(caught.exception.param, "response_format.json_schema.schema")

    def test_vllms_fields(self):
        for seed in self.seeds():
            answer = self.client.chat.completions.create(
                model=NAME, messages=MESSAGES, seed=seed,
                extra_body={"structured_outputs": {"json": City.model_json_schema()}})
            jsonschema.validate(json.loads(answer.choices[0].message.content), City.model_json_schema())
            answer = self.client.completions.create(
                model=NAME, prompt="a", seed=seed, extra_body={"guided_choice": ["red", "blue"]})
            self.assertIn(answer.choices[0].text, ("red", "blue"))


class LangChain(StructuredTest):
    def test_with_structured_output(self):
        model = ChatOpenAI(model=NAME, base_url=self.url, api_key="EMPTY", max_retries=0)
        self.assertIsInstance(
            model.with_structured_output(City, method="json_schema").invoke(QUESTION), City)
        answer = model.with_structured_output(City.model_json_schema(), method="json_schema").invoke(QUESTION)
        jsonschema.validate(answer, City.model_json_schema())

    def test_by_responses(self):
        model = ChatOpenAI(model=NAME, base_url=self.url, api_key="EMPTY", max_retries=0, use_responses_api=True)
        self.assertIsInstance(
            model.with_structured_output(City, method="json_schema").invoke(QUESTION), City)


class PydanticAI(StructuredTest):
    def agent(self, kind, output):
        provider = OpenAIProvider(base_url=self.url, api_key="EMPTY")
        return Agent(kind(NAME, provider=provider), output_type=output, retries=0)

    def test_output_types(self):
        for kind in (OpenAIChatModel, OpenAIResponsesModel):
            result = self.agent(kind, NativeOutput(City)).run_sync(QUESTION)
            self.assertIsInstance(result.output, City)

    def test_a_union_of_types(self):
        result = self.agent(OpenAIChatModel, NativeOutput([City, River])).run_sync(QUESTION)
        self.assertIsInstance(result.output, (City, River))


if __name__ == "__main__":
    main()
