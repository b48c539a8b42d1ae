/**
 * Constraints on records. Uniqueness is checked by the indexes (`collection-index.ts`), required
 * fields by the record encoding (`model/record.ts`); here are the checks: conditions whose text the
 * catalog holds and whoever opens the database turns into functions, since the store knows no
 * expressions.
 */
import { failure } from '../errors.ts';
import type { RecordFields } from '../model/record.ts';
import type { CheckDefinition, CollectionDefinition } from '../model/schema.ts';

/** A condition: false refuses the record, anything else lets it pass. */
export type Condition = (record: RecordFields) => boolean | null | undefined;

/** Makes the condition of a check's text; `undefined` if it does not know how. */
export type ConditionSource = (
  collection: CollectionDefinition,
  check: CheckDefinition,
) => Condition | undefined;

export class Check {
  readonly definition: CheckDefinition;
  readonly #holds: Condition;

  constructor(definition: CheckDefinition, holds: Condition) {
    this.definition = definition;
    this.#holds = holds;
  }

  /** @throws {ConstraintError} constraint.check when the condition is false. */
  require(collection: string, record: RecordFields): void {
    if (this.#holds(record) !== false) return;
    const { name, text } = this.definition;
    throw failure('constraint.check', `check ${name} of ${collection} refused a record: ${text}`, {
      detail: { collection, check: name, record },
    });
  }
}

/** The checks of a collection; one that nobody can evaluate refuses every record. */
export function checksOf(definition: CollectionDefinition, source: ConditionSource): Check[] {
  return definition.checks.map((check) => {
    const holds = source(definition, check);
    if (holds !== undefined) return new Check(check, holds);
    return new Check(check, () => {
      throw failure('constraint.check', `check ${check.name} cannot be evaluated: ${check.text}`, {
        hint: 'Open the database with the front end that declared the check.',
      });
    });
  });
}
