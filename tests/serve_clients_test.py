"""LiteLLM, LangChain, Pydantic AI, OpenAI's agents and llm against the server.

    serve_clients_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import asyncio
import os
import pathlib
import subprocess
import tempfile
import unittest

from clients_support import (KEY, LONG, MAX_TOKENS, NAME, ClientTest, OwnServersTest, Turn, documented, run_python,
                             servers, start_servers, url_of,
                             with_history)
from serve_support import PYTHON, TIMEOUT, main

llm_folder = tempfile.TemporaryDirectory(prefix="quire-llm-")
os.environ["LLM_USER_PATH"] = llm_folder.name

import agents  # noqa: E402
import litellm  # noqa: E402
import llm  # noqa: E402
import openai  # noqa: E402
from langchain_core.exceptions import ContextOverflowError  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from pydantic_ai import Agent, exceptions  # noqa: E402
from pydantic_ai.models.fallback import FallbackModel  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

litellm.suppress_debug_info = True
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def setUpModule():
    unittest.addModuleCleanup(llm_folder.cleanup)
    start_servers()


def weather() -> str:
    """Tells the weather."""
    return "sunny"


class LiteLLM(ClientTest):
    section = "LiteLLM"
    provider = "hosted_vllm"
    too_long = litellm.ContextWindowExceededError
    unauthorized = litellm.AuthenticationError
    refused = litellm.BadRequestError

    def complete(self, server, key, messages, **options):
        return litellm.completion(
            model=f"{self.provider}/{NAME}", api_base=url_of(server), api_key=key, messages=messages,
            temperature=0, max_tokens=MAX_TOKENS, num_retries=0, timeout=TIMEOUT, **options)

    def converse(self, server, key, system, questions):
        def ask(messages):
            answer = self.complete(server, key, messages)
            return Turn(answer.choices[0].message.content, answer.usage.prompt_tokens,
                        answer.usage.completion_tokens)
        return with_history(ask, system, questions)

    def stream(self, server, question):
        messages = [{"role": "user", "content": question}]
        chunks = list(self.complete(server, "EMPTY", messages, stream=True,
                                    stream_options={"include_usage": True}))
        whole = litellm.stream_chunk_builder(chunks)
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        return pieces, Turn(whole.choices[0].message.content, whole.usage.prompt_tokens,
                            whole.usage.completion_tokens)

    def use_tool(self, server, key):
        self.complete(server, key, [{"role": "user", "content": "Hi"}], tools=[TOOL])


class LiteLLMAsOpenAI(LiteLLM):
    provider = "openai"
    test_the_lines_of_the_documentation = None


class LangChain(ClientTest):
    section = "LangChain"
    too_long = ContextOverflowError
    unauthorized = openai.AuthenticationError
    refused = openai.BadRequestError
    options = {"stream_usage": True}

    def model(self, server, key):
        return ChatOpenAI(model=NAME, base_url=url_of(server), api_key=key, temperature=0,
                          max_tokens=MAX_TOKENS, max_retries=0, timeout=TIMEOUT, **self.options)

    @staticmethod
    def turn(message):
        return Turn(message.text, message.usage_metadata["input_tokens"],
                    message.usage_metadata["output_tokens"])

    def converse(self, server, key, system, questions):
        model = self.model(server, key)
        return with_history(lambda messages: self.turn(model.invoke(messages)), system, questions)

    def stream(self, server, question):
        chunks = list(self.model(server, "EMPTY").stream(question))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return [chunk.text for chunk in chunks], self.turn(whole)

    def use_tool(self, server, key):
        self.model(server, key).bind_tools([weather]).invoke("Hi")


class LangChainByResponses(LangChain):
    options = {"use_responses_api": True}
    test_the_lines_of_the_documentation = None


class PydanticAI(ClientTest):
    section = "Pydantic AI"
    too_long = exceptions.ModelContextWindowExceededError
    unauthorized = exceptions.ModelAuthenticationError
    refused = exceptions.ModelHTTPError

    @staticmethod
    def model(server, key):
        return OpenAIChatModel(NAME, provider=OpenAIProvider(base_url=url_of(server), api_key=key))

    def agent(self, server, key, **options):
        return Agent(self.model(server, key), **options, model_settings={
            "temperature": 0, "max_tokens": MAX_TOKENS, "timeout": TIMEOUT})

    def converse(self, server, key, system, questions):
        agent = self.agent(server, key, system_prompt=system or ())
        turns, history = [], None
        for question in questions:
            result = agent.run_sync(question, message_history=history)
            history = result.all_messages()
            turns.append(Turn(result.output, result.usage.input_tokens, result.usage.output_tokens))
        return turns

    def stream(self, server, question):
        async def ask():
            async with self.agent(server, "EMPTY").run_stream(question) as result:
                pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
                return pieces, Turn(await result.get_output(), result.usage.input_tokens,
                                    result.usage.output_tokens)
        return asyncio.run(ask())

    def use_tool(self, server, key):
        self.agent(server, key, tools=[weather]).run_sync("Hi")


class Agents(ClientTest):
    section = "OpenAI's agents"
    too_long = openai.BadRequestError
    unauthorized = openai.AuthenticationError
    refused = openai.BadRequestError
    kind = agents.OpenAIChatCompletionsModel

    def agent(self, server, key, **options):
        client = openai.AsyncOpenAI(base_url=url_of(server), api_key=key, max_retries=0, timeout=TIMEOUT)
        settings = agents.ModelSettings(temperature=0, max_tokens=MAX_TOKENS, include_usage=True)
        return agents.Agent(name="Guide", model=self.kind(model=NAME, openai_client=client),
                            model_settings=settings, **options)

    @staticmethod
    def turn(result):
        usage = result.context_wrapper.usage
        return Turn(result.final_output, usage.input_tokens, usage.output_tokens)

    def converse(self, server, key, system, questions):
        async def ask():
            agent = self.agent(server, key, instructions=system)
            turns, history = [], []
            for question in questions:
                result = await agents.Runner.run(agent, history + [{"role": "user", "content": question}])
                history = result.to_input_list()
                turns.append(self.turn(result))
            return turns
        return asyncio.run(ask())

    def stream(self, server, question):
        async def ask():
            result = agents.Runner.run_streamed(self.agent(server, "EMPTY"), question)
            pieces = [event.data.delta async for event in result.stream_events()
                      if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
            return pieces, self.turn(result)
        return asyncio.run(ask())

    def use_tool(self, server, key):
        asyncio.run(agents.Runner.run(self.agent(server, key, tools=[agents.function_tool(weather)]), "Hi"))


class AgentsByResponses(Agents):
    kind = agents.OpenAIResponsesModel
    test_the_lines_of_the_documentation = None


class Llm(ClientTest):
    section = "llm"
    too_long = openai.BadRequestError
    unauthorized = openai.AuthenticationError
    refused = openai.BadRequestError

    def converse(self, server, key, system, questions):
        conversation = self.model(server).conversation()
        turns = []
        for question in questions:
            answer = conversation.prompt(question, system=system if not turns else None, key=key, stream=False,
                                         temperature=0, max_tokens=MAX_TOKENS)
            turns.append(self.turn(answer))
        return turns

    @staticmethod
    def model(server, **options):
        pathlib.Path(llm_folder.name, "extra-openai-models.yaml").write_text(
            f"- model_id: quire\n  model_name: {NAME}\n  api_base: {url_of(server)}\n"
            "  api_key_name: quire\n  supports_tools: true\n")
        return llm.get_model("quire")

    @staticmethod
    def turn(answer):
        return Turn(answer.text(), answer.usage().input, answer.usage().output)

    def stream(self, server, question):
        answer = self.model(server).prompt(question, key="EMPTY", stream=True, temperature=0, max_tokens=MAX_TOKENS)
        return list(answer), self.turn(answer)

    def use_tool(self, server, key):
        self.model(server).prompt("Hi", tools=[llm.Tool.function(weather)], key=key).text()

    def run_lines(self, language, code):
        self.assertEqual(language, "bash")
        path = f"{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["bash", "-euc", code], env={**os.environ, "PATH": path, "LLM_USER_PATH": folder},
                                  text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 0)
        return done.stdout


class Fallbacks(OwnServersTest):
    """To a server with more context."""

    def assert_asks_the_large_one(self, call):
        added = 'quire_requests{state="added"}'
        before = servers["large"].metrics()[added]
        result = call()
        self.assertEqual(servers["large"].metrics()[added], before + 1)
        return result

    def test_the_lines_of_the_documentation(self):
        examples = documented("A prompt that is too long")
        self.assertEqual(len(examples), 2)
        for _, code, output in examples:
            self.assertEqual(self.assert_asks_the_large_one(lambda: run_python(code)), output)

    def test_pydantic_ai(self):
        model = FallbackModel(*(PydanticAI.model(server, "EMPTY") for server in ("model", "large")))
        # An answer without text would be asked for again.
        agent = Agent(model, model_settings={"max_tokens": MAX_TOKENS, "extra_body": {"ignore_eos": True}})
        answer = self.assert_asks_the_large_one(lambda: agent.run_sync(LONG))
        self.assertGreater(answer.usage.input_tokens, 3000)


del ClientTest, OwnServersTest  # no tests by themselves

if __name__ == "__main__":
    main()
