// Where the console and the API are, seen from the console's own files: a proxy may serve both below a path.

const own = new URL('.', import.meta.url);

/** The path of the console without a slash at its end, for the router. */
export const consolePath = own.pathname.replace(/\/$/, '');

/** The address of the API without a slash at its end. */
export const apiUrl = new URL('..', own).href.replace(/\/$/, '');
