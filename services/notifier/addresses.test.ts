import type { LookupAddress, LookupOptions } from 'node:dns';
import { startNameServer, type NameServer } from '../../test/name-server.ts';
import { AddressNotAllowed, dnsResolve, isPublicAddress, Targets } from './addresses.ts';

const never = (name: string) => Promise.reject(new Error(`${name} was looked up`));
const secure = new Targets(false, never);

describe('an address is not dialled that is', () => {
  test.each([
    ['this network', '0.0.0.0', '0.255.255.255'],
    ['private, 10/8', '10.0.0.0', '10.255.255.255'],
    ['shared by carriers', '100.64.0.0', '100.100.100.200', '100.127.255.255'],
    ['loopback', '127.0.0.1', '127.255.255.255'],
    ['link-local, with metadata', '169.254.0.0', '169.254.169.254', '169.254.255.255'],
    ['private, 172.16/12', '172.16.0.0', '172.31.255.255'],
    ['a protocol assignment', '192.0.0.0', '192.0.0.8', '192.0.0.170', '192.0.0.192', '192.0.0.255'],
    ['documentation', '192.0.2.1', '198.51.100.1', '203.0.113.1'],
    ['AS112', '192.31.196.1', '192.175.48.1'],
    ['AMT', '192.52.193.1'],
    ['a 6to4 relay', '192.88.99.1'],
    ['private, 192.168/16', '192.168.0.0', '192.168.255.255'],
    ['for benchmarks', '198.18.0.0', '198.19.255.255'],
    ['multicast', '224.0.0.1', '239.255.255.255'],
    ['reserved', '240.0.0.0', '255.255.255.254'],
    ['broadcast', '255.255.255.255'],
    ['a cloud’s platform', '168.63.129.16'],
    ['unspecified', '::'],
    ['loopback, IPv6', '::1'],
    ['mapped', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:a9fe:a9fe'],
    ['compatible', '::127.0.0.1', '::808:808'],
    ['translated', '::ffff:0:7f00:1', '::ffff:0:808:808'],
    ['NAT64 of a private one', '64:ff9b::7f00:1', '64:ff9b::10.0.0.1', '64:ff9b::a9fe:a9fe'],
    ['NAT64 of local use', '64:ff9b:1::1', '64:ff9b:1::808:808'],
    ['discarded', '100::1', '100:0:0:1::1'],
    ['Teredo', '2001::1', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
    ['a protocol assignment, IPv6', '2001:1::1', '2001:1::3', '2001:4:112::1', '2001:1ff:ffff::1'],
    ['for benchmarks, IPv6', '2001:2::1'],
    ['ORCHID', '2001:10::1', '2001:20::1'],
    ['of a drone', '2001:30::1'],
    ['documentation, IPv6', '2001:db8::1', '3fff::1', '3fff:fff::1'],
    ['6to4 of a private one', '2002:7f00:1::1', '2002:a00:1::', '2002:c0a8:101::1'],
    ['AS112, IPv6', '2620:4f:8000::1'],
    ['for segment routing', '5f00::1'],
    ['unique local', 'fc00::1', 'fd00:ec2::254', 'fdff::1'],
    ['link-local, IPv6', 'fe80::1', 'febf::1', 'fe80::1%eth0'],
    ['site-local', 'fec0::1'],
    ['multicast, IPv6', 'ff02::1', 'ff0e::1'],
    ['not assigned', '4000::1', '8000::1'],
    ['no address', '', 'localhost', '1.2.3.4.5', '1:2'],
  ])('%s', (_, ...addresses) => {
    for (const address of addresses) expect([address, isPublicAddress(address)]).toEqual([address, false]);
  });
});

test('public addresses are dialled, also behind NAT64, 6to4 and IPv6’s map of IPv4', () => {
  const open = ['1.1.1.1', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '172.15.255.255', '172.32.0.0', '198.17.255.255'];
  const open6 = [
    '2606:4700::1111',
    '2a00:1450::1',
    '2001:200::1',
    '2001:4860:4860::8888',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
    '2002:808:808::1',
  ];
  for (const address of [...open, ...open6]) expect([address, isPublicAddress(address)]).toEqual([address, true]);
});

describe('a literal is found in every spelling', () => {
  test.each([
    ['decimal', '2130706433'],
    ['hex', '0x7f000001'],
    ['hex of each byte', '0x7f.0x0.0x0.0x1'],
    ['octal', '0177.0.0.1'],
    ['octal as one', '017700000001'],
    ['short', '127.1'],
    ['shorter', '0'],
    ['with leading zeros', '0127.0.0.1', true],
    ['mixed', '0x7f.1'],
    ['with a trailing dot', '127.0.0.1.'],
    ['in full-width digits', '１２７.０.０.１'],
    ['in circled digits', '①②⑦.⓪.⓪.①'],
    ['with an ideographic full stop', '127。0。0。1'],
    ['percent-encoded', '%31%32%37.0.0.1'],
    ['IPv6', '[::1]'],
    ['IPv6 in full', '[0000:0000:0000:0000:0000:0000:0000:0001]'],
    ['mapped', '[::ffff:127.0.0.1]'],
    ['mapped in hex', '[::ffff:7f00:1]'],
    ['mapped in full', '[0:0:0:0:0:FFFF:7F00:0001]'],
    ['NAT64', '[64:ff9b::127.0.0.1]'],
    ['6to4', '[2002:7f00:1::]'],
    ['metadata as a number', '2852039166'],
  ])('%s: %s', async (_, host, isOther = false) => {
    const url = secure.parse(`https://${host}/hook`);
    // Read as octal this one is 87.0.0.1, and public.
    if (isOther) expect(url).toMatchObject({ hostname: '87.0.0.1' });
    else {
      expect(url).toBeInstanceOf(URL);
      expect(() => secure.checkLiteral(url as URL)).toThrow(AddressNotAllowed);
      expect(await secure.isAllowed(url as URL)).toBe(false);
    }
  });
});

test.each(['a', '\u{1f600}'])('a target has 2048 characters at most, of %s too, whatever those take', (character) => {
  const address = (length: number) => 'https://example.com/' + character.repeat(length - 20);
  expect(secure.parse(address(2048))).toBeInstanceOf(URL);
  expect(secure.parse(address(2049))).toBe('max');
});

describe('a target is refused that is', () => {
  test.each([
    ['empty', '', 'url'],
    ['no address', 'hello', 'url'],
    ['with something before', '1https://example.com/', 'url'],
    ['relative', '//example.com/hook', 'url'],
    ['without slashes', 'https:example.com', 'url'],
    ['with backslashes', 'https:\\\\example.com\\hook', 'url'],
    ['with a blank', 'https://example.com/a b', 'url'],
    ['with a line break', 'https://exam\nple.com', 'url'],
    ['with a blank before', ' https://example.com', 'url'],
    ['with an invisible character', 'https://exam\u00adple.com', 'url'],
    ['without a host', 'https:///hook', 'url'],
    ['of a name with an empty part', 'https://hooks..example.com/', 'url'],
    ['of a name that begins with a dot', 'https://.example.com/', 'url'],
    ['of a name with a part that is too long', `https://${'a'.repeat(64)}.example.com/`, 'url'],
    ['of a name that is too long', `https://${'a.'.repeat(126)}ab/`, 'url'],
    ['with a user', 'https://user@example.com', 'credentials'],
    ['with a password', 'https://:secret@example.com', 'credentials'],
    ['at port 0', 'https://example.com:0/', 'url'],
    ['at a port beyond', 'https://example.com:65536/', 'url'],
    ['with a bad IPv6', 'https://[::1', 'url'],
    ['with a bad number', 'https://256.256.256.256/', 'url'],
    ['too long', `https://example.com/${'a'.repeat(2048)}`, 'max'],
    ['http', 'http://example.com/', 'https'],
    ['a file', 'file:///etc/passwd', 'url'],
    ['another protocol', 'ftp://example.com/', 'https'],
    ['gopher', 'gopher://example.com:70/', 'https'],
  ])('%s', (_, text, tag) => {
    expect(secure.parse(text)).toBe(tag);
  });
});

test.each([
  'https://hooks.example.com./',
  `https://${'a'.repeat(63)}.com/`,
  `https://${'a.'.repeat(126)}a/`,
  `https://${'a.'.repeat(126)}a./`,
])('a target may be of any name that DNS can ask for: %s', (text) => {
  expect(secure.parse(text)).toEqual(new URL(text));
});

test('http and any address are allowed with insecure targets only', async () => {
  const insecure = new Targets(true, never);
  const url = insecure.parse('http://127.0.0.1:8080/hook') as URL;
  expect(await insecure.isAllowed(url)).toBe(true);
  expect(() => insecure.checkLiteral(url)).not.toThrow();
  expect(insecure.parse('ftp://127.0.0.1/')).toBe('https');
});

describe('a name', () => {
  const looked = (targets: Targets, options: LookupOptions = { all: true }) =>
    new Promise<string | LookupAddress[]>((done, fail) =>
      targets.lookup('hooks.example', options, (error, found) => (error ? fail(error) : done(found))),
    );

  test.each([
    [['127.0.0.1']],
    [['93.184.215.14', '10.0.0.1']],
    [['10.0.0.1', '93.184.215.14']],
    [['93.184.215.14', '::1']],
    [['2606:2800::1', 'fd00::1']],
    [['::ffff:169.254.169.254']],
  ])('that leads to %p is neither configured nor connected to', async (addresses) => {
    const targets = new Targets(false, () => Promise.resolve(addresses));
    expect(await targets.isAllowed(new URL('https://hooks.example/'))).toBe(false);
    await expect(looked(targets)).rejects.toThrow(AddressNotAllowed);
    await expect(looked(targets, {})).rejects.toThrow(AddressNotAllowed);
  });

  test('that was public when it was configured, and no longer is, is not connected to', async () => {
    const answers = [['93.184.215.14'], ['127.0.0.1']];
    const targets = new Targets(false, () => Promise.resolve(answers.shift() ?? []));
    expect(await targets.isAllowed(new URL('https://hooks.example/'))).toBe(true);
    await expect(looked(targets)).rejects.toThrow(AddressNotAllowed);
  });

  test('is looked up once for a connection, which gets the very addresses that were judged', async () => {
    const answers = [['93.184.215.14', '2606:2800::1'], ['127.0.0.1']];
    const targets = new Targets(false, () => Promise.resolve(answers.shift() ?? []));
    expect(await looked(targets)).toEqual([
      { address: '93.184.215.14', family: 4 },
      { address: '2606:2800::1', family: 6 },
    ]);
    expect(answers).toHaveLength(1);
  });

  test('is handed out by its first address where one is wanted, with its family', async () => {
    const first = (address: string) =>
      new Promise<[string, number]>((done, fail) =>
        new Targets(false, () => Promise.resolve([address, '8.8.8.8'])).lookup('hooks.example', {}, (error, found, family) =>
          error ? fail(error) : done([found as string, family as number]),
        ),
      );
    expect(await first('93.184.215.14')).toEqual(['93.184.215.14', 4]);
    expect(await first('2606:2800::1')).toEqual(['2606:2800::1', 6]);
  });

  test('of any address is connected to where insecure targets are admitted', async () => {
    expect(await looked(new Targets(true, () => Promise.resolve(['10.0.0.1'])))).toEqual([{ address: '10.0.0.1', family: 4 }]);
  });

  test('that has no address yet may be configured, and is not connected to', async () => {
    const targets = new Targets(false, never);
    expect(await targets.isAllowed(new URL('https://hooks.example/'))).toBe(true);
    await expect(looked(targets)).rejects.toThrow('was looked up');
    await expect(looked(new Targets(false, () => Promise.resolve([])))).rejects.toThrow('has no address');
  });

  test('whose servers do not answer may be configured, after a short wait', async () => {
    const targets = new Targets(false, () => new Promise(() => undefined));
    expect(await targets.isAllowed(new URL('https://hooks.example/'))).toBe(true);
  });
});

describe('names are resolved by DNS itself', () => {
  const records: Record<string, string[]> = {
    'both.test': ['93.184.215.14', '2606:2800::1'],
    'four.test': ['93.184.215.14', '93.184.215.15'],
    'six.test': ['2606:2800::1'],
    'slow.test': ['93.184.215.14', '2606:2800::1'],
    'old.test': ['93.184.215.14'],
    'localhost.test': ['93.184.215.14'],
    mylocalhost: ['93.184.215.14'],
  };
  let names: NameServer;
  const resolve = (name: string, system = false) => dnsResolve({ system, servers: [names.address] })(name);

  const questions = (name: string, type: string) => names.asked.filter((each) => each === `${type} ${name}`).length;

  beforeAll(async () => {
    names = await startNameServer((name, type) => {
      if (name === 'slow.test' && questions(name, type) < 3) return null;
      if ((/^(old|half)/.test(name) && type === 'AAAA') || name.startsWith('dead')) return null;
      return { addresses: records[name] ?? [] };
    });
  });
  afterAll(() => names.close());

  test.each(['both.test', 'four.test', 'six.test', 'localhost.test', 'mylocalhost'])(
    '%s has all its addresses, of either family',
    async (name) => {
      expect(await resolve(name)).toEqual(records[name]);
    },
  );

  test('one whose servers are slow is asked for more than twice, however quick others were', async () => {
    const quick = dnsResolve({ system: false, servers: [names.address] });
    for (let asked = 0; asked < 20; asked++) await quick('both.test');
    expect(await quick('slow.test')).toEqual(records['slow.test']);
  });

  test('one whose server never answers for IPv6 has its other addresses soon', async () => {
    const asked = async () => {
      const before = questions('old.test', 'AAAA');
      expect(await resolve('old.test')).toEqual(['93.184.215.14']);
      return questions('old.test', 'AAAA') - before;
    };
    // On a busy machine a second may pass, and it is asked again, but not each time.
    expect(Math.min(await asked(), await asked(), await asked())).toBe(1);
  });

  test('the name server’s error is passed on', async () => {
    await expect(resolve('nobody.test')).rejects.toMatchObject({ code: 'ENODATA' });
  });

  test.each(['localhost', 'LocalHost', 'localhost.', 'a.localhost', 'a.b.localhost.'])(
    '%s is this machine, and no name server is asked',
    async (name) => {
      const before = names.asked.length;
      expect(await resolve(name)).toEqual(['127.0.0.1', '::1']);
      expect(names.asked).toHaveLength(before);
    },
  );

  test('a developer’s machine is asked where DNS knows nothing, and only then', async () => {
    expect(await resolve('both.test', true)).toEqual(records['both.test']);
    // The system reads this as an address, which no name server is asked for.
    expect(await resolve('127.1', true)).toEqual(['127.0.0.1']);
    await expect(resolve('127.1')).rejects.toMatchObject({ code: 'ENODATA' });
  });
});
