"""Large JSON bodies are parsed while other requests are served."""

import asyncio
import json

import pytest
from fastapi.routing import APIRoute

from service.app import _build_routes
from service.http.bodies import LARGE_BYTES, JsonRoute, apply, load_json

LARGE = json.dumps({"events": [[step, 0.5] for step in range(LARGE_BYTES // 8)]}).encode()


def test_the_event_loop_goes_on_while_a_large_body_is_parsed():
    async def count_turns():
        parsing = asyncio.create_task(apply(load_json, LARGE))
        turns = 0
        while not parsing.done():
            turns += 1
            await asyncio.sleep(0)
        assert parsing.result() == json.loads(LARGE)
        return turns

    assert asyncio.run(count_turns()) > 10


def test_a_small_body_is_parsed_at_once():
    async def parse():
        return asyncio.all_tasks(), await apply(load_json, b'{"a": 1}'), asyncio.all_tasks()

    before, value, after = asyncio.run(parse())
    assert value == {"a": 1}
    assert before == after


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, -2.5e3, true, false, null, "\\u00e9\\ud83d\\ude00 é"], "b": {"c": {}}}',
        '{"a": 1, "a": 2}',
        "[NaN, Infinity, -Infinity]",
        '["\\ud800"]',
        '{"a": 1',
        '{"a": 1,}',
        '{"a" 1}',
        "[1 2]",
        '["\x01"]',
        '"open',
        "[1e999]",
        "[" * 100_000,
        f"[{'9' * 5000}]",
        "",
        "1 2",
    ],
)
def test_a_large_body_is_read_like_a_small_one(text):
    padded = (" " * LARGE_BYTES + text).encode()

    def outcome(parse):
        try:
            return repr(parse(padded))
        except (ValueError, RecursionError) as error:
            return type(error), str(error).partition(" while ")[0]

    assert outcome(load_json) == outcome(json.loads)


def test_each_route_with_a_json_body_parses_it_so():
    with_body = [route for route in walk(_build_routes()) if route.body_field is not None]
    assert len(with_body) > 10
    assert [route.path for route in with_body if not isinstance(route, JsonRoute)] == []


def walk(routes):
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            yield from walk(route.original_router.routes)
