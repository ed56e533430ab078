"""LlamaIndex against the server; it lives with an older openai than the other clients.

    serve_llama_index_test.py PROGRAM SOURCE_DIR [TEST...]
"""

from clients_support import MAX_TOKENS, NAME, ClientTest, Turn, start_servers, url_of, with_history
from serve_support import TIMEOUT, main

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

setUpModule = start_servers


def weather() -> str:
    """Tells the weather."""
    return "sunny"


class LlamaIndex(ClientTest):
    section = "LlamaIndex"
    too_long = openai.BadRequestError
    unauthorized = openai.AuthenticationError
    refused = openai.BadRequestError

    @staticmethod
    def model(server, key, **options):
        return OpenAILike(model=NAME, api_base=url_of(server), api_key=key, is_chat_model=True, temperature=0,
                          max_tokens=MAX_TOKENS, context_window=2048, max_retries=0, timeout=TIMEOUT, **options)

    def converse(self, server, key, system, questions):
        model = self.model(server, key)

        def ask(messages):
            answer = model.chat([ChatMessage(**message) for message in messages])
            return Turn(answer.message.content, answer.raw.usage.prompt_tokens, answer.raw.usage.completion_tokens)
        return with_history(ask, system, questions)

    def stream(self, server, question):
        model = self.model(server, "EMPTY", additional_kwargs={"stream_options": {"include_usage": True}})
        chunks = list(model.stream_chat([ChatMessage(role="user", content=question)]))
        usage = chunks[-1].raw.usage
        return [chunk.delta or "" for chunk in chunks], Turn(
            chunks[-1].message.content, usage.prompt_tokens, usage.completion_tokens)

    def use_tool(self, server, key):
        model = self.model(server, key, is_function_calling_model=True)
        model.chat_with_tools([FunctionTool.from_defaults(weather)], user_msg="Hi")


del ClientTest  # no test by itself

if __name__ == "__main__":
    main()
