// Checks an S3 endpoint with the AWS SDK for JavaScript v3 and with minio-js, with their defaults. Prints "ok NAME" or
// "FAIL NAME: why" a check; ends with 1 after a failure.
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import * as aws from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import * as minio from "minio";

const endpoint = process.env.SDK_ENDPOINT;
const keys = { accessKeyId: process.env.SDK_ACCESS_KEY, secretAccessKey: process.env.SDK_SECRET_KEY };
let failed = false;

async function check(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ${name}: ${error}`);
  }
}

function expect(what, got, want) {
  if (got !== want) throw new Error(`${what} is ${got}, not ${want}`);
}

const pattern = (size) => Buffer.alloc(size, Uint8Array.from({ length: 251 }, (_, i) => i));
const digest = (data) => createHash("sha256").update(data).digest("hex");

async function testAws() {
  const s3 = new aws.S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: keys });
  const Bucket = `js-${Date.now()}`;
  const Key = "dir with blank/ä+😀=&'!().txt";
  const body = pattern(70000);

  await check("js-create-bucket", () => s3.send(new aws.CreateBucketCommand({ Bucket })));
  await check("js-put-get", async () => {
    const put = await s3.send(new aws.PutObjectCommand({ Bucket, Key, Body: body, Metadata: { color: "blue" } }));
    if (!put.ChecksumCRC32) throw new Error("no checksum came back");
    const get = await s3.send(new aws.GetObjectCommand({ Bucket, Key }));
    expect("digest", digest(await get.Body.transformToByteArray()), digest(body));
    expect("metadata", get.Metadata.color, "blue");
  });
  await check("js-put-stream", async () => {
    await s3.send(new aws.PutObjectCommand({ Bucket, Key: "stream", Body: Readable.from([body]), ContentLength: body.length }));
    const head = await s3.send(new aws.HeadObjectCommand({ Bucket, Key: "stream" }));
    expect("encoding", head.ContentEncoding, undefined);
    expect("size", head.ContentLength, body.length);
  });
  await check("js-list", async () => {
    const names = [];
    for await (const page of aws.paginateListObjectsV2({ client: s3, pageSize: 1 }, { Bucket })) {
      names.push(...(page.Contents ?? []).map((object) => object.Key));
    }
    expect("listed", names.includes(Key), true);
  });
  await check("js-conditional", async () => {
    const input = { Bucket, Key: "lock", Body: "a", IfNoneMatch: "*" };
    await s3.send(new aws.PutObjectCommand(input));
    const error = await s3.send(new aws.PutObjectCommand(input)).catch((e) => e);
    expect("second put", error.name, "PreconditionFailed");
  });
  await check("js-multipart", async () => {
    const large = pattern(17 << 20);
    await new Upload({ client: s3, partSize: 6 << 20, params: { Bucket, Key: "large", Body: large } }).done();
    const get = await s3.send(new aws.GetObjectCommand({ Bucket, Key: "large" }));
    expect("digest", digest(await get.Body.transformToByteArray()), digest(large));
  });
  await check("js-presign", async () => {
    const url = await getSignedUrl(s3, new aws.GetObjectCommand({ Bucket, Key }), { expiresIn: 60 });
    const reply = await fetch(url);
    expect("digest", digest(Buffer.from(await reply.arrayBuffer())), digest(body));
    const put = await getSignedUrl(s3, new aws.PutObjectCommand({ Bucket, Key: "presigned" }), { expiresIn: 60 });
    expect("put", (await fetch(put, { method: "PUT", body: "hello" })).status, 200);
  });
  await check("js-presigned-post", async () => {
    const { url, fields } = await createPresignedPost(s3, { Bucket, Key: "posted/${filename}", Expires: 60 });
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append("file", new Blob(["posted"]), "name.txt");
    expect("status", (await fetch(url, { method: "POST", body: form })).status, 204);
    const get = await s3.send(new aws.GetObjectCommand({ Bucket, Key: "posted/name.txt" }));
    expect("bytes", await get.Body.transformToString(), "posted");
  });
  await check("js-delete-many", async () => {
    const out = await s3.send(new aws.DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: "lock" }, { Key: "x&y" }] } }));
    expect("deleted", out.Deleted.length, 2);
  });
}

async function testMinio() {
  const { hostname, port } = new URL(endpoint);
  const client = new minio.Client({ endPoint: hostname, port: Number(port), useSSL: false, accessKey: keys.accessKeyId,
    secretKey: keys.secretAccessKey, region: "us-east-1" });
  const bucket = `mjs-${Date.now()}`;
  const body = pattern(12 << 20);

  await check("minio-js-put-get", async () => {
    await client.makeBucket(bucket, "us-east-1");
    await client.putObject(bucket, "a/b c", body);
    const chunks = [];
    for await (const chunk of await client.getObject(bucket, "a/b c")) chunks.push(chunk);
    expect("digest", digest(Buffer.concat(chunks)), digest(body));
  });
  await check("minio-js-list", async () => {
    const names = [];
    for await (const object of client.listObjectsV2(bucket, "", true)) names.push(object.name);
    expect("names", names.join(), "a/b c");
  });
  await check("minio-js-post-policy", async () => {
    const policy = client.newPostPolicy();
    policy.setBucket(bucket);
    policy.setKey("form");
    policy.setExpires(new Date(Date.now() + 60000));
    const { postURL, formData } = await client.presignedPostPolicy(policy);
    const form = new FormData();
    for (const [name, value] of Object.entries(formData)) form.append(name, value);
    form.append("file", new Blob(["posted"]), "f");
    expect("status", (await fetch(postURL, { method: "POST", body: form })).status, 204);
  });
  await check("minio-js-remove", async () => {
    await client.removeObjects(bucket, ["a/b c", "form"]);
    await client.removeBucket(bucket);
  });
}

await testAws();
await testMinio();
process.exit(failed ? 1 : 0);
