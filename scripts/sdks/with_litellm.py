"""LiteLLM, as an OpenAI and as an Anthropic client: the recorded calls of scripts/check-sdks."""

from importlib.metadata import version
import json
import os
import time

# Prices of models come with the package; nothing is to be fetched.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

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


def client(address):
    def ask(text, **options):
        options = {"model": "openai/deltafin-demo", "api_base": address, "api_key": "key",
                   "max_retries": 0, "timeout": 60, **options}
        return litellm.completion(messages=[{"role": "user", "content": text}], **options)
    return ask


def chat_and_stream(ask):
    reply = ask("What is 47 + 38?")
    message = reply.choices[0].message
    assert message.content == "47 + 38 = 85." and message.reasoning_content, message
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    chunks = list(ask("What is 47 + 38?", stream=True, stream_options={"include_usage": True}))
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == message.content, said
    told = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
    assert told[-1].completion_tokens == reply.usage.completion_tokens, told


def tools_and_forms(ask):
    reply = ask("What is the weather in Paris?", tools=TOOLS, extra_body={"reasoning_effort": "low"})
    call = reply.choices[0].message.tool_calls[0].function
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"}), call
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}},
              "required": ["answer"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema}}
    reply = ask("What is 47 + 38?", response_format=wanted)
    assert isinstance(json.loads(reply.choices[0].message.content)["answer"], int), reply
    reply = ask("What is the capital of France?", stop=["Paris"])
    assert "Paris" not in reply.choices[0].message.content, reply
    assert ask("Hi", max_tokens=3).choices[0].finish_reason == "length"


def as_anthropic(ask, address):
    options = {"model": "anthropic/deltafin-demo", "api_base": address.removesuffix("/v1")}
    reply = ask("What is 47 + 38?", max_tokens=300, **options)
    assert "85" in reply.choices[0].message.content, reply
    chunks = ask("What is 47 + 38?", max_tokens=300, stream=True, **options)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert said == reply.choices[0].message.content, said


def errors_and_abort(ask):
    for options, kind in [({"api_key": "wrong"}, litellm.AuthenticationError),
                          ({"extra_body": {"n": 2}}, litellm.BadRequestError)]:
        try:
            ask("Hi", **options)
        except kind:
            continue
        raise AssertionError(f"{kind.__name__} expected")
    running = ask("What is the weather in Paris, in Rome and in Oslo?", stream=True)
    next(iter(running))
    running.completion_stream.close()
    for _ in range(40):
        try:
            return ask("Hi", max_tokens=2)
        except litellm.RateLimitError:
            time.sleep(0.05)
    raise AssertionError("the slot was not freed")


def check(address):
    litellm.suppress_debug_info = True
    ask = client(address)
    chat_and_stream(ask)
    tools_and_forms(ask)
    as_anthropic(ask, address)
    errors_and_abort(ask)
    print(f"litellm {version('litellm')}: all of it works")
