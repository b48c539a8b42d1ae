/** Damage to files at rest: what a bad disk, a bad cable or a bad copy does to an image. */
import { assert } from '../../src/base/assert.ts';
import type { FaultFileSystem } from './fault-file.ts';

export type Damage =
  | { readonly kind: 'flip'; readonly bit: number }
  | { readonly kind: 'zero'; readonly position: number; readonly length: number }
  | { readonly kind: 'swap'; readonly from: number; readonly to: number; readonly length: number }
  /** The piece at `from` also stands at `to`, over what was there. */
  | { readonly kind: 'copy'; readonly from: number; readonly to: number; readonly length: number }
  | { readonly kind: 'cut'; readonly length: number };

/** Answers a damaged copy of the bytes. Positions and lengths are bytes; `bit` counts from 0. */
export function damaged(bytes: Uint8Array, damage: Damage): Uint8Array {
  const copy = bytes.slice();
  switch (damage.kind) {
    case 'flip':
      assert(damage.bit < bytes.length * 8, 'the bit lies in the file');
      copy[damage.bit >> 3]! ^= 1 << (damage.bit & 7);
      return copy;
    case 'zero':
      return copy.fill(0, damage.position, damage.position + damage.length);
    case 'swap':
      copy.set(bytes.subarray(damage.from, damage.from + damage.length), damage.to);
      copy.set(bytes.subarray(damage.to, damage.to + damage.length), damage.from);
      return copy;
    case 'copy':
      copy.set(bytes.subarray(damage.from, damage.from + damage.length), damage.to);
      return copy;
    case 'cut':
      return copy.subarray(0, damage.length);
  }
}

/** Damages a file that is not open. */
export function damage(disk: FaultFileSystem, path: string, what: Damage): void {
  disk.setImage(path, damaged(disk.image(path), what));
}
