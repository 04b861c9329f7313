"""The Python client of the ledger."""

from .calls import AsyncListing, LedgerError, Listing
from .ledger import AsyncLedger, Ledger
from .money import from_minor, to_decimal, to_minor, total
from .webhooks import Delivery, verify_webhook

__all__ = [
    "AsyncLedger",
    "AsyncListing",
    "Delivery",
    "Ledger",
    "LedgerError",
    "Listing",
    "from_minor",
    "to_decimal",
    "to_minor",
    "total",
    "verify_webhook",
]
