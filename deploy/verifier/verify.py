#!/usr/bin/env python3
"""Checks that an event is in a ledger's log, without the service: verify.py proof FILE --vkey VKEY

Needs Python 3.9 or newer and its standard library. FILE is the answer of .../proof or a C2SP tlog-proof; FORMAT.md says what is checked.
--vkey takes the log's key, several times if it was changed; each witness's key given must have signed too.
Prints one line; the exit status is 0 if the proof is right, else 1.
"""
import base64
import datetime
import hashlib
import json
import re
import sys


class Refused(Exception):
    """What is wrong with a proof."""


def check(is_right, problem):
    if not is_right:
        raise Refused(problem)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def from_base64(text, name, length=None):
    check(isinstance(text, str) and re.fullmatch("[A-Za-z0-9+/]*={0,2}", text, re.ASCII), f"{name} is not base64")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Refused(f"{name} is not base64") from None
    check(base64.b64encode(data).decode() == text, f"{name} is not base64 as it is written")
    check(length is None or len(data) == length, f"{name} does not have {length} bytes")
    return data


def from_hex(text, name):
    check(isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text, re.ASCII), f"{name} is not 64 hex digits")
    return bytes.fromhex(text)


def number_of(text, name):
    check(re.fullmatch("0|[1-9][0-9]{0,15}", text, re.ASCII) and int(text) < 2**53, f"{name} is not a whole number")
    return int(text)


def parse_json(text):
    def once(pairs):
        check(len(dict(pairs)) == len(pairs), "a field is there twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once)


def fields_of(value, names, what):
    check(isinstance(value, dict) and sorted(value) == sorted(names), f"{what} does not have the fields {', '.join(names)}")
    return value


# Ed25519, RFC 8032 section 5.1: points as (X, Y, Z, T) with x = X / Z, y = Y / Z, x * y = T / Z.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(one, other):
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c = 2 * one[3] * other[3] * D % P
    d = 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(factor, point):
    result = (0, 1, 1, 0)
    while factor > 0:
        if factor & 1:
            result = add(result, point)
        point = add(point, point)
        factor >>= 1
    return result


def point_of(data):
    """The point that 32 bytes encode, or None."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P != 0 or (x == 0 and sign == 1):
        return None
    x = P - x if x & 1 != sign else x
    return (x, y, 1, x * y % P)


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(public_key, message, signature):
    point = point_of(public_key)
    scalar = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or point is None or scalar >= ORDER:
        return False
    factor = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % ORDER
    # R = s * B - k * A, compared as bytes.
    x, y, z, _ = add(times(scalar, BASE), times(ORDER - factor, point))
    inverse = pow(z, P - 2, P)
    encoded = (y * inverse % P) | ((x * inverse % P & 1) << 255)
    return encoded.to_bytes(32, "little") == signature[:32]


# Checkpoints: C2SP signed-note, tlog-checkpoint, tlog-cosignature.
def read_key(vkey):
    match = re.fullmatch(r"([^\s+]+)\+([0-9a-f]{8})\+(.*)", vkey)
    check(match, "the vkey is not <name>+<id>+<key>")
    name, key_id, encoded = match.groups()
    key = from_base64(encoded, "the key of the vkey", 33)
    check(key[0] in (1, 4), "the vkey is of a type that is not known")
    check(sha256(name.encode(), b"\n", key)[:4].hex() == key_id, "the id of the vkey does not fit its key")
    return {"name": name, "id": key_id, "is_witness": key[0] == 4, "key": key[1:]}


def read_note(text):
    check(isinstance(text, str) and not re.search("[\0-\x09\x0b-\x1f]", text), "the note has control characters")
    end = text.rfind("\n\n")
    check(end >= 0 and text.endswith("\n") and len(text) > end + 2, "the note has no signature")
    signatures = []
    for line in text[end + 2 : -1].split("\n"):
        match = re.fullmatch(r"\u2014 ([^\s+]+) (\S+)", line)
        check(match, "the note has a line that is no signature")
        data = from_base64(match.group(2), "a signature")
        check(len(data) > 4, "a signature is too short")
        signatures.append((match.group(1), data[:4].hex(), data[4:]))
    check(len(signatures) <= 100, "the note has over 100 signatures")
    return text[: end + 1], signatures


def check_signatures(note, keys):
    text, signatures = note
    signers = []
    for name, key_id, data in signatures:
        for key in (each for each in keys if each["name"] == name and each["id"] == key_id):
            message, signature = text, data
            if key["is_witness"]:
                message, signature = f"cosignature/v1\ntime {int.from_bytes(data[:8], 'big')}\n{text}", data[8:]
            check(is_signed(key["key"], message.encode(), signature), f"the signature of {name} is wrong")
            signers.append(key)
    for key in keys:
        check(not key["is_witness"] or key in signers, f"the witness {key['name']} has not signed")
    signer = next((key for key in signers if not key["is_witness"]), None)
    check(signer, "no key that was given has signed the checkpoint")
    return signer


def read_checkpoint(text):
    note = read_note(text)
    lines = note[0][:-1].split("\n")
    check(len(lines) >= 3 and "" not in lines, "the checkpoint does not have an origin, a size and a root")
    return {"note": note, "origin": lines[0], "size": number_of(lines[1], "the size"), "root": from_base64(lines[2], "the root", 32)}


def check_inclusion(index, size, leaf, path, root):
    """RFC 9162, section 2.1.3.2."""
    check(index < size, f"the tree of {size} events has no event {index + 1}")
    first, last, result = index, size - 1, sha256(b"\0", leaf)
    for each in path:
        check(last != 0, "the path is too long")
        if first & 1 or first == last:
            result = sha256(b"\1", each, result)
            while not first & 1 and first != 0:
                first, last = first >> 1, last >> 1
        else:
            result = sha256(b"\1", result, each)
        first, last = first >> 1, last >> 1
    check(last == 0, "the path is too short")
    check(result == root, "the path does not lead to the root of the checkpoint")


# Proofs.
def read_proof(text):
    event = ["header", "payload", "payload_hash", "previous_hash"]
    if not text.startswith("c2sp.org/tlog-proof@v1\n"):
        proof = parse_json(text)
        if isinstance(proof, dict) and "success" in proof:
            check(fields_of(proof, ["success", "data"], "the answer")["success"] is True, "the answer is no success")
            proof = fields_of(proof["data"], ["proof"], "data")["proof"]
        fields_of(proof, ["sequence", *event, "hash", "path", "checkpoint"], "the proof")
        check(type(proof["sequence"]) is int, "sequence is not a number")
        return {**proof, "hash": from_hex(proof["hash"], "hash"), "index": proof["sequence"] - 1}
    head, _, checkpoint = text.partition("\n\n")
    lines = head.split("\n")
    check(len(lines) > 2 and lines[1].startswith("extra ") and lines[2].startswith("index "), "the lines extra and index are missing")
    content = fields_of(parse_json(from_base64(lines[1][6:], "extra").decode()), event, "extra")
    return {**content, "hash": None, "path": lines[3:], "index": number_of(lines[2][6:], "index"), "checkpoint": checkpoint}


def read_header(header):
    check(isinstance(header, str), "the header is not a text")
    fields = json.loads(header)
    check(isinstance(fields, list) and [type(each) for each in fields] == [str, int, str, str, int, str, str], "the header does not have its fields")
    check(0 < fields[1] < 2**53 and 0 <= fields[4] < 2**53, "the header has a number out of range")
    return dict(zip(["tenant", "sequence", "id", "type", "created_ms"], fields))


def verify_proof(text, keys):
    """Checks the text of a proof. Returns its event and what its log is; raises what is wrong."""
    proof = read_proof(text)
    event = read_header(proof["header"])
    payload = None if proof["payload"] is None else from_base64(proof["payload"], "the payload")
    payload_hash = from_hex(proof["payload_hash"], "payload_hash")
    check(payload is None or sha256(payload) == payload_hash, "the payload does not have the hash payload_hash")
    previous = from_hex(proof["previous_hash"], "previous_hash")
    check(event["sequence"] > 1 or previous == bytes(32), "previous_hash of the first event is not zero")
    leaf = sha256(previous, sha256(proof["header"].encode()), payload_hash)
    check(event["sequence"] == proof["index"] + 1, "the header is of another event")
    check(proof["hash"] in (None, leaf), "the event does not have the hash that the proof says")
    check(isinstance(proof["path"], list), "path is not a list")
    path = [from_base64(each, "a hash of the path", 32) for each in proof["path"]]
    checkpoint = read_checkpoint(proof["checkpoint"])
    origin = re.sub("/[0-9]+$", "", checkpoint["origin"])
    check(origin.endswith("/" + event["tenant"]), "the event and the checkpoint are of different logs")
    check_inclusion(proof["index"], checkpoint["size"], leaf, path, checkpoint["root"])
    signer = check_signatures(checkpoint["note"], keys)
    check(signer["name"] == checkpoint["origin"], f"the key of {signer['name']} signed a checkpoint of {checkpoint['origin']}")
    return {**event, "payload": payload, "size": checkpoint["size"], "signer": f"{signer['name']}+{signer['id']}"}


def fields(message):
    """The texts and messages of a protobuf message, with their numbers."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value, shift, at = value | (message[at] & 127) << shift, shift + 7, at + 1
            if message[at - 1] < 128:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            varint()
            continue
        length = {1: 8, 5: 4}.get(tag & 7) or varint()
        yield tag >> 3, message[at : at + length]
        at += length


def described(proof):
    """A posting's entries: TransactionPosted has its id in field 1, its entries in 7."""
    if proof["payload"] is None:
        return " (without its payload)"
    if proof["type"] != "transaction.posted":
        return ""
    content = list(fields(proof["payload"]))
    entries = [{name: value.decode() for name, value in fields(entry) if name < 6} for number, entry in content if number == 7]
    return f": {dict(content)[1].decode()} " + ", ".join(f"{each[4]} {each[2]} {each[3]} {each[5]}" for each in entries)


def main(arguments):
    keys = []
    while "--vkey" in arguments[:-1]:
        at = arguments.index("--vkey")
        keys.append(read_key(arguments[at + 1]))
        arguments = arguments[:at] + arguments[at + 2 :]
    if len(arguments) != 2 or arguments[0] != "proof" or not keys:
        sys.exit(__doc__)
    with open(arguments[1], "rb") as file:
        proof = verify_proof(file.read().decode(), keys)
    since = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=proof["created_ms"])
    time = since.isoformat(timespec="milliseconds") + "Z"
    event = f"event {proof['sequence']} of {proof['size']}, {proof['type']} {proof['id']} of {time}"
    print(f"verified: {event}, is in the log that {proof['signer']} signed{described(proof)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Refused, OSError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        sys.exit(f"refused: {error}")
