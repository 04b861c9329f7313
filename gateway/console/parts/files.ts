// Saves the answer of the API as a file on the user's disk.

/** Saves a response under its own name, or else the one given. */
export async function save(response: Response, name: string): Promise<void> {
  const given = /filename="?([^";]+)"?/.exec(response.headers.get('content-disposition') ?? '')?.[1];
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = given ?? name;
  link.click();
  // Browsers read it after this call.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
