"""LangChain's ChatOpenAI: the recorded calls of scripts/check-sdks."""

from importlib.metadata import version
import time

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
import openai
from pydantic import BaseModel


class Sum(BaseModel):
    """The result of an addition."""

    answer: int


@tool
def get_weather(city: str) -> str:
    """Get the current weather for a city"""
    return f"rainy, 12 degrees in {city}"


def chat_and_stream(model):
    reply = model.invoke("What is 47 + 38?")
    assert reply.content == "47 + 38 = 85.", reply
    assert reply.response_metadata["finish_reason"] == "stop"
    usage = reply.usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"], usage
    chunks = list(model.stream("What is 47 + 38?", stream_usage=True))
    assert "".join(chunk.content for chunk in chunks) == reply.content
    told = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
    assert told[-1]["output_tokens"] == usage["output_tokens"], told


def tools(model):
    asked = HumanMessage("What is the weather in Paris?")
    able = model.bind_tools([get_weather])
    reply = able.invoke([asked])
    call, = reply.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"}), call
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    assert able.invoke([asked, reply, result]).content
    forced = model.bind_tools([get_weather], tool_choice="get_weather", parallel_tool_calls=False)
    assert forced.invoke("Hi").tool_calls[0]["name"] == "get_weather"


def forms_and_stops(model):
    for method in ["json_schema", "function_calling"]:
        reply = model.with_structured_output(Sum, method=method).invoke("What is 47 + 38?")
        assert isinstance(reply, Sum), (method, reply)
    reply = model.invoke("What is the capital of France?", stop=["Paris"])
    assert "Paris" not in reply.content, reply
    short = model.invoke("Hi", max_tokens=3)
    assert short.response_metadata["finish_reason"] == "length", short


def responses(options):
    model = ChatOpenAI(use_responses_api=True, **options)
    assert model.invoke("What is 47 + 38?").text == "47 + 38 = 85."
    said = "".join(chunk.text for chunk in model.stream("What is 47 + 38?"))
    assert said == "47 + 38 = 85.", said


def errors_and_abort(model, options):
    stranger = ChatOpenAI(**{**options, "api_key": "wrong"})
    for call, kind in [(lambda: stranger.invoke("Hi"), openai.AuthenticationError),
                       (lambda: model.invoke("Hi", n=2), openai.BadRequestError)]:
        try:
            call()
        except kind:
            continue
        raise AssertionError(f"{kind.__name__} expected")
    running = model.stream("What is the weather in Paris, in Rome and in Oslo?")
    next(running)
    running.close()
    for _ in range(40):
        try:
            return model.invoke("Hi", max_tokens=2)
        except openai.RateLimitError:
            time.sleep(0.05)
    raise AssertionError("the slot was not freed")


def check(address):
    options = {"model": "deltafin-demo", "base_url": address, "api_key": "key", "max_retries": 0,
               "reasoning_effort": "low"}
    model = ChatOpenAI(**options)
    chat_and_stream(model)
    tools(model)
    forms_and_stops(model)
    responses(options)
    errors_and_abort(model, options)
    print(f"langchain-openai {version('langchain-openai')}: all of it works")
