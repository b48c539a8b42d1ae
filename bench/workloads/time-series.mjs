/**
 * Append and range scans of time series: 40 sensors, readings appended in order of time in small
 * commits, then the last hour of each sensor and whole days are read. Every answer is checked.
 */
const SENSORS = 40;
const READINGS = 300;
const PER_COMMIT = 400;
const LAST = 60;

const readingOf = (sensor, minute) => (sensor * 31 + minute * 17) % 1000;

export default {
  name: 'time series',
  description: '12,000 readings of 40 sensors, appended in 30 commits, read by ranges',
  expects: { 'readings in order': SENSORS * READINGS },
  confirmation: 'every configuration found every reading in order',
  phases: [
    {
      name: 'append',
      run(state, context) {
        state.db = context.open({ durability: 'buffered' });
        state.readings = state.db.collection('readings', {
          fields: { sensor: 'int', minute: 'int', value: 'int' },
          key: ['sensor', 'minute'],
          layout: context.treeLayout,
        });
        let tx = state.db.begin();
        let count = 0;
        for (let minute = 0; minute < READINGS; minute++) {
          for (let sensor = 0; sensor < SENSORS; sensor++) {
            state.readings.insert({ sensor, minute, value: readingOf(sensor, minute) });
            if (++count % PER_COMMIT > 0) continue;
            tx.commit();
            tx = state.db.begin();
          }
        }
        tx.commit();
      },
    },
    {
      name: 'close',
      run(state, context) {
        state.db.close();
        state.db = context.open();
        state.readings = state.db.collection('readings', {
          fields: { sensor: 'int', minute: 'int', value: 'int' },
          key: ['sensor', 'minute'],
        });
      },
    },
    {
      name: 'last hour',
      run(state, context) {
        for (let sensor = 0; sensor < SENSORS; sensor++) {
          const from = READINGS - LAST;
          const rows = state.readings.where({ sensor, minute: { '>=': from } }).toArray();
          context.check(rows.length === LAST, `sensor ${sensor} has ${rows.length} readings`);
          for (const { minute, value } of rows) {
            context.check(value === readingOf(sensor, minute), `sensor ${sensor}, ${minute}`);
          }
        }
      },
    },
    {
      name: 'all',
      run(state, context) {
        let count = 0;
        for (const { sensor, minute, value } of state.readings) {
          context.check(sensor === Math.floor(count / READINGS), `order at ${count}`);
          context.check(value === readingOf(sensor, minute), `reading ${count}`);
          count++;
        }
        context.count('readings in order', count);
        state.db.close();
      },
    },
  ],
};
