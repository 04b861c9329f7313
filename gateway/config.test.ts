import { Settings } from '../services/platform/settings.ts';
import { gatewayConfig } from './config.ts';

const read = (env: NodeJS.ProcessEnv) => gatewayConfig(new Settings({ INTERNAL_TOKEN: 'token', ...env }));

test('a gateway with only a token listens where npm start expects it', () => {
  expect(read({})).toMatchObject({
    host: '127.0.0.1',
    port: 8080,
    identityAddresses: ['127.0.0.1:50051'],
    ledgerAddresses: ['127.0.0.1:50052'],
    notifierAddresses: ['127.0.0.1:50053'],
    trustProxy: [],
    corsOrigins: [],
    publicUrl: 'http://127.0.0.1:8080',
  });
});

test('proxies and origins are lists', () => {
  const { trustProxy, corsOrigins } = read({
    TRUST_PROXY: '10.0.0.0/8, ::1,loopback,192.0.2.1',
    CORS_ORIGINS: 'https://app.example.com,http://localhost:3000',
  });
  expect(trustProxy).toEqual(['10.0.0.0/8', '::1', 'loopback', '192.0.2.1']);
  expect(corsOrigins).toEqual(['https://app.example.com', 'http://localhost:3000']);
});

test('the address for browsers is its own unless it is given, and ends without a slash', () => {
  expect(read({ HOST: '::1', PORT: '81' }).publicUrl).toBe('http://[::1]:81');
  expect(read({ PUBLIC_URL: 'https://example.com/ledger/' }).publicUrl).toBe('https://example.com/ledger');
});

test.each([
  ['INTERNAL_TOKEN', ''],
  ['INTERNAL_TOKEN', 'good,schlüssel'],
  ['INTERNAL_TOKEN', 'two\nlines'],
  ['PORT', 'x'],
  ['PORT', '70000'],
  ['IDENTITY_ADDR', 'identity'],
  ['LEDGER_ADDR', 'http://ledger:1'],
  ['NOTIFIER_ADDR', 'notifier:x'],
  ['TRUST_PROXY', 'proxy.example.com'],
  ['TRUST_PROXY', '10.0.0.0/33'],
  ['TRUST_PROXY', '10.0.0.0/8/8'],
  ['TRUST_PROXY', '0.0.0.0/0'],
  ['TRUST_PROXY', '::/0'],
  ['TRUST_PROXY', '10.0.0.1/00'],
  ['TRUST_PROXY', '10.0.0.0/'],
  ['TRUST_PROXY', 'loopback/8'],
  ['TRUST_PROXY', '192.168/16'],
  ['TRUST_PROXY', '010.0.0.1'],
  ['TRUST_PROXY', '1'],
  ['TRUST_PROXY', 'true'],
  ['CORS_ORIGINS', 'example.com'],
  ['CORS_ORIGINS', 'https://example.com/'],
  ['PUBLIC_URL', 'ledger.example.com'],
  ['PUBLIC_URL', 'ftp://ledger.example.com'],
  ['PUBLIC_URL', 'https://ledger.example.com?a=1'],
  ['PUBLIC_URL', 'https://ledger.example.com#a'],
  ['PUBLIC_URL', 'https://user@ledger.example.com'],
  ['MAX_IN_FLIGHT', '0'],
  ['MAX_CONNECTIONS', '-1'],
  ['LOG_LEVEL', 'loud'],
])('%s=%s is rejected, and the error names the variable', (name, value) => {
  expect(() => read({ [name]: value })).toThrow(new RegExp(`^${name} `));
});
