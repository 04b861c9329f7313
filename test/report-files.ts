// Reads the files that reports make: the text of a PDF as it stands on its pages, and the sheets of an XLSX.
import { inflateRawSync, inflateSync } from 'node:zlib';

/** The texts of each page of a PDF, in the order in which they were drawn. */
export function textOfPdf(file: Buffer): string[][] {
  const objects = new Map<string, string>();
  const raw = file.toString('latin1');
  for (const [, id, body] of raw.matchAll(/(\d+) 0 obj\n(.*?)\nendobj/gs)) objects.set(id as string, body as string);
  const streamOf = (id: string) => {
    const [, dictionary, bytes] = /^(.*?)\nstream\n(.*)\nendstream$/s.exec(objects.get(id) as string) as unknown as [
      string,
      string,
      string,
    ];
    return dictionary.includes('FlateDecode') ? inflateSync(Buffer.from(bytes, 'latin1')).toString('latin1') : bytes;
  };
  const glyphs = new Map<string, Map<string, string>>();
  for (const [, name, id] of raw.matchAll(/\/(F\d+) (\d+) 0 R/g)) {
    const unicode = /\/ToUnicode (\d+) 0 R/.exec(objects.get(id as string) ?? '')?.[1];
    if (unicode !== undefined && !glyphs.has(name as string)) glyphs.set(name as string, charactersOf(streamOf(unicode)));
  }
  const textsOf = (content: string) =>
    Array.from(content.matchAll(/\/(F\d+) [\d.]+ Tf.*?(\[.*?\] TJ|<[0-9a-f]*> Tj)/gs), ([, font, shown]) => {
      const hex = Array.from((shown as string).matchAll(/<([0-9a-f]*)>/g), ([, each]) => each as string).join('');
      return (hex.match(/.{4}/g) ?? []).map((glyph) => glyphs.get(font as string)?.get(glyph) ?? '').join('');
    });
  return Array.from(objects.values())
    .filter((body) => body.includes('/Type /Page\n'))
    .map((body) => textsOf(streamOf(/\/Contents (\d+) 0 R/.exec(body)?.[1] as string)));
}

/** Characters by glyph, of a map as pdfkit writes it: ranges with a list. */
function charactersOf(map: string): Map<string, string> {
  const characters = new Map<string, string>();
  for (const [, from, list] of map.matchAll(/<([0-9a-f]{4})> <[0-9a-f]{4}> \[(.*?)\]/gs)) {
    Array.from((list as string).matchAll(/<([0-9a-f ]*)>/g)).forEach(([, hex], index) => {
      const units = ((hex as string).replaceAll(' ', '').match(/.{4}/g) ?? []).map((unit) => parseInt(unit, 16));
      characters.set((parseInt(from as string, 16) + index).toString(16).padStart(4, '0'), String.fromCharCode(...units));
    });
  }
  return characters;
}

/** The files of a ZIP archive by name. */
export function filesOfZip(zip: Buffer): Map<string, string> {
  const files = new Map<string, string>();
  let at = zip.readUInt32LE(zip.length - 6);
  for (let left = zip.readUInt16LE(zip.length - 12); left > 0; left--) {
    const [size, nameLength, start] = [zip.readUInt32LE(at + 20), zip.readUInt16LE(at + 28), zip.readUInt32LE(at + 42)];
    const data = start + 30 + zip.readUInt16LE(start + 26) + zip.readUInt16LE(start + 28);
    files.set(zip.toString('utf8', at + 46, at + 46 + nameLength), inflateRawSync(zip.subarray(data, data + size)).toString());
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  return files;
}
