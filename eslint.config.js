import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

// eslint-disable-next-line no-restricted-exports -- eslint reads the default export
export default defineConfig(
  globalIgnores(['proto/gen', 'coverage', '.data*', '**/built', 'gateway/clients/typescript/gen', 'gateway/clients/receivers/node']),
  tseslint.configs.strictTypeChecked,
  tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      // `== null` means null or undefined.
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': 'error',
      'no-restricted-exports': ['error', { restrictDefaultExports: { direct: true, named: true, defaultFrom: true, namedFrom: true } }],
      'object-shorthand': 'error',
      'prefer-const': 'error',
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      // Numbers in messages are what messages are made of.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // `(x) => y.set(x)` where nobody looks at the result.
      '@typescript-eslint/no-confusing-void-expression': 'off',
      // `Promise<unknown> | void` is how "may be asynchronous, result ignored" is written.
      '@typescript-eslint/no-invalid-void-type': 'off',
      // noPropertyAccessFromIndexSignature is not set; brackets and dots mean the same.
      '@typescript-eslint/dot-notation': 'off',
      // An async function without await still turns a throw into a rejection, which is what its callers handle.
      '@typescript-eslint/require-await': 'off',
      // An index that is known to exist is asserted as its type where `!` is forbidden.
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
      // What a driver rejects with is known.
      '@typescript-eslint/use-unknown-in-catch-callback-variable': 'off',
      // `||` also replaces an empty text or a zero.
      '@typescript-eslint/prefer-nullish-coalescing': ['error', { ignorePrimitives: true }],
      // `[...text]` takes a text apart into code points, in which lengths are counted.
      '@typescript-eslint/no-misused-spread': ['error', { allow: ['string'] }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true }],
      // `for (;;)` and `while (true)` are loops that end from within.
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: 'only-allowed-literals' }],
    },
  },
  {
    files: ['**/*.test.ts', 'test/**'],
    rules: {
      // Answers of the service are looked into as they are.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-explicit-any': 'off',
      'no-console': 'off',
    },
  },
  { files: ['**/*.js', '**/*.mjs'], extends: [tseslint.configs.disableTypeChecked] },
  // Readers of a verifier see what it is given, not its types.
  { files: ['deploy/verifier/*.mjs'], rules: { 'no-console': 'off', '@typescript-eslint/explicit-module-boundary-types': 'off' } },
);
