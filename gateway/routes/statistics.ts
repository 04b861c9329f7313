// Figures for plots: how much was posted in each interval.
import { Type } from 'typebox';
import { currency, object, oneOf } from '../fields.ts';
import { record } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const day = (description: string, example: string) => Type.Unsafe<string>({ type: 'string', format: 'date', description, example });

const query = object({
  currency,
  interval: Type.Optional(oneOf(['day', 'week', 'month'], { default: 'day', description: 'A week begins on Monday.' })),
  from: day('First day, in the books’ time zone.', '2030-01-01'),
  to: day('Last day.', '2030-01-31'),
});

/** `/statistics/volume`. */
export function statisticsRoutes(app: App, { auditor }: Services): void {
  app.get(
    '/v1/tenants/:slug/statistics/volume',
    {
      schema: { querystring: query },
      config: {
        access: { by: 'key', scope: 'reports:read' },
        doc: {
          id: 'getVolume',
          tag: 'Reports',
          summary: 'Count transactions and sum their debits',
          description:
            'For each day, week or month by `effective_at`, oldest first, also where nothing was posted: how many transactions have entries in the currency, and the sum of their debits. At most 1,000 points. `date` is the first day of a point within the range. What was posted within the last two seconds may be missing.',
          answers: {
            200: {
              description: 'A point for each interval',
              schema: record({
                points: {
                  type: 'array',
                  items: record({ date: { type: 'string', format: 'date' }, count: { type: 'integer' }, debits: { type: 'string' } }),
                },
              }),
              example: { points: [{ date: '2030-01-01', count: 2, debits: '150.00' }] },
            },
          },
        },
      },
    },
    async (request) => {
      const { currency: of, interval = 'day', from, to } = request.query;
      const { points } = await auditor.getVolume(
        { tenantId: request.caller.tenantId, currency: of, interval, from, to },
        callOptions(request, 5_000),
      );
      return { success: true, data: { points: points.map(({ date, count, debits }) => ({ date, count: Number(count), debits })) } };
    },
  );
}
