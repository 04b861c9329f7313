"""The client of the ledger: `Ledger(url, tenant, key)` has a method for every operation, `AsyncLedger` the same to await."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
from httpx_retries import RetryTransport
from httpx_sse import EventSource, ServerSentEvent

from .calls import AsyncCredential, AsyncListing, Credential, LedgerError, Listing, Operation
from .calls import data_of, no_answer, request_of, timeout_of, wants_response
from .resources import AsyncResources, Resources

_STREAM = Operation("GET", "/v1/tenants/{slug}/events/stream", "key", answer="response")
_MINUTE = timedelta(minutes=1)


class _Bearer(httpx.Auth):
    """Sends a credential; after a 401 asks for another one, once."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        for expired in (False, True):
            value = self._credential(expired) if callable(self._credential) else self._credential
            request.headers["Authorization"] = f"Bearer {value}"
            response = yield request
            if response.status_code != 401 or not callable(self._credential):
                return

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        for expired in (False, True):
            value = self._credential(expired) if callable(self._credential) else self._credential
            request.headers["Authorization"] = f"Bearer {await value if inspect.isawaitable(value) else value}"
            response = yield request
            if response.status_code != 401 or not callable(self._credential):
                return


class _Shared:
    """What both clients have: options, the tenant, the access key of a login."""

    def __init__(self, url: str, tenant: str | None, key: Any, token: Any, scopes: list[str] | None, retries: int) -> None:
        self._url = url.rstrip("/")
        self._tenant = tenant
        self._token = token
        self._scopes = scopes
        self._retries = retries
        self._tenant_id: str | None = None
        self._access: tuple[str, datetime] | None = None
        self._key = key if key is not None else (self._access_key if token is not None else None)

    def _access_key(self, expired: bool) -> Any:
        raise NotImplementedError

    def _known_access(self, expired: bool) -> str | None:
        if expired:
            self._access = None
        return self._access[0] if self._access and self._access[1] - datetime.now(timezone.utc) > _MINUTE else None

    def _auth(self, operation: Operation) -> httpx.Auth | None:
        if operation.by == "none":
            return None
        credential = self._key if operation.by == "key" else self._token
        if credential is None:
            raise LedgerError(f"this call needs a {operation.by}", code="no_credential")
        return _Bearer(credential)

    def _slug(self) -> str:
        if self._tenant is None:
            raise ValueError("this call needs a ledger with a tenant")
        return self._tenant

    def _is_tenant(self, tenant: Any) -> bool:
        if tenant.slug == self._slug():
            self._tenant_id = tenant.id
        return self._tenant_id is not None

    def _no_member(self) -> LedgerError:
        return LedgerError(f"you are no member of {self._tenant}", 404, "tenant_not_found")


class Ledger(_Shared, Resources):
    """The API of one tenant, or without a tenant that of users.

    `key` is an API key, or a function `(expired) -> key`; `token` the JWT of a login for users, tenants, members and keys. With a token
    and without a key, an access key is got and renewed. `retries`: attempts after the first, of what may be repeated.
    """

    def __init__(
        self,
        url: str,
        tenant: str | None = None,
        key: Credential | None = None,
        token: Credential | None = None,
        *,
        scopes: list[str] | None = None,
        retries: int = 3,
        timeout: float = 15.0,
    ) -> None:
        super().__init__(url, tenant, key, token, scopes, retries)
        transport = RetryTransport(transport=httpx.HTTPTransport())
        self._client = httpx.Client(transport=transport, base_url=self._url, timeout=timeout_of(timeout))
        self._lock = threading.Lock()
        self._add_resources(self._call)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _call(self, operation: Operation, parameters: list[str], body: Any, query: dict[str, Any], **options: Any) -> Any:
        if operation.paging and query.get("format") in (None, "json"):
            return Listing(operation.paging, lambda at: self._send(operation, parameters, body, {**query, **at}, **options))
        return self._send(operation, parameters, body, query, **options)

    def _send(
        self,
        operation: Operation,
        parameters: list[str],
        body: Any,
        query: dict[str, Any],
        parse: Any = None,
        parse_tried: Any = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        first = [self._slug()] if "{slug}" in operation.path else [self._id_of_tenant()] if "{tenant_id}" in operation.path else []
        read = httpx.Response.read
        request = request_of(self._client, operation, first + parameters, body, query, idempotency_key, timeout, self._retries, read)
        try:
            response = self._client.send(request, auth=self._auth(operation), stream=True)
            if response.is_success and wants_response(operation, query):
                return response
            response.read()
        except httpx.TransportError as error:
            raise no_answer(request, error) from error
        return data_of(operation, response, parse, parse_tried)

    def _id_of_tenant(self) -> str:
        if self._tenant_id is None and not any(self._is_tenant(tenant) for tenant in self.tenants.list(limit=100)):
            raise self._no_member()
        return str(self._tenant_id)

    def _access_key(self, expired: bool) -> str:
        with self._lock:
            known = self._known_access(expired)
            if known:
                return known
            access = self.keys.access({"scopes": self._scopes}).access
            self._access = (access.key, access.expires_at)
            return access.key

    def listen(self, after: int = 0, types: list[str] | None = None) -> Iterator[StreamedEvent]:
        """Every event of the log once, in order, and then as it happens; also after breaks. Raises where the credential ends."""
        position = _Position(after)
        while True:
            try:
                request = request_of(self._client, _STREAM, [self._slug()], None, position.query(types), None, None, 0, lambda _: None)
                request.extensions["timeout"] = httpx.Timeout(15.0, read=45.0).as_dict()
                response = self._client.send(request, auth=self._auth(_STREAM), stream=True)
                try:
                    if not response.is_success:
                        response.read()
                        data_of(_STREAM, response, None, None)
                    for message in EventSource(response).iter_sse():
                        yield from position.take(message)
                finally:
                    response.close()
            except httpx.TransportError:
                pass
            except LedgerError as error:
                position.check(error)
            time.sleep(position.pause())


class AsyncLedger(_Shared, AsyncResources):
    """The same as Ledger, to await. `key` and `token` may be coroutine functions."""

    def __init__(
        self,
        url: str,
        tenant: str | None = None,
        key: AsyncCredential | None = None,
        token: AsyncCredential | None = None,
        *,
        scopes: list[str] | None = None,
        retries: int = 3,
        timeout: float = 15.0,
    ) -> None:
        super().__init__(url, tenant, key, token, scopes, retries)
        transport = RetryTransport(transport=httpx.AsyncHTTPTransport())
        self._client = httpx.AsyncClient(transport=transport, base_url=self._url, timeout=timeout_of(timeout))
        self._lock = asyncio.Lock()
        self._add_resources(self._call)

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    def _call(self, operation: Operation, parameters: list[str], body: Any, query: dict[str, Any], **options: Any) -> Any:
        if operation.paging and query.get("format") in (None, "json"):
            return AsyncListing(operation.paging, lambda at: self._send(operation, parameters, body, {**query, **at}, **options))
        return self._send(operation, parameters, body, query, **options)

    async def _send(
        self,
        operation: Operation,
        parameters: list[str],
        body: Any,
        query: dict[str, Any],
        parse: Any = None,
        parse_tried: Any = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        first = [self._slug()] if "{slug}" in operation.path else [await self._id_of_tenant()] if "{tenant_id}" in operation.path else []
        read = httpx.Response.aread
        request = request_of(self._client, operation, first + parameters, body, query, idempotency_key, timeout, self._retries, read)
        try:
            response = await self._client.send(request, auth=self._auth(operation), stream=True)
            if response.is_success and wants_response(operation, query):
                return response
            await response.aread()
        except httpx.TransportError as error:
            raise no_answer(request, error) from error
        return data_of(operation, response, parse, parse_tried)

    async def _id_of_tenant(self) -> str:
        if self._tenant_id is None:
            async for tenant in self.tenants.list(limit=100):
                if self._is_tenant(tenant):
                    break
            else:
                raise self._no_member()
        return str(self._tenant_id)

    async def _access_key(self, expired: bool) -> str:
        async with self._lock:
            known = self._known_access(expired)
            if known:
                return known
            access = (await self.keys.access({"scopes": self._scopes})).access
            self._access = (access.key, access.expires_at)
            return access.key

    async def listen(self, after: int = 0, types: list[str] | None = None) -> AsyncIterator[StreamedEvent]:
        """Every event of the log once, in order, and then as it happens; also after breaks. Raises where the credential ends."""
        position = _Position(after)
        while True:
            try:
                request = request_of(self._client, _STREAM, [self._slug()], None, position.query(types), None, None, 0, lambda _: None)
                request.extensions["timeout"] = httpx.Timeout(15.0, read=45.0).as_dict()
                response = await self._client.send(request, auth=self._auth(_STREAM), stream=True)
                try:
                    if not response.is_success:
                        await response.aread()
                        data_of(_STREAM, response, None, None)
                    async for message in EventSource(response).aiter_sse():
                        for event in position.take(message):
                            yield event
                finally:
                    await response.aclose()
            except httpx.TransportError:
                pass
            except LedgerError as error:
                position.check(error)
            await asyncio.sleep(position.pause())


@dataclass(frozen=True)
class StreamedEvent:
    """An event of the log, or one that is derived from it. `hash` is that of the event in the log."""

    id: str
    type: str
    sequence: int
    created: int
    data: dict[str, Any]
    hash: str


class _Position:
    """How far a stream was read, so that it goes on there."""

    def __init__(self, after: int) -> None:
        self.after = after
        # Messages of one sequence that came before a break: they come again.
        self.seen = 0
        self.skip = 0
        self.wait = 0.2

    def query(self, types: list[str] | None) -> dict[str, Any]:
        self.skip = self.seen
        return {"after_sequence": self.after, "types": ",".join(types) if types else None}

    def take(self, message: ServerSentEvent) -> list[StreamedEvent]:
        self.wait = 0.2
        json = message.json()
        # Also where the credential ended: opening again renews it, and refuses where it can't.
        if message.event == "end":
            raise LedgerError(json["message"])
        is_new = self.skip == 0
        self.skip = max(0, self.skip - 1)
        # The client of SSE repeats the last id where a message has none: a message has its own where that is its sequence.
        if message.id == str(json["sequence"]):
            self.after, self.seen = json["sequence"], 0
        else:
            self.seen += 1
        fields = {name: json[name] for name in ("id", "type", "sequence", "created", "data", "hash")}
        return [StreamedEvent(**fields)] if is_new else []

    def check(self, error: LedgerError) -> None:
        if error.status not in (0, 408, 429, 500, 502, 503, 504):
            raise error

    def pause(self) -> float:
        wait = self.wait * random.uniform(0.5, 1)
        self.wait = min(self.wait * 2, 10.0)
        return wait
