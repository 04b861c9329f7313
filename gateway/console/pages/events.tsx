// The log of events as it grows; each link of its hash chain is checked in the browser.
import { useCallback, useEffect, useRef, useState, type ReactElement } from 'react';
import type { Event, Ledger, StreamedEvent } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { brokenLink } from '../parts/chain.ts';
import { SelectField } from '../parts/form.tsx';
import { useFilters } from '../parts/links.ts';
import { formatCount } from '../parts/money.ts';
import { Badge, Page } from '../parts/page.tsx';
import { Empty, Loading, ProblemView } from '../parts/problem.tsx';
import { Table, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { useTenant } from '../tenant.tsx';
import { eventTypes } from './webhook-form.tsx';

const words = texts.events;

const firstShown = 200;
const mostShown = 5_000;
const showEveryMs = 100;

type State = 'waiting' | 'live' | 'broken';

interface Log {
  /** Oldest first; undefined until the first answer. */
  events: StreamedEvent[] | undefined;
  state: State;
  error: unknown;
  earlier: (() => void) | undefined;
}

/** The sequence of the newest event but for what is newer than the newest transaction. */
async function newestSequence(ledger: Ledger, signal: AbortSignal): Promise<number> {
  const { transactions } = await ledger.transactions.list({ limit: 1, signal });
  return transactions[0]?.sequence ?? 0;
}

/** Follows the log from its newest events on. */
function useLog(isPaused: boolean): Log {
  const { ledger } = useTenant();
  const [events, setEvents] = useState<StreamedEvent[]>();
  const [state, setState] = useState<State>('waiting');
  const [error, setError] = useState<unknown>();
  const arrived = useRef<StreamedEvent[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const follow = async (): Promise<void> => {
      const after = Math.max(0, (await newestSequence(ledger, stop.signal)) - firstShown);
      setEvents((known) => known ?? []);
      setState('live');
      for await (const event of ledger.events.listen({ after, signal: stop.signal, onBreak: () => setState('broken') })) {
        arrived.current.push(event);
        // While it is paused, as many wait as are shown.
        if (arrived.current.length > mostShown) arrived.current.shift();
        setState('live');
      }
    };
    follow().catch((thrown: unknown) => stop.signal.aborted || setError(thrown));
    return () => stop.abort();
  }, [ledger]);
  useEffect(() => {
    if (isPaused) return;
    // A busy ledger has hundreds of events a second.
    const timer = setInterval(() => {
      const fresh = arrived.current.splice(0);
      if (fresh.length > 0) setEvents((known = []) => [...known, ...fresh].slice(-mostShown));
    }, showEveryMs);
    return () => clearInterval(timer);
  }, [isPaused]);
  const first = events?.[0]?.sequence ?? 1;
  const earlier = useCallback(async () => {
    const after = Math.max(0, first - 1 - firstShown);
    const found: StreamedEvent[] = [];
    for await (const event of ledger.events.list({ after_sequence: after, limit: 100 })) {
      if (event.sequence >= first) break;
      found.push(event);
    }
    setEvents((known = []) => [...found, ...known]);
  }, [ledger, first]);
  return { events, state, error, earlier: first > 1 ? () => void earlier().catch(setError) : undefined };
}

/** What an event is about, in few words. */
export function aboutOf({ data }: Pick<Event, 'data'>): string {
  const { description, account_code: code, hold_id: hold, name, through, id } = data as Record<string, string | undefined>;
  const transaction = (data as { transaction?: { description?: string } }).transaction?.description;
  return description ?? transaction ?? code ?? name ?? hold ?? through ?? id ?? '';
}

const columns: ColumnOf<StreamedEvent>[] = [
  { id: 'sequence', label: words.sequence, width: 90, isNumber: true, cell: ({ sequence }) => formatCount(sequence) },
  { id: 'type', label: words.event, width: 170, isRowHeader: true, cell: ({ type }) => <code>{type}</code> },
  { id: 'about', label: words.about, width: '2fr', cell: aboutOf },
  { id: 'at', label: words.at, width: 184, cell: ({ created }) => <Time time={new Date(created * 1000).toISOString()} /> },
  { id: 'hash', label: words.hash, width: 130, isOptional: true, cell: ({ hash }) => <code>{hash.slice(0, 12)}</code> },
];

/** The page. */
export function EventsPage(): ReactElement {
  const [isPaused, setPaused] = useState(false);
  const [{ type }, set] = useFilters(['type']);
  const { events, state, error, earlier } = useLog(isPaused);
  const shown = (events ?? []).filter((event) => type === undefined || event.type === type).toReversed();
  return (
    <Page
      title={words.title}
      lead={words.lead}
      actions={
        <Button onPress={() => setPaused(!isPaused)} isPressed={isPaused}>
          {isPaused ? words.resume : words.pause}
        </Button>
      }
    >
      <div className="filters">
        <SelectField
          label={words.types}
          name="type"
          value={type ?? 'all'}
          onChange={(value) => set({ type: value === 'all' ? '' : value })}
          options={[{ id: 'all', label: texts.common.all }, ...eventTypes.map((id) => ({ id, label: id }))]}
        />
        <p className="log-state" role="status">
          <StateBadge state={isPaused ? 'paused' : state} /> {events && events.length > 0 && <Links events={events} />}
        </p>
      </div>
      {error !== undefined && <ProblemView error={error} />}
      {events === undefined ? (
        error === undefined && <Loading lines={12} />
      ) : (
        <Table
          label={words.title}
          columns={columns}
          items={shown}
          idOf={({ id }) => id}
          hrefOf={({ sequence }) => `/events/${sequence}`}
          empty={events.length === 0 ? <Empty title={words.none}>{words.noneText}</Empty> : <Empty title={words.nothingOfType} />}
        />
      )}
      {earlier && (
        <div className="more-lines">
          <Button onPress={earlier}>{words.earlier}</Button>
        </div>
      )}
    </Page>
  );
}

function StateBadge({ state }: { state: State | 'paused' }): ReactElement {
  if (state === 'live') return <Badge tone="good">{words.live}</Badge>;
  if (state === 'paused') return <Badge tone="warn">{words.paused}</Badge>;
  return <Badge tone="warn">{state === 'waiting' ? words.waiting : words.reconnecting}</Badge>;
}

function Links({ events }: { events: readonly StreamedEvent[] }): ReactElement {
  const broken = brokenLink(events);
  if (broken !== undefined) return <Badge tone="bad">{words.broken(broken)}</Badge>;
  return <span>{words.linked(formatCount(events.length))}</span>;
}
