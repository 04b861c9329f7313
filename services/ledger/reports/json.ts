// A report by accounts as the JSON of REST, in parts.
import { toDecimal } from '../../platform/money.ts';
import { parameterNames } from './parameters.ts';
import type { AccountsReport, Amounts, AsRecorded, Column, Parameters, ReportLine } from './report.ts';

/** Text of an instant; null for null. */
export function timeText(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** The parameters as `data.report` shows them: those that the report takes, resolved. */
export function parametersRecord(parameters: Parameters): Record<string, unknown> {
  const { time, fromMs, toMs, currency, knownSequence, closing, depth, zero, columns, compare, count, groupBy, order, format } = parameters;
  const isAt = time === 'at';
  const all: Record<string, unknown> = {
    account_code: parameters.report === 'account-statement' ? parameters.accountCodes[0] : parameters.accountCodes,
    as_of: isAt ? timeText(toMs) : null,
    from: timeText(fromMs),
    to: isAt ? null : timeText(toMs),
    closing,
    order,
    currency,
    known_sequence: Number(knownSequence),
    depth,
    zero,
    columns,
    compare,
    count: compare === 'none' ? 0 : count,
    group_by: groupBy === null ? null : `${groupBy.of}.${groupBy.key}`,
    format,
  };
  return Object.fromEntries(Object.entries(all).filter(([name]) => parameterNames[parameters.report].includes(name)));
}

/** `as_recorded` of a report. */
export function recordedRecord({ sequence, hash, atMs }: AsRecorded): Record<string, unknown> {
  return { sequence: Number(sequence), hash: hash === null ? null : Buffer.from(hash).toString('hex'), at: timeText(atMs) };
}

/** The fields with which every report begins, as JSON without its braces. */
export function headingJson({ parameters, asRecorded }: { parameters: Parameters; asRecorded: AsRecorded }): string {
  const { report } = parameters;
  return JSON.stringify({
    report,
    parameters: parametersRecord(parameters),
    as_recorded: recordedRecord(asRecorded),
    frozen: asRecorded.frozen,
  }).slice(1, -1);
}

/** The answer of REST, in parts of one line each. */
export function* accountsJson(report: AccountsReport): Generator<string> {
  yield `{"success":true,"data":{"report":{${headingJson(report)},"columns":${JSON.stringify(report.columns.map(columnRecord))},"lines":[`;
  for (const [index, line] of report.lines.entries()) yield (index === 0 ? '' : ',') + JSON.stringify(lineRecord(line));
  yield '],"totals":';
  yield JSON.stringify(report.totals.map(({ currency, section, values }) => ({ currency, section, values: values.map(amountsRecord) })));
  yield '}}}';
}

function columnRecord({ key, fromMs, toMs }: Column): Record<string, unknown> {
  return { key, from: timeText(fromMs), to: timeText(toMs) };
}

function lineRecord({ accountCode, name, type, parentCode, depth, isGroup, ...line }: ReportLine): Record<string, unknown> {
  const { folded, computed, section, group, currency, values } = line;
  return {
    ...{ account_code: accountCode, name, type, parent_code: parentCode, depth, is_group: isGroup },
    ...{ folded, computed, section, group, currency, values: values.map(amountsRecord) },
  };
}

function amountsRecord(amounts: Amounts): Record<string, string> {
  return Object.fromEntries(Object.entries(amounts).map(([name, minor]) => [name, toDecimal(minor)]));
}
