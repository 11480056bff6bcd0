// BullMQ with one worker in one process, 32 items at once, as every other consumer here may hold; a finished item goes.

"use strict";
const { Worker } = require("bullmq");

const { PEER_QUEUE: queue, PEER_REDIS_PORT: port } = process.env;

new Worker(queue, async () => {}, {
  connection: { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null },
  concurrency: 32,
  removeOnComplete: { count: 0 },
});
