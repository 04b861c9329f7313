// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default {
  testEnvironment: '<rootDir>/test/environment.ts',
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
  // A cluster of four processes takes seconds to start, on a busy machine many more.
  testTimeout: 120_000,
  // More than cores, as tests often wait.
  maxWorkers: 4,
};
