// Reports: answered at once, or started as jobs.
import { Readable } from 'node:stream';
import type { GetReportResponse } from '../../proto/gen/ledger/v1/audit_pb.js';
import { exampleNewJob, jobRecord } from '../job-schemas.ts';
import type { Doc } from '../openapi-route.ts';
import { examplePagination } from '../pages.ts';
import { exampleReports } from '../report-records.ts';
import { pagination, record, ref } from '../records.ts';
import { fileExamples, reportBody, reportQuery, reportRoutes, type ReportRoute } from '../report-schemas.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const tag = 'Reports';
const access = { by: 'key', scope: 'reports:read' } as const;
// Beyond the 5 s that a report may take: it may have to wait for its turn, and a client may read slowly.
const timeoutMs = 60_000;

const reproduced =
  'Made of one state of the log, `as_recorded`. The same request with its sequence as `known_sequence`, and with the same times, has the same figures for ever. Holds do not count.';

const errorFields: NonNullable<Doc['errorFields']> = {
  validation_failed: { field: 'format', tag: 'oneof', value: 'html' },
  index_building: { field: 'group_by', tag: 'index_building', value: 'transaction.order' },
};

/** `/reports/{report}`. */
export function reportsRoutes(app: App, services: Services): void {
  for (const route of reportRoutes) {
    readRoute(app, services, route);
    jobRoute(app, services, route);
  }
}

function readRoute(app: App, { auditor }: Services, route: ReportRoute): void {
  const { report, id, title, description, isPaged = false, ofAccount = false, errors = [] } = route;
  const schema = ref(isPaged ? `${id}Report` : 'AccountsReport');
  app.get(
    `/v1/tenants/:slug/reports/${report}`,
    {
      schema: { querystring: reportQuery(route) },
      config: {
        access,
        doc: {
          id: `get${id}`,
          tag,
          summary: `Make ${title}`,
          description: `${description}\n\n${reproduced}\n\nBeyond 20,000 lines or 5 s: \`report_too_large\`. Start it as a job then, with \`POST\` on the same path.`,
          answers: {
            200: {
              description: 'The report',
              schema: record({ report: schema, ...(isPaged && { pagination }) }),
              name: id,
              example: { report: exampleReports[report], ...(isPaged && { pagination: examplePagination }) },
              files: fileExamples,
            },
          },
          errors: [
            'report_too_large',
            ...(isPaged ? [] : (['index_building'] as const)),
            ...(ofAccount ? (['account_not_found'] as const) : []),
            ...errors,
          ],
          errorFields,
        },
      },
    },
    async (request, reply) => {
      const { caller, query } = request;
      const rpcRequest = { tenantId: caller.tenantId, report, parameters: JSON.stringify(query) };
      const parts = auditor.getReport(rpcRequest, callOptions(request, timeoutMs))[Symbol.asyncIterator]();
      // An error before the first part is answered as one.
      const first = await parts.next();
      if (first.done === true) throw new Error('the auditor answered without a report');
      reply.header('content-type', first.value.contentType);
      return reply.send(Readable.from(bytesOf(first.value, parts), { objectMode: false }));
    },
  );
}

async function* bytesOf(first: GetReportResponse, parts: AsyncIterator<GetReportResponse>): AsyncGenerator<Uint8Array> {
  if (first.bytes.length > 0) yield first.bytes;
  for (let next = await parts.next(); next.done !== true; next = await parts.next()) yield next.value.bytes;
}

function jobRoute(app: App, { auditor }: Services, route: ReportRoute): void {
  const { report, id, title, body, isPaged = false } = route;
  app.post(
    `/v1/tenants/:slug/reports/${report}`,
    {
      schema: { body: reportBody(route) },
      config: {
        access,
        doc: {
          id: `start${id}`,
          tag,
          summary: `Start ${title} as a job`,
          description:
            'Takes the parameters of `GET` as JSON. The result of the job is what `GET` would have answered, without its bounds in lines and time; statements and journal are whole unless `limit` is sent. A second call starts a second job: after a lost answer, list them first.',
          bodies: { [report]: body },
          ...(route.required === undefined && { bodyOptional: true }),
          answers: {
            202: {
              description: 'Queued',
              schema: record({ job: ref('Job') }),
              name: 'Job',
              example: { job: { ...exampleNewJob, kind: report } },
            },
          },
          errors: isPaged ? [] : ['index_building'],
          errorFields,
        },
      },
    },
    async (request, reply) => {
      const { tenantId } = request.caller;
      const { actor, requestId } = auditContext(request);
      const rpcRequest = { tenantId, kind: report, parameters: JSON.stringify(request.body), actor, requestId };
      const { job } = await auditor.startJob(rpcRequest, callOptions(request, 10_000));
      return reply.code(202).send({ success: true, data: { job: jobRecord(job) } });
    },
  );
}
