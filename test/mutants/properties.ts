// Jest runs this before the tests of a file with properties: the same examples for each change, and none made smaller once it is noticed.
import fc from 'fast-check';

fc.configureGlobal({ seed: 1, endOnFailure: true });
