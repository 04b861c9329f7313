// Where deliveries may go: the one judge of addresses, asked when a webhook is configured and again for every connection that is opened.
import { ADDRCONFIG } from 'node:dns';
import { Resolver, lookup } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import ipaddr from 'ipaddr.js';
import { Overloaded, FairSemaphore } from '../platform/fair-semaphore.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

// The special-purpose registries of IANA, and what is not in them but should not be dialled either.
// https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry
const special4 = [
  '0.0.0.0/8', // this network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // shared, carriers' NAT; a cloud's metadata at 100.100.100.200
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // a cloud's platform services, at a public address
  '169.254.0.0/16', // link-local, clouds' metadata
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments, a cloud's metadata at 192.0.0.192
  '192.0.2.0/24', // documentation
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // AMT
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16', // private
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
].map((range) => ipaddr.IPv4.parseCIDR(range));

// What is not global unicast is refused as a whole; these are inside of it.
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
const special6 = [
  '2001::/23', // protocol assignments: Teredo, benchmarks, ORCHID, drones
  '2001:db8::/32', // documentation
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
].map((range) => ipaddr.IPv6.parseCIDR(range));

// Addresses that carry an IPv4 address, which is the one that is reached: translated (NAT64) and 6to4, with the byte at which it begins.
const carriers = [
  { range: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('2002::/16'), at: 2 },
];

/** Whether an IP address is one of the public Internet. Whatever is not an address is not. */
export function isPublicAddress(address: string): boolean {
  return ipaddr.isValid(address) && judge(ipaddr.parse(address));
}

function judge(address: Address): boolean {
  if (address instanceof ipaddr.IPv4) return !special4.some((range) => address.match(range));
  if (address.isIPv4MappedAddress()) return judge(address.toIPv4Address());
  const carrier = carriers.find(({ range }) => address.match(range));
  if (carrier) return judge(new ipaddr.IPv4(address.toByteArray().slice(carrier.at, carrier.at + 4)));
  return address.match(globalUnicast) && !special6.some((range) => address.match(range));
}

/** All addresses of a name. */
export type Resolve = (name: string) => Promise<string[]>;

/**
 * How often a name server is asked, the first time for a second, then for longer. It is less the quicker other names were: two tries of 3 s each
 * gave up after 1.5 s on a name whose servers are slow or lose a packet. On a developer's machine the system is to be asked soon.
 */
const tries = { dns: 5, beforeSystem: 2 };

/** There are servers that never answer for IPv6: where a name has addresses of the other family, milliseconds that are waited for it. */
const sixLaterMs = 250;

// Labels of 1 to 63 characters, 253 in all, which is as much as DNS can ask for: RFC 1035, section 2.3.4. Addresses are shorter.
const resolvable = /^(?=.{1,253}\.?$)([^.]{1,63}\.)*[^.]{1,63}\.?$/;

/** Whoever configures a target does not wait for longer for its addresses, milliseconds. */
const admitMs = 5_000;

/** Whether a name server has said that there is no such name, or no such address of it. */
const isNone = (answer: PromiseSettledResult<string[]>): boolean =>
  answer.status === 'rejected' && ['ENOTFOUND', 'ENODATA'].includes((answer.reason as NodeJS.ErrnoException).code ?? '');

const bySystem: Resolve = async (name) => (await lookup(name, { all: true, hints: ADDRCONFIG })).map(({ address }) => address);

/** What waits for the system's resolver, milliseconds: it gives up on a name server sooner or later. */
const patienceMs = 10_000;

/**
 * Resolves names by DNS itself. The system's resolver (getaddrinfo) would do it on one of the process's four threads, and four tenants
 * whose name servers never answer would stop everybody's look-ups. `system`: asks that one, or what is given, where DNS knows nothing, for names of a
 * developer's machine; for names that no name server has answered for one at a time, as libuv gives it two threads: with two such look-ups under way no
 * other is answered, PostgreSQL's among them. `servers`: `address:port` of name servers to ask instead of the system's.
 */
export function dnsResolve({ system, servers }: { system: boolean | Resolve; servers?: string[] }): Resolve {
  const resolver = new Resolver({ timeout: 1_000, tries: system === false ? tries.dns : tries.beforeSystem });
  if (servers) resolver.setServers(servers);
  const ask = system === true ? bySystem : system;
  const unanswered = new FairSemaphore({ most: 1, ofOne: 1, patienceMs });
  return async (name) => {
    // RFC 6761: these never leave the machine, whatever DNS says.
    if (/(^|\.)localhost\.?$/i.test(name)) return ['127.0.0.1', '::1'];
    const six = Promise.allSettled([resolver.resolve6(name)]);
    const [four] = await Promise.allSettled([resolver.resolve4(name)]);
    const late = four.status === 'fulfilled' ? [pause(sixLaterMs, [], { ref: false })] : [];
    const answers = [four, ...(await Promise.race([six, ...late]))];
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length > 0) return addresses;
    const why: unknown = answers.find((answer) => answer.status === 'rejected')?.reason ?? new Error(`${name} has no address`);
    if (ask === false) throw why;
    if (answers.every(isNone)) return ask(name);
    try {
      return await unanswered.run(name, undefined, () => ask(name));
    } catch (error) {
      throw error instanceof Overloaded ? why : error;
    }
  };
}

/** Thrown where a target may not be dialled. */
export class AddressNotAllowed extends Error {
  constructor(host: string) {
    super(`${host} is, or leads to, an address that is not public`);
    this.name = 'BlockedAddress';
  }
}

/** Code points of a target, at most. */
export const maxUrlLength = 2048;

/** Judges targets; `insecure` lets http and all addresses pass. */
export class Targets {
  readonly insecure: boolean;
  private readonly resolve: Resolve;

  constructor(insecure: boolean, resolve: Resolve = dnsResolve({ system: insecure })) {
    this.insecure = insecure;
    this.resolve = resolve;
  }

  /**
   * Reads a target: the URL, or the tag of what is wrong with it. Numbers in any spelling, unicode digits and brackets are read as the
   * WHATWG standard has it, the way the request itself will read them.
   */
  parse(text: string): URL | 'url' | 'https' | 'max' {
    // A code point has one or two of a text's units.
    if (text.length > maxUrlLength && [...text].length > maxUrlLength) return 'max';
    // The standard forgives blanks, line breaks, backslashes and missing slashes; a target with one is a mistake or a trick.
    if (/[\s\\\p{C}]/u.test(text) || !/^[a-z][a-z0-9+.-]*:\/\/[^/]/i.test(text)) return 'url';
    const url = URL.parse(text);
    if (!url || !resolvable.test(url.hostname)) return 'url';
    if (url.protocol !== 'https:' && !(this.insecure && url.protocol === 'http:')) return 'https';
    return url.username !== '' || url.password !== '' || url.port === '0' ? 'url' : url;
  }

  /** Throws {@link AddressNotAllowed} for an address that may not be dialled; a name passes, its addresses are judged by {@link lookup}. */
  checkLiteral(url: URL): void {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (!this.insecure && isIP(host) !== 0 && !isPublicAddress(host)) throw new AddressNotAllowed(url.hostname);
  }

  /** Whether a target may be configured: its address, or every address that its name has now. A name that has none yet, or none soon, may. */
  async isAllowed(url: URL): Promise<boolean> {
    if (this.insecure) return true;
    try {
      this.checkLiteral(url);
      if (isIP(url.hostname.replace(/^\[|\]$/g, '')) === 0) {
        await Promise.race([this.addresses(url.hostname), pause(admitMs, undefined, { ref: false })]);
      }
      return true;
    } catch (error) {
      return !(error instanceof AddressNotAllowed);
    }
  }

  /**
   * For the socket: resolves a name and hands out the very addresses that were judged. One that may not be dialled blocks all, since which
   * of several is connected to is chance.
   */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.addresses(name).then(
      (addresses) => {
        const entries = addresses.map((address) => ({ address, family: isIP(address) }));
        const [first] = entries;
        if (options.all === true) callback(null, entries);
        else if (first) callback(null, first.address, first.family);
      },
      (error: unknown) => callback(error as NodeJS.ErrnoException, []),
    );
  };

  private async addresses(name: string): Promise<string[]> {
    const addresses = await this.resolve(name);
    if (addresses.length === 0) throw new Error(`${name} has no address`);
    if (!this.insecure && !addresses.every(isPublicAddress)) throw new AddressNotAllowed(name);
    return addresses;
  }
}
