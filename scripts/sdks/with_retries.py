"""What the clients do on their own when a request is not answered: they wait and ask again, or do not.
The recorded calls of scripts/check-sdks."""

import http.server
import json
import socket
import threading

import anthropic
import openai


class Watch:
    """A transport that writes down every attempt: its place among the retries, and how it was answered."""

    def __init__(self):
        self.attempts = []
        self.on_busy = lambda: None
        self.client = openai.DefaultHttpxClient(
            event_hooks={"request": [self.asked], "response": [self.answered]})

    def asked(self, request):
        self.attempts.append([request.headers["x-stainless-retry-count"], None])

    def answered(self, response):
        self.attempts[-1][1] = response.status_code
        if response.status_code in (429, 529):
            seconds = int(response.headers["retry-after"])
            assert 1 <= seconds <= 60, seconds
            self.on_busy()

    def take(self):
        taken, self.attempts = [tuple(attempt) for attempt in self.attempts], []
        return taken


def kinds(address, watch, **options):
    """Both packages, each with its errors and a chat of so many tokens."""
    options = {"api_key": "key", "http_client": watch.client, "timeout": 30, **options}
    asked = [{"role": "user", "content": "Hi"}]
    first = openai.OpenAI(base_url=address, **options)
    second = anthropic.Anthropic(base_url=address.removesuffix("/v1"), **options)
    yield openai, lambda tokens: first.chat.completions.create(
        model="deltafin-demo", messages=asked, max_tokens=tokens)
    yield anthropic, lambda tokens: second.messages.create(
        model="any-model", messages=asked, max_tokens=tokens)


def busy(address):
    """Turned away, they come back when they were told to, and are answered."""
    watch = Watch()
    holder = openai.OpenAI(base_url=address, api_key="key", max_retries=0)
    for package, chat in kinds(address, watch, max_retries=2):
        chat(2)
        assert watch.take() == [("0", 200)]
        running = holder.completions.create(
            model="deltafin-demo", prompt="Once upon a time", max_tokens=20000, stream=True)
        next(iter(running))
        watch.on_busy = running.close
        assert chat(2), package
        turned_away = 529 if package is anthropic else 429
        assert watch.take() == [("0", turned_away), ("1", 200)], package


def refusals(address):
    """What is wrong with a request would be wrong again."""
    watch = Watch()
    for package, chat in kinds(address, watch, max_retries=2):
        raised(package.BadRequestError, lambda chat=chat: chat(0))
        assert watch.take() == [("0", 400)], package
    for package, chat in kinds(address, watch, max_retries=2, api_key="wrong"):
        raised(package.AuthenticationError, lambda chat=chat: chat(1))
        assert watch.take() == [("0", 401)], package


def patience(address):
    """Who stops waiting leaves, and the slot is free for the next: also for its own next attempt."""
    watch = Watch()
    client = openai.OpenAI(base_url=address, api_key="key", http_client=watch.client, max_retries=1)
    endless = {"type": "array", "items": {"type": "integer"}, "minItems": 100000}
    wanted = {"type": "json_schema", "json_schema": {"name": "numbers", "schema": endless}}
    raised(openai.APITimeoutError, lambda: client.chat.completions.create(
        model="deltafin-demo", messages=[{"role": "user", "content": "Hi"}], response_format=wanted,
        timeout=0.3))
    assert watch.take() == [("0", None), ("1", None)]
    for _, chat in kinds(address, watch, max_retries=2):
        assert chat(2)


def nobody():
    """Where nobody listens they try again and say so in the end."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        watch = Watch()
        for package, chat in kinds(address, watch, max_retries=1):
            raised(package.APIConnectionError, lambda chat=chat: chat(1))
            assert watch.take() == [("0", None), ("1", None)], package


class Failing(http.server.BaseHTTPRequestHandler):
    """Fails as the server does when a generation fails, with or without its word on trying again."""

    word = True

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        error = {"message": "the generation failed", "type": "server_error", "param": None,
                 "code": "engine_error"}
        body = json.dumps({"error": error}).encode()
        self.send_response(500)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if Failing.word:
            self.send_header("x-should-retry", "false")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def failures():
    """A failed generation is not asked for again, because the answer says so."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        watch = Watch()
        for word, attempts in [(True, [("0", 500)]), (False, [("0", 500), ("1", 500)])]:
            Failing.word = word
            for package, chat in kinds(address, watch, max_retries=1):
                raised(package.InternalServerError, lambda chat=chat: chat(1))
                assert watch.take() == attempts, (package, word)
        server.shutdown()


def raised(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} expected")


def check(address):
    busy(address)
    refusals(address)
    patience(address)
    nobody()
    failures()
    print("retries of openai and anthropic: as the answers say")
