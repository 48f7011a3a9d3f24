"""Encrypted rows: the service reads them with the master key, and writes vectors that nobody reads without it."""

import os

import msgspec
import pytest

from gateway.db import DataKeyRecord, DataKeyRepository, NewRow
from gateway.layers.keyring import Keyring
from policies.encryption import FRESH_BYTES, MasterKeys, field_key, master_key, question_place, seal_field
from semantic.rows.store import RowStore
from tests.semantic.rows_stand import Rows, digest, partition_of, single

MASTERS = MasterKeys(master_key("m" * 32))
MODELS = ("letters",)
VECTOR = b"\x00\x01\x02\x03" * 8


async def put_sealed(rows: Rows, text: str) -> str:
    """A row whose question is encrypted under a fresh key of the tenant; returns the key's id."""
    ring = Keyring(MASTERS)
    made, wrapped = ring.fresh(rows.tenant_id)
    record = DataKeyRecord(made.key_id, rows.tenant_id, wrapped, MASTERS.current.key_id, 1.0)
    await DataKeyRepository(rows.database).add(record, "test", replacing=True)
    question = single(text)
    family, partition = digest("family"), partition_of(question, "family")
    place = question_place(rows.tenant_id, family, partition)
    sealed = seal_field(made, place, msgspec.msgpack.encode(question), os.urandom(FRESH_BYTES))
    row = NewRow(
        tenant_id=rows.tenant_id,
        family=family,
        partition=partition,
        asked=digest(text),
        question=sealed,
        key=digest(text),
        route="m",
        sealed=b"sealed",
        as_of=0,
        created_at=1000.0,
        expires_at=1e12,
    )
    await rows.table.put([row])
    return made.key_id


async def texts(store: RowStore) -> list[str | None]:
    live = list(await store.live_rows())
    return [None if row.question is None else row.question.text for row in await store.rows(live, MODELS)]


@pytest.mark.slow
async def test_rows_and_vectors_are_read_with_the_master_key_alone(rows: Rows, url: str) -> None:
    key_id = await put_sealed(rows, "canary")
    await rows.put([single("plain")])
    store, blind = RowStore.open(url, masters=MASTERS), RowStore.open(url)
    foreign = RowStore.open(url, masters=MasterKeys(master_key("o" * 32)))
    assert sorted(map(str, await texts(store))) == ["canary", "plain"]
    assert sorted(map(str, await texts(blind))) == sorted(map(str, await texts(foreign))) == ["None", "plain"]
    live = list(await store.live_rows())
    await blind.write_vectors([(row, "letters", VECTOR) for row in live])
    await store.write_vectors([(row, "letters", VECTOR) for row in live])
    written = await rows.vectors()
    assert sorted(field_key(vector) or "-" for vector in written.values()) == ["-", key_id]
    assert {row.vectors["letters"] for row in await store.rows(live, MODELS)} == {VECTOR}
    assert [dict(row.vectors) for row in await blind.rows(live, MODELS) if row.question is None] == [{}]
    for opened in (store, blind, foreign):
        await opened.close()


@pytest.mark.slow
async def test_a_destroyed_key_opens_nothing_once_it_is_forgotten(rows: Rows, url: str) -> None:
    await put_sealed(rows, "canary")
    store = RowStore.open(url, masters=MASTERS)
    assert await texts(store) == ["canary"]
    await DataKeyRepository(rows.database).destroy(rows.tenant_id, "test", 2000.0)
    store.forget_keys()
    assert await texts(store) == [None]
    await store.close()
