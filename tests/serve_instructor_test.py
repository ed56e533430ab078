"""instructor in its modes for OpenAI's API, those of tools among them.

    serve_instructor_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import enum
import os
import tempfile

import instructor
import openai
import pydantic
from serve_support import ServerTest, main

NAME = "a-model"
MESSAGES = [{"role": "user", "content": "Tell me of a city as JSON."}]


class Climate(enum.Enum):
    WARM = "warm"
    COLD = "cold"


class City(pydantic.BaseModel, extra="forbid"):
    name: str = pydantic.Field(min_length=1, max_length=12)
    population: int = pydantic.Field(ge=0, le=99_999_999)
    climate: Climate


class Anything(pydantic.BaseModel, extra="allow"):
    pass


class InstructorTest(ServerTest):
    flags = ("--served-model-name", NAME, "--max-model-len", 2048)

    def ask(self, mode, model, messages=MESSAGES, **options):
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="EMPTY", max_retries=0) as client:
            return instructor.from_openai(client, mode=mode).chat.completions.create(
                model=NAME, messages=messages, response_model=model, max_retries=0, **options)


class Noise(InstructorTest):
    """Tokens that are made up: all sense is the schema's."""

    def test_json_schema(self):
        for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.JSON_O1):
            for seed in range(4):
                self.assertIsInstance(self.ask(mode, City, seed=seed), City)

    # It puts the schema into the prompt; vLLM's field has it kept.
    def test_md_json(self):
        schema = {"structured_outputs": {"json": City.model_json_schema()}}
        for seed in range(4):
            self.assertIsInstance(self.ask(instructor.Mode.MD_JSON, City, seed=seed, extra_body=schema), City)


class Tools(InstructorTest):
    """The same by a function, which has to be called."""

    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False) as file:
            file.write("{%- if tools %}{{ tools | tojson }} <tool_call> {% endif %}"
                       "{%- for message in messages %}{{ message.content }}{% endfor %}")
        cls.addClassCleanup(os.unlink, file.name)
        cls.flags = (*InstructorTest.flags, "--chat-template", file.name)
        super().setUpClass()

    def test_tools(self):
        for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT):
            for seed in range(4):
                self.assertIsInstance(self.ask(mode, City, seed=seed), City)


class Model(InstructorTest):
    simulate = None

    # An object, of which this mode says no more.
    def test_json(self):
        question = [{"role": "user", "content": 'Answer with JSON like {"city": "Paris"}: the capital of Italy?'}]
        city = self.ask(instructor.Mode.JSON, Anything, question, temperature=0, max_tokens=800)
        self.assertIsInstance(city, Anything)


if __name__ == "__main__":
    main()
