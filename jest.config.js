// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default {
  testEnvironment: 'node',
  roots: ['<rootDir>/services', '<rootDir>/gateway', '<rootDir>/deploy', '<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': ['@swc/jest', { jsc: { parser: { syntax: 'typescript' }, target: 'esnext', transform: { verbatimModuleSyntax: true } } }],
  },
  testSequencer: '<rootDir>/test/longest-first.ts',
  globalSetup: '<rootDir>/test/setup.ts',
  globalTeardown: '<rootDir>/test/teardown.ts',
  reporters: ['default', '<rootDir>/test/summary-line.ts'],
  // A house of four processes takes seconds to start, many more on a busy machine.
  testTimeout: 120_000,
  // On two cores: files also wait, for a lease to end or a process to give up. With four, a fifth of both cores' time was left.
  maxWorkers: 5,
};
