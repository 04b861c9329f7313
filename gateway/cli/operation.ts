// What the command line knows of a route; `generate.ts` writes the table of them.

/** A parameter of the path or query, or a field of the body. */
export interface Field {
  name: string;
  /** `json`: anything that is no text, number, truth value or list of texts. */
  type: 'text' | 'integer' | 'boolean' | 'list' | 'map' | 'json';
  required?: true;
  /** Never an argument: it is asked for, or read from a file. */
  secret?: true;
  values?: string[];
  description?: string;
}

/** A route as a command. */
export interface Operation {
  id: string;
  noun: string;
  verb: string;
  method: string;
  path: string;
  summary: string;
  description?: string;
  /** What it is called with: an API key, a user's token, or nothing. */
  credential: 'key' | 'user' | 'none';
  /** Without the tenant. */
  path_fields: Field[];
  query: Field[];
  body?: Field[];
  body_required?: true;
  /** The media type of a body that is no JSON. */
  stream?: string;
  idempotent?: true;
  /** The name of the array in `data`. */
  list?: string;
  /** The only member of `data`. */
  one?: string;
  /** Media types of files that it may answer instead of JSON. */
  files?: string[];
  /** Words after the command. */
  example: string;
  /** The body of an example that has more than flags can say. */
  example_body?: string;
}
