"""The stand-in for Cloudflare's API is as strict as the tests of the deployer need it: what is wrong is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, ZONE_ID, CloudflareApi
from tests.fakes.cloudflare_api.things import Namespace, identity

SCRIPTS = f"/accounts/{ACCOUNT_ID}/workers/scripts/w"
NAMESPACES = f"/accounts/{ACCOUNT_ID}/storage/kv/namespaces"
ROUTES = f"/zones/{ZONE_ID}/workers/routes"
GOOD = {"main_module": "w.js", "compatibility_date": "2026-04-01", "bindings": []}


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


async def _ask(api: CloudflareApi, method: str, path: str, *, token: str = TOKEN, **more: Any) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {token}", **more.pop("headers", {})}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, api.url + path, headers=headers, **more) as response,
    ):
        told = json.loads(await response.read())
        return response.status, told


async def _upload(api: CloudflareApi, metadata: Any, *, content_type: str = "application/javascript+module") -> Any:
    form = aiohttp.FormData()
    form.add_field("metadata", json.dumps(metadata), content_type="application/json")
    form.add_field("w.js", b"export default {};", filename="w.js", content_type=content_type)
    return await _ask(api, "PUT", SCRIPTS, data=form)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({**GOOD, "main_module": "other.js"}, "No such module"),
        ({**GOOD, "binding": []}, "unknown member 'binding'"),
        ({"main_module": "w.js"}, "compatibility_date is missing"),
        ({**GOOD, "bindings": [{"type": "kv_namespace", "name": "K"}]}, "namespace_id"),
        ({**GOOD, "bindings": [{"type": "kv_namespace", "name": "K", "namespace_id": "f" * 32}]}, "not found"),
        ({**GOOD, "bindings": [{"type": "r2_bucket", "name": "B", "bucket_name": "gone"}]}, "not found"),
        ({**GOOD, "bindings": [{"type": "kv", "name": "K"}]}, "no binding of type 'kv'"),
        ({**GOOD, "bindings": [{"type": "ai", "name": "AI", "extra": 1}]}, "unknown member 'extra'"),
        ({**GOOD, "bindings": [{"type": "ai", "name": "A"}, {"type": "ai", "name": "A"}]}, "already in use"),
        ({**GOOD, "annotations": {"workers/tag": "x" * 101}}, "at most 100 bytes"),
        ({**GOOD, "cache_options": {"cross_version_cache": True}}, "cache_options"),
        ({**GOOD, "exports": {"Records": {"type": "cached"}}}, "exports"),
        ({**GOOD, "assets": {"jwt": "complete.of-another"}}, "not one of a completed upload"),
        ({**GOOD, "assets": {"config": {"html_handling": "none-of-these"}}}, "html_handling"),
        ({**GOOD, "bindings": [{"type": "assets", "name": "ASSETS"}]}, "needs assets"),
    ],
)
async def test_an_upload_that_is_wrong_is_refused(api, metadata, says):
    status, told = await _upload(api, metadata)

    assert status == 400
    assert says in told["errors"][0]["message"]
    assert api.things.scripts == {}


async def test_a_module_must_say_its_type(api):
    status, told = await _upload(api, GOOD, content_type="application/javascript")

    assert (status, "content type" in told["errors"][0]["message"]) == (400, True)


async def test_an_upload_as_it_should_be_is_taken(api):
    assert (await _upload(api, GOOD))[0] == 200
    assert api.things.scripts["w"].modules == {"w.js": ("application/javascript+module", b"export default {};")}


async def test_bindings_left_out_of_an_upload_are_gone(api):
    await _upload(api, {**GOOD, "bindings": [{"type": "secret_text", "name": "S", "text": "x"}]})
    await _upload(api, GOOD)

    assert api.things.scripts["w"].bindings == []
    assert api.things.scripts["w"].secrets == {}


@pytest.mark.parametrize(
    "pattern", ["example.com", "example.com/a*b", "example.com/a?b", "elsewhere.org/*", "a.*.com/*"]
)
async def test_a_route_pattern_that_is_none_is_refused(api, pattern):
    api.things.add_script("w")

    status, told = await _ask(api, "POST", ROUTES, json={"pattern": pattern, "script": "w"})

    assert (status, told["errors"][0]["code"]) == (400, 10022)


async def test_a_route_to_a_worker_that_is_not_there_is_refused(api):
    assert (await _ask(api, "POST", ROUTES, json={"pattern": "example.com/*", "script": "gone"}))[0] == 400


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"title": 1}, "not of type str"),
        ({}, "'title' is missing"),
        ({"title": "x", "name": "y"}, "unknown member 'name'"),
    ],
)
async def test_a_body_of_another_form_is_refused(api, body, says):
    status, told = await _ask(api, "POST", NAMESPACES, json=body)

    assert (status, says in told["errors"][0]["message"]) == (400, True)


async def test_two_namespaces_cannot_have_one_title(api):
    await _ask(api, "POST", NAMESPACES, json={"title": "x"})

    assert (await _ask(api, "POST", NAMESPACES, json={"title": "x"}))[1]["errors"][0]["code"] == 10014


@pytest.mark.parametrize(("query", "status"), [("expiration_ttl=59", 400), ("expiration_ttl=60", 200), ("ttl=60", 400)])
async def test_kv_keeps_nothing_for_less_than_a_minute(api, query, status):
    api.things.namespaces.append(Namespace(identity("n"), "n"))

    assert (await _ask(api, "PUT", f"{NAMESPACES}/{identity('n')}/values/k?{query}", data=b"v"))[0] == status


async def test_lists_come_page_by_page_and_end(api):
    api.things.namespaces += [Namespace(identity(str(n)), f"{n:02}") for n in range(25)]

    pages = [await _ask(api, "GET", f"{NAMESPACES}?page={page}&per_page=10") for page in (1, 2, 3, 4)]

    assert [len(told["result"]) for _, told in pages] == [10, 10, 5, 0]
    assert (await _ask(api, "GET", f"{NAMESPACES}?per_page=1001"))[0] == 400


@pytest.mark.parametrize(
    ("method", "path", "token", "status", "code"),
    [
        ("GET", "/no/such/path", TOKEN, 404, 7000),
        ("PATCH", NAMESPACES, TOKEN, 405, 7001),
        ("GET", NAMESPACES, "wrong", 401, 1000),
        ("GET", NAMESPACES.replace(ACCOUNT_ID, "f" * 32), TOKEN, 403, 10000),
        ("GET", f"/zones/{'f' * 32}/workers/routes", TOKEN, 403, 10000),
    ],
)
async def test_wrong_doors_are_shut(api, method, path, token, status, code):
    found, told = await _ask(api, method, path, token=token)

    assert (found, told["errors"][0]["code"], told["success"]) == (status, code, False)


async def test_after_too_many_calls_it_says_when_to_come_back(api):
    api.calls_left = 1

    assert [(await _ask(api, "GET", NAMESPACES))[0] for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ({}, "names no file"),
        ({"page.html": {"hash": "0" * 32, "size": 1}}, "is none"),
        ({"/page.html": {"hash": "0" * 31, "size": 1}}, "not 32 hex digits"),
        ({"/page.html": {"hash": "0" * 32}}, "needs hash and size"),
        ({"/page.html": {"hash": "0" * 32, "size": 26 * 2**20}}, "larger than 25 MiB"),
    ],
)
async def test_a_wrong_list_of_static_files_is_refused(api, manifest, says):
    _, told = await _ask(api, "POST", f"{SCRIPTS}/assets-upload-session", json={"manifest": manifest})

    assert says in told["errors"][0]["message"]


async def test_static_files_are_taken_with_the_sessions_token_alone_and_only_as_they_were_named(api):
    manifest = {"/page.html": {"hash": "0" * 32, "size": 2}}
    _, begun = await _ask(api, "POST", f"{SCRIPTS}/assets-upload-session", json={"manifest": manifest})

    async def send(token: str, content: bytes, *, name: str = "0" * 32) -> int:
        form = aiohttp.FormData()
        form.add_field(name, content, filename=name, content_type="text/html")
        path = f"/accounts/{ACCOUNT_ID}/workers/assets/upload?base64=true"
        return (await _ask(api, "POST", path, token=token, data=form))[0]

    session = begun["result"]["jwt"]
    assert await send(TOKEN, b"aGk=") == 401
    assert await send(session, b"aGVsbG8=") == 400
    assert await send(session, b"aGk=", name="f" * 32) == 400
    assert await send(session, b"aGk=") == 201
