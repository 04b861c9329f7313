"""A walk through the API: prints a line for each call. Needs LEDGER_URL, and of a new tenant LEDGER_TENANT,
LEDGER_TOKEN and perhaps LEDGER_API_KEY. With `--async` the same calls are awaited.
"""

import asyncio
import inspect
import json
import os
import sys
from typing import Any

from ledger_client import AsyncLedger, Ledger, LedgerError, total, verify_webhook

BANK, WALLETS = "SETTLEMENT-USD", "CUSTOMER-WALLETS-USD"


def entries(debit: str, credit: str, amount: str) -> list[dict[str, str]]:
    sides = [("debit", debit), ("credit", credit)]
    return [{"account_code": code, "side": side, "amount": amount, "currency": "USD"} for side, code in sides]


def item(name: str) -> dict[str, Any]:
    return {"op": "double", "idempotency_key": name, "entries": entries(BANK, WALLETS, "1.00")}


def say(call: str, *values: object) -> None:
    shown = {True: "true", False: "false", None: ""}
    print(call, *[shown[value] if isinstance(value, bool) or value is None else value for value in values])


async def got(value: Any) -> Any:
    """The value, or what it is awaited for: the example is written once for both clients."""
    return await value if inspect.isawaitable(value) else value


async def every(listing: Any) -> list[Any]:
    return [each async for each in listing] if hasattr(listing, "__aiter__") else list(listing)


async def code_of(call: Any) -> str:
    try:
        await got(call())
    except LedgerError as error:
        return error.code
    return "none"


async def walk(ledger: Any) -> None:
    tenant = os.environ["LEDGER_TENANT"]
    say("service.readiness", (await got(ledger.service.readiness())).status)
    say("user.get", "string" if isinstance((await got(ledger.user.get())).user.email, str) else "")
    say("tenants.list", any(each.slug == tenant for each in await every(ledger.tenants.list())))
    say("members.list", *[each.role for each in (await got(ledger.members.list().page())).members])
    say("keys.list", len(await every(ledger.keys.list())))
    say("accounts.setUp", (await got(ledger.accounts.set_up({"business_type": "wallet"}))).business_type)
    say("accounts.tree", len((await got(ledger.accounts.tree(depth=1))).accounts))
    petty = {"account_code": "PETTY-CASH", "name": "Petty cash", "type": "asset"}
    say("accounts.create", (await got(ledger.accounts.create(petty))).account.normal_balance)
    say("accounts.update", (await got(ledger.accounts.update("PETTY-CASH", {"name": "Coins"}))).account.version)
    say("accounts.get", (await got(ledger.accounts.get("PETTY-CASH"))).account.name)
    accounts = (await got(ledger.accounts.list(limit=100).page())).accounts
    say("accounts.list", len(await every(ledger.accounts.list(limit=5))) == len(accounts))

    posting = {"description": "Deposit", "idempotency_key": "example-1", "entries": entries(BANK, WALLETS, "100.00")}
    transaction = (await got(ledger.transactions.post(posting))).transaction
    say("transactions.post", transaction.amount)
    again = (await got(ledger.transactions.post(posting))).transaction
    say("transactions.post again", again.transaction_id == transaction.transaction_id)
    tried = await got(ledger.transactions.post({"entries": entries(BANK, WALLETS, "1.00")}, dry_run=True))
    say("transactions.post dry run", tried.transaction.transaction_id)
    refused = {"entries": entries(WALLETS, BANK, "9999.00")}
    say("transactions.post refused", await code_of(lambda: ledger.transactions.post(refused)))
    single = {"account_code": WALLETS, "side": "credit", "amount": "5.00", "currency": "USD"}
    say("transactions.postSingle", (await got(ledger.transactions.post_single(single))).transaction.kind)
    batch = await got(ledger.transactions.batch({"items": [item("example-2"), item("example-3")]}))
    say("transactions.batch", batch.posted + batch.replayed)
    lines = "\n".join(json.dumps(item(name)) for name in ("example-4", "example-5"))
    imported = await got(ledger.transactions.import_(lines))
    last = json.loads((await got(read(imported))).strip().split("\n")[-1])
    say("transactions.import", last["posted"] + last["replayed"])
    say("transactions.get", (await got(ledger.transactions.get(transaction.transaction_id))).transaction.description)
    reversal = await got(ledger.transactions.reverse(transaction.transaction_id, {"amount": "40.00"}))
    say("transactions.reverse", reversal.transaction.amount)
    found = await every(ledger.transactions.list(limit=2))
    say("transactions.list", len(found), total(each.amount for each in found if each.amount))

    hold = (await got(ledger.holds.create({"entries": entries(WALLETS, BANK, "10.00")}))).hold
    say("holds.create", hold.status)
    capture = await got(ledger.holds.capture(hold.hold_id, {"amount": "4.00", "final": False}))
    say("holds.capture", capture.transaction.amount)
    say("holds.void", (await got(ledger.holds.void(hold.hold_id))).hold.status)
    balance = (await got(ledger.accounts.balance(WALLETS, currency="USD"))).balance
    say("accounts.balance", balance.balance, balance.available)

    say("reports.trialBalance", len((await got(ledger.reports.trial_balance(currency="USD"))).report.totals))
    file = await got(ledger.reports.trial_balance(currency="USD", format="csv"))
    say("reports.trialBalance file", (await got(read(file)))[:12])
    job = (await got(ledger.reports.start_journal({"format": "csv"}))).job
    while job.status in ("queued", "running"):
        await asyncio.sleep(0.1)
        job = (await got(ledger.jobs.get(job.id))).job
    say("jobs.wait", job.status)
    say("filters.set", (await got(ledger.filters.set("deposits", {"query": "q=deposit"}))).filter_.name)
    say("books.get", (await got(ledger.books.get())).books.status)
    sequences = [each.sequence for each in await every(ledger.events.list(limit=10))]
    say("events.list", sequences == list(range(1, len(sequences) + 1)))
    say("events.listen", await received(ledger.listen(after=len(sequences) - 3), len(sequences)))
    say("deliveries.list", (await got(ledger.deliveries.list(limit=1).page())).pagination.total)
    say("errors", await code_of(lambda: ledger.accounts.get("NO-SUCH-ACCOUNT")))
    verify()


async def received(stream: Any, last: int) -> int:
    count = 0
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            count += 1
            if event.sequence == last:
                break
        return count
    for event in stream:
        count += 1
        if event.sequence == last:
            break
    return count


async def read(response: Any) -> str:
    """The text of a file; its connection is closed."""
    if hasattr(response, "aread") and "--async" in sys.argv:
        await response.aread()
    else:
        response.read()
    return str(response.text)


def verify() -> None:
    if "LEDGER_DELIVERY" not in os.environ:
        return
    given = json.loads(os.environ["LEDGER_DELIVERY"])
    say("webhooks.verify", verify_webhook(given["body"], given["headers"], given["secret"]).type)
    try:
        verify_webhook(given["body"] + " ", given["headers"], given["secret"])
    except Exception:
        say("webhooks.verify refused")


async def main() -> None:
    options: dict[str, Any] = {"url": os.environ["LEDGER_URL"], "tenant": os.environ["LEDGER_TENANT"]}
    options |= {"key": os.environ.get("LEDGER_API_KEY"), "token": os.environ["LEDGER_TOKEN"]}
    if "--async" in sys.argv:
        async with AsyncLedger(**options) as ledger:
            await walk(ledger)
    else:
        with Ledger(**options) as ledger:
            await walk(ledger)


asyncio.run(main())
