"""Checks and reads deliveries of webhooks, as https://www.standardwebhooks.com specifies."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Delivery:
    """What a receiver gets. A test (`is_live` false) has the type of an event, and says nothing that happened."""

    is_live: bool
    id: str
    type: str
    data: dict[str, Any]
    event: dict[str, Any]


def verify_webhook(body: str | bytes, headers: Mapping[str, str], secret: str) -> Delivery:
    """Checks the signature over the raw bytes of the body and its age (5 minutes), and reads the event.

    Raises standardwebhooks.WebhookVerificationError where it is not from the ledger. An event may arrive twice: keep its `id`.
    """
    event = Webhook(_key_of(secret)).verify(body, {name.lower(): value for name, value in headers.items()})
    return Delivery(event["livemode"], event["id"], event["type"], event["data"], event)


def _key_of(secret: str) -> bytes:
    encoded = secret.removeprefix("whsec_")
    try:
        if encoded != secret:
            return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        pass
    # Any other secret is its own key.
    return secret.encode()
