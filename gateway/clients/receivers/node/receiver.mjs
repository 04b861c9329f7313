// Receives webhooks of the ledger and handles each event once: WEBHOOK_SECRET=whsec_… PORT=4242 node receiver.mjs
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { Webhook } from 'standardwebhooks';

const { WEBHOOK_SECRET: secret = '', PORT: port = '4242', DATABASE: file = 'receiver.sqlite' } = process.env;
// A secret of your own is used as it is.
const webhook = secret.startsWith('whsec_') ? new Webhook(secret) : new Webhook(secret, { format: 'raw' });
const database = new DatabaseSync(file, { timeout: 10_000 });
database.exec('create table if not exists events (id text primary key, type text not null, data text not null)');
const insert = database.prepare('insert into events (id, type, data) values (?, ?, ?) on conflict do nothing');

/** Your own work: in the transaction that keeps the id, so that neither is there without the other. */
function handle(event) {
  console.log(event.type, event.id);
}

/** Handles an event, unless it came before. */
function receive(event) {
  database.exec('begin immediate');
  try {
    const { changes } = insert.run(event.id, event.type, JSON.stringify(event.data));
    if (changes === 1) handle(event);
    database.exec('commit');
  } catch (error) {
    database.exec('rollback');
    throw error;
  }
}

function answer(body, headers) {
  let event;
  try {
    // Over the raw bytes. It throws where the signature is wrong, or older than five minutes.
    event = webhook.verify(body, headers);
  } catch {
    return 401;
  }
  if (event.livemode) receive(event);
  else console.log('test', event.type, event.id);
  return 204;
}

const server = createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    try {
      response.writeHead(answer(Buffer.concat(chunks), request.headers)).end();
    } catch (error) {
      // The ledger sends it again.
      console.error(error);
      response.writeHead(500).end();
    }
  });
});
server.listen(Number(port));
