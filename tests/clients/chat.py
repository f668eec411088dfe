"""The public `openai` client streams a chat completion through gateway and node.

The trace is the client's own: its `traceparent` goes in, and its tokens are found under that trace id.
Prints one JSON object: what the client saw.

usage: chat.py GATEWAY_URL MODEL API_KEY
"""
import json
import secrets
import sys
import time

from openai import OpenAI

GATEWAY, MODEL, KEY = sys.argv[1:4]


def likelihoods(client, messages, text):
    """The same answer in one piece: its tokens spell it, and each was the likeliest."""
    whole = client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, max_tokens=8, logprobs=True, top_logprobs=3
    )
    choice = whole.choices[0]
    tokens = choice.logprobs.content
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    assert text.startswith(choice.message.content), (text, choice.message.content)
    for token in tokens:
        best = token.top_logprobs
        assert len(best) == 3 and best[0].logprob == token.logprob <= 0 and best[1].logprob <= best[0].logprob, token


def main():
    trace_id = secrets.token_hex(16)
    headers = {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}
    client = OpenAI(base_url=GATEWAY + "/v1", api_key=KEY, max_retries=0, timeout=300)
    models = [model.id for model in client.models.list()]
    assert MODEL in models, models

    messages = [{"role": "user", "content": "What is the capital of France? Answer in one short sentence."}]
    begun = time.monotonic()
    stream = client.chat.completions.create(
        model=MODEL,
        messages=messages,
        temperature=0,
        max_tokens=48,
        stream=True,
        stream_options={"include_usage": True},
        extra_headers=headers,
    )
    first, text, usage, finish, chunks = None, "", None, None, 0
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            if choice.delta.content:
                first = first or time.monotonic() - begun
                text += choice.delta.content
                chunks += 1
            finish = choice.finish_reason or finish
    likelihoods(client, messages, text)
    print(
        json.dumps(
            {
                "trace_id": trace_id,
                "text": text,
                "ttft_s": first,
                "chunks": chunks,
                "finish_reason": finish,
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
            }
        )
    )


main()
