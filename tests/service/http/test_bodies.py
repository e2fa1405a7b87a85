"""Large JSON bodies are parsed while other requests are served."""

import asyncio
import gc
import json

import pytest
from fastapi.routing import APIRoute

from service.app import _build_routes
from service.http.bodies import LARGE_BYTES, FullCollections, JsonRoute, apply, load_json

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


def test_full_collections_wait_until_all_large_bodies_are_gone():
    usual = gc.get_threshold()
    collections = FullCollections()
    with collections.postponed(b"{}"):
        assert gc.get_threshold() == usual
    with collections.postponed(LARGE):
        with collections.postponed(LARGE):
            pass
        assert gc.get_threshold()[:2] == usual[:2]
        assert gc.get_threshold()[2] > 10**6
    assert gc.get_threshold() == usual


def test_collections_go_on_after_a_request_that_fails():
    usual = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), FullCollections().postponed(LARGE):
        raise ZeroDivisionError
    assert gc.get_threshold() == usual


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
