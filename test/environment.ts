// Jest's environment: that of Node, in a worker that ends at once.
import { TestEnvironment } from 'jest-environment-node';

// Node frees the heap first, and with a gigabyte Jest's half a second may not be enough: it would report a test that leaks.
process.once('beforeExit', () => process.exit());

// eslint-disable-next-line no-restricted-exports -- jest reads the default export
export default TestEnvironment;
