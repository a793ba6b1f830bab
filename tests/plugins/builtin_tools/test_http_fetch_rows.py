"""Every row of the two collections of attacks on fetching tools, through the real loop."""

from __future__ import annotations

import asyncio
import re
import time
import tracemalloc
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from calling import rows_of
from fetching import Fetcher, is_failure
from web_server import DATA, PUBLIC, Page, Seen, Web, page, redirect

from kestrel_nb.sandbox.addresses import refusal
from kestrel_nb.sandbox.urls import parse_url

ROWS, EXCLUDED = rows_of("ssrf")
PARSED, PARSED_EXCLUDED = rows_of("ssrf-url-parse")
HOP = re.compile(r" -(\d{3})-> ")


async def endless_body(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    for _count in range(16_384):  # one gigabyte
        writer.write(b"x" * 65_536)
        await writer.drain()


async def slow_body(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b"x")
        await asyncio.sleep(10)


async def many_headers(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Header: y\r\n" * 800_000)
    await writer.drain()


SERVERS: dict[str, Page] = {
    "endless body 1 GB": endless_body,
    "1 byte per 10 s": slow_body,
    "10 MB of headers": many_headers,
}
CONFIG = {"allowPrivateNetwork": "allow_private_network"}


def pages_of(row: dict[str, Any]) -> tuple[str, dict[str, Page]]:
    """The first address of a row and what the servers on the way answer."""
    given = row["input"]
    if "chain" not in given:
        url, last = given["url"], SERVERS.get(given.get("server"), page("here"))
        return url, {place(url): last} if row["expect"].get("outcome") != "error_object" or "server" in given else {}
    parts = HOP.split(given["chain"][0])
    urls, statuses = parts[::2], parts[1::2]
    pages: dict[str, Page] = {}
    for url, status, to in zip(urls, statuses, urls[1:], strict=False):
        pages[place(url)] = redirect(to, f"{status} X")
    last = urls[-1] if "://" in urls[-1] else urls[-2].rstrip("/") + urls[-1]
    if last.startswith("http") and place(last) not in pages:
        pages[place(last)] = page("here")
    if urls == ["http://a.test/", "https://a.test/"]:
        pages[place(last)] = upgrade  # the same place with and without TLS
    return urls[0], pages


async def upgrade(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(page("here") if seen.tls else redirect("https://a.test/"))


def place(url: str) -> str:
    parsed = parse_url(url)
    return f"{parsed.host}{parsed.target}"


def arguments_of(row: dict[str, Any], url: str) -> dict[str, Any]:
    given = row["input"]
    return {"url": url} | {name: given[name] for name in ("headers", "method", "timeout") if name in given}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
async def test_a_row_of_ssrf(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "authority.pem"))
    url, pages = pages_of(row)
    proxied: list[Any] = []
    proxy = await asyncio.start_server(lambda _, writer: (proxied.append(1), writer.close()), "127.0.0.1", 0)
    for name, value in row["input"].get("env", {}).items():
        (tmp_path / "netrc").write_text("machine example.com login me password S\n")
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv(name, str(tmp_path / "netrc") if name == "NETRC" else value.replace("PORT", str(port)))
    config = {CONFIG[name]: value for name, value in row["input"].get("config", {}).items()}
    async with Web(pages, dns=dict(row["input"].get("dns", {}))) as web:
        fetch = Fetcher(web, **config)
        tracemalloc.start()
        began = time.monotonic()
        data = await fetch(**arguments_of(row, url))
        elapsed, peak = time.monotonic() - began, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    proxy.close()
    await proxy.wait_closed()
    assert proxied == []
    check_row(row, data, web, fetch)
    assert elapsed < 5 + float(str(row["expect"].get("elapsed_s", 15)).removeprefix("<="))
    assert peak < 32 * 2**20


def check_row(row: dict[str, Any], data: Any, web: Web, fetch: Fetcher) -> None:
    expect = row["expect"]
    only_error = expect.get("outcome") == "error_object"
    assert is_failure(data) == only_error, data
    assert len(fetch.asked) == 1
    if not only_error:
        assert data["status"] == expect.get("status", 200)
    if expect.get("no_connect") or (only_error and not web.pages):
        assert web.dialled == []
    for address, _ in web.dialled:
        assert refusal(address) is None
    if "ips" in expect:
        assert [address for address, _ in web.dialled] == expect["ips"]
        assert len(web.lookups) == expect["resolutions"]
    if "hits" in expect:
        assert len(web.seen) == 2 + expect["hits"]
    if "truncated" in expect:
        assert data["truncated"] is True
        assert len(data["body"]) == 1_000_000
    for name in expect.get("header_absent_on_b", ()):
        assert name in web.seen[0].headers
        assert name not in web.seen[1].headers
    for name in expect.get("header_absent", ()):
        assert name not in web.seen[0].headers


@pytest.mark.parametrize("row", PARSED, ids=lambda row: row["id"])
async def test_a_row_of_ssrf_url_parse(row: dict[str, Any]) -> None:
    async with Web() as web:
        data = await Fetcher(web)(url=row["input"]["url"])
    expect = row["expect"]
    failed = is_failure(data)
    if expect["outcome"] == "error_object":
        assert failed
    for address, _ in web.dialled:
        assert refusal(address) is None
        assert address == PUBLIC or ip_address(address) == ip_address(expect["no_connect_other_than"])
    if expect.get("whatwg") == "failure":
        assert failed, "no browser takes this address"


@pytest.mark.parametrize(
    ("theme", "rows", "excluded"), [("ssrf", ROWS, EXCLUDED), ("ssrf-url-parse", PARSED, PARSED_EXCLUDED)]
)
def test_every_row_runs_or_is_excluded(theme: str, rows: list[Any], excluded: dict[str, str]) -> None:
    lines = (DATA.parent / theme / "rows.jsonl").read_text("utf-8").splitlines()
    assert len(lines) > 70
    assert len({row["id"] for row in rows} | set(excluded)) == len(lines)
