"""Receives webhooks of the ledger and handles each event once: WEBHOOK_SECRET=whsec_… PORT=4242 python3 receiver.py"""
import json
import os
import sqlite3
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

secret = os.environ["WEBHOOK_SECRET"]
# A secret of your own is used as it is.
webhook = Webhook(secret if secret.startswith("whsec_") else secret.encode())
database = os.environ.get("DATABASE", "receiver.sqlite")
with closing(sqlite3.connect(database)) as connection, connection:
    connection.execute("create table if not exists events (id text primary key, type text not null, data text not null)")


def handle(event, connection):
    """Your own work: in the transaction that keeps the id, so that neither is there without the other."""
    print(event["type"], event["id"], flush=True)


def receive(event):
    """Handles an event, unless it came before."""
    row = (event["id"], event["type"], json.dumps(event["data"]))
    with closing(sqlite3.connect(database, timeout=10)) as connection, connection:
        done = connection.execute("insert into events (id, type, data) values (?, ?, ?) on conflict do nothing", row)
        if done.rowcount == 1:
            handle(event, connection)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.answer(body))
        self.end_headers()

    def answer(self, body):
        try:
            # Over the raw bytes. It fails where the signature is wrong, or older than five minutes.
            event = webhook.verify(body, {name.lower(): value for name, value in self.headers.items()})
        except (WebhookVerificationError, ValueError):
            return 401
        if not event["livemode"]:
            print("test", event["type"], event["id"], flush=True)
            return 204
        try:
            receive(event)
        except sqlite3.Error as error:
            self.log_error("%s", error)
            return 500  # the ledger sends it again
        return 204


ThreadingHTTPServer(("", int(os.environ.get("PORT", "4242"))), Receiver).serve_forever()
