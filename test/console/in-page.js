// What the console's tests run within a page, before its own scripts; axe is there already.
addEventListener('securitypolicyviolation', (event) =>
  globalThis.reportViolation(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`),
);

let toReach = new Set();
let unseen = new Set();

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

function watchFocus({ target }) {
  toReach.delete(target);
  // The outline is there once its component has heard of the focus.
  requestAnimationFrame(() => {
    const places = [target, target.parentElement, target.closest('label')];
    if (target === document.activeElement && !places.some((each) => each && showsFocus(each)))
      unseen.add(`the focus can’t be seen: ${html(target)}`);
  });
}

globalThis.inPage = {
  /** Violations of all rules, also experimental ones; of AAA only what AA asks for. `ofColour`: of rules about colours alone. */
  async axe(ofColour) {
    const rules = globalThis.axe.getRules(ofColour ? ['cat.color'] : []).filter((rule) => !rule.tags.includes('wcag2aaa'));
    const { violations } = await globalThis.axe.run(document, { runOnly: { type: 'rule', values: rules.map((rule) => rule.ruleId) } });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map((node) => `${id}: ${help} ${node.html.slice(0, 200)} ${node.failureSummary}`),
    );
  },

  /** Notes everything that the Tab key should reach, and how many stops there are; then watches the focus. */
  noteReachable() {
    document.activeElement?.blur();
    toReach = new Set([...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter(isReachable));
    unseen = new Set();
    document.addEventListener('focusin', watchFocus);
    // The parts of a date are stops of their own.
    return toReach.size + 4 * document.querySelectorAll('input[type=date]').length;
  },

  /** What was not reached, or did not show that it had the focus. What has gone meanwhile, or moves by arrow keys, need not be reached. */
  focusFaults() {
    document.removeEventListener('focusin', watchFocus);
    const isGrouped = (element) => element.closest('[role=radiogroup], [role=tablist], [role=toolbar], [role=grid], [role=treegrid]');
    const missed = [...toReach].filter((element) => element.isConnected && !isGrouped(element));
    return [...unseen, ...missed.map((element) => `not reached: ${html(element)}`)];
  },

  /** Pixels by which the page is wider than its window. */
  overflow() {
    return document.documentElement.scrollWidth - document.documentElement.clientWidth;
  },
};
