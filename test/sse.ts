// A client of Server-Sent Events that reads message by message.

/** A message as it was sent; a comment alone has neither type nor data. */
export interface Message {
  id?: string;
  event?: string;
  data?: any;
}

/** An open stream. */
export interface SseClient {
  status: number;
  headers: Headers;
  /** The next message, comments included; undefined at the end. */
  next(): Promise<Message | undefined>;
  /** The next messages with data, so many of them. */
  take(count: number): Promise<Message[]>;
  close(): void;
}

/** Opens a stream. */
export async function openSse(url: string, headers: Record<string, string>): Promise<SseClient> {
  const closing = new AbortController();
  const answer = await fetch(url, { headers, signal: closing.signal });
  const messages = read(answer);
  const next = async () => (await messages.next()).value;
  return {
    status: answer.status,
    headers: answer.headers,
    next,
    async take(count) {
      const taken: Message[] = [];
      while (taken.length < count) {
        const message = await next();
        if (!message) throw new Error(`the stream ended after ${JSON.stringify(taken)}`);
        if (message.data !== undefined) taken.push(message);
      }
      return taken;
    },
    close: () => closing.abort(),
  };
}

async function* read({ body }: Response): AsyncGenerator<Message, undefined> {
  let rest = '';
  for await (const piece of (body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(new TextDecoderStream())) {
    rest += piece;
    const blocks = rest.split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) yield messageOf(block);
  }
  return undefined;
}

function messageOf(block: string): Message {
  const lines = block.split('\n').map((line) => line.split(/: (.*)/s, 2) as [string, string]);
  const { id, event, data } = Object.fromEntries(lines) as Record<string, string | undefined>;
  return { ...(id !== undefined && { id }), ...(event !== undefined && { event }), ...(data !== undefined && { data: JSON.parse(data) }) };
}
