#include "tests/lib/s3_fixture.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/codec/hex.h"
#include "common/codec/time_format.h"
#include "common/crypto/hmac.h"

const struct fake_user s3_fixture_users[3] = {
    {"AKROOT",  "secret", "root" },
    {"AKALICE", "secret", "alice"},
    {"AKBOB",   "secret", "bob"  },
};

/* ---- Life ---- */

void s3_fixture_init(struct s3_fixture *f)
{
    struct gateway_server_options options = {.address = "0.0.0.0:80"};
    struct error error = {0};

    memset(f, 0, sizeof(*f));
    arena_init(&f->arena);
    f->sim = sim_new(7);
    f->net.sim = f->sim;
    f->net.server_node = sim_node_new(f->sim, "server");
    f->net.client_node = sim_node_new(f->sim, "client");
    f->net.server_env = sim_env_new(f->net.server_node);
    f->net.client_env = sim_env_new(f->net.client_node);
    fake_meta_init(&f->meta, f->net.server_env);
    fake_data_init(&f->data, f->net.server_env);
    f->meta.users = s3_fixture_users;
    f->meta.user_count = ARRAY_LEN(s3_fixture_users);
    f->meta.placed = true;
    fake_meta_publish(&f->meta);
    f->config = (struct gateway_config){
        .region = SLICE("us-east-1"),
        .domain = SLICE("s3.example"),
        .default_ownership = 1,
        .copy_bytes_max = LIMIT_COPY_BYTES,
        .inline_bytes_max = LIMIT_INLINE_BYTES,
        .replica_bytes_max = LIMIT_REPLICA_BYTES,
        .extent_bytes_max = LIMIT_EXTENT_BYTES,
        .hedge_ms = 50,
        .incarnation = 3,
        .cluster_epoch = 1,
    };
    options.env = f->net.server_env;
    options.meta = &f->meta.base;
    options.data = &f->data.base;
    options.config = &f->config;
    ASSERT(gateway_server_open(&f->server, &options, &error) == RC_OK);
}

static void fixture_closed(void *arg)
{
    ((struct s3_fixture *)arg)->closed = true;
}

void s3_fixture_deinit(struct s3_fixture *f)
{
    gateway_server_close(f->server, 1000, fixture_closed, f);
    sim_run_for(f->sim, 5 * SIM_S);
    ASSERT(f->closed);
    ASSERT(f->meta.gets == f->meta.releases);
    fake_meta_deinit(&f->meta);
    fake_data_deinit(&f->data);
    arena_deinit(&f->arena);
    sim_free(f->sim);
}

/* ---- Signing: apart from gateway/auth, so that both must agree ---- */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the terms between `separator`s and joins them by `joiner`. */
static struct slice sort_terms(struct arena *arena, struct slice text, char separator,
                               const char *joiner)
{
    const char *terms[S3_FIXTURE_HEADERS_MAX];
    struct slice out = SLICE("");
    size_t count = 0;

    while (text.len > 0) {
        size_t end = slice_find(text, separator);

        ASSERT(count < S3_FIXTURE_HEADERS_MAX);
        terms[count++] = arena_copy(arena, slice_of(text.data, end)).data;
        text = slice_after(text, end + 1);
    }
    qsort(terms, count, sizeof(terms[0]), compare_lines);
    for (size_t i = 0; i < count; i++) {
        out = arena_printf(arena, "%s%s%s", out.data, i > 0 ? joiner : "", terms[i]);
    }
    return out;
}

/* ?acl -> acl= */
static struct slice canonical_query(struct arena *arena, struct slice query)
{
    struct slice out = SLICE("");

    while (query.len > 0) {
        size_t end = slice_find(query, '&');
        struct slice term = slice_of(query.data, end);

        out = arena_printf(arena, "%s%.*s%s&", out.data, (int)term.len, term.data,
                           slice_find(term, '=') == term.len ? "=" : "");
        query = slice_after(query, end + 1);
    }
    return sort_terms(arena, slice_of(out.data, out.len > 0 ? out.len - 1 : 0), '&', "&");
}

/* "Name: value\r\n..." as sorted canonical lines of host and x-amz-*; names joined into `names`. */
static struct slice canonical_headers(struct arena *arena, struct slice headers,
                                      struct slice *names)
{
    struct slice lines = SLICE("");
    struct slice rest;

    while (headers.len > 0) {
        size_t end = slice_find(headers, '\r');
        struct slice line = slice_of(headers.data, end);
        size_t colon = slice_find(line, ':');
        char *name = (char *)arena_alloc(arena, colon + 1);
        struct slice value = slice_trim(slice_after(line, colon + 1));

        for (size_t i = 0; i < colon; i++) {
            char c = line.data[i];

            name[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        }
        if (strcmp(name, "host") == 0 || strncmp(name, "x-amz-", 6) == 0) {
            lines = arena_printf(arena, "%s%s:%.*s\n", lines.data, name, (int)value.len,
                                 value.len > 0 ? value.data : "");
        }
        headers = slice_after(headers, end + 2);
    }
    lines = sort_terms(arena, slice_of(lines.data, lines.len - 1), '\n', "\n");
    *names = SLICE("");
    for (rest = lines; rest.len > 0; rest = slice_after(rest, slice_find(rest, '\n') + 1)) {
        *names = arena_printf(arena, "%s%s%.*s", names->data, names->len > 0 ? ";" : "",
                              (int)slice_find(rest, ':'), rest.data);
    }
    return lines;
}

static struct slice hex_of(struct arena *arena, const uint8_t *bytes, size_t len)
{
    char *out = arena_alloc(arena, 2 * len + 1);

    hex_encode(out, bytes, len);
    return slice_of(out, 2 * len);
}

static struct slice authorization(struct s3_fixture *f, const char *method, struct slice target,
                                  struct slice headers, const char *amz_date)
{
    const struct fake_user *user = &s3_fixture_users[f->user];
    struct arena *arena = &f->arena;
    size_t question = slice_find(target, '?');
    struct slice names;
    struct slice lines = canonical_headers(arena, headers, &names);
    struct slice query = canonical_query(arena, slice_after(target, question + 1));
    struct slice canonical =
        arena_printf(arena, "%s\n%.*s\n%s\n%s\n\n%s\nUNSIGNED-PAYLOAD", method, (int)question,
                     target.data, query.data, lines.data, names.data);
    struct slice to_sign;
    uint8_t key[HASH_SHA256_BYTES];
    uint8_t digest[HASH_SHA256_BYTES];
    struct slice secret = arena_printf(arena, "AWS4%s", user->secret_key);

    sha256_of(canonical.data, canonical.len, digest);
    to_sign = arena_printf(arena, "AWS4-HMAC-SHA256\n%s\n%.8s/us-east-1/s3/aws4_request\n%s",
                           amz_date, amz_date, hex_of(arena, digest, sizeof(digest)).data);
    hmac_sha256(secret.data, secret.len, amz_date, 8, key);
    hmac_sha256(key, sizeof(key), "us-east-1", 9, key);
    hmac_sha256(key, sizeof(key), "s3", 2, key);
    hmac_sha256(key, sizeof(key), "aws4_request", 12, key);
    hmac_sha256(key, sizeof(key), to_sign.data, to_sign.len, digest);
    return arena_printf(arena,
                        "Authorization: AWS4-HMAC-SHA256 "
                        "Credential=%s/%.8s/us-east-1/s3/aws4_request, SignedHeaders=%s, "
                        "Signature=%s\r\n",
                        user->access_key, amz_date, names.data,
                        hex_of(arena, digest, sizeof(digest)).data);
}

/* ---- One request ---- */

static bool has_host(const char *headers)
{
    return strncmp(headers, "Host:", 5) == 0;
}

static struct slice request_text(struct s3_fixture *f, const char *method, const char *target,
                                 const char *headers, struct slice body)
{
    struct env *env = f->net.server_env;
    char date[TIME_AMZ_BYTES + 1];
    struct slice all;
    struct slice auth = SLICE("");

    time_format_amz(env->clock->wall_ns(env) / 1000000000U, date);
    all =
        arena_printf(&f->arena, "%s%sx-amz-date: %s\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n",
                     headers, has_host(headers) ? "" : "Host: server\r\n", date);
    if (f->user >= 0) {
        auth = authorization(f, method, slice_str(target), all, date);
    }
    return arena_printf(&f->arena, "%s %s HTTP/1.1\r\n%s%sContent-Length: %zu\r\n\r\n", method,
                        target, all.data, auth.data, body.len);
}

static struct slice after_head(struct slice got)
{
    for (size_t i = 0; i + 4 <= got.len; i++) {
        if (memcmp(got.data + i, "\r\n\r\n", 4) == 0) {
            return slice_after(got, i + 4);
        }
    }
    return SLICE_EMPTY;
}

const char *s3_reply_value(struct s3_fixture *f, const char *name)
{
    struct slice rest = f->head;
    struct slice want = slice_str(name);

    while (rest.len > 0) {
        struct slice line = slice_of(rest.data, slice_find(rest, '\r'));
        size_t colon = slice_find(line, ':');

        if (slice_eq_nocase(slice_of(line.data, colon), want)) {
            return arena_copy(&f->arena, slice_trim(slice_after(line, colon + 1))).data;
        }
        rest = slice_after(rest, line.len + 2);
    }
    return NULL;
}

struct waiting {
    struct s3_fixture *f;
    struct http_client *client;
    bool is_head;
};

/* Is the reply there in full? */
static bool replied(void *arg)
{
    struct waiting *waiting = arg;
    struct s3_fixture *f = waiting->f;
    struct slice got = buffer_slice(&waiting->client->got);
    const char *length;
    struct slice body;
    uint64_t want = 0;

    /* 100 Continue is not the reply. */
    if (slice_starts(got, SLICE("HTTP/1.1 100"))) {
        got = after_head(got);
    }
    body = after_head(got);
    if (body.data == NULL &&
        !(got.len >= 4 && memcmp(got.data + got.len - 4, "\r\n\r\n", 4) == 0)) {
        return waiting->client->ended;
    }
    f->head = slice_of(got.data, got.len - body.len);
    f->body = body;
    length = s3_reply_value(f, "Content-Length");
    if (length != NULL) {
        ASSERT(slice_to_u64(slice_str(length), UINT64_MAX, &want));
    }
    return waiting->is_head || body.len >= want || waiting->client->ended;
}

int s3_send(struct s3_fixture *f, const char *method, const char *target, const char *headers,
            struct slice body)
{
    struct http_client client;
    struct waiting waiting = {.f = f, .client = &client, .is_head = strcmp(method, "HEAD") == 0};
    uint64_t status = 0;
    bool done;

    f->head = SLICE_EMPTY;
    f->body = SLICE_EMPTY;
    http_client_open(&client, &f->net);
    http_client_send(&client, request_text(f, method, target, headers, body));
    if (body.len > 0) {
        http_client_send(&client, body);
    }
    done = sim_run_until(f->sim, replied, &waiting, 120 * SIM_S);
    f->cut = !done || f->head.len < 12;
    f->head = arena_copy(&f->arena, f->head);
    f->body = arena_copy(&f->arena, f->body);
    if (!f->cut) {
        ASSERT(slice_to_u64(slice_of(f->head.data + 9, 3), 999, &status));
    }
    f->status = (int)status;
    http_client_close(&client, &f->net);
    return f->status;
}

void s3_send_and_leave(struct s3_fixture *f, const char *method, const char *target,
                       const char *headers, struct slice body, uint64_t ns)
{
    struct http_client client;

    http_client_open(&client, &f->net);
    http_client_send(&client, request_text(f, method, target, headers, body));
    if (body.len > 0) {
        http_client_send(&client, body);
    }
    sim_run_for(f->sim, ns);
    http_client_close(&client, &f->net);
}

bool s3_body_has(const struct s3_fixture *f, const char *text)
{
    return f->body.len > 0 && strstr(f->body.data, text) != NULL;
}

const char *s3_body_element(struct s3_fixture *f, const char *element)
{
    struct slice open = arena_printf(&f->arena, "<%s>", element);
    struct slice close = arena_printf(&f->arena, "</%s>", element);
    const char *from = f->body.len > 0 ? strstr(f->body.data, open.data) : NULL;
    const char *to = from != NULL ? strstr(from, close.data) : NULL;

    if (to == NULL) {
        return NULL;
    }
    from += open.len;
    return arena_copy(&f->arena, slice_of(from, (size_t)(to - from))).data;
}

const char *s3_error_of(struct s3_fixture *f)
{
    return s3_body_element(f, "Code");
}
