"""Reading addresses: one meaning, which is what is shown and dialled, or an error."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.sandbox.network_error import NetworkError
from kestrel_nb.sandbox.urls import BAD_PORTS, MAX_URL_CHARS, follow, parse_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://EXAMPLE.com:443/A?b=c#d", "https://example.com/A?b=c"),
        ("  http://example.com:8080/\n", "http://example.com:8080/"),
        ("http://example.com?x=1/2", "http://example.com/?x=1/2"),
        ("http://example.com./", "http://example.com/"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com/a b/ä%20?q=ö ü", "http://example.com/a%20b/%C3%A4%20?q=%C3%B6%20%C3%BC"),
        ("http://example.com/<script>'\"", "http://example.com/%3Cscript%3E'%22"),
        ("http://example.com/?u=http://127.0.0.1/#@x", "http://example.com/?u=http://127.0.0.1/"),
        ("http://example.com/?a[]=1|2", "http://example.com/?a[]=1|2"),
        ("http://müller.example/", "http://xn--mller-kva.example/"),
        ("http://例え.jp", "http://xn--r8jz45g.jp/"),
        ("http://ⓔⓧⓐⓜⓟⓛⓔ.ⓒⓞⓜ/", "http://example.com/"),
        ("http://ｅｘａｍｐｌｅ．ｃｏｍ/", "http://example.com/"),
        ("http://example。com/", "http://example.com/"),
        ("http://%65xample.com/", "http://example.com/"),
        ("http://a_b.example.com/", "http://a_b.example.com/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://0177.0.0.01", "http://127.0.0.1/"),
        ("http://0x.0x.0x.0x", "http://0.0.0.0/"),
        ("http://１２７.０.０.１/", "http://127.0.0.1/"),
        ("http://0x08080808/", "http://8.8.8.8/"),
        ("http://[::FFFF:127.0.0.1]:8000/x", "http://[::ffff:7f00:1]:8000/x"),
        ("http://[0:0::1]/", "http://[::1]/"),
    ],
)
def test_an_address_has_one_form(text: str, shown: str) -> None:
    url = parse_url(text)
    assert str(url) in (shown, shown.replace("::ffff:7f00:1", "::ffff:127.0.0.1"))
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "example.com",
            "//example.com/",
            "/path",
            "http:",
            "http:/example.com",
            "http:example.com",
            "http://",
        ),
        *(
            "http:///example.com",
            "http://?x",
            "http://#",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "ftp://a.example/",
        ),
        *(
            "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
            "view-source:http://example.com",
            "data:text/plain,x",
            "blob:http://a/",
        ),
        *("http://user@example.com/", "http://user:word@example.com/", "http://@example.com", "http://a@b@c/"),
        *(
            "http://example.com\\@evil.example/",
            "http:\\\\example.com",
            "http://example.com/a\\b",
            "http://127.0.0.1\\.example.com/",
        ),
        *(
            "http://exa\tmple.com/",
            "http://example.com/a\nb",
            "http://example.com/\0",
            "http://example.com/\x7f",
            "http://a b.com/",
        ),
        *("http://\ud800.com/", "http://example.com/\udfff", "http://exa%00mple.com/", "http://a%20b/", "http://%zz/"),
        *(
            "http://a%2fb/",
            "http://a%40b/",
            "http://a%3a80/",
            "http://%C2%AD/",
            "http://\u00ad/",
            "http://a..b/",
            "http://.a/",
        ),
        *(
            "http://-a.example/",
            "http://a-.example/",
            "http://💩.example/",
            "http://a\u200d.example/",
            "http://" + "a" * 64 + ".example/",
        ),
        *(
            "http://" + "a." * 200 + "example/",
            "http://" + "ä" * 5000 + ".example/",
            "http://example.com/" + "a" * 100_000,
        ),
        *("http://example.com:0/", "http://example.com:65536/", "http://example.com:-1/", "http://example.com:８０/"),
        *("http://example.com:80x/", "http://example.com:1e3/", "http://a:80:90/", "http://example.com:000080/"),
        *(
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://1.2.3.08/",
            "http://0x100000000/",
            "http://0o177.0.0.1/",
            "http://1..1/",
        ),
        *("http://foo.0x4/", "http://" + "9" * 6000 + "/", "http://0x" + "f" * 6000 + "/", "http://1.2.3.4x5.6/"),
        *(
            "http://[::1",
            "http://::1/",
            "http://[::1]x/",
            "http://[::1%25lo]/",
            "http://[::1%lo]/",
            "http://[1.2.3.4]/",
            "http://[]/",
        ),
        *(
            "http://[::1]]/",
            "http://[[::1]]/",
            "http://[v1.x]/",
            "http://[0:1.23.23]/",
            "http://xn--\u00e4/",
            "http://a%/",
        ),
    ],
)
def test_an_odd_address_is_an_error_with_advice(text: str) -> None:
    with pytest.raises(NetworkError) as caught:
        parse_url(text)
    message = str(caught.value)
    assert caught.value.code == "invalid_url"
    assert len(message) < 400
    assert message.isprintable()
    message.encode()


@pytest.mark.parametrize("port", sorted(BAD_PORTS))
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    with pytest.raises(NetworkError) as caught:
        parse_url(f"http://example.com:{port}/")
    assert caught.value.code == "network_refused"


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/x", "https://a.example/x"),
        ("y?z", "https://a.example/dir/y?z"),
        ("../up", "https://a.example/up"),
        ("?q=1", "https://a.example/dir/file?q=1"),
        ("//b.example/", "https://b.example/"),
        ("http://b.example", "http://b.example/"),
        ("#part", "https://a.example/dir/file"),
        ("/ä b", "https://a.example/%C3%A4%20b"),
    ],
)
def test_a_redirect_may_be_relative(location: str, leads_to: str) -> None:
    assert str(follow(parse_url("https://a.example/dir/file"), location)) == leads_to


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://a/",
        "http:",
        "http://",
        "https:/x",
        "http:x",
        "http://[",
        "http://[x/",
        "//[::1",
        "\\\\evil.example\\",
        "http:\\\\b",
        "//u@b/",
        "/a\0",
        "x" * 9_000,
    ],
)
def test_a_redirect_to_something_else_is_an_error(location: str) -> None:
    with pytest.raises(NetworkError):
        follow(parse_url("https://a.example/"), location)


@given(st.one_of(st.text(), st.text().map("http://".__add__), st.from_regex(r"https?://[\[\]:@%.0-9a-fx\\/?#]{0,30}")))
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        url = parse_url(text)
    except NetworkError:
        return
    assert parse_url(str(url)) == url
    assert str(url).isascii()
    assert str(url).isprintable()
    assert len(text) <= MAX_URL_CHARS
    assert not set(url.host) & set("/?#@\\% \t\r\n")


@given(st.text())
def test_any_location_is_followed_or_an_error(location: str) -> None:
    with suppress(NetworkError):
        assert str(follow(parse_url("https://a.example/x"), location)).startswith(("http://", "https://"))
