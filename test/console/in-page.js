// What the console's tests run within a page, before its own scripts; axe is there already.
addEventListener('securitypolicyviolation', (event) =>
  globalThis.reportViolation(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`),
);

let toReach = new Set();

const html = (element) => element.outerHTML.slice(0, 200);

function isReachable(element) {
  return (
    element.tabIndex >= 0 &&
    !element.matches(':disabled, [inert] *, [aria-hidden=true] *') &&
    element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
  );
}

function showsFocus(element) {
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
  return (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none';
}

globalThis.inPage = {
  /** Violations of all rules, also experimental ones; of AAA only what AA asks for. */
  async axe() {
    const rules = globalThis.axe.getRules().filter((rule) => !rule.tags.includes('wcag2aaa'));
    const { violations } = await globalThis.axe.run(document, { runOnly: { type: 'rule', values: rules.map((rule) => rule.ruleId) } });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map((node) => `${id}: ${help} ${node.html.slice(0, 200)} ${node.failureSummary}`),
    );
  },

  /** Notes everything that the Tab key should reach, and how many there are. */
  noteReachable() {
    document.activeElement?.blur();
    toReach = new Set([...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter(isReachable));
    return toReach.size;
  },

  /** Strikes off what has the focus; answers what is wrong with it. */
  focusFault() {
    const focused = document.activeElement ?? document.body;
    toReach.delete(focused);
    const shown = [focused, focused.parentElement, focused.closest('label')].some((each) => each && showsFocus(each));
    return focused === document.body || shown ? '' : `the focus can’t be seen: ${html(focused)}`;
  },

  /** What was not reached. What has gone meanwhile, or moves by arrow keys, need not be. */
  missed() {
    const isGrouped = (element) => element.closest('[role=radiogroup], [role=tablist], [role=toolbar], [role=grid], [role=treegrid]');
    return [...toReach].filter((element) => element.isConnected && !isGrouped(element)).map((element) => `not reached: ${html(element)}`);
  },

  /** Pixels by which the page is wider than its window. */
  overflow() {
    return document.documentElement.scrollWidth - document.documentElement.clientWidth;
  },
};
