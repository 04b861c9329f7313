#!/usr/bin/env node
// Checks proofs, checkpoints and exports of a ledger without the service. Needs Node 20 or newer and nothing else; see FORMAT.md.
// The functions it exports run in browsers too.
const usage = `verify.mjs proof FILE --vkey VKEY             an event is in the log
verify.mjs consistency OLD NEW FILE --vkey VKEY  the log of OLD begins the log of NEW
verify.mjs export FILE CHECKPOINT --vkey VKEY    a whole log follows its rules

--vkey takes the log's key, several times if it was changed; each witness's key given must have signed too.
Prints one line; the exit status is 0 if all is right, else 1.`;

const crypto = globalThis.process?.versions?.node === undefined ? undefined : await import('node:crypto');
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Throws what is wrong, unless it is right. */
function check(isRight, problem) {
  if (!isRight) throw new Error(problem);
}

const bytesOf = (text) => {
  check(text.isWellFormed(), 'a text is not Unicode');
  return new TextEncoder().encode(text);
};

function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const equal = (one, other) => one.length === other.length && one.every((byte, index) => byte === other[index]);

/** SHA-256 of parts: bytes in Node, a promise of bytes in a browser. */
const sha256 = crypto
  ? (...parts) => parts.reduce((hash, part) => hash.update(part), crypto.createHash('sha256')).digest()
  : async (...parts) => new Uint8Array(await globalThis.crypto.subtle.digest('SHA-256', joined(parts)));

async function isSigned(publicKey, message, signature) {
  if (signature.length !== 64) return false;
  if (crypto) {
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey).toString('base64url') };
    return crypto.verify(null, message, crypto.createPublicKey({ key: jwk, format: 'jwk' }), signature);
  }
  const key = await globalThis.crypto.subtle.importKey('raw', publicKey, 'Ed25519', false, ['verify']);
  return globalThis.crypto.subtle.verify('Ed25519', key, signature, message);
}

function fromBase64(text, name, length) {
  check(typeof text === 'string' && /^[A-Za-z0-9+/]*={0,2}$/.test(text), `${name} is not base64`);
  const bytes = crypto ? Buffer.from(text, 'base64') : Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const again = crypto ? bytes.toString('base64') : btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
  check(again === text, `${name} is not base64 as it is written`);
  check(length === undefined || bytes.length === length, `${name} does not have ${length} bytes`);
  return bytes;
}

function fromHex(text, name) {
  check(typeof text === 'string' && /^[0-9a-f]{64}$/.test(text), `${name} is not 64 hex digits`);
  return crypto ? Buffer.from(text, 'hex') : Uint8Array.from(text.match(/../g), (byte) => Number.parseInt(byte, 16));
}

const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** A whole number as texts write it. */
function numberOf(text, name) {
  check(/^(0|[1-9][0-9]*)$/.test(text) && Number.isSafeInteger(Number(text)), `${name} is not a whole number`);
  return Number(text);
}

const keysIn = (value) => {
  if (typeof value !== 'object' || value === null) return 0;
  const inner = Object.values(value);
  return inner.reduce((sum, each) => sum + keysIn(each), Array.isArray(value) ? 0 : inner.length);
};

/** JSON in which no object has a field twice: readers differ about which of them counts. */
function parseJson(text) {
  const value = JSON.parse(text);
  const texts = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"\s*:?/gs) ?? [];
  check(texts.filter((each) => each.endsWith(':')).length === keysIn(value), 'a field is there twice');
  return value;
}

/** An object with these fields and no other. */
function fieldsOf(value, names, what) {
  check(typeof value === 'object' && value !== null && !Array.isArray(value), `${what} is not an object`);
  check(Object.keys(value).sort().join() === names.sort().join(), `${what} does not have the fields ${names.join(', ')}`);
  return value;
}

// Tree: RFC 6962, verified as RFC 9162 says.

const leafHash = (data) => sha256(Uint8Array.of(0), data);
const nodeHash = (left, right) => sha256(Uint8Array.of(1), left, right);
const half = (number) => Math.floor(number / 2);
const isOdd = (number) => number % 2 === 1;

/** Throws unless the path leads from a leaf to the root (RFC 9162, 2.1.3.2). */
export async function checkInclusion(index, size, leaf, path, root) {
  check(index < size, `the tree of ${size} events has no event ${index + 1}`);
  let [first, last, hash] = [index, size - 1, await leafHash(leaf)];
  for (const each of path) {
    check(last !== 0, 'the path is too long');
    if (isOdd(first) || first === last) {
      hash = await nodeHash(each, hash);
      while (!isOdd(first) && first !== 0) [first, last] = [half(first), half(last)];
    } else hash = await nodeHash(hash, each);
    [first, last] = [half(first), half(last)];
  }
  check(last === 0, 'the path is too short');
  check(equal(hash, root), 'the path does not lead to the root of the checkpoint');
}

/** Throws unless the tree of the old root begins the tree of the new one (RFC 9162, 2.1.4.2). */
export async function checkConsistency(old, size, oldRoot, root, path) {
  check(old <= size, 'the old checkpoint is larger than the new one');
  if (old === size) check(equal(oldRoot, root), 'two checkpoints of one size have different roots');
  if (old === 0) check(equal(oldRoot, await sha256()), 'the root of an empty log is wrong');
  if (old === size || old === 0) return check(path.length === 0, 'the path is too long');
  let [first, last] = [old - 1, size - 1];
  while (isOdd(first)) [first, last] = [half(first), half(last)];
  const rest = first === 0 ? [...path] : path.slice(1);
  let oldHash = first === 0 ? oldRoot : path[0];
  check(oldHash !== undefined, 'the path is too short');
  let hash = oldHash;
  for (const each of rest) {
    check(last !== 0, 'the path is too long');
    if (isOdd(first) || first === last) {
      [oldHash, hash] = [await nodeHash(each, oldHash), await nodeHash(each, hash)];
      while (!isOdd(first) && first !== 0) [first, last] = [half(first), half(last)];
    } else hash = await nodeHash(hash, each);
    [first, last] = [half(first), half(last)];
  }
  check(last === 0, 'the path is too short');
  check(equal(oldHash, oldRoot), 'the path does not lead to the root of the old checkpoint');
  check(equal(hash, root), 'the path does not lead to the root of the new checkpoint');
}

// Checkpoints: C2SP signed-note, tlog-checkpoint, tlog-cosignature.

/** The key of a log or, where its type is 4, of a witness, from its C2SP vkey. */
export async function readKey(vkey) {
  const [, name = '', id, encoded] = /^([^\s\u0085+]+)\+([0-9a-f]{8})\+(.*)$/su.exec(vkey) ?? [];
  check(name !== '', 'the vkey is not <name>+<id>+<key>');
  const bytes = fromBase64(encoded, 'the key of the vkey', 33);
  check([1, 4].includes(bytes[0]), 'the vkey is of a type that is not known');
  const hash = await sha256(bytesOf(`${name}\n`), bytes);
  check(toHex(hash.subarray(0, 4)) === id, 'the id of the vkey does not fit its key');
  return { name, id, isWitness: bytes[0] === 4, bytes: bytes.subarray(1) };
}

/** A note taken apart; nothing of it is to be believed before its signatures are checked. */
export function readNote(text) {
  check(typeof text === 'string' && !/[\0-\x09\x0b-\x1f]/.test(text), 'the note has control characters');
  const end = text.lastIndexOf('\n\n');
  check(end >= 0 && text.endsWith('\n') && text.length > end + 2, 'the note has no signature');
  const lines = text.slice(end + 2, -1).split('\n');
  check(lines.length <= 100, 'the note has over 100 signatures');
  const signatures = lines.map((line) => {
    const [, name, encoded] = /^\u2014 ([^\s\u0085+]+) (\S+)$/u.exec(line) ?? [];
    check(name !== undefined, 'the note has a line that is no signature');
    const bytes = fromBase64(encoded, 'a signature');
    check(bytes.length > 4, 'a signature is too short');
    return { name, id: toHex(bytes.subarray(0, 4)), bytes: bytes.subarray(4) };
  });
  return { text: text.slice(0, end + 1), signatures };
}

/** Throws unless a key of the log and all keys of witnesses signed the note, and none of them wrongly. Returns the log's key. */
export async function checkSignatures({ text, signatures }, keys) {
  const signers = new Set();
  for (const { name, id, bytes } of signatures) {
    for (const key of keys.filter((each) => each.name === name && each.id === id)) {
      const time = key.isWitness && bytes.length === 72 ? new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0) : 0n;
      const message = key.isWitness ? `cosignature/v1\ntime ${time}\n${text}` : text;
      const signature = key.isWitness ? bytes.subarray(8) : bytes;
      check(await isSigned(key.bytes, bytesOf(message), signature), `the signature of ${name} is wrong`);
      signers.add(key);
    }
  }
  for (const key of keys) check(!key.isWitness || signers.has(key), `the witness ${key.name} has not signed`);
  const signer = [...signers].find((key) => !key.isWitness);
  check(signer !== undefined, 'no key that was given has signed the checkpoint');
  return signer;
}

function readCheckpoint(text) {
  const note = readNote(text);
  const [origin, size, root, ...more] = note.text.slice(0, -1).split('\n');
  check(origin !== '' && root !== undefined && !more.includes(''), 'the checkpoint does not have an origin, a size and a root');
  return { note, origin, size: numberOf(size, 'the size'), root: fromBase64(root, 'the root', 32) };
}

async function checkCheckpoint({ note, origin }, keys) {
  const key = await checkSignatures(note, keys);
  check(key.name === origin, `the key of ${key.name} signed a checkpoint of ${origin}`);
  return key;
}

// Events.

function readHeader(header) {
  check(typeof header === 'string', 'the header is not a text');
  const fields = JSON.parse(header);
  check(Array.isArray(fields) && fields.length === 7, 'the header does not have seven fields');
  const [tenant, sequence, id, type, createdMs, actor, requestId] = fields;
  check(
    [tenant, id, type, actor, requestId].every((each) => typeof each === 'string'),
    'the header has a field that is not a text',
  );
  check(Number.isSafeInteger(sequence) && sequence > 0 && Number.isSafeInteger(createdMs), 'the header has a number that is not whole');
  return { tenant, sequence, id, type, createdMs, actor, requestId };
}

/** The event of a proof or of a line of an export, with the hash that its content and the event before give it. */
async function readEvent({ header, payload: encoded, payload_hash: named, previous_hash: before }) {
  const event = readHeader(header);
  const payload = encoded === null ? null : fromBase64(encoded, 'the payload');
  const payloadHash = fromHex(named, 'payload_hash');
  if (payload) check(equal(await sha256(payload), payloadHash), 'the payload does not have the hash payload_hash');
  const previous = fromHex(before, 'previous_hash');
  check(event.sequence > 1 || previous.every((byte) => byte === 0), 'previous_hash of the first event is not zero');
  return { ...event, payload, payloadHash, previous, hash: await sha256(previous, await sha256(bytesOf(header)), payloadHash) };
}

const isOf = ({ origin }, { tenant }) => origin.replace(/\/[0-9]+$/, '').endsWith(`/${tenant}`);

function readJson(text, name) {
  const value = parseJson(text);
  if (value?.success === undefined) return value;
  const { success, data } = fieldsOf(value, ['success', 'data'], 'the answer');
  check(success === true, 'the answer is no success');
  return fieldsOf(data, [name], 'data')[name];
}

function pathOf(path) {
  check(Array.isArray(path), 'path is not a list');
  return path.map((each) => fromBase64(each, 'a hash of the path', 32));
}

function readProof(text) {
  if (!text.startsWith('c2sp.org/tlog-proof@v1\n')) {
    const names = ['sequence', 'header', 'payload', 'payload_hash', 'previous_hash', 'hash', 'path', 'checkpoint'];
    const proof = fieldsOf(readJson(text, 'proof'), names, 'the proof');
    return { ...proof, hash: fromHex(proof.hash, 'hash'), index: proof.sequence - 1 };
  }
  const end = text.indexOf('\n\n');
  const [, extra = '', index = '', ...path] = text.slice(0, Math.max(end, 0)).split('\n');
  check(extra.startsWith('extra ') && index.startsWith('index '), 'the proof does not have the lines extra and index');
  const content = parseJson(utf8.decode(fromBase64(extra.slice(6), 'extra')));
  const event = fieldsOf(content, ['header', 'payload', 'payload_hash', 'previous_hash'], 'extra');
  return { ...event, path, index: numberOf(index.slice(6), 'index'), checkpoint: text.slice(end + 2) };
}

/**
 * Checks a proof: the text of `data.proof`, of the whole answer, or of a C2SP tlog-proof. Returns its event and checkpoint, or throws
 * what is wrong.
 */
export async function verifyProof(text, keys) {
  const proof = readProof(text);
  const event = await readEvent(proof);
  check(event.sequence === proof.index + 1, 'the header is of another event');
  check(proof.hash === undefined || equal(proof.hash, event.hash), 'the event does not have the hash that the proof says');
  const path = pathOf(proof.path);
  const checkpoint = readCheckpoint(proof.checkpoint);
  check(isOf(checkpoint, event), 'the event and the checkpoint are of different logs');
  await checkInclusion(proof.index, checkpoint.size, event.hash, path, checkpoint.root);
  const { name, id } = await checkCheckpoint(checkpoint, keys);
  const posted = event.type === 'transaction.posted' && event.payload ? decode(event.payload, posting) : undefined;
  return { event, checkpoint, signer: `${name}+${id}`, posted };
}

/** Checks that an old checkpoint's log begins that of a newer one; `text` is the answer of /tlog/consistency. */
export async function verifyConsistency(oldText, newText, text, keys) {
  const [old, now] = [readCheckpoint(oldText), readCheckpoint(newText)];
  const proof = fieldsOf(readJson(text, 'consistency'), ['old', 'new', 'path'], 'the proof');
  check(proof.old === old.size && proof.new === now.size, 'the proof is of other checkpoints');
  check(old.origin === now.origin, 'the checkpoints are of different logs');
  const path = pathOf(proof.path);
  await checkConsistency(old.size, now.size, old.root, now.root, path);
  for (const each of [old, now]) await checkCheckpoint(each, keys);
  return { old, now };
}

// Payloads: the fields of ledger.v1 events that the rules need, by their protobuf numbers.

const holdEntry = { 1: ['accountId'], 3: ['side'], 4: ['currency'], 5: ['amount'], 7: ['remaining'] };
const hold = { 1: ['holdId'], 2: ['status'], 6: ['entries', holdEntry] };
const entry = { 1: ['accountId'], 2: ['accountCode'], 3: ['amount'], 4: ['side'], 5: ['currency'], 7: ['balanceAfter'] };
const balance = {
  ...{ 1: ['accountId'], 2: ['accountCode'], 3: ['currency'], 4: ['previousBalance'], 5: ['balance'], 6: ['debits'], 7: ['credits'] },
  ...{ 8: ['pendingDebits'], 9: ['pendingCredits'], 10: ['available'], 11: ['version'] },
};
const posting = { 1: ['transactionId'], 2: ['kind'], 7: ['entries', entry], 10: ['balances', balance], 12: ['holds', hold] };
const account = { 1: ['accounts', { 1: ['accountId'], 2: ['accountCode'], 5: ['normalBalance'] }] };
const schemas = {
  'transaction.posted': posting,
  'account.created': account,
  'account.updated': account,
  'hold.created': { 1: ['holds', hold], 3: ['balances', balance] },
  'hold.voided': { 1: ['holds', hold], 2: ['balances', balance] },
  'hold.expired': { 1: ['holds', hold], 2: ['balances', balance] },
  'log.imported': { 1: ['tenantId'], 2: ['size'], 3: ['root', null] },
  'transaction.redacted': { 1: ['transactionId'], 5: ['payloadHash', null], 6: ['redactedHash', null] },
};

/** A protobuf message: texts and numbers by name, messages as lists; fields that the schema does not name are skipped. */
function decode(bytes, schema) {
  const message = {};
  for (const [name, inner] of Object.values(schema)) message[name] = inner ? [] : '';
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      check(at < bytes.length && shift < 70n, 'the payload is not a message');
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const wireType = tag % 8;
    check([0, 1, 2, 5].includes(wireType), 'the payload is not a message');
    const number = wireType === 0 ? varint() : undefined;
    const length = wireType === 2 ? Number(varint()) : { 0: 0, 1: 8, 5: 4 }[wireType];
    check(at + length <= bytes.length, 'the payload is cut off');
    const content = bytes.subarray(at, (at += length));
    const [name, inner] = schema[(tag - wireType) / 8] ?? [];
    if (name === undefined) continue;
    if (number !== undefined) message[name] = number.toString();
    else if (inner) message[name].push(decode(content, inner));
    else message[name] = inner === null ? content : utf8.decode(content);
  }
  return message;
}

// The rules of an export.

/** Minor units of an amount. */
function minorOf(text) {
  check(/^-?[0-9]+\.[0-9]{2}$/.test(text), `${text} is not an amount`);
  return BigInt(text.replace('.', ''));
}

function decimal(minor) {
  const digits = String(minor < 0n ? -minor : minor).padStart(3, '0');
  return `${minor < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

/** What follows from the events of a log, one after the other. Keeps accounts, balances, open holds and redactions. */
class Books {
  /** The side on which each account is positive. */
  normal = new Map();
  balances = new Map();
  /** What remains of the entries of open holds. */
  holds = new Map();
  redactions = new Map();

  /** Takes an event. `standing` is what stands in place of a redacted payload. Throws what is wrong. */
  async take({ type, payload, payloadHash, sequence }, standing) {
    const schema = schemas[type];
    if (schema === undefined) return;
    const event = decode(payload ?? standing, schema);
    if (!payload) this.redactions.set(event.transactionId, { sequence, payloadHash, hash: await sha256(standing), isNamed: false });
    if (type === 'transaction.redacted') this.redact(event);
    for (const { accountId, normalBalance } of event.accounts ?? []) this.normal.set(accountId, normalBalance);
    if (event.balances === undefined) return;
    const before = new Map();
    this.post(event.entries ?? [], before);
    for (const hold of event.holds) this.reserve(hold, type === 'hold.created', before);
    check(before.size === event.balances.length, `${before.size} balances change, the event has ${event.balances.length}`);
    [...before].forEach(([balance, previous], index) => compare(balance, previous, event.balances[index]));
  }

  /** Throws what is left open after the last event. Returns debits and credits by currency. */
  end() {
    for (const { sequence, isNamed } of this.redactions.values())
      check(isNamed, `event ${sequence} is redacted, but no later event says so`);
    const sums = {};
    for (const { currency, debits, credits } of this.balances.values()) {
      const [allDebits, allCredits] = sums[currency] ?? [0n, 0n];
      sums[currency] = [allDebits + debits, allCredits + credits];
    }
    for (const [currency, [debits, credits]] of Object.entries(sums)) check(debits === credits, `debits and credits differ in ${currency}`);
    return sums;
  }

  // The last event about a transaction names what stands in its place.
  redact({ transactionId, payloadHash, redactedHash }) {
    const redaction = this.redactions.get(transactionId);
    check(redaction !== undefined && equal(redaction.payloadHash, payloadHash), `${transactionId} was redacted, and is not`);
    redaction.isNamed = equal(redaction.hash, redactedHash);
  }

  post(entries, before) {
    const sums = new Map();
    for (const { accountId, accountCode, amount, side, currency, balanceAfter } of entries) {
      const minor = minorOf(amount);
      check(minor > 0n, `an amount of ${accountCode} is not above zero`);
      const balance = this.at(accountId, currency, before);
      balance[sided(side, 'debits', 'credits')] += minor;
      check(balanceAfter === decimal(net(balance)), `${accountCode} has ${balanceAfter} after an entry, not ${decimal(net(balance))}`);
      sums.set(currency, (sums.get(currency) ?? 0n) + (side === 'debit' ? minor : -minor));
    }
    for (const [currency, sum] of sums) check(sum === 0n, `debits and credits differ in ${currency}`);
  }

  reserve({ holdId, status, entries }, isNew, before) {
    const left = isNew ? entries.map(() => 0n) : this.holds.get(holdId);
    check(left?.length === entries.length && isNew !== this.holds.has(holdId), `${holdId} is not open`);
    const remaining = entries.map((each) => minorOf(each.remaining));
    entries.forEach(({ accountId, currency, side, amount }, index) => {
      const change = remaining[index] - left[index];
      check(isNew ? change === minorOf(amount) : change <= 0n && remaining[index] >= 0n, `${holdId} reserves another amount than its own`);
      if (change !== 0n) this.at(accountId, currency, before)[sided(side, 'pendingDebits', 'pendingCredits')] += change;
    });
    if (status === 'pending') this.holds.set(holdId, remaining);
    else this.holds.delete(holdId);
  }

  // A balance that an event changes, and how it was before.
  at(accountId, currency, before) {
    const normal = this.normal.get(accountId);
    check(normal !== undefined, `there is no account ${accountId}`);
    const key = `${accountId} ${currency}`;
    const balance = this.balances.get(key) ?? {
      ...{ accountId, currency, normal, debits: 0n, credits: 0n, pendingDebits: 0n, pendingCredits: 0n, version: 0 },
    };
    this.balances.set(key, balance);
    if (!before.has(balance)) before.set(balance, decimal(net(balance)));
    return balance;
  }
}

function sided(side, debits, credits) {
  check(side === 'debit' || side === 'credit', `${side} is no side`);
  return side === 'debit' ? debits : credits;
}

const net = ({ normal, debits, credits }) => (normal === 'debit' ? debits - credits : credits - debits);

function compare(balance, previousBalance, event) {
  balance.version += 1;
  const { accountId, currency, normal, debits, credits, pendingDebits, pendingCredits, version } = balance;
  const available = net(balance) - (normal === 'debit' ? pendingCredits : pendingDebits);
  const amounts = { balance: net(balance), debits, credits, pendingDebits, pendingCredits, available };
  const computed = { accountId, currency, previousBalance, version: String(version) };
  for (const [name, minor] of Object.entries(amounts)) computed[name] = decimal(minor);
  for (const [name, value] of Object.entries(computed))
    check(event[name] === value, `${name} of ${event.accountCode} in ${currency} is ${event[name]}, not ${value}`);
}

/** The root of a growing tree, in memory for its height. */
class Tree {
  size = 0;
  /** Roots of full subtrees, the largest first. */
  peaks = [];

  async add(leaf) {
    this.peaks.push(await leafHash(leaf));
    this.size += 1;
    for (let size = this.size; !isOdd(size); size = half(size)) {
      const [left, right] = this.peaks.splice(-2);
      this.peaks.push(await nodeHash(left, right));
    }
  }

  async root() {
    let hash = this.peaks.at(-1);
    for (const peak of this.peaks.slice(0, -1).reverse()) hash = await nodeHash(peak, hash);
    return hash ?? sha256();
  }
}

/** The log that an imported one came from, made again: of each event only the tenant and the position were others. */
class Source {
  tree = new Tree();
  last = new Uint8Array(32);

  constructor({ tenantId, size, root }) {
    [this.tenant, this.size, this.root] = [tenantId, numberOf(size, 'the size of the import'), root];
  }

  async add({ sequence, id, type, createdMs, actor, requestId, payloadHash }) {
    if (this.tree.size === this.size) return;
    const header = JSON.stringify([this.tenant, sequence - 1, id, type, createdMs, actor, requestId]);
    this.last = await sha256(this.last, await sha256(bytesOf(header)), payloadHash);
    await this.tree.add(this.last);
    if (this.tree.size === this.size) check(equal(await this.tree.root(), this.root), `the events are not those of ${this.tenant}`);
  }
}

/** Lines of bytes that come in chunks. */
async function* linesOf(chunks) {
  let rest = [];
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; [from, end] = [end + 1, chunk.indexOf(10, end + 1)]) {
      yield utf8.decode(joined([...rest, chunk.subarray(from, end)]));
      rest = [];
    }
    rest.push(chunk.subarray(from));
  }
  check(
    rest.every(({ length }) => length === 0),
    'the last line has no end',
  );
}

const lineNames = ['sequence', 'type', 'header', 'payload', 'payload_hash', 'previous_hash', 'hash'];

/** Checks the lines of `/export/events`, all of a log, against a checkpoint that is not newer. Throws what is wrong, with the line. */
export async function verifyExport(chunks, checkpointText, keys) {
  const checkpoint = readCheckpoint(checkpointText);
  await checkCheckpoint(checkpoint, keys);
  const [tree, books] = [new Tree(), new Books()];
  let [last, signed, end, source] = [new Uint8Array(32), checkpoint.size, undefined, undefined];
  const line = async (value) => {
    check(end === undefined, 'there is something after the end');
    if (value.end !== undefined) {
      const names = ['end', 'count', 'sequence', 'hash'];
      end = fieldsOf(value, value.checkpoint === undefined ? names : [...names, 'checkpoint'], 'the last line');
      check(end.count === tree.size && end.sequence === tree.size && end.hash === toHex(last), 'the last line is of another log');
      if (end.checkpoint === undefined) return;
      // The one of exactly this size, where there is one.
      const whole = readCheckpoint(end.checkpoint);
      check(whole.size === tree.size && equal(whole.root, await tree.root()), 'the checkpoint of the last line is of another log');
      await checkCheckpoint(
        whole,
        keys.filter(({ isWitness }) => !isWitness),
      );
      signed = whole.size;
      return;
    }
    const standing = value.payload === null ? fromBase64(value.redacted_payload, 'redacted_payload') : undefined;
    fieldsOf(value, standing ? [...lineNames, 'redacted_payload'] : [...lineNames], 'the line');
    const event = await readEvent(value);
    check(isOf(checkpoint, event), 'the event and the checkpoint are of different logs');
    check(event.sequence === tree.size + 1, `event ${event.sequence} follows event ${tree.size}`);
    check(value.sequence === event.sequence && value.type === event.type, 'the line and its header differ');
    check(!standing || event.type === 'transaction.posted', `${event.type} can't be redacted`);
    check(equal(event.previous, last), 'the event does not follow the one before it');
    check(equal(event.hash, fromHex(value.hash, 'hash')), 'the event does not have the hash that the line says');
    await books.take(event, standing);
    await source?.add(event);
    if (event.type === 'log.imported' && tree.size === 0) source = new Source(decode(event.payload, schemas[event.type]));
    last = event.hash;
    await tree.add(last);
    if (tree.size === checkpoint.size) check(equal(await tree.root(), checkpoint.root), 'the log does not have the root of the checkpoint');
  };
  let number = 0;
  for await (const text of linesOf(chunks)) {
    number += 1;
    try {
      await line(parseJson(text));
    } catch (error) {
      throw new Error(`line ${number}: ${error.message}`);
    }
  }
  check(end !== undefined, 'the last line is missing: the export was cut off');
  check(tree.size >= checkpoint.size, `the export ends at event ${tree.size}, the checkpoint covers ${checkpoint.size}`);
  check(source === undefined || source.tree.size === source.size, 'the log ends within what was imported');
  return { size: tree.size, origin: checkpoint.origin, signed, sums: books.end(), source: source?.tenant };
}

// The command.

async function run([command, ...args], read) {
  const keys = [];
  for (let at = args.indexOf('--vkey'); at >= 0; at = args.indexOf('--vkey')) keys.push(await readKey(args.splice(at, 2)[1] ?? ''));
  const count = { proof: 1, consistency: 3, export: 2 }[command];
  check(args.length === count && keys.length > 0, usage);
  if (command === 'export') {
    const { size, origin, signed, sums, source } = await verifyExport(read.chunks(args[0]), await read.text(args[1]), keys);
    const totals = Object.entries(sums).map(([currency, [debits]]) => `, ${decimal(debits)} ${currency} on both sides`);
    const imported = source === undefined ? '' : `, what was imported is the log of ${source}`;
    return `${size} events of ${origin} follow the rules, ${signed} of them are signed${imported}${totals.join('')}`;
  }
  const texts = await Promise.all(args.map((name) => read.text(name)));
  if (command === 'consistency') {
    const { old, now } = await verifyConsistency(...texts, keys);
    return `the first ${old.size} of ${now.size} events of ${now.origin} have not changed`;
  }
  const { event, checkpoint, signer, posted } = await verifyProof(...texts, keys);
  const { type, id, sequence, createdMs, payload } = event;
  const entries = posted?.entries.map((each) => `${each.side} ${each.accountCode} ${each.amount} ${each.currency}`);
  const content = posted ? `: ${posted.transactionId} ${entries.join(', ')}` : payload ? '' : ' (without its payload)';
  const time = new Date(createdMs).toISOString();
  return `event ${sequence} of ${checkpoint.size}, ${type} ${id} of ${time}, is in the log that ${signer} signed${content}`;
}

if (crypto && process.argv[1] !== undefined) {
  const { createReadStream, promises, realpathSync } = await import('node:fs');
  const { fileURLToPath } = await import('node:url');
  if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
    const read = { text: async (name) => utf8.decode(await promises.readFile(name)), chunks: (name) => createReadStream(name) };
    try {
      console.log(`verified: ${await run(process.argv.slice(2), read)}`);
    } catch (error) {
      console.error(error.message === usage ? usage : `refused: ${error.message}`);
      process.exitCode = 1;
    }
  }
}
