"""`llmeter` measures a node: three clients, four streamed chats each. Prints what it counted as one JSON object.

usage: node_llmeter.py NODE_URL MODEL
"""
import asyncio
import json
import sys

from llmeter.endpoints import OpenAICompletionStreamEndpoint
from llmeter.runner import Runner

URL, MODEL = sys.argv[1:3]
# An integer; a node that ignored `max_tokens` would be found out by the sum.
TOKENS = 16


def main():
    endpoint = OpenAICompletionStreamEndpoint(MODEL, base_url=URL + "/v1", api_key="none", max_retries=0, timeout=120.0)
    payload = endpoint.create_payload("How deep is a harbor?", max_tokens=TOKENS, extra_body={"ignore_eos": True})
    result = asyncio.run(Runner(endpoint).run(payload=payload, n_requests=4, clients=3))
    answers = result.responses
    print(
        json.dumps(
            {
                "requests": len(answers),
                "failed": sum(answer.error is not None for answer in answers),
                "output_tokens": sum(answer.num_tokens_output or 0 for answer in answers),
                "input_tokens": sum(answer.num_tokens_input or 0 for answer in answers),
                "ttft_max_s": max(answer.time_to_first_token or 0 for answer in answers),
            }
        )
    )


main()
