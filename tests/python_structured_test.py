"""What an output must be, as Python's parameters say it.

    python_structured_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import json
import pickle
import unittest

from python_support import SMOLLM2, TINY, main, needs

from quire import LLM, GuidedDecodingParams, SamplingParams, StructuredOutputsParams

PROMPT = "The quick brown fox jumps over the lazy dog"


class StructuredOutputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(TINY, threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def text(self, **fields):
        params = SamplingParams(temperature=1, seed=3, max_tokens=60, **fields)
        (output,) = self.llm.generate(PROMPT, params, use_tqdm=False)
        return output.outputs[0].text

    def test_each_kind(self):
        self.assertIn(self.text(structured_outputs=StructuredOutputsParams(choice=["yes", "no"])), ("yes", "no"))
        self.assertRegex(self.text(structured_outputs=StructuredOutputsParams(regex="[0-9]{4}")), r"\A[0-9]{4}\Z")
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
                  "additionalProperties": False}
        for given in (schema, json.dumps(schema)):
            made = json.loads(self.text(structured_outputs=StructuredOutputsParams(
                json=given, disable_any_whitespace=True)))
            self.assertIsInstance(made["ok"], bool)
        grammar = 'root ::= "a" | "b"'
        self.assertIn(self.text(guided_decoding=GuidedDecodingParams(grammar=grammar)), ("a", "b"))
        self.assertEqual(self.text(structured_outputs={"choice": ["maybe"]}), "maybe")

    def test_forced_tokens(self):
        params = SamplingParams(temperature=0, max_tokens=40, return_forced_tokens=True,
                                structured_outputs=StructuredOutputsParams(regex="the dog, [a-z], the dog"))
        (output,) = self.llm.generate(PROMPT, params, use_tqdm=False)[0].outputs
        self.assertEqual(len(output.forced_tokens), len(output.token_ids))
        self.assertEqual(set(output.forced_tokens), {True, False})
        self.assertEqual(pickle.loads(pickle.dumps(output)), output)
        (plain,) = self.llm.generate(PROMPT, SamplingParams(max_tokens=2), use_tqdm=False)[0].outputs
        self.assertIsNone(plain.forced_tokens)

    def test_what_is_wrong(self):
        with self.assertRaisesRegex(ValueError, "structured_outputs"):
            SamplingParams(structured_outputs=StructuredOutputsParams(regex="a", choice=["b"]))
        with self.assertRaisesRegex(ValueError, "constrains the text already"):
            SamplingParams(structured_outputs={"regex": "a"}, guided_decoding={"regex": "b"})
        with self.assertRaisesRegex(ValueError, "structured_outputs"):
            self.text(structured_outputs=StructuredOutputsParams(regex="("))
        params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="a+"))
        self.assertEqual(pickle.loads(pickle.dumps(params)), params)

    @needs(SMOLLM2)
    def test_tools_are_shown_to_the_model(self):
        tools = [{"type": "function", "function": {
            "name": "weather", "description": "The weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
        call = StructuredOutputsParams(json={
            "type": "object", "properties": {"name": {"const": "weather"}, "arguments": {
                "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"],
                "additionalProperties": False}},
            "required": ["name", "arguments"], "additionalProperties": False})
        with LLM() as llm:
            plain, shown = (
                llm.chat([{"role": "user", "content": "Weather in Oslo?"}],
                         SamplingParams(temperature=0, max_tokens=60, structured_outputs=call),
                         tools=given, use_tqdm=False)[0] for given in (None, tools))
        self.assertEqual(json.loads(shown.outputs[0].text)["arguments"]["city"], "Oslo")
        self.assertGreaterEqual(len(shown.prompt_token_ids), len(plain.prompt_token_ids))


if __name__ == "__main__":
    main()
