"""Drives `deltafin serve` through the `openai` package and then the clients in scripts/sdks. Called by
scripts/check-sdks."""

import json
import os
import re
import subprocess
import sys
import time

import openai

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "sdks"))
import with_anthropic
import with_curl
import with_langchain
import with_litellm
import with_retries

TOOLS = [{
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}]


def user(text):
    return [{"role": "user", "content": text}]


def start(program):
    """The server and its address, once it says that it serves."""
    server = subprocess.Popen(
        [program, "serve", "--model", "demo", "--port", "0", "--api-key", "key", "--queue", "0",
         "--replay", "0"],
        stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        found = re.search(r"serving \S+ on (\S+)", line)
        if found:
            return server, found.group(1)
    sys.exit("the server did not start")


def chat(client, **options):
    return client.chat.completions.create(model="deltafin-demo", **options)


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} expected")


def plain(client):
    reply = chat(client, messages=user("What is 47 + 38?"), seed=1, temperature=0.7)
    message, usage = reply.choices[0].message, reply.usage
    assert message.content == "47 + 38 = 85.", message
    assert message.reasoning_content, message
    assert reply.choices[0].finish_reason == "stop"
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens_details.reasoning_tokens > 0
    assert reply._request_id.startswith("req_")
    return reply


def stream(client, whole):
    chunks = list(chat(client, messages=user("What is 47 + 38?"), stream=True,
                       stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    without = list(chat(client, messages=user("What is 47 + 38?"), stream=True))
    assert all(c.choices and c.usage is None for c in without)


def tools(client):
    asked = user("What is the weather in Paris?")
    options = {"tools": TOOLS, "reasoning_effort": "low"}
    reply = chat(client, messages=asked, **options)
    call = reply.choices[0].message.tool_calls[0]
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city": "Paris"}')
    assert reply.choices[0].finish_reason == "tool_calls"
    result = {"role": "tool", "tool_call_id": call.id, "content": "rainy, 12 degrees"}
    said = reply.choices[0].message.model_dump(exclude_none=True)
    after = chat(client, messages=asked + [said, result], **options)
    assert after.choices[0].finish_reason == "stop" and after.choices[0].message.content
    assert after.usage.prompt_tokens_details.cached_tokens > 100, after.usage
    with client.chat.completions.stream(model="deltafin-demo", messages=asked, **options) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.name == "get_weather"


def forms(client):
    """Replies that must have a form have it, whatever the model would rather say."""
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}, "unit": {"enum": ["eggs", "none"]}},
              "required": ["answer", "unit"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema, "strict": True}}
    reply = chat(client, messages=user("What is 47 + 38?"), response_format=wanted)
    answer = json.loads(reply.choices[0].message.content)
    assert list(answer) == ["answer", "unit"] and isinstance(answer["answer"], int), answer
    reply = chat(client, messages=user("Hi"), response_format={"type": "json_object"}, max_tokens=600)
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(reply.choices[0].message.content), dict)
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ["required", named]:
        reply = chat(client, messages=user("Hi"), tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
        call = reply.choices[0].message.tool_calls[0].function
        assert call.name == "get_weather" and "city" in json.loads(call.arguments), call
    bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}
    error = refused(openai.BadRequestError,
                    lambda: chat(client, messages=user("Hi"), response_format=bad))
    assert error.param == "response_format.json_schema.schema", error


def stops(client):
    reply = chat(client, messages=user("What is the capital of France?"), stop=["Paris"])
    assert "Paris" not in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop"
    short = chat(client, messages=user("Hi"), max_completion_tokens=3)
    assert short.choices[0].finish_reason == "length" and short.usage.completion_tokens == 3


def others(client):
    assert [model.id for model in client.models.list()] == ["deltafin-demo"]
    text = client.completions.create(
        model="deltafin-demo", prompt="The capital of France is", max_tokens=3)
    assert text.choices[0].text.startswith(" Paris"), text


def responses(client):
    """The other dialect of this package says the same."""
    whole = client.responses.create(model="deltafin-demo", input="What is 47 + 38?")
    assert (whole.output_text, whole.status) == ("47 + 38 = 85.", "completed"), whole
    assert whole.output[0].content[0].text, whole
    with client.responses.stream(model="deltafin-demo", input="What is 47 + 38?") as events:
        final = events.get_final_response()
    assert final.output_text == whole.output_text, final
    assert final.usage.output_tokens == whole.usage.output_tokens, final.usage
    flat = {"type": "function", **TOOLS[0]["function"]}
    asked = user("What is the weather in Paris?")
    options = {"model": "deltafin-demo", "tools": [flat], "reasoning": {"effort": "low"}}
    reply = client.responses.create(input=asked, **options)
    call = reply.output[-1]
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Paris"}'), call
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rainy, 12 degrees"}
    after = client.responses.create(input=asked + reply.output + [result], **options)
    assert after.output_text and after.usage.input_tokens_details.cached_tokens > 100, after
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}},
              "required": ["answer"], "additionalProperties": False}
    wanted = {"format": {"type": "json_schema", "name": "sum", "schema": schema, "strict": True}}
    reply = client.responses.create(model="deltafin-demo", input="What is 47 + 38?", text=wanted)
    assert isinstance(json.loads(reply.output_text)["answer"], int), reply
    short = client.responses.create(model="deltafin-demo", input="Hi", max_output_tokens=3)
    assert short.incomplete_details.reason == "max_output_tokens", short
    refused(openai.BadRequestError, lambda: client.responses.create(
        model="deltafin-demo", input="Hi", previous_response_id="resp_1"))


def errors(client, address):
    error = refused(openai.BadRequestError, lambda: chat(client, messages=user("Hi"), n=2))
    assert (error.code, error.param) == ("unsupported_parameter", "n"), error
    refused(openai.NotFoundError,
            lambda: client.chat.completions.create(model="gpt-5", messages=user("Hi")))
    stranger = openai.OpenAI(base_url=address, api_key="wrong", max_retries=0)
    refused(openai.AuthenticationError, lambda: chat(stranger, messages=user("Hi")))
    error = refused(
        openai.BadRequestError, lambda: chat(client, messages=user("word " * 40000)))
    assert "maximum context length is" in str(error), error


def abort(client):
    """A stream that is left frees the only slot within a step."""
    running = client.completions.create(
        model="deltafin-demo", prompt="Once upon a time", max_tokens=20000, stream=True)
    next(iter(running))
    busy = refused(openai.RateLimitError, lambda: chat(client, messages=user("Hi")))
    assert int(busy.response.headers["retry-after"]) >= 1
    running.close()
    for _ in range(40):
        try:
            return chat(client, messages=user("Hi"), max_tokens=2)
        except openai.RateLimitError:
            time.sleep(0.05)
    raise AssertionError("the slot was not freed")


def main(program):
    server, address = start(program)
    try:
        client = openai.OpenAI(base_url=address, api_key="key", max_retries=0, timeout=60)
        whole = plain(client)
        stream(client, whole)
        tools(client)
        forms(client)
        stops(client)
        others(client)
        responses(client)
        errors(client, address)
        abort(client)
        print(f"openai {openai.__version__}: all of it works")
        with_anthropic.check(address)
        with_langchain.check(address)
        with_litellm.check(address)
        with_curl.check(address)
        with_retries.check(address)
        subprocess.run(["node", os.path.join(HERE, "sdks/with_node.mjs"), address], check=True)
        server.terminate()
        assert server.wait(timeout=10) == 0, server.returncode
    finally:
        server.kill()


main(sys.argv[1])
