// Prints the calls of a sequence as a shell script that signs up, makes its own tenant and key, and repeats them against any cluster.
import type { Call, Made } from './doors.ts';

const ids = /(?:(?:txn|tenant|key|acc|evt|wh_delivery)_[0-7][0-9a-hjkmnp-tv-z]{25}|lk_live_[0-9A-Za-z_]+|whsec_[0-9A-Za-z+/=]+)/g;

/** What the script must put in the place of this run's own values. */
export interface Own {
  /** The owner's token. */
  token: string;
  /** Begins every slug. */
  name: string;
  /** Address of the receiver. */
  receiver: string;
}

const head = `API=\${API:-http://127.0.0.1:8080}             # the gateway
LEDGER=\${LEDGER:-127.0.0.1:50052} INTERNAL=\${INTERNAL:-}  # the ledger and its token, for steps over gRPC
RECEIVER=\${RECEIVER:-http://127.0.0.1:9}
RUN=m$(date +%s)-$RANDOM

# call METHOD PATH TOKEN [BODY [curl's options]]: prints the status and the answer, and keeps it
call() {
  printf '%s %s\\n' "$1" "$2"
  local options=(-sS -g -X "$1" "$API$2" -H 'Content-Type: application/json' -w '\\n%{http_code}')
  [ -z "$3" ] || options+=(-H "Authorization: Bearer $3")
  SAID=$(printf '%s' "\${4-}" | curl "\${options[@]}" --data-binary @- "\${@:5}")
  printf '%s\\n\\n' "$SAID"
}
# message METHOD BODY: the same over gRPC
message() {
  printf '%s\\n' "$1"
  SAID=$(grpcurl -plaintext -H "authorization: Bearer $INTERNAL" -d "$2" "$LEDGER" "ledger.v1.LedgerService/$1" 2>&1)
  printf '%s\\n\\n' "$SAID"
}
# nth N PATTERN: the Nth text of the last answer that fits
nth() { printf '%s' "$SAID" | grep -oE "$2" | sed -n "$1p"; }

WHO="$RUN@example.com"
call POST /v1/auth/register '' '{"email":"'"$WHO"'","password":"correct horse","first_name":"Ada","last_name":"Obi"}' > /dev/null
call POST /v1/auth/login '' '{"email":"'"$WHO"'","password":"correct horse"}' > /dev/null
JWT=$(nth 1 'eyJ[A-Za-z0-9_.-]+')
`;

const json = (value: unknown) => JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? each.toString() : each));

function textsOf(call: Call): string[] {
  if (call.via === 'grpc') return [json(call.request)];
  const { path, token = '', body } = call;
  return [path, token, body === undefined ? '' : typeof body === 'string' ? body : json(body)];
}

/** The script: all of these calls, the last of which is where model and cluster went apart. */
export function script(calls: Made[], own: Own, why: string[]): string {
  const variables = new Map<string, string>([
    [own.token, 'JWT'],
    [own.name, 'RUN'],
    [own.receiver, 'RECEIVER'],
  ]);
  const lines: string[] = [];
  for (const [place, { call, answer }] of calls.entries()) {
    lines.push(lineOf(call, variables));
    const later = calls
      .slice(place + 1)
      .flatMap((each) => textsOf(each.call))
      .join('\n');
    const seen = new Map<string, number>();
    for (const [text] of answer.matchAll(ids)) {
      const kind = text.startsWith('lk_live') ? 'lk_live_[0-9A-Za-z_]+' : `${text.slice(0, text.lastIndexOf('_'))}_[0-9a-z]{26}`;
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
      if (variables.has(text) || !later.includes(text)) continue;
      const name = `V${variables.size}`;
      variables.set(text, name);
      lines.push(`${name}=$(nth ${seen.get(kind)!} '${kind}')`);
    }
  }
  return ['#!/usr/bin/env bash', ...why.map((line) => `# ${line}`), head, ...lines, ''].join('\n');
}

function lineOf(call: Call, variables: Map<string, string>): string {
  const quoted = (text: string) => {
    let out = `'${text.replaceAll("'", `'\\''`)}'`;
    for (const [value, name] of variables) out = out.replaceAll(value, `'"$${name}"'`);
    return out.replaceAll(`''"`, '"').replaceAll(`"''`, '"') || `''`;
  };
  if (call.via === 'grpc') {
    const name = call.method[0]!.toUpperCase() + call.method.slice(1);
    return `message ${name} ${quoted(json(call.request))}`;
  }
  const [path = '', token = '', body = ''] = textsOf(call);
  const headers = Object.entries(call.headers ?? {})
    .filter(([name]) => name !== 'x-request-id')
    .map(([name, value]) => ` -H '${name}: ${value}'`);
  const bodied = body === '' && headers.length === 0 ? '' : ` ${quoted(body)}`;
  return `call ${call.method} ${quoted(path)} ${quoted(token)}${bodied}${headers.join('')}`;
}
