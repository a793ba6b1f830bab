"""Fixtures for tests in a real browser: Chromium once, each server once, a page for each test."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from lab_page import NotebookPage, Open, chromium_flags, find_chromium, new_page
from lab_server import Server, running_server
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, headless."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium found: install chromium, or name one in the variable CHROMIUM")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=chromium_flags())
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab."""
    with running_server("lab", tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="session")
def notebook7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Notebook 7."""
    with running_server("notebook", tmp_path_factory.mktemp("notebook7")) as server:
        yield server


@pytest.fixture
def open_pages(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Write a notebook and open it: ``open_pages(server, cells)``. Pages and kernels end with the test."""
    shots = Path(os.environ.get("KESTREL_SCREENSHOTS") or tmp_path / "shots")
    pages: list[NotebookPage] = []

    def open_page(
        server: Server, cells: Sequence[str] | None, name: str | None = None, **options: bool
    ) -> NotebookPage:
        name = name or f"{request.node.name.split('[')[0]}.ipynb"
        if cells is not None:
            server.write_notebook(name, cells)
        pages.append(new_page(browser, server, name, shots, **options))
        return pages[-1].open()

    yield open_page
    for page in pages:
        page.page.context.close()
    for server in {id(page.server): page.server for page in pages}.values():
        server.end_kernels()
    for page in pages:
        assert page.strangers() == []


@pytest.fixture
def open_lab(open_pages: Open, lab: Server) -> Open:
    """``open_lab(cells)``: a notebook in JupyterLab."""
    return lambda cells, *args, **options: open_pages(lab, cells, *args, **options)
