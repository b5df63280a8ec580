// A Node client, as the README shows it: one Lookup compared with the file's bytes, one error with its details.
// Usage: node node_client.cjs ADDRESS REPOSITORY, with NODE_PATH naming a folder that holds @grpc/grpc-js.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, repository] = process.argv.slice(2);
const load = (file) =>
  loader.loadSync(file, {includeDirs: [path.join(repository, "proto")], keepCase: true, longs: Number, enums: String, defaults: true});
const {embedding} = grpc.loadPackageDefinition(load("embedding/v1/embedding.proto"));
const client = new embedding.v1.EmbeddingService(address, grpc.credentials.createInsecure(), {
  "grpc.max_receive_message_length": 64 << 20,
  "grpc.enable_http_proxy": 0,
});
const call = (method, request) =>
  new Promise((resolve) => client[method](request, {deadline: Date.now() + 30000}, (error, answer) => resolve({error, answer})));

(async () => {
  const ids = [3, 9999, 0, 3];
  const {error, answer} = await call("Lookup", {rows: {ids: {values: ids}}, output_dtype: "DTYPE_F32"});
  assert.ifError(error);
  assert.deepStrictEqual(answer.embeddings.shape, [4, 100]);

  // float16 by hand: sign, exponent, fraction; Node has no type for it.
  const file = fs.readFileSync(path.join(repository, "deploy/sample/words.safetensors"));
  const begin = 8 + Number(file.readBigUInt64LE(0));
  const half = (bits) => {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  };
  // The bytes are a slice of a larger buffer: copied, since a Float32Array must start at a multiple of 4.
  const rows = new Float32Array(Uint8Array.from(answer.embeddings.data).buffer);
  ids.forEach((id, i) => {
    for (let j = 0; j < 100; j++) {
      assert.strictEqual(rows[i * 100 + j], half(file.readUInt16LE(begin + (id * 100 + j) * 2)), `row ${id} column ${j}`);
    }
  });
  console.log(`node: ${ids.length} rows equal the file's`);

  const failed = await call("Lookup", {rows: {ids: {values: [10000]}}});
  assert.strictEqual(failed.error.code, grpc.status.OUT_OF_RANGE);
  assert.match(failed.error.details, /10000/);
  const [details] = failed.error.metadata.get("grpc-status-details-bin");
  assert.ok(details.includes("ID_OUT_OF_RANGE"));
  console.log(`node: error says: ${failed.error.details}`);
  client.close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
