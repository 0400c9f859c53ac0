"""Stored objects: stores, fetched responses, conversations."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")
pytest.importorskip("openai")

import openai

from gateways import EngineProcess, GatewayThread, call_text, fetch, get, post, send, serving
from unspool import UsageError
from unspool.gateway.apis.responses import stored_responses_and_conversations
from unspool.gateway.http.failure import Failure
from unspool.gateway.http.json_encoding import encode_json
from unspool.gateway.http.json_limits import count_values
from unspool.gateway.state import messages_api_conversations as threads
from unspool.gateway.state import responses_api_history as past
from unspool.gateway.state.sqlite_store import SqliteStore
from unspool.gateway.state.store import MemoryStore, Store, decoded, pack, pack_items

Result = TypeVar("Result")
Make: TypeAlias = Callable[[Path, int], Store]
STORES: dict[str, Make] = {
    "memory": lambda _, room: MemoryStore(room),
    "sqlite": lambda folder, room: SqliteStore(str(folder / "kept.db"), room),
}


def run_with_store(
    kind: str, room: int, work: Callable[[Store], Awaitable[Result]], folder: Path | None = None
) -> Result:
    async def run(place: Path) -> Result:
        store = STORES[kind](place, room)
        await store.start()
        try:
            return await work(store)
        finally:
            await store.stop()

    if folder is not None:
        return asyncio.run(run(folder))
    with TemporaryDirectory() as made:
        return asyncio.run(run(Path(made)))


async def read_entry(store: Store, owner: str, id: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """Return a stored entry; its weight is that of its items."""
    kept = await store.get(owner, id)
    if kept is None:
        return None
    rows = await store.rows(owner, id)
    assert kept.weight == (sum(len(row.data) for row in rows), sum(row.values for row in rows))
    return decoded(kept.head), [decoded(row.data) for row in rows]


# -- laws of a store


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=settings().max_examples // 3 + 1)  # every example opens another database
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(("put", "get", "extend", "change", "delete", "drop")),
            st.sampled_from("ab"),
            st.sampled_from("xyz"),
            st.integers(0, 25),
        ),
        max_size=25,
    )
)
def test_store_forgets_the_oldest_entries(kind: str, steps: list[tuple[str, str, str, int]]) -> None:
    room = 120
    model: dict[tuple[str, str], tuple[dict[str, Any], list[dict[str, Any]]]] = {}

    def size(key: tuple[str, str]) -> int:
        head, items = model[key]
        return sum(len(json.dumps(value, separators=(",", ":"))) for value in (head, *items))

    def settle(key: tuple[str, str]) -> bool:
        model[key] = model.pop(key)
        if size(key) > room:
            del model[key]
        while sum(map(size, model)) > room:
            kept = {owner: sum(size(one) for one in model if one[0] == owner) for owner in "ab"}
            largest = max(kept, key=lambda owner: (kept[owner], owner))
            del model[next(one for one in model if one[0] == largest)]
        return key in model

    async def follow(store: Store) -> None:
        for number, (step, owner, id, length) in enumerate(steps):
            key = owner, id
            head, item = {"n": number}, {"id": f"i{number}", "x": "y" * length}
            if step == "put":
                model.pop(key, None)
                model[key] = head, [item]
                assert await store.put(owner, id, pack("k", head, [item])) == settle(key)
            elif key not in model:
                assert await store.get(owner, id) is None
                assert not await store.extend(owner, id, pack_items([item]))
                assert not await store.change(owner, id, encode_json(head))
                assert not await store.delete(owner, id, item["id"])
                assert not await store.delete(owner, id)
            elif step == "get":
                settle(key)
                assert await read_entry(store, owner, id) == model[key]
            elif step == "extend":
                model[key] = model[key][0], [*model[key][1], item]
                assert await store.extend(owner, id, pack_items([item])) == settle(key)
            elif step == "change":
                model[key] = head, model[key][1]
                assert await store.change(owner, id, encode_json(head)) == settle(key)
            elif step == "drop" and model[key][1]:
                deleted = model[key][1].pop(0)
                settle(key)
                assert await store.delete(owner, id, deleted["id"])
            else:
                del model[key]
                assert await store.delete(owner, id)
        for owner, id in list(model):
            assert await read_entry(store, owner, id) == model[owner, id]
            for item in model[owner, id][1]:
                data = encode_json(item)
                assert await store.find(owner, [item["id"]]) == {item["id"]: data}
                assert await store.weigh(owner, [item["id"]]) == {item["id"]: (len(data), count_values(data))}
                assert await store.item(owner, id, item["id"]) == (item["id"], data, count_values(data))
                assert await store.find("somebody", [item["id"]]) == {}

    run_with_store(kind, room, follow)


@pytest.mark.parametrize("kind", STORES)
def test_item_is_found_where_it_was_stored_last(kind: str) -> None:
    async def work(store: Store) -> None:
        await store.put("a", "first", pack("k", {}, [{"id": "i", "text": "old"}]))
        items = [{"id": "i", "text": "new"}, {"id": "j", "text": "\ud83d"}]
        await store.put("a", "second", pack("k", {}, items))
        assert {id: decoded(data) for id, data in (await store.find("a", ["i", "j", "none"])).items()} == {
            "i": items[0],
            "j": items[1],
        }
        await store.delete("a", "second")
        assert await store.find("a", ["j"]) == {}

    run_with_store(kind, 1000, work)


@pytest.mark.parametrize("kind", STORES)
def test_pages_join_to_the_whole(kind: str) -> None:
    async def work(store: Store) -> None:
        ids = [f"i{number}" for number in range(30)]
        await store.put("a", "c", pack("k", {}, [{"id": id} for id in ids]))
        await store.put("a", "other", pack("k", {}, [{"id": "x"}]))
        for deleted in ids[3:6] + ids[29:]:
            assert await store.delete("a", "c", deleted)
        left = [id for id in ids if id not in ids[3:6] + ids[29:]]
        assert [row.id for row in await store.rows("a", "c", 2, 5)] == left[2:5]
        for newest_first in (False, True):
            listed = left[::-1] if newest_first else left
            for after in (None, *left):
                start = 0 if after is None else listed.index(after) + 1
                page = await store.page("a", "c", after, 4, newest_first=newest_first)
                assert page is not None
                assert [row.id for row in page] == listed[start : start + 4]
            for nowhere in ("x", ids[3]):
                assert await store.page("a", "c", nowhere, 4, newest_first=newest_first) is None

    run_with_store(kind, 10_000, work)


@pytest.mark.parametrize("kind", STORES)
def test_items_with_the_same_id_are_kept_together(kind: str) -> None:
    async def work(store: Store) -> None:
        items: list[dict[str, Any]] = [{"id": "i", "n": 1}, {"id": "j"}, {"id": "i", "n": 2}]
        await store.put("a", "c", pack("k", {}, items))
        await store.extend("a", "c", pack_items([{"id": "j", "n": 3}]))
        assert await store.delete("a", "c", "i")
        assert await read_entry(store, "a", "c") == ({}, [{"id": "j"}, {"id": "j", "n": 3}])
        assert not await store.delete("a", "c", "i")
        assert await store.delete("a", "c", "j")
        assert await read_entry(store, "a", "c") == ({}, [])

    run_with_store(kind, 1000, work)


@pytest.mark.parametrize("kind", STORES)
def test_owner_loses_nothing_to_an_owner_that_stores_more(kind: str) -> None:
    async def work(store: Store) -> None:
        small: list[dict[str, Any]] = [{"id": "i", "text": "x" * 100}]
        await store.put("small", "first", pack("k", {}, small))
        for number in range(20):
            assert await store.put("large", f"{number}", pack("k", {}, [{"id": "i", "text": "x" * 300}]))
        assert await read_entry(store, "small", "first") == ({}, small)
        assert not await store.put("large", "whole", pack("k", {}, [{"id": "i", "text": "x" * 950}]))
        assert await read_entry(store, "small", "first") == ({}, small)

    run_with_store(kind, 1000, work)


@pytest.mark.parametrize("kind", STORES)
def test_large_entries_are_decoded_and_encoded_in_a_pool(
    kind: str, engine: EngineProcess, template: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every request that stores, reads or lists a large entry does so in a pool."""
    seen: list[tuple[str, bool]] = []
    main: list[int] = []

    def watched(module: Any, name: str) -> None:
        before = getattr(module, name)

        def called(*arguments: Any) -> Any:
            seen.append((name, threading.get_ident() in main))
            return before(*arguments)

        monkeypatch.setattr(module, name, called)

    for module, names in (
        (past, ("decoded", "encode_json", "pack_items")),
        (
            stored_responses_and_conversations,
            (
                "decoded",
                "encode_json",
                "pack",
                "pack_items",
                "_encode_list",
                "_with_rows",
                "_encode_conversation",
            ),
        ),
        (threads, ("decoded", "pack")),
    ):
        for name in names:
            watched(module, name)
    store = str(tmp_path / "kept.db") if kind == "sqlite" else ""
    with serving(upstream="completions", url=engine.url, template=template, store=store) as gateway:
        main.append(gateway._thread.ident or 0)
        url = f"{gateway.url}/v1"
        text = "x" * 100_000
        item = {"role": "user", "content": text}
        conversation = post(f"{url}/conversations", {"items": [item], "metadata": {"a": text}})["id"]
        added = post(f"{url}/conversations/{conversation}/items", {"items": [item]})["data"][0]["id"]
        post(f"{url}/conversations/{conversation}", {"metadata": {"b": text}})
        get(f"{url}/conversations/{conversation}")
        assert len(get(f"{url}/conversations/{conversation}/items")["data"]) == 2
        made = post(f"{url}/responses", {"input": "Hi", "conversation": conversation, "instructions": text})
        get(f"{url}/responses/{made['id']}")
        get(f"{url}/responses/{made['id']}/input_items")
        again = {"input": [{"type": "item_reference", "id": added}], "previous_response_id": made["id"]}
        post(f"{url}/responses", again)
        thread: dict[str, Any] = {"max_tokens": 5, "messages": [item], "thread": {"type": "create"}}
        first = post(f"{url}/messages", thread)
        thread["thread"] = {"type": "continue", "previous_message_id": first["id"]}
        post(f"{url}/messages", {**thread, "messages": [{"role": "user", "content": "Hi"}]})
    assert {name for name, _ in seen} >= {
        "decoded",
        "pack",
        "pack_items",
        "_encode_list",
        "_with_rows",
        "_encode_conversation",
    }
    assert not [name for name, on_loop in seen if on_loop]


@pytest.mark.parametrize("kind", STORES)
def test_long_lookup_yields_to_other_requests(kind: str) -> None:
    async def work(store: Store) -> None:
        await store.put("a", "kept", pack("k", {}, [{"id": "i"}]))
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for _ in range(50):
            await store.get("a", "kept")
            await store.find("a", ["i"])
        task.cancel()
        assert turns >= 100

    run_with_store(kind, 1000, work)


def test_lookup_yields_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep, waited = asyncio.sleep, set()

    async def record(delay: float) -> None:
        waited.add(delay)
        await sleep(0)

    async def work(store: Store) -> None:
        await store.put("a", "kept", pack("k", {}, [{"id": "i"}]))
        assert list(await store.find("a", ["i"])) == ["i"]

    monkeypatch.setattr(asyncio, "sleep", record)
    run_with_store("memory", 1000, work)
    assert waited == {0}


def test_item_is_found_and_added_without_visiting_neighbours() -> None:
    class Unseen(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError

    async def work(store: Store) -> None:
        await store.put("a", "kept", pack("k", {}, [{"id": "i"}, {"id": "j"}]))
        assert isinstance(store, MemoryStore)
        entry = store._tenants["a"].entries["kept"]
        entry.rows = Unseen(entry.rows)
        assert await store.extend("a", "kept", pack_items([{"id": "k"}]))
        assert len(entry.rows) == 3
        assert list(await store.find("a", ["j", "k"])) == ["j", "k"]
        assert await store.item("a", "kept", "j")
        page = await store.page("a", "kept", "i", 1, newest_first=False)
        assert page is not None
        assert page[0].id == "j"
        assert await store.delete("a", "kept", "j")

    run_with_store("memory", 1000, work)


def test_index_of_deleted_items_is_cleaned_gradually() -> None:
    async def work(store: Store) -> None:
        assert isinstance(store, MemoryStore)
        await store.put("a", "many", pack("k", {}, [{"id": f"i{number}"} for number in range(5000)]))
        await store.put("a", "few", pack("k", {}, [{"id": "i7"}]))
        places = store._tenants["a"].places
        await store.delete("a", "many")
        assert 3000 < len(places) < 5000
        assert await store.find("a", ["i8"]) == {}
        while store._stale:
            await store.extend("a", "few", ())
        assert list(places) == ["i7"]
        assert len(await store.find("a", ["i7"])) == 1

    run_with_store("memory", 1_000_000, work)


def test_file_store_is_shared_and_survives_restart(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        other = SqliteStore(str(tmp_path / "kept.db"), 1000)
        await other.start()
        await store.put("a", "x", pack("k", {"n": 1}))
        adding = [
            one.extend("a", "x", pack_items([{"id": f"{n}"}])) for n in range(10) for one in (store, other)
        ]
        assert all(await asyncio.gather(*adding))
        ids = [row.id for row in await other.rows("a", "x")]
        assert sorted(ids) == sorted(f"{n}" for n in range(10) for _ in "ab")
        await other.stop()

    run_with_store("sqlite", 1000, work, tmp_path)
    assert (tmp_path / "kept.db").stat().st_mode & 0o077 == 0

    async def again(store: Store) -> None:
        assert len(await store.rows("a", "x")) == 20

    run_with_store("sqlite", 1000, again, tmp_path)


def test_file_permissions_are_restricted(tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    for name in ("", "-wal"):
        Path(f"{file}{name}").touch(mode=0o644)
        Path(f"{file}{name}").chmod(0o644)

    async def work(store: Store) -> None:
        await store.put("a", "x", pack("k", {}))
        modes = await asyncio.to_thread(lambda: {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()})
        assert modes == {0o600}

    run_with_store("sqlite", 1000, work, tmp_path)


def test_stored_entries_are_readable_on_a_full_disk(tmp_path: Path) -> None:
    """With ``query_only``, SQLite rejects writes as it does on a full disk."""

    async def work(store: Store) -> None:
        assert isinstance(store, SqliteStore)
        await store.put("a", "x", pack("k", {"n": 1}, [{"id": "i"}]))
        await store._run(lambda: store._database.execute("PRAGMA query_only = ON"))
        assert await read_entry(store, "a", "x") == ({"n": 1}, [{"id": "i"}])
        assert list(await store.find("a", ["i"])) == ["i"]
        with pytest.raises(Failure, match="the store failed"):
            await store.extend("a", "x", pack_items([{"id": "j"}]))
        await store._run(lambda: store._database.execute("PRAGMA query_only = OFF"))
        assert await store.extend("a", "x", pack_items([{"id": "j"}]))

    run_with_store("sqlite", 1000, work, tmp_path)


def test_unusable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept.db").write_text(
        "This is not a database, but it is long enough to be taken for one." * 20
    )
    with pytest.raises(UsageError, match=r"kept\.db"):
        run_with_store("sqlite", 1000, lambda store: store.start(), tmp_path)
    (tmp_path / "kept.db").unlink()
    with sqlite3.connect(tmp_path / "kept.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(UsageError, match="another version"):
        run_with_store("sqlite", 1000, lambda store: store.start(), tmp_path)


# -- responses and conversations, through OpenAI's client


@pytest.fixture(scope="module", params=STORES)
def gateway(
    request: pytest.FixtureRequest,
    engine: EngineProcess,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GatewayThread]:
    store = str(tmp_path_factory.mktemp("store") / "kept.db") if request.param == "sqlite" else ""
    keys = ("sk-one", "sk-two")
    with serving(
        upstream="completions", url=engine.url, template=template, store=store, api_keys=keys
    ) as server:
        yield server


@pytest.fixture
def client(gateway: GatewayThread) -> Iterator[Any]:
    with openai.OpenAI(
        base_url=f"{gateway.url}/v1", api_key="sk-one", max_retries=0, _strict_response_validation=True
    ) as openai_client:
        yield openai_client


@pytest.fixture
def stranger(gateway: GatewayThread) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-two", max_retries=0) as openai_client:
        yield openai_client


@pytest.mark.parametrize("stream", [False, True])
def test_response_is_fetched_as_it_was_sent(client: Any, engine: EngineProcess, stream: bool) -> None:
    engine.script("<think>\nHm.\n</think>\n\nWait.\n", call_text("get_weather", '{"city": "Paris"}'))
    tools = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False}]
    if stream:
        sent = list(client.responses.create(model="m", input="Hi", tools=tools, stream=True))[-1].response
    else:
        sent = client.responses.create(model="m", input="Hi", tools=tools)
    assert client.responses.retrieve(sent.id) == sent
    items = client.responses.input_items.list(sent.id, order="asc").data
    assert [(item.role, item.content[0].text) for item in items] == [("user", "Hi")]
    client.responses.delete(sent.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(sent.id)
    with pytest.raises(openai.BadRequestError, match="not stored here"):
        client.responses.create(model="m", input="And?", previous_response_id=sent.id)


def test_stored_entry_belongs_to_its_owner(client: Any, stranger: Any, engine: EngineProcess) -> None:
    engine.script("Hello.")
    response = client.responses.create(model="m", input="Hi")
    conversation = client.conversations.create(items=[{"role": "user", "content": "Hi"}])
    item = response.output[0].id
    attempts: list[Callable[[], object]] = [
        lambda: stranger.responses.retrieve(response.id),
        lambda: stranger.responses.delete(response.id),
        lambda: stranger.responses.input_items.list(response.id),
        lambda: stranger.responses.create(model="m", input="And?", previous_response_id=response.id),
        lambda: stranger.responses.create(model="m", input="And?", conversation=conversation.id),
        lambda: stranger.responses.create(model="m", input=[{"type": "item_reference", "id": item}]),
        lambda: stranger.conversations.retrieve(conversation.id),
        lambda: stranger.conversations.items.create(
            conversation.id, items=[{"role": "user", "content": "x"}]
        ),
        lambda: stranger.conversations.delete(conversation.id),
    ]
    for attempt in attempts:
        with pytest.raises((openai.NotFoundError, openai.BadRequestError), match="not stored here"):
            attempt()
    assert client.responses.retrieve(response.id).id == response.id


def test_sent_items_can_be_referred_to(client: Any, engine: EngineProcess) -> None:
    engine.script(call_text("now", "{}"))
    tools = [{"type": "function", "name": "now", "parameters": {"type": "object"}, "strict": False}]
    first = client.responses.create(model="m", input="What time is it?", tools=tools)
    engine.script("Noon.")
    call = first.output[0]
    client.responses.create(
        model="m",
        tools=tools,
        input=[
            {"role": "user", "content": "What time is it?"},
            {"type": "item_reference", "id": call.id},
            {"type": "function_call_output", "call_id": call.call_id, "output": "12:00"},
        ],
    )
    prompt = engine.last()["prompt"]
    assert prompt.index("What time") < prompt.index('"name": "now", "arguments": {}') < prompt.index("12:00")


def test_response_lists_its_input_items(client: Any, engine: EngineProcess) -> None:
    engine.script("Hello.")
    first = client.responses.create(model="m", input="Hi")
    engine.script("Fine.")
    second = client.responses.create(model="m", input="How are you?", previous_response_id=first.id)
    texts = [
        item.content[0].text for item in client.responses.input_items.list(second.id, limit=1, order="asc")
    ]
    assert texts == ["Hi", "Hello.", "How are you?"]  # in pages of one item
    newest = client.responses.input_items.list(second.id, limit=2)
    assert [item.content[0].text for item in newest.data] == ["How are you?", "Hello."]
    assert newest.has_more


def test_referenced_entries_count_towards_request_limits(engine: EngineProcess, template: str) -> None:
    """Otherwise a small request would make the gateway traverse everything that is stored."""
    limits = {"max_request_bytes": 30_000, "max_stored_bytes": 1_000_000}
    with serving(upstream="completions", url=engine.url, template=template, **limits) as gateway:
        url = f"{gateway.url}/v1/responses"
        first = post(url, {"input": "x" * 20_000})
        second = post(url, {"input": "x" * 5_000, "previous_response_id": first["id"]})
        status, data, _ = send(url, {"input": "x" * 5_000, "previous_response_id": second["id"]})
        assert (status, json.loads(data)["error"]["code"]) == (413, "request_too_large")
        conversation = post(f"{gateway.url}/v1/conversations", {})["id"]
        for _ in range(2):
            post(url, {"input": "x" * 12_000, "conversation": conversation})
        status, data, _ = send(url, {"input": "x" * 12_000, "conversation": conversation})
        assert (status, json.loads(data)["error"]["code"]) == (413, "request_too_large")
        thread = {"max_tokens": 5, "messages": [{"role": "user", "content": "x" * 20_000}]}
        made = post(f"{gateway.url}/v1/messages", {**thread, "thread": {"type": "create"}})
        more = {**thread, "thread": {"type": "continue", "previous_message_id": made["id"]}}
        status, _, _ = send(f"{gateway.url}/v1/messages", more)
        assert status == 413


def test_item_counts_once_per_reference(
    engine: EngineProcess, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []

    def counted(data: bytes) -> dict[str, Any]:
        times.append(len(data))
        return decoded(data)

    monkeypatch.setattr(past, "decoded", counted)
    limits = {"max_request_bytes": 30_000, "max_request_values": 300}
    with serving(upstream="completions", url=engine.url, template=template, **limits) as gateway:
        items = [
            {"id": "large", "role": "user", "content": "x" * 9_000},
            {"id": "many", "role": "user", "content": [{"type": "input_text", "text": "x"}] * 40},
        ]
        post(f"{gateway.url}/v1/conversations", {"items": items})
        for id in ("large", "many"):
            reference = {"type": "item_reference", "id": id}
            times.clear()
            assert post(f"{gateway.url}/v1/responses", {"input": [reference] * 2})["status"] == "completed"
            assert len(times) == 1
            times.clear()
            status, data, _ = send(f"{gateway.url}/v1/responses", {"input": [reference] * 5})
            assert (status, json.loads(data)["error"]["code"]) == (413, "request_too_large")
            assert not times


def test_conversation_values_are_counted_together(engine: EngineProcess, template: str) -> None:
    limits = {"max_request_values": 300}
    with serving(upstream="completions", url=engine.url, template=template, **limits) as gateway:
        conversation = post(f"{gateway.url}/v1/conversations", {})["id"]
        item = {"role": "user", "content": [{"type": "input_text", "text": "x"}] * 40}
        request = {"input": "Hi", "conversation": conversation, "store": False}
        for status in (200, 200, 200, 413):
            assert send(f"{gateway.url}/v1/responses", request)[0] == status
            post(f"{gateway.url}/v1/conversations/{conversation}/items", {"items": [item]})


@pytest.mark.parametrize("stream", [False, True])
def test_conversation_grows_with_responses(client: Any, engine: EngineProcess, stream: bool) -> None:
    conversation = client.conversations.create(
        items=[{"role": "developer", "content": "Be brief."}], metadata={"a": "b"}
    )
    assert client.conversations.retrieve(conversation.id).metadata == {"a": "b"}
    assert client.conversations.update(conversation.id, metadata={"c": "d"}).metadata == {"c": "d"}
    for question, answer in (("Hi", "Hello."), ("And?", "Well.")):
        engine.script(answer)
        made = client.responses.create(
            model="m", input=question, conversation=conversation.id, stream=stream, store=False
        )
        if stream:
            made = list(made)[-1].response
        assert made.conversation.id == conversation.id
    prompt = engine.last()["prompt"]
    texts = ["Be brief.", "Hi", "Hello.", "And?"]
    places = [prompt.index(text) for text in texts]
    assert places == sorted(places)
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert [item.content[0].text for item in items] == [*texts, "Well."]
    assert client.conversations.items.retrieve(items[1].id, conversation_id=conversation.id) == items[1]
    client.conversations.items.delete(items[1].id, conversation_id=conversation.id)
    added = client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "Bye."}])
    left = client.conversations.items.list(conversation.id, order="asc").data
    assert left == [items[0], *items[2:], *added.data]
    assert client.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.list(conversation.id)


def test_conversation_response_lists_earlier_items(client: Any, engine: EngineProcess) -> None:
    conversation = client.conversations.create(items=[{"role": "user", "content": "Hi"}])
    made = client.responses.create(model="m", input="And?", conversation=conversation.id)
    client.responses.create(model="m", input="More?", conversation=conversation.id)
    listed = client.responses.input_items.list(made.id, order="asc").data
    assert [item.content[0].text for item in listed] == ["Hi", "And?"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"conversation": "conv_none"}, "conversation"),
        ({"conversation": 5}, "conversation"),
        ({"conversation": "c", "previous_response_id": "r"}, "conversation"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
    ],
)
def test_missing_entry_is_named(gateway: GatewayThread, body: dict[str, Any], param: str) -> None:
    headers = {"authorization": "Bearer sk-one"}
    status, data, _ = send(f"{gateway.url}/v1/responses", {"input": "x", **body}, headers)
    assert status in (400, 404)
    assert json.loads(data)["error"]["param"] == param


def test_many_items_are_added_at_once(gateway: GatewayThread) -> None:
    """More items at once would be traversed on the event loop."""
    items = [{"role": "user", "content": "x"}] * 1001
    headers = {"authorization": "Bearer sk-one"}
    url = f"{gateway.url}/v1/conversations"
    made = post(url, {"items": items[1:]}, headers)
    for place in (url, f"{url}/{made['id']}/items"):
        status, data, _ = send(place, {"items": items}, headers)
        assert (status, "items" in json.loads(data)["error"]["message"]) == (400, True)


def test_unsupported_operation_is_refused(client: Any, engine: EngineProcess) -> None:
    engine.script("Hello.")
    made = client.responses.create(model="m", input="Hi")
    for attempt in (
        lambda: client.responses.cancel(made.id),
        lambda: list(client.responses.retrieve(made.id, stream=True)),
        lambda: client.responses.input_items.list(made.id, limit=1000),
        lambda: client.responses.input_items.list(made.id, after="nothing"),
    ):
        with pytest.raises(openai.BadRequestError):
            attempt()


def test_restart_keeps_the_file_store(engine: EngineProcess, template: str, tmp_path: Path) -> None:
    settings = {
        "upstream": "completions",
        "url": engine.url,
        "template": template,
        "store": str(tmp_path / "kept.db"),
    }
    with serving(**settings) as gateway:
        engine.script("Hello.")
        first = post(f"{gateway.url}/v1/responses", {"input": "Hi"})
    with serving(**settings) as gateway:
        assert get(f"{gateway.url}/v1/responses/{first['id']}") == first
        post(f"{gateway.url}/v1/responses", {"input": "And?", "previous_response_id": first["id"]})
    assert "Hello." in engine.last()["prompt"]


def test_full_store_is_reported(engine: EngineProcess, template: str) -> None:
    with serving(upstream="completions", url=engine.url, template=template, max_stored_bytes=0) as gateway:
        status, data, _ = send(f"{gateway.url}/v1/conversations", {})
        assert (status, json.loads(data)["error"]["code"]) == (413, "store_full")
        made = post(f"{gateway.url}/v1/responses", {"input": "Hi"})
        assert fetch(f"{gateway.url}/v1/responses/{made['id']}")[0] == 404
