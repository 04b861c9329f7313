// What is wrong with a connection by TLS, as Node and OpenSSL name it.

/**
 * Whether an error's code is of TLS. OpenSSL's verdicts on certificates have no common prefix; those that Node has no name for (a weak key, a weak
 * digest) are UNSPECIFIED. A code of five is PostgreSQL's.
 */
export function isTlsErrorCode(code: string): boolean {
  return /^(?!.{5}$)(ERR_TLS|ERR_SSL|EPROTO|CERT|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|HOSTNAME|INVALID_CA|INVALID_PURPOSE|CRL|ERROR_IN_C|PATH_LENGTH|UNSPECIFIED)/.test(
    code,
  );
}
