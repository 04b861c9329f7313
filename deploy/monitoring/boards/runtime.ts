// Dashboard: CPU, memory and event loop of every process, its gRPC server, and its connections to PostgreSQL.
import { chart, dashboard, quantile, rate } from '../panels.ts';

const of = (metric: string) => `${metric}{process=~"$process"}`;
const each = (expr: string) => [[expr, '{{process}} {{instance}}']] as [string, string][];

export const runtime = dashboard({
  uid: 'ledger-runtime',
  title: 'Ledger: processes and PostgreSQL pools',
  description: 'What each process uses, its gRPC calls, and its connections to PostgreSQL.',
  variables: { process: 'process_start_time_seconds' },
  rows: {
    'PostgreSQL pools': [
      chart(
        'Use',
        'Share of a pool that is in use. At 100 % calls wait. The pools of writers are always in use.',
        'percentunit',
        [
          [
            `sum by (pool) (postgres_pool_connections{process=~"$process", state="used"}) / sum by (pool) (${of('postgres_pool_connections_max')})`,
            '{{pool}}',
          ],
        ],
        { max: 1 },
      ),
      chart('Calls that wait', 'For a connection of the pool.', 'short', [[`sum by (pool) (${of('postgres_pool_waiting')})`, '{{pool}}']]),
      chart('Connections', 'Open ones of all pools, used and idle.', 'short', [
        [`sum by (process, state) (${of('postgres_pool_connections')})`, '{{process}} {{state}}'],
      ]),
    ],
    Processes: [
      chart(
        'Event loop',
        'Share of time in which it is busy. At 100 % the process can do no more.',
        'percentunit',
        each(rate(of('nodejs_eventloop_active_seconds_total'), 'process', 'instance')),
        { max: 1 },
      ),
      chart('Delay of the event loop, 99 %', 'An idle process shows 10 ms.', 's', each(of('nodejs_eventloop_lag_p99_seconds'))),
      chart(
        'CPU',
        'Cores. Above 1: threads of the runtime work too.',
        'short',
        each(rate(of('process_cpu_seconds_total'), 'process', 'instance')),
      ),
      chart('Memory', 'Resident.', 'bytes', each(of('process_resident_memory_bytes'))),
      chart('Heap', 'Used by JavaScript.', 'bytes', each(of('nodejs_heap_size_used_bytes'))),
      chart('Garbage collection', 'Share of time.', 'percentunit', each(rate(of('nodejs_gc_duration_seconds_sum'), 'process', 'instance'))),
      chart('Open files', 'Sockets included.', 'short', each(of('process_open_fds'))),
      chart('Starts', 'In the last hour.', 'short', [
        [`sum by (process) (changes(${of('process_start_time_seconds')}[1h]))`, '{{process}}'],
      ]),
    ],
    'gRPC servers': [
      chart('Calls', 'The ten busiest methods.', 'reqps', [
        [`topk(10, ${rate(of('grpc_server_seconds_count'), 'process', 'method')})`, '{{process}} {{method}}'],
      ]),
      chart('Calls that fail', 'By method and code.', 'reqps', [
        [
          rate('grpc_server_seconds_count{process=~"$process", code!="ok"}', 'process', 'method', 'code'),
          '{{process}} {{method}} {{code}}',
        ],
      ]),
      chart('Duration, 99 %', 'The ten slowest methods.', 's', [
        [`topk(10, ${quantile(0.99, of('grpc_server_seconds'), 'process', 'method')})`, '{{process}} {{method}}'],
      ]),
      chart('Calls in flight', 'Not answered yet; streams included.', 'short', each(of('grpc_server_calls_in_flight'))),
      chart('Connections', 'Open ones.', 'short', each(of('grpc_server_connections'))),
    ],
  },
});
