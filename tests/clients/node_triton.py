"""Triton's public gRPC client calls a node: health, metadata, one answer, streams side by side, and a stream broken off.

Prints one JSON object per request: what the client saw.

usage: node_triton.py HOST:PORT MODEL
"""
import json
import queue
import secrets
import sys

import numpy
import tritonclient.grpc as triton

ADDRESS, MODEL = sys.argv[1:3]


def traced():
    trace_id = secrets.token_hex(16)
    return trace_id, {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}


def tensor(name, value):
    datatype = "BOOL" if isinstance(value, bool) else "BYTES"
    values = numpy.array([value], dtype=bool if datatype == "BOOL" else object)
    made = triton.InferInput(name, [1], datatype)
    made.set_data_from_numpy(values)
    return made


def inputs(prompt, max_tokens, stream):
    settings = json.dumps({"max_tokens": str(max_tokens), "ignore_eos": "true", "seed": "7"})
    values = {
        "text_input": prompt.encode(),
        "stream": stream,
        "sampling_parameters": settings.encode(),
        "return_finish_reason": True,
        "return_num_input_tokens": True,
        "return_num_output_tokens": True,
    }
    return [tensor(name, value) for name, value in values.items()]


def seen(result):
    one = lambda name: result.as_numpy(name).flatten()[0]
    response = result.get_response()
    return {
        "id": response.id,
        "text": one("text_output").decode(),
        "reason": one("finish_reason").decode(),
        "prompt_tokens": int(one("num_input_tokens")),
        "tokens": int(one("num_output_tokens")),
        "last": response.parameters["triton_final_response"].bool_param,
    }


def facts(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL)
    assert not client.is_model_ready(MODEL, "9")
    assert client.get_server_metadata().name == "tokenwatt"
    metadata = client.get_model_metadata(MODEL)
    assert metadata.inputs[0].name == "text_input" and metadata.outputs[0].name == "text_output", metadata
    assert client.get_model_config(MODEL).config.model_transaction_policy.decoupled
    try:
        client.get_model_metadata("nobody")
    except triton.InferenceServerException as error:
        assert error.status() == "StatusCode.NOT_FOUND", error
    else:
        raise AssertionError("metadata of a model that is not there")


def at_once(client):
    trace_id, headers = traced()
    result = client.infer(MODEL, inputs("Once upon", 6, False), request_id="whole", headers=headers)
    answer = seen(result)
    assert answer["id"] == "whole" and answer["last"] and answer["reason"] == "length", answer
    assert answer["text"].startswith("Once upon"), answer
    print(json.dumps({"trace_id": trace_id, "prompt_tokens": answer["prompt_tokens"], "completion_tokens": answer["tokens"]}))
    try:
        client.infer(MODEL, [tensor("text_input", b"x"), tensor("sampling_parameters", b'{"temperature": 9}')])
    except triton.InferenceServerException as error:
        assert error.status() == "StatusCode.INVALID_ARGUMENT" and "temperature" in error.message(), error
    else:
        raise AssertionError("a temperature of 9 was taken")


def side_by_side(client):
    """Eight requests on one stream, six of them streamed and one wrong; the others go on."""
    trace_id, headers = traced()
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), headers=headers)
    for number in range(8):
        client.async_stream_infer(
            "nobody" if number == 3 else MODEL,
            inputs(f"Number {number}", 4 + number, number != 5),
            request_id=str(number),
            enable_empty_final_response=True,
        )
    texts, tokens, chunks, prompts, failed = {}, {}, {}, {}, 0
    while len(prompts) + failed < 8:
        result, error = answers.get(timeout=120)
        if error is not None:
            assert "nobody" in str(error), error
            failed += 1
            continue
        answer = seen(result)
        name = answer["id"]
        texts[name] = texts.get(name, "") + answer["text"]
        tokens[name] = tokens.get(name, 0) + answer["tokens"]
        chunks[name] = chunks.get(name, 0) + 1
        if answer["last"]:
            assert answer["reason"] == "length", answer
            prompts[name] = answer["prompt_tokens"]
    client.stop_stream()
    assert failed == 1 and {name: 4 + int(name) for name in prompts} == tokens, tokens
    assert chunks["5"] == 1 and chunks["7"] > 6, chunks
    usage = {"prompt_tokens": sum(prompts.values()), "completion_tokens": sum(tokens.values())}
    print(json.dumps({"trace_id": trace_id, "calls": len(prompts), **usage}))


def broken_off(client):
    trace_id, headers = traced()
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), headers=headers)
    client.async_stream_infer(MODEL, inputs("Long ago", 3000, True), request_id="long")
    for _ in range(3):
        result, error = answers.get(timeout=120)
        assert error is None, error
    client.stop_stream(cancel_requests=True)
    print(json.dumps({"trace_id": trace_id}))


def main():
    client = triton.InferenceServerClient(ADDRESS)
    facts(client)
    at_once(client)
    side_by_side(client)
    broken_off(triton.InferenceServerClient(ADDRESS))


main()
