import { startCluster } from '../cluster.ts';
import { openChance } from './chance.ts';
import { Member } from './member.ts';

test('a member is answered while identity works, not while it is away, and again when it is back', async () => {
  const cluster = await startCluster();
  const member = new Member(cluster, await cluster.tenant(), openChance(1));
  const until = async (holds: () => boolean) => {
    while (!holds()) await new Promise((done) => setTimeout(done, 20));
  };
  const began = performance.now();
  await until(() => member.answeredSince(began));
  await cluster.kill('identity');
  const away = performance.now();
  await until(() => member.refused !== '');
  expect(member.answeredSince(away)).toBe(false);
  await cluster.restart('identity');
  await until(() => member.answeredSince(away));
  await member.end();
  await cluster.stop();
}, 240_000);
