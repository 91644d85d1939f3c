"""curl, as people type it: the recorded calls of scripts/check-sdks."""

import json
import subprocess


def curl(address, path, body=None, *options, key="key"):
    """What curl printed, and the status."""
    command = ["curl", "--silent", "--show-error", "--write-out", "\n%{http_code}", *options]
    command += ["--header", f"Authorization: Bearer {key}", address + path]
    if body is not None:
        command += ["--data-binary", "@-"]
    done = subprocess.run(command, input=json.dumps(body), capture_output=True, text=True, timeout=60)
    text, _, status = done.stdout.rpartition("\n")
    return text, int(status)


def ask(address, text, **options):
    body = {"messages": [{"role": "user", "content": text}], **options}
    text, status = curl(address, "/chat/completions", body)
    assert status == 200, text
    return json.loads(text)


def events(text):
    return [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]


def chats(address):
    whole = ask(address, "What is 47 + 38?")
    message, usage = whole["choices"][0]["message"], whole["usage"]
    assert message["content"] == "47 + 38 = 85.", whole
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    body = {"messages": [{"role": "user", "content": "What is 47 + 38?"}], "stream": True}
    *told, done = events(curl(address, "/chat/completions", body, "--no-buffer")[0])
    said = "".join(json.loads(one)["choices"][0]["delta"].get("content", "") for one in told)
    assert (said, done) == (message["content"], "[DONE]"), told
    cut = ask(address, "What is the capital of France?", stop=["Paris"])
    assert "Paris" not in cut["choices"][0]["message"]["content"], cut
    wanted = {"type": "object", "properties": {"answer": {"type": "integer"}},
              "required": ["answer"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "sum", "schema": wanted}}
    reply = ask(address, "What is 47 + 38?", response_format=wanted)
    assert isinstance(json.loads(reply["choices"][0]["message"]["content"])["answer"], int), reply
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": city}}
    reply = ask(address, "Hi", tools=[tool], tool_choice="required", parallel_tool_calls=False)
    assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


def dialects(address):
    message = {"max_tokens": 300, "messages": [{"role": "user", "content": "What is 47 + 38?"}]}
    text, status = curl(address, "/messages", {**message, "stream": True}, "--no-buffer")
    assert status == 200 and text.rstrip().endswith('data: {"type":"message_stop"}'), text
    text, status = curl(address, "/messages/count_tokens", message)
    assert status == 200 and json.loads(text)["input_tokens"] > 5, text
    text, status = curl(address, "/responses", {"input": "What is 47 + 38?"})
    reply = json.loads(text)
    assert reply["output"][-1]["content"][0]["text"] == "47 + 38 = 85.", reply
    text, status = curl(address, "/responses", {"input": "What is 47 + 38?", "stream": True})
    last = json.loads(events(text)[-1])
    assert last["type"] == "response.completed", text
    assert last["response"]["usage"]["output_tokens"] == reply["usage"]["output_tokens"]


def errors_and_abort(address):
    for path, body, key, status in [
        ("/chat/completions", {"messages": []}, "key", 400),
        ("/chat/completions", {"messages": []}, "wrong", 401),
        ("/nowhere", {}, "key", 404),
        # Long enough for curl to ask first whether it may send.
        ("/chat/completions", {"messages": [{"role": "user", "content": "word " * 300000}]}, "key", 400),
    ]:
        text, found = curl(address, path, body, key=key)
        assert found == status and json.loads(text)["error"]["message"], (path, found, text)
    body = {"prompt": "Once upon a time", "max_tokens": 20000, "stream": True}
    command = ["curl", "--silent", "--no-buffer", "--header", "Authorization: Bearer key",
               "--data-binary", json.dumps(body), address + "/completions"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline().startswith("data: ")
        running.terminate()
    for _ in range(40):
        if curl(address, "/completions", {"prompt": "Once", "max_tokens": 2})[1] == 200:
            return
        subprocess.run(["sleep", "0.05"], check=True)
    raise AssertionError("the slot was not freed")


def check(address):
    chats(address)
    dialects(address)
    errors_and_abort(address)
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout.split()[1]
    print(f"curl {version}: all of it works")
