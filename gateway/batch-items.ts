// Items of a batch or an import: each is validated as the body of its own route, and becomes a command.
import type { FastifyRequest } from 'fastify';
import { Type, type Static, type TSchema } from 'typebox';
import type { Command, CommandResult } from '../proto/gen/ledger/v1/ledger_pb.js';
import { captureBody, doubleBody, exchangeBody, holdBody, reversalBody, singleBody, voidBody } from './command-bodies.ts';
import { toCapture, toHold, toPosting, toReversal, toVoid } from './commands.ts';
import { ApiError, errorOfRefusal, validationError } from './errors.ts';
import { idOf, oneOf } from './fields.ts';
import { commandFields } from './mapping.ts';
import { exchangeOf } from './payment-fields.ts';
import type { OpenedPersonal } from './personal.ts';
import { refusalInfo } from './rejections.ts';
import { fieldMessage } from './validation-messages.ts';
import { bodyValidator, type Schema } from './validation.ts';

/** What an item may do. */
export const ops = ['single', 'double', 'exchange', 'hold', 'capture', 'void', 'reverse'] as const;
type Op = (typeof ops)[number];
type PathField = 'hold_id' | 'transaction_id';

/** The most entries that commands submitted together may have. */
export const maxEntries = 2_000;

/** What an item is read with. */
export interface ItemContext {
  request: FastifyRequest;
  /** What it is a part of, or the item itself. */
  whole: object;
  /** Of its `effective_at`, if that is a day. */
  timeZone: string;
}

/** An operation of a batch, and the route that it stands for. */
export interface Operation {
  body: Schema;
  /** What the route has in its path. */
  pathField: PathField | undefined;
  read: (context: ItemContext, sent: Record<string, unknown>, id: string) => Command['command'] | ApiError;
}

function operation<Body extends TSchema>(
  body: Body,
  make: (context: ItemContext, body: Static<Body>, id: string) => Command['command'],
  pathField?: PathField,
): Operation {
  const validate = bodyValidator(body);
  return {
    body,
    pathField,
    read: (context, sent, id) => {
      const verdict = validate(sent, context.whole);
      if (verdict !== true && 'error' in verdict) return verdict.error;
      return make(context, sent as Static<Body>, id);
    },
  };
}

const notTried = ({ timeZone }: ItemContext) => ({ dryRun: false, timeZone });

/** Every operation by its `op`. */
export const operations: Record<Op, Operation> = {
  single: operation(singleBody, (context, { account_code, amount, side, currency, ...body }) => {
    const entries = [{ account_code, amount, side, currency }];
    return { case: 'posting', value: toPosting(context.request, body, entries, notTried(context)) };
  }),
  double: operation(doubleBody, (context, body) => {
    return { case: 'posting', value: toPosting(context.request, body, body.entries, notTried(context)) };
  }),
  exchange: operation(exchangeBody, (context, body) => {
    return { case: 'posting', value: { ...toPosting(context.request, body, [], notTried(context)), exchange: exchangeOf(body) } };
  }),
  hold: operation(holdBody, ({ request }, body) => ({ case: 'hold', value: toHold(request.caller, body) })),
  capture: operation(
    captureBody,
    ({ request, timeZone }, body, id) => ({ case: 'capture', value: toCapture(request.caller, id, body, timeZone) }),
    'hold_id',
  ),
  void: operation(voidBody, (_, body, id) => ({ case: 'void', value: toVoid(id, body) }), 'hold_id'),
  reverse: operation(
    reversalBody,
    ({ request, timeZone }, body, id) => ({ case: 'reversal', value: toReversal(request.caller, id, body, timeZone) }),
    'transaction_id',
  ),
};

const validateOp = bodyValidator(Type.Object({ op: oneOf(ops) }));
const validateId = {
  hold_id: bodyValidator(Type.Object({ hold_id: idOf('hold', '') })),
  transaction_id: bodyValidator(Type.Object({ transaction_id: idOf('txn', '') })),
};

/** An item, as far as it could be read. */
export interface Item {
  op: Op | undefined;
  /** What its route has in the path, if it has. */
  id: unknown;
  /** Its body, without `op` and what its route has in the path. */
  body: unknown;
  command: Command | ApiError;
}

/** The `effective_at` of an item, whatever it is. */
export const timeOfItem = (item: unknown): unknown => (Object(item) as Record<string, unknown>)['effective_at'];

/** Reads an item. */
export function readItem(context: ItemContext, item: unknown): Item {
  const { whole } = context;
  const verdict = validateOp(item, whole);
  if (verdict !== true && 'error' in verdict) return { op: undefined, id: undefined, body: undefined, command: verdict.error };
  const { op, ...fields } = item as { op: Op } & Record<string, unknown>;
  const { pathField, read } = operations[op];
  const { [pathField ?? 'op']: id, ...body } = fields;
  return { op, id, body, command: commandOf() };

  function commandOf(): Command | ApiError {
    try {
      const command = read(context, body, id as string);
      if (command instanceof ApiError) return command;
      // A batch that is sent again must not post again.
      if (op !== 'void' && body['idempotency_key'] == null) return keyRequired;
      const ofId = pathField === undefined ? true : validateId[pathField]({ [pathField]: id }, whole);
      return ofId !== true && 'error' in ofId ? ofId.error : { $typeName: 'ledger.v1.Command', command };
    } catch (error) {
      if (error instanceof ApiError) return error;
      throw error;
    }
  }
}

const keyRequired = validationError([
  { field: 'idempotency_key', tag: 'required', value: '', message: fieldMessage('idempotency_key', 'required', {}) },
]);

/** How many entries a command names; an exchange names all that it posts. */
export function entriesOf({ command }: Command): number {
  if (command.case === 'posting' && command.value.exchange)
    return 4 + command.value.exchange.fees.length + (command.value.exchange.spread ? 1 : 0);
  return command.case === undefined || command.case === 'void' ? 0 : command.value.entries.length;
}

/** What became of an item. */
export interface Outcome {
  status: number;
  replayed: boolean;
  result: CommandResult | ApiError;
}

/** What became of an item whose command was decided. */
export function outcomeOf({ op, body }: Item, result: CommandResult, dryRun: boolean): Outcome {
  if (result.refusal) return failed(errorOfRefusal(refusalInfo(result.refusal), body) ?? new ApiError('internal'));
  return { status: dryRun || result.replayed || op === 'void' ? 200 : 201, replayed: result.replayed, result };
}

/** What became of an item that was refused. */
export function failed(error: ApiError): Outcome {
  return { status: error.status, replayed: false, result: error };
}

/** One of `results`: what the item's route alone would have answered. `opened`: personal data of its transaction. */
export function outcomeJson({ status, replayed, result }: Outcome, opened: OpenedPersonal): string {
  if (!(result instanceof ApiError)) return `{"status":${status},"replayed":${replayed},"data":{${commandFields(result, opened)}}}`;
  const { success: _, request_id: __, ...said } = result.body('');
  return JSON.stringify({ status, replayed, ...said });
}

/** The error of an item as one of the whole batch: its fields begin with `items[3].`. */
export function errorOfItem(error: ApiError, index: number, { op, id }: Item): ApiError {
  const at = `items[${index}]`;
  const pathField = op && operations[op].pathField;
  const named = (field: string) => (field === 'body' ? at : `${at}.${field}`);
  const { code, details, errors, headers, extra } = error;
  if (error.status >= 500) return error;
  return new ApiError(code, {
    message: error.message,
    details: details
      ? { ...details, field: named(details.field) }
      : { field: pathField && error.status === 404 ? named(pathField) : at, tag: code, value: id ?? '' },
    errors: errors?.map(({ field, message, ...rest }) => ({
      ...rest,
      field: named(field),
      message: message.startsWith(field) ? named(field) + message.slice(field.length) : message,
    })),
    headers,
    extra,
  });
}
