/**
 * The forms in which `abstract-level` hands keys and values over, and the bytes they are stored
 * as. Their order is that of the bytes in all three, so one bucket serves any mix of them.
 */

/** A form of keys and values: text in UTF-8, a Buffer, or a plain Uint8Array. */
export type Format = 'utf8' | 'buffer' | 'view';
export type Formatted = string | Buffer | Uint8Array;

/** The bytes of a key or value; a text's lone surrogates become U+FFFD. */
export function bytesOf(value: Formatted): Uint8Array {
  return typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
}

/** Gives bytes that are the caller's own already. */
export function given(bytes: Uint8Array, format: Format): Formatted {
  if (format === 'view') return bytes;
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return format === 'buffer' ? buffer : buffer.toString('utf8');
}

/** Gives bytes that are only lent: copied, or read into a text. */
export function copied(bytes: Uint8Array, format: Format): Formatted {
  return given(format === 'utf8' ? bytes : bytes.slice(), format);
}
