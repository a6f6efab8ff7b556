"""Ask search engines: one request each, over the guarded client, and read their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from amplifier_kit.guard.network import Target, parse_url
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_web.call import Failure
from amplifier_module_tool_web.client import Client
from amplifier_module_tool_web.text import decode, media_type, plain_text

#: Where requests go; tests have servers of their own.
URLS: Final = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
    "duckduckgo": "https://html.duckduckgo.com/html/",
}
_LONGEST_ANSWER: Final = 4 * 1024 * 1024
#: The most results that the key-based services accept to be asked for.
_MOST_RESULTS: Final = 20
_CHALLENGE: Final = (
    "it wants a person to prove that they are one. Next: try again later, or use an engine with a key: "
    "`amplifier keys set BRAVE_API_KEY` or `amplifier keys set TAVILY_API_KEY`"
)


class _Answer(NamedTuple):
    engine: str
    status: int
    content_type: str
    text: str


async def search(client: Client, engine: str, key: str, query: str, max_results: int) -> list[dict[str, str]]:
    """Return what an engine found, at most `max_results`; raise Failure when it answers with anything else."""
    most = min(max_results, _MOST_RESULTS)
    if engine == "brave":
        url = f"{URLS[engine]}?{urlencode({'q': query, 'count': most})}"
        headers = {"X-Subscription-Token": key, "Accept": "application/json"}
        found = _from_json(await _ask(client, engine, url, headers=headers), "description", "web", "results")
    elif engine == "tavily":
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        body = {"query": query, "max_results": most}
        found = _from_json(await _ask(client, engine, URLS[engine], "POST", headers, body), "content", "results")
    else:
        found = _from_page(await _ask(client, engine, f"{URLS[engine]}?{urlencode({'q': query})}"))
    return found[:max_results]


async def _ask(
    client: Client,
    engine: str,
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: Any = None,
) -> _Answer:
    target = parse_url(url)
    data = bytearray()
    async with client.send(target, method, headers, body) as response:
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > _LONGEST_ANSWER:
                raise Failure("search_failed", f"{engine}: the answer is longer than {_LONGEST_ANSWER:,} bytes")
        content_type = response.headers.get("content-type", "")
        answer = _Answer(engine, response.status_code, content_type, decode(bytes(data), content_type))
        _check(answer, target, response.headers.get("retry-after", ""))
    return answer


def _check(answer: _Answer, target: Target, retry_after: str) -> None:
    engine, status = answer.engine, answer.status
    if _is_challenge(answer):
        raise Failure("search_challenge", f"{engine} does not answer: {_CHALLENGE}")
    if status == 200:
        return
    if status in (401, 402, 403):
        raise Failure(
            "search_refused", f"{engine} refused the request with {status}: check its key and plan", status=status
        )
    if status == 429:
        later = f" after {retry_after[:60]}" if retry_after else " later"
        raise Failure("search_limit", f"{engine}: too many searches: try again{later}", status=status)
    # The query is in the address: it stays out of the message.
    raise Failure("search_failed", f"{engine}: {target.host} answered {status}", status=status)


def _is_challenge(answer: _Answer) -> bool:
    """Return whether an answer asks for a person: a captcha instead of results."""
    if media_type(answer.content_type) != "text/html":
        return False
    page = answer.text.lower()
    marks = ("anomaly-modal", "challenge-form", "challenge-platform", "g-recaptcha", "h-captcha")
    return answer.status == 202 or any(mark in page for mark in marks)


def _from_json(answer: _Answer, snippet: str, *keys: str) -> list[dict[str, str]]:
    """Return the results that a JSON answer has below `keys`; without that place there are none."""
    try:
        found = json.loads(answer.text)
    except (ValueError, RecursionError):
        raise Failure("search_failed", f"{answer.engine}: the answer is not JSON") from None
    for key in keys:
        found = found.get(key, []) if isinstance(found, dict) else None
    if not isinstance(found, list):
        raise Failure("search_failed", f"{answer.engine}: the answer has no list of results")
    items = [item for item in found if isinstance(item, dict) and isinstance(item.get("url"), str)]
    return [
        {
            "title": plain_text(str(item.get("title") or "")),
            "url": item["url"],
            "snippet": plain_text(str(item.get(snippet) or "")),
        }
        for item in items
    ]


def _from_page(answer: _Answer) -> list[dict[str, str]]:
    """Return the results of DuckDuckGo's page for browsers without scripts; advertisements are left out."""
    from lxml import html

    data = answer.text.encode("utf-8", "replace")
    page = html.document_fromstring(data or b"<p></p>", parser=html.HTMLParser(encoding="utf-8"))
    found = []
    for block in page.find_class("result"):
        links = block.find_class("result__a")
        url = _target_of(links[0].get("href", "")) if links else ""
        if not url or "result--ad" in block.get("class", "").split():
            continue
        snippet = "".join(part.text_content() for part in block.find_class("result__snippet")[:1])
        found.append({"title": links[0].text_content(), "url": url, "snippet": snippet})
    if not found and not page.find_class("no-results") and not page.find_class("result--no-result"):
        raise Failure(
            "search_failed",
            f"{answer.engine}: the page has no results in the form that is known. Next: use an engine with a key",
        )
    return found


def _target_of(href: str) -> str:
    """Return where a result leads: the engine's links carry the address as a parameter."""
    try:
        parts = urlsplit(href)
    except ValueError:
        return ""
    if parts.path == "/l/" and (not parts.netloc or parts.netloc.endswith("duckduckgo.com")):
        return next(iter(parse_qs(parts.query).get("uddg", [])), "")
    return href if parts.scheme in ("http", "https") and not parts.netloc.endswith("duckduckgo.com") else ""
