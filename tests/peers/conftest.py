"""Model servers that others wrote, one of each kind for all tests. One that can't be started fails its tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peer_servers import PeerServer, aimock_command, llama_command, llmock_command

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "data" / "peers" / "aimock.json"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.peer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """What the servers printed stands below a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"output of {server.name}", server.tail()) for server in PeerServer.running]
    return report


@pytest.fixture(scope="session")
def llmock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerServer]:
    yield from _serving(PeerServer("llmock", llmock_command(), tmp_path_factory.mktemp("llmock"), ready="/health"))


@pytest.fixture(scope="session")
def small_llmock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerServer]:
    """An llmock whose models have a window of 2,000 tokens, and that answers 120 requests a minute."""
    command = llmock_command("--context-window", "2000", "--rpm", "120")
    folder = tmp_path_factory.mktemp("small-llmock")
    yield from _serving(PeerServer("small-llmock", command, folder, ready="/health"))


@pytest.fixture(scope="session")
def aimock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerServer]:
    """An aimock that cuts texts and arguments into pieces of three characters."""
    command = aimock_command(FIXTURES, "-c", "3")
    yield from _serving(PeerServer("aimock", command, tmp_path_factory.mktemp("aimock"), ready="/health"))


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerServer]:
    """llama.cpp's own server with a small model and a window of 1,024 tokens."""
    yield from _serving(PeerServer("llama", llama_command(1024), tmp_path_factory.mktemp("llama"), ready="/health"))


def _serving(server: PeerServer) -> Iterator[PeerServer]:
    try:
        yield server
    finally:
        server.end()
