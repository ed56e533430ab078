"""Tools by the clients that people use for them: the openai client (tools whole and streamed, parse,
Responses), LangChain and its agents, Pydantic AI, OpenAI's agents and LiteLLM, against a server whose
tokens are noise, so that each call and its arguments are the grammar's doing. One call at a time: noise
seldom stops where it may.

    serve_tools_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import asyncio
import json
import os
import tempfile
from typing import Literal

os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false", DO_NOT_TRACK="1")

import agents  # noqa: E402
import litellm  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
from langchain.agents import create_agent  # noqa: E402
from langchain.agents.structured_output import ToolStrategy  # noqa: E402
from langchain_core.tools import tool as langchain_tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from pydantic_ai import Agent, ToolOutput  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402
from serve_support import ServerTest, main  # noqa: E402

NAME = "a-model"
QUESTION = "What is the weather in Paris?"
MESSAGES = [{"role": "user", "content": QUESTION}]

# Hermes' form, in few words.
TEMPLATE = """{%- if tools %}{{ tools | tojson }} <tool_call> {% endif %}
{%- for message in messages %}{{ message.role }}: {{ message.content }}
{%- for call in message.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments | tojson }})
{%- endfor %}{%- endfor %}{%- if role == 'tool' %}{% endif %}"""


class Weather(pydantic.BaseModel, extra="forbid"):
    """The weather of a city."""

    city: Literal["Paris", "Rome"]
    days: int = pydantic.Field(ge=1, le=7)


class Time(pydantic.BaseModel, extra="forbid"):
    """The time in a city."""

    city: Literal["Paris", "Rome"]
    zone: bool


def function(model, **more):
    return {"name": model.__name__, "description": model.__doc__,
            "parameters": model.model_json_schema(), **more}


TOOLS = [{"type": "function", "function": function(model)} for model in (Weather, Time)]
STRICT_TOOLS = [{"type": "function", "function": function(model, strict=True)} for model in (Weather, Time)]
MODELS = {"Weather": Weather, "Time": Time}


class ToolsTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False) as file:
            file.write(TEMPLATE)
        cls.addClassCleanup(os.unlink, file.name)
        cls.flags = ("--served-model-name", NAME, "--max-model-len", 4096, "--chat-template", file.name)
        super().setUpClass()
        cls.url = cls.server.url + "/v1"
        cls.client = openai.OpenAI(base_url=cls.url, api_key="EMPTY", max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def check(self, name, arguments):
        self.assertIsInstance(MODELS[name].model_validate_json(arguments), MODELS[name])


class OpenAI(ToolsTest):
    def test_required_whole_and_streamed(self):
        for seed in range(4):
            ask = dict(model=NAME, messages=MESSAGES, tools=TOOLS, tool_choice="required",
                       parallel_tool_calls=False, seed=seed)
            answer = self.client.chat.completions.create(**ask)
            calls = answer.choices[0].message.tool_calls
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            self.assertIsNone(answer.choices[0].message.content)
            for call in calls:
                self.check(call.function.name, call.function.arguments)
            streamed = {}
            for chunk in self.client.chat.completions.create(stream=True, **ask):
                for piece in chunk.choices[0].delta.tool_calls or []:
                    entry = streamed.setdefault(piece.index, [None, ""])
                    entry[0] = entry[0] or piece.function.name
                    entry[1] += piece.function.arguments
            self.assertEqual(list(streamed.values()),
                             [[call.function.name, call.function.arguments] for call in calls])

    def test_a_named_function_and_one_call(self):
        answer = self.client.chat.completions.create(
            model=NAME, messages=MESSAGES, tools=TOOLS, parallel_tool_calls=False,
            tool_choice={"type": "function", "function": {"name": "Time"}})
        call, = answer.choices[0].message.tool_calls
        self.assertEqual(call.function.name, "Time")
        self.check("Time", call.function.arguments)

    def test_parse_with_tools(self):
        tools = [openai.pydantic_function_tool(model) for model in (Weather, Time)]
        answer = self.client.chat.completions.parse(
            model=NAME, messages=MESSAGES, tools=tools, tool_choice="required", parallel_tool_calls=False)
        for call in answer.choices[0].message.tool_calls:
            self.assertIsInstance(call.function.parsed_arguments, MODELS[call.function.name])

    def test_responses_whole_and_streamed(self):
        tools = [{"type": "function", "strict": True, **function(model)} for model in (Weather, Time)]
        ask = dict(model=NAME, input=QUESTION, tools=tools, tool_choice="required",
                   parallel_tool_calls=False, extra_body={"seed": 3})
        answer = self.client.responses.create(**ask)
        calls = [item for item in answer.output if item.type == "function_call"]
        self.assertTrue(calls)
        for call in calls:
            self.check(call.name, call.arguments)
        with self.client.responses.stream(**ask) as stream:
            events = list(stream)
        done = [event for event in events if event.type == "response.function_call_arguments.done"]
        self.assertEqual([event.arguments for event in done], [call.arguments for call in calls])
        deltas = "".join(event.delta for event in events
                         if event.type == "response.function_call_arguments.delta")
        self.assertEqual(deltas, "".join(call.arguments for call in calls))
        order = [event.type.removeprefix("response.") for event in events]
        expected = ["created", "in_progress", "output_item.added", "function_call_arguments.delta",
                    "function_call_arguments.done", "output_item.done", "completed"]
        self.assertEqual([kind for i, kind in enumerate(order) if kind not in order[:i]], expected)

    def test_an_answer_that_is_a_call_or_of_a_schema(self):
        schema = {"type": "json_schema", "json_schema": {"name": "w", "schema": Weather.model_json_schema()}}
        for seed in range(4):
            answer = self.client.chat.completions.create(
                model=NAME, messages=MESSAGES, tools=STRICT_TOOLS, response_format=schema,
                parallel_tool_calls=False, seed=seed)
            message = answer.choices[0].message
            if message.tool_calls:
                for call in message.tool_calls:
                    self.check(call.function.name, call.function.arguments)
            else:
                self.check("Weather", message.content)


class LangChain(ToolsTest):
    def model(self, **options):
        return ChatOpenAI(model=NAME, base_url=self.url, api_key="EMPTY", max_retries=0, **options)

    def test_bound_tools(self):
        @langchain_tool(args_schema=Weather)
        def weather(city: str, days: int) -> str:
            """The weather of a city."""
            return "sunny"

        for responses in (False, True):
            answer = self.model(use_responses_api=responses).bind_tools(
                [weather], tool_choice="weather").invoke(QUESTION)
            self.assertTrue(answer.tool_calls)
            for call in answer.tool_calls:
                self.check("Weather", json.dumps(call["args"]))
                self.assertEqual(weather.invoke(call["args"]), "sunny")

    def test_structured_output_by_a_function(self):
        answer = self.model().with_structured_output(Weather, method="function_calling").invoke(QUESTION)
        self.assertIsInstance(answer, Weather)


    def test_an_agent_that_calls_until_it_has_its_answer(self):
        asked = []

        @langchain_tool(args_schema=Time)
        def time(city: str, zone: bool) -> str:
            """The time in a city."""
            asked.append(city)
            return "noon"

        # Noise chooses between the tool and the answer, which is a function as well.
        model = self.model(model_kwargs={"parallel_tool_calls": False})
        agent = create_agent(model, [time], response_format=ToolStrategy(Weather))
        for _ in range(3):
            state = agent.invoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 200})
            self.assertIsInstance(state["structured_response"], Weather)
        self.assertLessEqual(set(asked), {"Paris", "Rome"})


class OpenAIAgents(ToolsTest):
    def test_function_tools(self):
        asked = []

        @agents.function_tool
        def weather(city: Literal["Paris", "Rome"], days: int) -> str:
            """The weather of a city."""
            asked.append((city, days))
            return "sunny"

        async def ask(kind, streams):
            async with openai.AsyncOpenAI(base_url=self.url, api_key="EMPTY", max_retries=0) as client:
                settings = agents.ModelSettings(tool_choice="required", parallel_tool_calls=False,
                                                max_tokens=400)
                agent = agents.Agent(name="Guide", tools=[weather], model_settings=settings,
                                     tool_use_behavior="stop_on_first_tool",
                                     model=kind(model=NAME, openai_client=client))
                if not streams:
                    return (await agents.Runner.run(agent, QUESTION)).final_output
                result = agents.Runner.run_streamed(agent, QUESTION)
                async for _ in result.stream_events():
                    pass
                return result.final_output

        for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
            for streams in (False, True):
                asked.clear()
                self.assertEqual(asyncio.run(ask(kind, streams)), "sunny")
                (city, days), = asked
                self.assertIn(city, ("Paris", "Rome"))
                self.assertIsInstance(days, int)


class LiteLLM(ToolsTest):
    def test_whole_and_streamed(self):
        for stream in (False, True):
            answer = litellm.completion(
                model=f"hosted_vllm/{NAME}", api_base=self.url, api_key="EMPTY", messages=MESSAGES,
                tools=TOOLS, tool_choice="required", parallel_tool_calls=False, stream=stream, seed=5)
            if stream:
                answer = litellm.stream_chunk_builder(list(answer))
            call, = answer.choices[0].message.tool_calls
            self.check(call.function.name, call.function.arguments)
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")


class PydanticAI(ToolsTest):
    def test_function_tools_and_an_output_tool(self):
        asked = []

        def time(city: Literal["Paris", "Rome"], zone: bool) -> str:
            """The time in a city."""
            asked.append(city)
            return "noon"

        provider = OpenAIProvider(base_url=self.url, api_key="EMPTY")
        for kind in (OpenAIChatModel, OpenAIResponsesModel):
            agent = Agent(kind(NAME, provider=provider), output_type=ToolOutput(Weather), tools=[time],
                          retries=0, model_settings={"parallel_tool_calls": False})
            for _ in range(2):
                self.assertIsInstance(agent.run_sync(QUESTION).output, Weather)
        self.assertLessEqual(set(asked), {"Paris", "Rome"})

    def test_an_output_tool(self):
        provider = OpenAIProvider(base_url=self.url, api_key="EMPTY")
        for kind in (OpenAIChatModel, OpenAIResponsesModel):
            agent = Agent(kind(NAME, provider=provider), output_type=ToolOutput(Weather), retries=0)
            self.assertIsInstance(agent.run_sync(QUESTION).output, Weather)


if __name__ == "__main__":
    main()
