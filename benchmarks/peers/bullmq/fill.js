// Adds items of 1 KiB to a queue, some hundred with each call: `node fill.js COUNT`.

"use strict";
const { Queue } = require("bullmq");

const { PEER_QUEUE: name, PEER_REDIS_PORT: port } = process.env;
const BODY = "the printer on the third floor does not answer since monday please have a look at it ".repeat(13).slice(0, 1024);
const AT_ONCE = 500;

async function main(count) {
  const queue = new Queue(name, { connection: { host: "127.0.0.1", port: Number(port) } });
  for (let left = count; left > 0; left -= AT_ONCE) {
    const some = Math.min(left, AT_ONCE);
    await queue.addBulk(Array.from({ length: some }, () => ({ name: "item", data: BODY })));
  }
  await queue.close();
}

main(Number(process.argv[2]));
