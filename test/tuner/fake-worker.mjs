/**
 * A worker of trials that measures nothing: it answers at once with times that its layout implies,
 * so that whole searches can be tested. The workload's path picks how it behaves.
 *
 * Ratios: pages of 16 KiB make `read` 30 % faster, b-trees 20 %, both together 44 %; a cluster of
 * 256 bytes gives a wrong result, an extent of 1 MiB fails.
 */
let layout = {};
let runs = 0;

function timesOf() {
  let read = 10;
  if (layout.pageSize === '16 KiB') read *= 0.7;
  if (layout.index?.tree === 'b-tree') read *= 0.8;
  const noise = 1 + (((runs * 7919) % 13) - 6) / 2000;
  return [5 * noise, read * noise];
}

process.on('message', (message) => {
  if (message.kind === 'start') {
    layout = message.layout;
    process.send({ kind: 'ready' });
    return;
  }
  runs++;
  if (layout.clusterSize === 256) {
    process.send({ kind: 'failed', message: 'key 7', isWrong: true });
  } else if (layout.extentSize !== undefined) {
    process.send({ kind: 'failed', message: 'no room', isWrong: false });
  } else {
    const cpuMs = timesOf();
    const fileBytes = layout.pageSize === '16 KiB' ? 3 << 20 : 2 << 20;
    const memoryBytes = layout.memory === undefined ? 8 << 20 : 4 << 20;
    const facts = { fileBytes, memoryBytes, trees: [] };
    process.send({ kind: 'ran', cpuMs, wallMs: cpuMs, facts });
  }
});
process.on('disconnect', () => process.exit());
