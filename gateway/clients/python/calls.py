"""One call of the API: credentials, one idempotency key, retries with the same bytes, typed errors, and lists."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast
from urllib.parse import quote

import httpx
from httpx_retries import Retry

Page = TypeVar("Page")
Item = TypeVar("Item")
Credential = str | Callable[[bool], str]
AsyncCredential = str | Callable[[bool], str | Awaitable[str]]


@dataclass(frozen=True)
class Operation:
    """What the generated methods say of an operation."""

    method: str
    path: str
    by: Literal["key", "token", "none"]
    body: str | None = None
    answer: Literal["data", "json", "response"] = "data"
    takes_key: bool = False
    repeatable: bool = False
    paging: tuple[str, str] | None = None


class LedgerError(Exception):
    """A call that failed. `status` 0: there was no answer."""

    def __init__(self, message: str, status: int = 0, code: str = "no_answer", **more: Any) -> None:
        super().__init__(message)
        self.status = status
        #: The API's code. `no_answer`: none came; `bad_answer`: it was not the API's; `no_credential`: none was given.
        self.code = code
        self.request_id: str | None = more.get("request_id")
        #: The first wrong field, and all of them.
        self.details: dict[str, Any] | None = more.get("details")
        self.errors: list[dict[str, Any]] = more.get("errors") or []
        #: Sent again with this key, the request is done once.
        self.idempotency_key: str | None = more.get("idempotency_key")
        #: Whether the request may have been done although it failed.
        self.is_outcome_unknown: bool = more.get("is_outcome_unknown", False)

    def __str__(self) -> str:
        wrong = [each["message"] for each in self.errors if "message" in each]
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{self.code}: {'; '.join([str(self.args[0]), *wrong])}{request}"


def request_of(
    client: httpx.Client | httpx.AsyncClient,
    operation: Operation,
    parameters: list[str],
    body: Any,
    query: Mapping[str, Any],
    idempotency_key: str | None,
    timeout: float | None,
    retries: int,
    read: Callable[[httpx.Response], Any],
) -> httpx.Request:
    """The request, with the same bytes on each attempt."""
    # A path with dots would be another route's.
    if wrong := {"", ".", ".."}.intersection(parameters):
        raise ValueError(f"a parameter of the path is {wrong.pop()!r}")
    values = iter(parameters)
    path = "/".join(quote(next(values), safe="") if part.startswith("{") else part for part in operation.path.split("/"))
    sent = body.to_dict() if hasattr(body, "to_dict") else body
    given = {name: value for name, value in query.items() if value is not None}
    headers = {}
    key = sent.get("idempotency_key") if operation.takes_key and isinstance(sent, Mapping) else None
    if operation.takes_key and not key and not given.get("dry_run"):
        key = headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    more: dict[str, Any] = {} if timeout is None else {"timeout": timeout_of(timeout)}
    if body is not None:
        more["json" if operation.body == "application/json" else "content"] = sent
        headers["Content-Type"] = operation.body or ""
    return client.build_request(
        operation.method,
        path,
        params={name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()},
        headers=headers,
        **more,
        extensions={
            "idempotency_key": key,
            "retry": Retry(
                total=retries if operation.repeatable else 0,
                allowed_methods=[operation.method],
                status_forcelist=[408, 429, 500, 502, 503, 504],
                backoff_factor=0.1,
                backoff_jitter=0.5,
                max_backoff_wait=30,
                # An answer that breaks off is no answer.
                validate_response=None if wants_response(operation, given) else read,
            )
        },
    )


def timeout_of(seconds: float) -> httpx.Timeout:
    """Of each attempt; waiting for one of 100 connections is none."""
    return httpx.Timeout(seconds, pool=None)


def wants_response(operation: Operation, query: Mapping[str, Any]) -> bool:
    """Whether the caller reads the answer: a file or text, for as long as it takes."""
    return operation.answer == "response" or query.get("format") not in (None, "json")


def no_answer(request: httpx.Request, error: Exception) -> LedgerError:
    """The error of a request that got none."""
    return LedgerError(f"no answer: {error}", idempotency_key=key_of(request), is_outcome_unknown=request.method != "GET")


def key_of(request: httpx.Request) -> str | None:
    found: str | None = request.extensions.get("idempotency_key")
    return found


def data_of(operation: Operation, response: httpx.Response, parse: Any, parse_tried: Any) -> Any:
    """What a whole answer holds. Raises LedgerError for an error."""
    try:
        json = response.json()
    except ValueError:
        json = None
    unknown = response.request.method != "GET"
    if not response.is_success:
        problem = json if isinstance(json, dict) else {}
        raise LedgerError(
            problem.get("error", f"the server answered {response.status_code}"),
            response.status_code,
            problem.get("code", "bad_answer"),
            request_id=problem.get("request_id"),
            details=problem.get("details"),
            errors=problem.get("errors"),
            idempotency_key=key_of(response.request),
            is_outcome_unknown=unknown and response.status_code >= 500,
        )
    if not isinstance(json, dict):
        more: dict[str, Any] = {"idempotency_key": key_of(response.request), "is_outcome_unknown": unknown}
        raise LedgerError("the answer is no JSON", response.status_code, "bad_answer", **more)
    if operation.answer == "json":
        return parse(json) if parse else json
    chosen = parse_tried if json.get("dry_run") and parse_tried else parse
    return chosen(json["data"]) if chosen else json["data"]


class _Lists(Generic[Page, Item]):
    def __init__(self, paging: tuple[str, str]) -> None:
        self._by, self._items = paging

    def _items_of(self, page: Page) -> list[Item]:
        found: Any = page
        for name in self._items.split("."):
            found = getattr(found, name)
        return cast("list[Item]", found)

    def _after(self, page: Any) -> dict[str, Any] | None:
        if not page.pagination.has_more:
            return None
        items: list[Any] = self._items_of(page)
        if self._by == "offset":
            return {"offset": page.pagination.offset + len(items)}
        if self._by == "after_sequence":
            return {"after_sequence": items[-1].sequence}
        return {"cursor": page.pagination.next_cursor}


class Listing(_Lists[Page, Item]):
    """A list: iterated, it is every item, page by page; `page()` is one page."""

    def __init__(self, paging: tuple[str, str], read: Callable[[dict[str, Any]], Page]) -> None:
        super().__init__(paging)
        self._read = read

    def page(self) -> Page:
        """The first page, or the one that the call asks for."""
        return self._read({})

    def pages(self) -> Iterator[Page]:
        """Every page from the first on."""
        position: dict[str, Any] | None = {}
        while position is not None:
            page = self._read(position)
            yield page
            position = self._after(page)

    def __iter__(self) -> Iterator[Item]:
        for page in self.pages():
            yield from self._items_of(page)


class AsyncListing(_Lists[Page, Item]):
    """The same to `await` and for `async for`."""

    def __init__(self, paging: tuple[str, str], read: Callable[[dict[str, Any]], Awaitable[Page]]) -> None:
        super().__init__(paging)
        self._read = read

    async def page(self) -> Page:
        """The first page, or the one that the call asks for."""
        return await self._read({})

    async def pages(self) -> AsyncIterator[Page]:
        """Every page from the first on."""
        position: dict[str, Any] | None = {}
        while position is not None:
            page = await self._read(position)
            yield page
            position = self._after(page)

    async def __aiter__(self) -> AsyncIterator[Item]:
        async for page in self.pages():
            for item in self._items_of(page):
                yield item
