"""The `anthropic` package against /v1/messages: the recorded calls of scripts/check-sdks."""

import json
import time

import anthropic

TOOL = {
    "name": "get_weather",
    "description": "Get the current weather for a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
LOW = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}


def user(text):
    return {"role": "user", "content": text}


def ask(client, text, **options):
    options = {"max_tokens": 600, "model": "any-model", "messages": [user(text)], **options}
    return client.messages.create(**options)


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} expected")


def chat_and_stream(client):
    whole = ask(client, "What is 47 + 38?", thinking={"type": "enabled", "budget_tokens": 1024})
    thinking, text = whole.content
    assert thinking.thinking and thinking.signature, thinking
    assert (text.text, whole.stop_reason) == ("47 + 38 = 85.", "end_turn"), whole
    assert whole._request_id.startswith("req_")
    with client.messages.stream(model="any-model", max_tokens=600, thinking={"type": "adaptive"},
                                messages=[user("What is 47 + 38?")]) as events:
        said = "".join(events.text_stream)
        final = events.get_final_message()
    assert said == text.text and final.content[0].thinking == thinking.thinking, final
    read = [u.input_tokens + u.cache_read_input_tokens for u in (final.usage, whole.usage)]
    assert read[0] == read[1] and final.usage.output_tokens == whole.usage.output_tokens
    counted = client.messages.count_tokens(model="any-model", thinking={"type": "adaptive"},
                                           messages=[user("What is 47 + 38?")])
    assert counted.input_tokens == read[0], counted
    assert ask(client, "What is 47 + 38?").content[0].type == "text"


def tools(client):
    asked = "What is the weather in Paris?"
    reply = ask(client, asked, tools=[TOOL], **LOW)
    call = reply.content[-1]
    assert (call.name, call.input, reply.stop_reason) == ("get_weather", {"city": "Paris"}, "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rainy, 12 degrees"}
    talk = [user(asked), {"role": "assistant", "content": reply.content}, user([result])]
    after = ask(client, asked, messages=talk, tools=[TOOL], **LOW)
    assert after.stop_reason == "end_turn" and after.content[-1].text, after
    assert after.usage.cache_read_input_tokens > 100, after.usage
    with client.messages.stream(model="any-model", max_tokens=600, messages=[user(asked)],
                                tools=[TOOL], **LOW) as events:
        assert events.get_final_message().content[-1].input == {"city": "Paris"}
    named = {"type": "tool", "name": "get_weather"}
    for choice in [named, {"type": "any", "disable_parallel_tool_use": True}]:
        call, = ask(client, "Hi", tools=[TOOL], tool_choice=choice).content
        assert call.name == "get_weather" and "city" in call.input, call


def forms_and_stops(client):
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}},
              "required": ["answer"], "additionalProperties": False}
    reply = ask(client, "What is 47 + 38?",
                output_config={"format": {"type": "json_schema", "schema": schema}})
    assert isinstance(json.loads(reply.content[0].text)["answer"], int), reply
    reply = ask(client, "What is the capital of France?", stop_sequences=["Paris"])
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "Paris"), reply
    short = ask(client, "Hi", max_tokens=3)
    assert (short.stop_reason, short.usage.output_tokens) == ("max_tokens", 3), short


def errors(client, address):
    error = refused(anthropic.BadRequestError, lambda: ask(client, "Hi", stop_sequences=[""]))
    assert error.body["error"]["type"] == "invalid_request_error", error
    stranger = anthropic.Anthropic(base_url=address, api_key="wrong", max_retries=0)
    refused(anthropic.AuthenticationError, lambda: ask(stranger, "Hi"))
    error = refused(anthropic.BadRequestError, lambda: ask(client, "word " * 40000))
    assert "maximum context length is" in str(error), error


def abort(client):
    """A stream that is left frees the only slot within a step."""
    named = {"type": "any"}
    running = ask(client, "Hi", max_tokens=20000, stream=True, tools=[TOOL], tool_choice=named)
    next(iter(running))
    busy = refused(anthropic.InternalServerError, lambda: ask(client, "Hi", max_tokens=2))
    assert busy.status_code == 529 and int(busy.response.headers["retry-after"]) >= 1, busy
    running.close()
    for _ in range(40):
        try:
            return ask(client, "Hi", max_tokens=2)
        except anthropic.InternalServerError:
            time.sleep(0.05)
    raise AssertionError("the slot was not freed")


def check(address):
    address = address.removesuffix("/v1")
    client = anthropic.Anthropic(base_url=address, api_key="key", max_retries=0, timeout=60)
    chat_and_stream(client)
    tools(client)
    forms_and_stops(client)
    errors(client, address)
    abort(client)
    print(f"anthropic {anthropic.__version__}: all of it works")
