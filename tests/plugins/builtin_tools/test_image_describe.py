"""image-describe: the exact bytes go to a model that sees images, and to no other."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from calling import assert_json_safe, is_failure
from site_server import Answer, Site
from stage import Stage, results

from kestrel_nb.plugins.builtin_tools.image_describe import DEFAULT_PROMPT, ImageDescribe
from kestrel_nb.plugins.builtin_tools.images import MAX_IMAGE_BYTES
from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import ImagePart, TextPart
from kestrel_nb.protocol.sessions import ApprovalDecision, ModelInfo
from kestrel_nb.runtime.models import ModelRegistry
from kestrel_nb.runtime.tools import missing
from kestrel_nb.runtime.validation import check_schema
from kestrel_nb.sandbox.network import Network
from kestrel_nb.testing import Reply, ScriptedModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256))
GIF = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
WEBP = b"RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00"
IMAGES = {"image/png": PNG, "image/jpeg": JPEG, "image/gif": GIF, "image/webp": WEBP}


class Blind(ScriptedModel):
    """A model that sees no images, or does not say."""

    sees: bool | None = False

    @property
    def info(self) -> ModelInfo:
        return replace(super().info, supports_images=self.sees)


def eye(*replies: Any, id: str = "eye") -> ScriptedModel:
    return ScriptedModel(list(replies) or ["A dot."], id=id)


def tool_with(*models: ScriptedModel, network: Network | None = None, default: str | None = None) -> ImageDescribe:
    registry = ModelRegistry(default_model=default)
    for model in models:
        registry.register(model)
    return ImageDescribe(registry, network or Network())


async def call(tool: ImageDescribe, **arguments: Any) -> Any:
    """The data of one call from a person's code, which counts as approved."""
    stage = Stage(ScriptedModel([]), [tool])
    outcome = await stage.session.use_tool(parse_call("c1", "image-describe", json.dumps(arguments)))
    assert outcome.state == "executed", outcome.content
    assert_json_safe(outcome.data)
    assert outcome.is_error == (outcome.data.get("error") is True)
    assert json.loads(outcome.content) == outcome.data
    return outcome.data


def uri(data: bytes, type: str = "image/png") -> str:
    return f"data:{type};base64,{base64.b64encode(data).decode()}"


def seen(model: ScriptedModel) -> tuple[str, str, bytes]:
    """The prompt, the type and the bytes that the model was given, and nothing else."""
    (request,) = model.requests
    assert request.tools == ()
    assert request.model == model.info.id
    (message,) = request.messages
    text, image = message.parts
    assert isinstance(text, TextPart)
    assert isinstance(image, ImagePart)
    return text.text, image.media_type, base64.b64decode(image.data or "")


# ---- images in the arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", IMAGES)
async def test_an_image_in_the_arguments(type: str) -> None:
    model = eye("A dot.")
    url = uri(IMAGES[type], type)
    data = await call(tool_with(model), url=url, prompt="What colour?")
    assert data["description"] == "A dot."
    assert set(data) == {"description", "url"}
    assert seen(model) == ("What colour?", type, IMAGES[type])


async def test_a_long_data_uri_is_cut_in_the_result_and_a_short_one_is_not() -> None:
    data = await call(tool_with(eye()), url=uri(JPEG * 40))
    assert data["url"] == f"{uri(JPEG * 40)[:60]}... ({len(uri(JPEG * 40)):,} characters)"
    assert (await call(tool_with(eye()), url=uri(GIF)))["url"] == uri(GIF)


@pytest.mark.parametrize(
    "url",
    [
        uri(PNG, "image/jpeg"),  # what it is decides, not what it says
        uri(PNG, "image/PNG").replace("data:", "DATA:").replace(";base64", ";BASE64"),
        uri(PNG, "image/png;charset=utf-8;name=a.png"),
        "data:image/png;base64," + quote(base64.b64encode(PNG).decode(), safe=""),
        "data:image/png;base64," + base64.encodebytes(PNG * 9).decode(),  # in lines, as a notebook holds it
        "data:image/png;base64," + quote(base64.encodebytes(PNG * 9).decode()),
        uri(PNG).rstrip("="),
        f"\n {uri(PNG)} ",
        uri(PNG).replace(";base64,", " ; base64 , "),
        uri(PNG, 'image/png;name="a;b,c.png"'),
    ],
)
async def test_data_uris_of_every_spelling(url: str) -> None:
    model = eye()
    assert "description" in await call(tool_with(model), url=url)
    prompt, type, data = seen(model)
    assert (prompt, type) == (DEFAULT_PROMPT, "image/png")
    assert data in (PNG, PNG * 9)


SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='x()'/>"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("data:", "no valid data URI"),
        ("data:image/png", "no valid data URI"),
        ("data:image/png;base64", "no valid data URI"),
        ("data:image/png,abc", "must hold base64"),
        ("data:,x", "must hold base64"),
        ("data:;base64,AAAA", "is text/plain and no image"),
        (uri(PNG, "text/html"), "is text/html and no image"),
        (uri(PNG, "application/octet-stream"), "no image"),
        ("data:image/png;base64,", "is empty"),
        ("data:image/png;base64,AAAAA", "no valid base64"),
        ("data:image/png;base64,AA=A", "no valid base64"),
        ("data:image/png;base64,AA AA", "of another kind"),
        ("data:image/png;base64,é", "no valid base64"),
        ("data:image/png;base64,iVBORw0-", "no valid base64"),
        ("data:image/png;base64,http://example.com/", "no valid base64"),
        ("data://example.com/x.png;base64,AAAA", "no valid data URI"),
        (uri(SVG, "image/svg+xml"), "its bytes are SVG"),
        (uri(b"<!DOCTYPE html><img>", "image/png"), "its bytes are an HTML page"),
        (uri(b"\xef\xbb\xbf <?xml?> <svg/>", "image/png"), "SVG"),
        (uri(b"BM" + b"\0" * 60, "image/bmp"), "of another kind"),
        (uri(b"\x89PNG\r\n\x1a", "image/png"), "of another kind"),
    ],
    ids=lambda text: text[:40],
)
async def test_what_is_no_image_is_refused(url: str, says: str) -> None:
    model = eye()
    data = await call(tool_with(model), url=url)
    assert is_failure(data)
    assert says in data["message"]
    assert model.requests == []


async def test_a_data_uri_that_is_too_large_is_not_even_decoded() -> None:
    model = eye()
    stage = Stage(ScriptedModel([]), [tool_with(model)])
    url = "data:image/png;base64," + "A" * (MAX_IMAGE_BYTES * 4 // 3 + 100)
    outcome = await stage.session.use_tool(parse_call("c1", "image-describe", json.dumps({"url": url})))
    assert is_failure(outcome.data)
    assert "larger than 20.0 MB" in outcome.content
    assert model.requests == []


# ---- images elsewhere -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["image/png", "text/html", None])
async def test_a_remote_image(type: str | None) -> None:
    model = eye()
    async with Site() as site:
        site.page("/a.png", PNG, type)
        url = "http://example.com/a.png"
        data = await call(tool_with(model, network=site.network()), url=url, prompt=" ")
    assert data == {"description": "A dot.", "url": url}
    assert seen(model) == (DEFAULT_PROMPT, "image/png", PNG)
    assert site.asked[0].headers["accept"].startswith("image/")


async def test_remote_addresses_are_judged_at_every_hop() -> None:
    model = eye()
    async with Site() as site:
        site.page("/a.png", PNG, "image/png")
        locations = ("http://router.internal/a.png", "file:///a.png", uri(PNG))
        for number, location in enumerate(locations):
            site.answers[f"/{number}"] = Answer(status="302 Found", headers={"Location": location})
        urls = [f"http://example.com/{number}" for number in range(3)]
        urls += ["http://127.0.0.1/a.png", "http://[::1]/a.png", "http://169.254.169.254/", "file:///a.png", "a.png"]
        tool = tool_with(model, network=site.network())
        for url in urls:
            assert is_failure(await call(tool, url=url)), url
    assert sorted(asked.line for asked in site.asked) == ["GET /0", "GET /1", "GET /2"]
    assert model.requests == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(PNG, "404 Not Found"), "answered 404 Not Found"),
        (Answer(b"", "204 No Content"), "answered 204"),
        (Answer(b""), "is empty"),
        (Answer(SVG, headers={"Content-Type": "image/png"}), "its bytes are SVG"),
        (Answer("<html><body>log in</body></html>"), "its bytes are an HTML page"),
        (Answer('{"error": 1}'), "its bytes are text"),
        (Answer(PNG + b"\0" * MAX_IMAGE_BYTES, length=False), "larger than 20.0 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_answer_that_is_no_image(answer: Answer, says: str) -> None:
    model = eye()
    async with Site() as site:
        site.answers["/x"] = answer
        data = await call(tool_with(model, network=site.network()), url="http://example.com/x")
    assert is_failure(data)
    assert says in data["message"]
    assert model.requests == []


# ---- models -----------------------------------------------------------------------------------------------------


async def test_the_default_model_describes_if_it_sees_else_the_first_that_does() -> None:
    for default, expected in (("b", "b"), ("blind", "a"), (None, "a"), ("no-such-model", "a")):
        models = [Blind(["?"], id="blind"), eye(id="b"), eye(id="a")]
        await call(tool_with(*models, default=default), url=uri(PNG))
        assert [model.info.id for model in models if model.requests] == [expected]


@pytest.mark.parametrize("sees", [False, None])
async def test_without_a_model_that_sees_it_says_what_to_do(sees: bool | None) -> None:
    model = Blind(["?"])
    model.sees = sees
    for tool in (tool_with(model), tool_with()):
        data = await call(tool, url=uri(PNG))
        assert is_failure(data)
        assert "supports_images=True" in data["message"]
        assert "no registered model sees images" in (missing(tool) or "")
    assert model.requests == []
    assert missing(tool_with(eye())) is None


@pytest.mark.parametrize(
    "reply",
    [
        Reply(error=ModelRequestError("quota exceeded", status=429, retryable=True)),
        Reply(error=RuntimeError("")),
        Reply("half", error_after=1),
        Reply(""),
        Reply("  \n"),
    ],
)
async def test_a_model_that_fails_is_an_error_object(reply: Reply) -> None:
    data = await call(tool_with(eye(reply)), url=uri(PNG))
    assert is_failure(data)
    assert "eye" in data["message"]


# ---- permission, preview, cancelling ----------------------------------------------------------------------------


async def test_a_remote_image_asks_and_shows_the_request_and_one_in_the_arguments_runs() -> None:
    async with Site() as site:
        site.page("/a.png", PNG, "image/png")
        urls = [uri(PNG), "http://EXAMPLE.com:80/a.png"]
        tool = tool_with(eye("one", "two"), network=site.network())
        model = ScriptedModel([Reply(tool_calls=[("image-describe", {"url": url}) for url in urls]), "done"])
        stage = Stage(model, [tool])
        run = stage.session.start("go")
        question = await stage.question()
        assert question.preview is not None
        assert (question.preview.kind, question.preview.url) == ("request", "http://example.com/a.png")  # type: ignore[union-attr]
        assert site.asked == []
        stage.manager.approvals.resolve(question.id, ApprovalDecision(approved=True))
        await run
    assert [json.loads(text)["description"] for text in results(stage.session.messages)] == ["one", "two"]
    assert len(stage.of("approval.requested")) == 1
    stage.check()


def test_the_preview_of_an_image_in_the_arguments() -> None:
    shown = tool_with(eye()).preview({"url": uri(PNG), "prompt": "why?"}, None)  # type: ignore[arg-type]
    assert shown.kind == "text"
    assert shown.text == f"image/png, {len(PNG)} B\nwhy?"  # type: ignore[union-attr]


@pytest.mark.parametrize("place", ["download", "model"])
async def test_it_is_cancelled_within_a_second(place: str) -> None:
    arrived, forever = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        arrived.set()
        await forever.wait()

    async with Site() as site:
        site.answers["/a.png"] = Answer(PNG, before=wait if place == "download" else None)
        tool = tool_with(eye(Reply("x", before=wait)), network=site.network())
        reply = Reply(tool_calls=[("image-describe", {"url": "http://example.com/a.png"})])
        stage = Stage(ScriptedModel([reply, "done"]), [tool])
        run = stage.session.start("go")
        question = await stage.question()
        stage.manager.approvals.resolve(question.id, ApprovalDecision(approved=True))
        await arrived.wait()
        began = time.monotonic()
        stage.session.cancel()
        assert (await run).status == "cancelled"
        assert time.monotonic() - began < 1.5
        forever.set()
    stage.check()


@pytest.mark.parametrize("args", [{}, {"url": ""}, {"url": uri(PNG), "prompt": 7}, {"url": uri(PNG), "size": 1}])
async def test_bad_arguments(args: dict[str, Any]) -> None:
    tool = tool_with(eye())
    check_schema(tool.schema.parameters)
    stage = Stage(ScriptedModel([]), [tool])
    outcome = await stage.session.use_tool(parse_call("c1", "image-describe", json.dumps(args)))
    assert outcome.content.startswith("Invalid arguments")
