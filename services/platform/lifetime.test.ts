import { createServer } from 'node:net';
import { setImmediate as later } from 'node:timers/promises';
import { Lifetime, StartFailure, errorMessage, listening } from './lifetime.ts';

const tryTo = (variable: 'PORT' | 'OPS_PORT', host: string, port: number): Promise<unknown> => {
  const server = createServer();
  const listen = new Promise((done, fail) => server.once('error', fail).listen(port, host, () => server.close(done)));
  return listening({ variable, host, port }, listen).catch((error: unknown) => error);
};

test('a process that can’t listen names the variable to change', async () => {
  const holder = createServer();
  await new Promise<void>((done) => holder.listen(0, '127.0.0.1', done));
  const { port } = holder.address() as { port: number };
  for (const variable of ['PORT', 'OPS_PORT'] as const) {
    const taken = `${variable} can't be ${port}: 127.0.0.1:${port} is in use`;
    expect(await tryTo(variable, '127.0.0.1', port)).toEqual(new StartFailure(taken));
  }
  holder.close();
  // An address for documentation, which no machine has: https://www.rfc-editor.org/rfc/rfc5737
  expect(await tryTo('PORT', '203.0.113.9', 0)).toEqual(
    new StartFailure(`HOST can't be 203.0.113.9: this machine can't listen there (EADDRNOTAVAIL)`),
  );
  expect(await tryTo('PORT', 'nowhere.invalid', 0)).toMatchObject({ message: expect.stringMatching(/^HOST can't be nowhere\.invalid: /) });
});

test('an error of several addresses has the message of the first', () => {
  expect(errorMessage(new AggregateError([new Error('refused'), new Error('away')]))).toBe('refused');
  expect(errorMessage(new Error('lost'))).toBe('lost');
});

test('parts stop once and last first, also when a signal comes while a failed start is being ended', async () => {
  const lifetime = new Lifetime();
  const stops: string[] = [];
  for (const name of ['pool', 'writer', 'server']) {
    lifetime.add(name, async () => {
      stops.push(name);
      await later();
      stops.push(`${name} stopped`);
    });
  }
  const first = lifetime.end();
  await lifetime.end();
  const inOrder = ['server', 'server stopped', 'writer', 'writer stopped', 'pool', 'pool stopped'];
  expect(stops).toEqual(inOrder);
  await first;
  expect(stops).toEqual(inOrder);
});
