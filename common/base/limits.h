/* Every bound, with its reason. Bounds that depend on one another are tied by static_assert. */
#ifndef COMMON_BASE_LIMITS_H
#define COMMON_BASE_LIMITS_H

#include <assert.h>

enum {
    /* ---- Names (AWS: "Bucket naming rules", "Object key names") ---- */
    LIMIT_KEY_BYTES = 1024,
    LIMIT_BUCKET_NAME_BYTES = 63,
    LIMIT_BUCKET_NAME_BYTES_MIN = 3,
    LIMIT_USER_NAME_BYTES = 64,
    LIMIT_ACCESS_KEY_BYTES = 128,
    LIMIT_SECRET_KEY_BYTES = 128,
    LIMIT_USER_METADATA_BYTES = 2048, /* names and values together (AWS) */
    LIMIT_VERSION_ID_BYTES = 64,
    LIMIT_OBJECT_TAGS = 10, /* tags (AWS) */
    LIMIT_TAG_KEY_CHARACTERS = 128,
    LIMIT_TAG_VALUE_CHARACTERS = 256,
    LIMIT_ACL_GRANTS = 100, /* of one list (AWS) */

    /* ---- HTTP ---- */
    LIMIT_HTTP_HEAD_BYTES =
        32768, /* request line and headers; AWS: 8 KiB of headers, SDKs send less */
    LIMIT_HTTP_TARGET_BYTES = 16384, /* 1,024 key bytes percent-encoded, and a presigned query */
    LIMIT_HTTP_HEADERS = 128,
    LIMIT_HTTP_READ_BYTES =
        65536, /* one read from a socket; a stopped connection holds one of these */
    LIMIT_HTTP_PIPELINE_BYTES = 65536,
    LIMIT_CHUNK_HEADER_BYTES =
        1024, /* an aws-chunked header line with its signature is under 120 */
    LIMIT_TRAILER_BYTES = 4096,
    LIMIT_CONNECTIONS = 10000,

    /* ---- Documents in requests ---- */
    LIMIT_XML_BODY_BYTES = 2 * 1024 *
        1024, /* CompleteMultipartUpload of 10,000 parts with checksums: 1.5 MB */
    LIMIT_XML_DEPTH = 16,
    LIMIT_CORS_BYTES = 64 * 1024,     /* a CORS document (AWS) */
    LIMIT_CORS_RULES = 100,           /* (AWS) */
    LIMIT_CORS_ID_BYTES = 255,        /* (AWS) */
    LIMIT_WEBSITE_BYTES = 128 * 1024, /* a website document (AWS) */
    LIMIT_ROUTING_RULES = 50,         /* of a website (AWS) */
    LIMIT_FORM_BYTES = 20 * 1024,     /* fields of a form before its file (AWS) */
    LIMIT_DELETE_KEYS = 1000,         /* DeleteObjects (AWS) */
    LIMIT_LIST_KEYS = 1000,           /* a page (AWS) */
    LIMIT_PARTS = 10000,              /* of an upload (AWS) */
    LIMIT_ADMIN_BODY_BYTES = 65536,

    /* ---- Metadata ---- */
    LIMIT_RECORD_BYTES = 4096,       /* a `current` row without pieces beyond the fourth */
    LIMIT_RECORD_PIECES = 4,         /* in a record; longer lists go to `layout` rows */
    LIMIT_LAYOUT_CHUNK_PIECES = 64,  /* in one `layout` row: about 8 KiB */
    LIMIT_COMMAND_BYTES = 64 * 1024, /* a command without its body */
    /* PUT_PART alone: a copied part of 5 GiB may consist of a thousand pieces of 5 MiB. Fits one
       log entry. */
    LIMIT_PART_COMMAND_BYTES = 960 * 1024,
    LIMIT_SETTING_COMMAND_BYTES = 256 * 1024, /* PUT_SETTING: 1,000 long lifecycle rules */
    LIMIT_SETTINGS_BYTES = 512 * 1024,        /* all settings of a bucket: every view holds them */
    LIMIT_INLINE_BYTES = 16 * 1024,           /* bodies in metad (DESIGN 5.1) */
    LIMIT_REPLICAS = 7,
    LIMIT_DUE_ROWS = 256, /* of one RUN_DUE: some 10 ms of apply */
    LIMIT_JOBS = 10000,   /* rows of jobs, finished ones too; they are read whole */

    /* ---- Data (DESIGN 5.1, 5.3) ---- */
    LIMIT_REPLICA_BYTES = 128 * 1024, /* larger extents are striped */
    LIMIT_EXTENT_BYTES = 256 * 1024 * 1024,
    LIMIT_STRIPE_UNIT_BYTES = 1024 * 1024,
    LIMIT_STRIPE_UNIT_BYTES_MIN = 4096,
    LIMIT_DATA_SHARDS = 16,
    LIMIT_PARITY_SHARDS = 4,
    LIMIT_SHARDS = 20,             /* fits the 32-bit `durable` bitmap */
    LIMIT_BLOCK_BYTES = 64 * 1024, /* of one checksum on disk */
    LIMIT_DISK_ALIGN_BYTES = 4096,
    LIMIT_DISKS = 64, /* --data directories of one process */

    /* ---- Memory of one process (the budget is 128 MiB under 64 streams) ---- */
    LIMIT_STREAM_MEMORY_BYTES = 40 * 1024 *
        1024, /* stripe and read buffers of all requests; beyond: wait, then 503 */

    /* ---- RPC between processes (common/rpc) ---- */
    LIMIT_RPC_HEAD_BYTES = 1024 * 1024,              /* the longest command: PUT_PART */
    LIMIT_RPC_BODY_BYTES = 4 * 1024 * 1024 + 4096,   /* the longest frame between replicas */
    LIMIT_RPC_INFLIGHT = 4096,                       /* calls and streams of one connection */
    LIMIT_RPC_INFLIGHT_BYTES = 16 * 1024 * 1024,     /* of unanswered requests of one connection */
    LIMIT_RPC_QUEUED = 32768,                        /* calls that wait for one connection */
    LIMIT_RPC_MESSAGE_QUEUE_BYTES = 8 * 1024 * 1024, /* one-way, of one link: two longest */
    LIMIT_RPC_OUT_BYTES = 256 * 1024,     /* sealed ahead of the kernel; one frame may stand out */
    LIMIT_RPC_ANSWER_BYTES = 1024 * 1024, /* small answers to one that does not read: then we do
                                             not read either */
    LIMIT_RPC_DATA_BYTES = 64 * 1024,     /* one frame of a stream: others get their turn */
    LIMIT_RPC_WINDOW_BYTES = 16 * 1024 * 1024, /* of a stream */
    LIMIT_RPC_CONNECTIONS = 4096,              /* accepted by one loop */
    LIMIT_RPC_STALL_S = 30,                    /* the kernel took nothing: the other end is stuck */

    /* ---- Time ---- */
    LIMIT_CLOCK_SKEW_S = 15 * 60,           /* SigV4 (AWS) */
    LIMIT_PRESIGN_S = 7 * 24 * 3600,        /* SigV4 query (AWS) */
    LIMIT_EXTENT_AGE_S = 24 * 3600,         /* a PUT must commit its extents within this */
    LIMIT_COMPLETE_REPEAT_S = 7 * 24 * 3600 /* an identical Complete gets the first answer */
};

static_assert(LIMIT_RECORD_BYTES < LIMIT_COMMAND_BYTES, "a record fits a command");
static_assert(LIMIT_SETTING_COMMAND_BYTES < LIMIT_PART_COMMAND_BYTES &&
                  LIMIT_SETTING_COMMAND_BYTES < LIMIT_SETTINGS_BYTES,
              "a setting fits a log entry, and a bucket");
static_assert(LIMIT_INLINE_BYTES < LIMIT_REPLICA_BYTES, "layouts grow in this order");
static_assert(LIMIT_DATA_SHARDS + LIMIT_PARITY_SHARDS == LIMIT_SHARDS && LIMIT_SHARDS <= 32,
              "bitmap");
static_assert(LIMIT_BLOCK_BYTES % LIMIT_DISK_ALIGN_BYTES == 0, "blocks are whole sectors");

static_assert(LIMIT_PART_COMMAND_BYTES < LIMIT_RPC_HEAD_BYTES, "a command fits a frame");
static_assert(LIMIT_RPC_BODY_BYTES + LIMIT_RPC_HEAD_BYTES < LIMIT_RPC_MESSAGE_QUEUE_BYTES &&
                  LIMIT_RPC_BODY_BYTES + LIMIT_RPC_HEAD_BYTES < LIMIT_RPC_INFLIGHT_BYTES,
              "one of the longest always fits");

/* 64-bit bounds do not fit an enum. */
#define LIMIT_OBJECT_BYTES   (50ULL * 1024 * 1024 * 1024 * 1024) /* AWS since 2025: 50 TiB */
#define LIMIT_PUT_BYTES      (5ULL * 1024 * 1024 * 1024)         /* one PUT or part (AWS) */
#define LIMIT_COPY_BYTES     (5ULL * 1024 * 1024 * 1024) /* CopyObject (AWS); a setting lifts it */
#define LIMIT_PART_BYTES_MIN (5ULL * 1024 * 1024)        /* all parts but the last (AWS) */

#endif
