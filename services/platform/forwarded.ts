// Addresses as proxies write them.

/** An address without the port that some proxies name with it, and without the brackets of one of IPv6 (RFC 7239, section 6). */
export function withoutPort(address: string): string {
  const [, host = address] = /^\[(.*)\](?::\d+)?$/.exec(address) ?? /^([0-9.]+):\d+$/.exec(address) ?? [];
  return host;
}
