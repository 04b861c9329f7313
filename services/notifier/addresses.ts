// Which addresses deliveries may go to: checked when a webhook is configured and whenever a connection is opened.
import { ADDRCONFIG } from 'node:dns';
import { Resolver, lookup } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import ipaddr from 'ipaddr.js';

// The special-purpose registries of IANA, and further addresses that must not be reached.
// https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry
const special4 = [
  '0.0.0.0/8', // this network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // shared, carrier-grade NAT; cloud metadata at 100.100.100.200
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // cloud platform services at a public address
  '169.254.0.0/16', // link-local, cloud metadata
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments, cloud metadata at 192.0.0.192
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

// Only global unicast is allowed, without these ranges.
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
const special6 = [
  '2001::/23', // protocol assignments: Teredo, benchmarks, ORCHID, drones
  '2001:db8::/32', // documentation
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
].map((range) => ipaddr.IPv6.parseCIDR(range));

// NAT64 and 6to4 addresses reach the IPv4 address that they contain, from this byte on.
const embeddedIpv4Ranges = [
  { range: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), firstByte: 12 },
  { range: ipaddr.IPv6.parseCIDR('2002::/16'), firstByte: 2 },
];

/** True for an IP address of the public Internet; false also for text that is no address. */
export function isPublicAddress(text: string): boolean {
  return ipaddr.isValid(text) && isPublic(ipaddr.parse(text));
}

function isPublic(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address instanceof ipaddr.IPv4) return !special4.some((range) => address.match(range));
  if (address.isIPv4MappedAddress()) return isPublic(address.toIPv4Address());
  const embedded = embeddedIpv4Ranges.find(({ range }) => address.match(range));
  if (embedded) return isPublic(new ipaddr.IPv4(address.toByteArray().slice(embedded.firstByte, embedded.firstByte + 4)));
  return address.match(globalUnicast) && !special6.some((range) => address.match(range));
}

/** All addresses of a name. */
export type Resolve = (name: string) => Promise<string[]>;

// Some name servers never answer for IPv6: where a name has IPv4 addresses, wait this long for the others.
const ipv6TimeoutMs = 250;

// Labels of 1 to 63 characters, 253 in all (RFC 1035, section 2.3.4).
const resolvable = /^(?=.{1,253}\.?$)([^.]{1,63}\.)*[^.]{1,63}\.?$/;

/** A call that configures a target waits this long for its addresses. */
const configureTimeoutMs = 5_000;

/**
 * Resolves names by DNS queries. The system's resolver has four threads a process, which a few dead name servers would block.
 * `system`: ask that one afterwards, for the names of a developer's machine. `servers`: `address:port` instead of the system's name servers.
 */
export function dnsResolve({ system, servers }: { system: boolean; servers?: string[] }): Resolve {
  // The number of tries is high because later ones wait longer, for name servers that are slow or lose packets.
  const resolver = new Resolver({ timeout: 1_000, tries: system ? 2 : 5 });
  if (servers) resolver.setServers(servers);
  return async (name) => {
    // RFC 6761: these never leave the machine, whatever DNS says.
    if (/(^|\.)localhost\.?$/i.test(name)) return ['127.0.0.1', '::1'];
    const six = Promise.allSettled([resolver.resolve6(name)]);
    const [four] = await Promise.allSettled([resolver.resolve4(name)]);
    const limit = four.status === 'fulfilled' ? [delay(ipv6TimeoutMs, [], { ref: false })] : [];
    const answers = [four, ...(await Promise.race([six, ...limit]))];
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length > 0) return addresses;
    if (system) return (await lookup(name, { all: true, hints: ADDRCONFIG })).map(({ address }) => address);
    throw answers.find((answer) => answer.status === 'rejected')?.reason ?? new Error('no address');
  };
}

/** Thrown for a target that must not be connected to. */
export class AddressNotAllowed extends Error {
  constructor(host: string) {
    super(`${host} is, or resolves to, an address that is not public`);
    this.name = 'AddressNotAllowed';
  }
}

/** Thrown where a name has no address; `cause`: what the name server answered. */
export class LookupFailed extends Error {
  constructor(name: string, cause?: Error) {
    super(`${name} has no address${cause ? `: ${cause.message}` : ''}`, { cause });
    this.name = 'LookupFailed';
  }
}

/** Code points of a target, at most. */
export const maxUrlLength = 2048;

/** Checks targets; `insecure` allows http and every address. */
export class Targets {
  readonly insecure: boolean;
  private readonly resolve: Resolve;

  constructor(insecure: boolean, resolve: Resolve = dnsResolve({ system: insecure })) {
    this.insecure = insecure;
    this.resolve = resolve;
  }

  /**
   * The URL, or what is wrong with it: a validation tag, or `credentials` for a user or password. Numbers in any spelling, unicode digits and brackets are read by the
   * WHATWG standard, like the request itself will read them.
   */
  parse(text: string): URL | 'url' | 'https' | 'max' | 'credentials' {
    // A code point has one or two UTF-16 units.
    if (text.length > maxUrlLength && [...text].length > maxUrlLength) return 'max';
    // The standard ignores blanks and line breaks and repairs slashes; a target with one is a mistake or a trick.
    if (/[\s\\\p{C}]/u.test(text) || !/^[a-z][a-z0-9+.-]*:\/\/[^/]/i.test(text)) return 'url';
    const url = URL.parse(text);
    if (!url || !resolvable.test(url.hostname)) return 'url';
    if (url.protocol !== 'https:' && !(this.insecure && url.protocol === 'http:')) return 'https';
    if (url.username !== '' || url.password !== '') return 'credentials';
    return url.port === '0' ? 'url' : url;
  }

  /** Throws {@link AddressNotAllowed} for a literal address that is not public; names pass, {@link lookup} checks their addresses. */
  checkLiteral(url: URL): void {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (!this.insecure && isIP(host) !== 0 && !isPublicAddress(host)) throw new AddressNotAllowed(url.hostname);
  }

  /** Whether a target may be configured: by its address, or by all that its name has now. A name without any, or that takes 5 s, may. */
  async isAllowed(url: URL): Promise<boolean> {
    if (this.insecure) return true;
    try {
      this.checkLiteral(url);
      if (isIP(url.hostname.replace(/^\[|\]$/g, '')) === 0) {
        await Promise.race([this.addresses(url.hostname), delay(configureTimeoutMs, undefined, { ref: false })]);
      }
      return true;
    } catch (error) {
      return !(error instanceof AddressNotAllowed);
    }
  }

  /**
   * For the socket: resolves a name to the addresses that were checked. If one of them is not public, all are refused, because which one is
   * connected to is chance.
   */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.addresses(name).then(
      (addresses) => {
        const entries = addresses.map((address) => ({ address, family: isIP(address) }));
        const [first] = entries;
        if (options.all === true) callback(null, entries);
        else if (first) callback(null, first.address, first.family);
      },
      (error: unknown) => callback(error as Error, []),
    );
  };

  private async addresses(name: string): Promise<string[]> {
    const addresses = await this.resolve(name).catch((error: Error) => {
      throw new LookupFailed(name, error);
    });
    if (addresses.length === 0) throw new LookupFailed(name);
    if (!this.insecure && !addresses.every(isPublicAddress)) throw new AddressNotAllowed(name);
    return addresses;
  }
}
