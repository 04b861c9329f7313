// Some seconds of what `npm run proof -- rest` does for as long as it is told.
import { fuzzRest, hasSchemathesis } from './rest.ts';

if (!hasSchemathesis) process.stderr.write('the test that fuzzes REST is skipped: schemathesis is missing (.ci/tools installs it)\n');

(hasSchemathesis ? test : test.skip)(
  'no generated request gets a 500, a status that the document does not list or an answer that breaks its schema (schemathesis)',
  async () => {
    const { faults, summary } = await fuzzRest({ seed: 1, seconds: 22 });
    expect(faults).toEqual([]);
    expect(summary).toMatch(/Tested: [1-9]/);
  },
  180_000,
);
