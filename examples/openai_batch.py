#!/usr/bin/env python3
"""The Batch API with the openai client: upload questions, wait for the batch, read the answers.

The batch survives a restart of the server; each line is answered once.
"""

import io
import json
import sys
import time

import openai

from common import arguments

parser = arguments(__doc__)
parser.add_argument("--max-tokens", type=int, default=16)
parser.add_argument("questions", nargs="*",
                    default=["What is the capital of Japan?", "Name a color.", "What is two plus two?"])
args = parser.parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id

lines = [{"custom_id": f"question-{i}", "method": "POST", "url": "/v1/chat/completions",
          "body": {"model": model, "max_tokens": args.max_tokens, "temperature": 0,
                   "messages": [{"role": "user", "content": question}]}}
         for i, question in enumerate(args.questions)]
upload = io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())
file = client.files.create(file=("questions.jsonl", upload), purpose="batch")
batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions",
                              completion_window="24h")
print(f"batch {batch.id}: {len(lines)} questions")

while batch.status not in ("completed", "failed", "expired", "cancelled"):
    time.sleep(0.2)
    batch = client.batches.retrieve(batch.id)
print(f"status: {batch.status}, {batch.request_counts.completed} of {batch.request_counts.total} done")
if batch.status != "completed" or batch.output_file_id is None:
    sys.exit(f"errors: {batch.errors}")
answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
for answer in sorted(answers, key=lambda answer: answer["custom_id"]):
    message = answer["response"]["body"]["choices"][0]["message"]
    print(f"{answer['custom_id']}: {message['content']!r}")
