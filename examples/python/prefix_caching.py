"""Prefix caching: four questions after one system prompt of more than 1,000 tokens, cold and then warm.

The engine finds the beginning of a prompt that it has computed before, and computes only the rest: the first
question pays for the system prompt, the others do not. Each question is timed to its first token.
"""

import argparse

from quire import LLM, SamplingParams

RULES = """You are the assistant of a public library. Answer in one short sentence.
{facts}"""
FACT = "Room {i} is on floor {floor}, has {seats} seats, opens at {opens} and closes at {closes}.\n"
QUESTIONS = [
    "When does room 3 open?",
    "On which floor is room 7?",
    "How many seats does room 11 have?",
    "When does room 15 close?",
]


def system_prompt(num_rooms: int) -> str:
    facts = "".join(
        FACT.format(i=i, floor=1 + i % 5, seats=10 + 2 * i, opens=7 + i % 4, closes=17 + i % 5)
        for i in range(1, num_rooms + 1)
    )
    return RULES.format(facts=facts)


def first_token_ms(llm: LLM, question: str, num_rooms: int) -> tuple[float, int, int]:
    """Milliseconds to the first token; tokens of the prompt, and those of them from the cache."""
    messages = [
        {"role": "system", "content": system_prompt(num_rooms)},
        {"role": "user", "content": question},
    ]
    (output,) = llm.chat(messages, SamplingParams(temperature=0, max_tokens=16), use_tqdm=False)
    assert output.metrics is not None and output.metrics.time_to_first_token is not None
    cached = output.num_cached_tokens or 0
    return 1000 * output.metrics.time_to_first_token, len(output.prompt_token_ids), cached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="default: the bundled one")
    parser.add_argument("--rooms", type=int, default=36, help="facts in the system prompt")
    args = parser.parse_args()
    print(f"{'':6} {'question':36} {'prompt':>7} {'cached':>7} {'first token':>12}")
    means = []
    for name, caching in (("cold", False), ("warm", True)):
        with LLM(args.model, enable_prefix_caching=caching) as llm:
            first_token_ms(llm, "Which rooms are there?", args.rooms)  # warm: this one pays
            times = []
            for question in QUESTIONS:
                ms, tokens, cached = first_token_ms(llm, question, args.rooms)
                times.append(ms)
                print(f"{name:6} {question:36} {tokens:7} {cached:7} {ms:9.1f} ms")
            means.append(sum(times) / len(times))
    print(f"warm is {means[0] / means[1]:.1f} times sooner at its first token")


if __name__ == "__main__":
    main()
