"""The public `openai` client calls a node in every way it can: at once, streamed, side by side, and breaking off.

Each call has a trace of its own, by which its tokens are found later. Prints one JSON object per call: what the client saw.

usage: node_openai.py NODE_URL MODEL
"""
import asyncio
import json
import secrets
import sys
import urllib.request

import openai

URL, MODEL = sys.argv[1:3]
QUESTION = [{"role": "user", "content": "Tell me about harbors, please, in a few words."}]


def traced():
    trace_id = secrets.token_hex(16)
    return trace_id, {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}


def report(kind, trace_id, usage, text, **more):
    tokens = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens} if usage else {}
    print(json.dumps({"kind": kind, "trace_id": trace_id, "text": text, **tokens, **more}))


def at_once(client):
    trace_id, headers = traced()
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_completion_tokens=12, n=2, extra_headers=headers)
    assert [choice.index for choice in answer.choices] == [0, 1]
    report("chat", trace_id, answer.usage, answer.choices[0].message.content)

    trace_id, headers = traced()
    answer = client.completions.create(
        model=MODEL, prompt=["Once", "Twice upon"], max_tokens=5, extra_headers=headers, extra_body={"not_known": 1}
    )
    assert len(answer.choices) == 2 and answer.object == "text_completion"
    report("completion", trace_id, answer.usage, answer.choices[0].text)


def streamed(client):
    trace_id, headers = traced()
    stream = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=20, stream=True, stream_options={"include_usage": True}, extra_headers=headers
    )
    text, usage = "", None
    for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    report("streamed", trace_id, usage, text)


def broken_off(client):
    trace_id, headers = traced()
    stream = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=3000, stream=True, extra_headers=headers, extra_body={"ignore_eos": True}
    )
    text = ""
    for chunk in stream:
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        if len(text) > 40:
            break
    stream.close()
    report("broken off", trace_id, None, text)


def refused(client):
    try:
        client.chat.completions.create(model="nobody", messages=QUESTION)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("a model that is not there answered")
    for wrong in [{"tools": [{"type": "function", "function": {"name": "f"}}]}, {"response_format": {"type": "json_object"}}]:
        try:
            client.chat.completions.create(model=MODEL, messages=QUESTION, **wrong)
        except openai.BadRequestError as error:
            assert error.code == "unsupported_parameter" and error.param == list(wrong)[0], error
        else:
            raise AssertionError(f"{wrong} was taken")
    try:
        client.embeddings.create(model=MODEL, input="x")
    except openai.BadRequestError as error:
        assert error.code == "unsupported_endpoint", error
    else:
        raise AssertionError("an embedding came")


async def one_of_many(client, number):
    trace_id, headers = traced()
    options = {"model": MODEL, "messages": QUESTION, "max_tokens": 4 + number % 17, "seed": number, "extra_headers": headers}
    if number % 2:
        answer = await client.chat.completions.create(**options)
        return report("side by side", trace_id, answer.usage, answer.choices[0].message.content)
    stream = await client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    text, usage = "", None
    async for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    report("side by side", trace_id, usage, text)


def generated():
    with urllib.request.urlopen(URL + "/metrics") as page:
        lines = page.read().decode().splitlines()
    return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:generation_tokens_total{"))


async def broken_off_too(client):
    """A whole answer that is not waited for, once the node has begun it."""
    trace_id, headers = traced()
    before = generated()
    call = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=3000, extra_headers=headers, extra_body={"ignore_eos": True}
    )
    call = asyncio.create_task(call)
    while await asyncio.to_thread(generated) == before:
        await asyncio.sleep(0.01)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        return report("broken off", trace_id, None, "")
    raise AssertionError("3000 tokens came at once")


async def side_by_side():
    async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none", max_retries=0, timeout=300) as client:
        await broken_off_too(client)
        await asyncio.gather(*(one_of_many(client, number) for number in range(64)))


def main():
    client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0, timeout=300)
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    at_once(client)
    streamed(client)
    refused(client)
    broken_off(client)
    asyncio.run(side_by_side())


main()
