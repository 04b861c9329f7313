// Script of the page to which the links of mails lead: sends the link's token to the API when the user asks for it, never on opening.
const action = location.pathname.split('/').at(-1);
const token = new URLSearchParams(location.search).get('token') ?? '';
const form = document.getElementById(action);
const field = form.elements;
const button = form.querySelector('button');

function say(text) {
  document.getElementById('message').textContent = text;
}

/** Shows optional fields, and requires what they ask for. */
function show(name, isShown) {
  for (const label of form.querySelectorAll(`.${name}`)) {
    label.hidden = !isShown;
    label.querySelector('input').required = isShown;
  }
}

/** Calls the API; its paths are relative to this page. Throws its error, with `code`. */
async function post(path, body, jwt) {
  const answer = await fetch(`../v1/${path}`, {
    method: 'POST',
    headers: { ...(body && { 'content-type': 'application/json' }), ...(jwt && { authorization: `Bearer ${jwt}` }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const { success, data, error, errors, code } = await answer.json();
  if (success) return data;
  throw Object.assign(new Error(errors ? errors.map(({ message }) => message).join('; ') : error), { code });
}

async function accept() {
  const [email, password] = [field.email.value, field.password.value];
  if (field.is_new.checked) {
    await post('auth/register', { email, password, first_name: field.first_name.value, last_name: field.last_name.value });
    field.is_new.checked = false;
    show('new', false);
  }
  const code = field.totp_code.value.trim();
  const session = await post('auth/login', { email, password, ...(code && { totp_code: code }) }).catch((error) => {
    if (error.code !== 'totp_required') throw error;
    show('code', true);
    field.totp_code.focus();
    throw error;
  });
  try {
    const { tenant } = await post('invitations/accept', { token }, session.token);
    return `You are a member of ${tenant.name}.`;
  } catch (error) {
    if (error.code !== 'email_unverified') throw error;
    await post('auth/email/send', undefined, session.token);
    throw new Error('Your email address is not verified yet. Open the link in the mail that was sent to you now, then accept here again.');
  } finally {
    await post('auth/logout', { refresh_token: session.refresh_token });
  }
}

const actions = {
  'verify-email': async () => `The address ${(await post('auth/email/verify', { token })).user.email} is verified.`,
  'reset-password': async () => {
    await post('auth/password/reset', { token, password: field.password.value });
    return 'The password is set. Log in with it.';
  },
  'accept-invitation': accept,
};

form.hidden = false;
field.is_new?.addEventListener('change', () => show('new', field.is_new.checked));
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  button.disabled = true;
  say('');
  try {
    say(await actions[action]());
    form.hidden = true;
  } catch (error) {
    say(error.message);
  }
  button.disabled = false;
});
