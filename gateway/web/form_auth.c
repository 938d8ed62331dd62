/*
 * Who signed a form (AWS: "Authenticating requests in browser-based uploads"): the signature covers
 * the policy's text, and the policy says what else may be in the form. Version 4, and version 2
 * unless it is switched off; without both the form is anonymous.
 */
#include "common/base/limits.h"
#include "common/codec/base64.h"
#include "common/codec/hex.h"
#include "common/codec/time_format.h"
#include "gateway/auth/signing_key.h"
#include "gateway/web/form.h"

enum { FORM_V4_BYTES = 64, FORM_V2_BYTES = 28 };

static enum s3_error form_argument(struct s3_request *req, const char *name, struct slice value,
                                   struct slice text)
{
    (void)s3_failf(req, S3_InvalidArgument, "%.*s", (int)text.len, text.data);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", value);
    return S3_InvalidArgument;
}

static enum s3_error form_missing(struct s3_request *req, const char *name)
{
    return form_argument(req, name, SLICE(""),
                         arena_printf(req->arena,
                                      "Bucket POST must contain a field named '%s'.  If it is "
                                      "specified, please check the order of the fields.",
                                      name));
}

static enum s3_error form_refuse(struct s3_request *req, enum s3_error error, const char *text)
{
    (void)s3_fail(req, error, text);
    return error;
}

static const struct view_key *form_key(struct s3_request *req, struct slice access_key)
{
    const struct view_key *known = view_access_key(req->view, access_key);

    req->auth.access_key = access_key;
    if (known == NULL || known->user == NULL || known->user->disabled ||
        known->key->secret_key.len == 0 || known->key->secret_key.len > LIMIT_SECRET_KEY_BYTES) {
        (void)s3_fail(req, S3_InvalidAccessKeyId, NULL);
        return NULL;
    }
    return known;
}

static enum s3_error form_compare(struct s3_request *req, const struct view_key *key,
                                  struct slice policy, struct slice provided, struct slice computed)
{
    req->auth.string_to_sign = policy;
    req->auth.signature_provided = provided;
    if (provided.len != computed.len || !crypto_equal(provided.data, computed.data, computed.len)) {
        return form_refuse(req, S3_SignatureDoesNotMatch, NULL);
    }
    req->auth.user = slice_of(key->user->name.data, key->user->name.len);
    return S3_OK;
}

/* ---- Version 4 ---- */

static enum s3_error form_scope(struct s3_request *req, const struct sigv4_credential *credential,
                                struct slice whole, struct slice date, struct slice region)
{
    struct arena *arena = req->arena;
    struct slice text = SLICE_EMPTY;
    uint64_t digits;

    if (credential->date.len != TIME_DAY_BYTES ||
        !slice_to_u64(credential->date, UINT64_MAX, &digits)) {
        text = arena_printf(arena,
                            "incorrect date format \"%.*s\". This date in the credential must be "
                            "in the format \"yyyyMMdd\".",
                            (int)credential->date.len, credential->date.data);
    } else if (!slice_eq(credential->terminal, SLICE("aws4_request"))) {
        text =
            arena_printf(arena, "incorrect terminal \"%.*s\". This endpoint uses \"aws4_request\".",
                         (int)credential->terminal.len, credential->terminal.data);
    } else if (!slice_eq(credential->service, SLICE("s3"))) {
        text = arena_printf(arena, "incorrect service \"%.*s\". This endpoint belongs to \"s3\".",
                            (int)credential->service.len, credential->service.data);
    } else if (!slice_eq(credential->region, region)) {
        text = arena_printf(arena, "the region \"%.*s\" is wrong; expecting \"%.*s\"",
                            (int)credential->region.len, credential->region.data, (int)region.len,
                            region.data);
    } else if (!slice_starts(date, credential->date)) {
        text = arena_printf(arena,
                            "Invalid credential date \"%.*s\". This date is not the same as "
                            "X-Amz-Date: \"%.*s\".",
                            (int)credential->date.len, credential->date.data, TIME_DAY_BYTES,
                            date.data);
    }
    return text.len == 0 ? S3_OK : form_argument(req, "x-amz-credential", whole, text);
}

static enum s3_error form_sigv4(struct s3_request *req, const struct sigv4_options *options)
{
    static const char *const demanded[] = {"policy", "x-amz-algorithm", "x-amz-credential",
                                           "x-amz-date", "x-amz-signature"};
    const struct form_parser *form = &req->form->parser;
    struct slice algorithm = form_field(form, "x-amz-algorithm");
    struct slice date = form_field(form, "x-amz-date");
    struct slice whole = form_field(form, "x-amz-credential");
    struct slice policy = form_field(form, "policy");
    struct sigv4_credential credential;
    uint8_t code[HASH_SHA256_BYTES];
    char text[FORM_V4_BYTES];
    const struct view_key *key;
    uint64_t time_s;
    enum s3_error error;

    for (size_t i = 0; i < ARRAY_LEN(demanded); i++) {
        if (form_field(form, demanded[i]).data == NULL) {
            return form_missing(req, demanded[i]);
        }
    }
    if (!slice_eq(algorithm, SLICE("AWS4-HMAC-SHA256"))) {
        return form_argument(req, "X-Amz-Algorithm", algorithm,
                             SLICE("Only AWS4-HMAC-SHA256 is supported"));
    }
    if (!time_parse_amz(date, &time_s)) {
        return form_argument(req, "X-Amz-Date", date,
                             SLICE("X-Amz-Date must be formated via ISO8601 Long format"));
    }
    if (!sigv4_credential_parse(whole, &credential)) {
        return form_argument(req, "x-amz-credential", whole,
                             SLICE("the Credential is mal-formed; expecting "
                                   "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."));
    }
    error = form_scope(req, &credential, whole, date, options->region);
    if (error != S3_OK) {
        return error;
    }
    key = form_key(req, credential.access_key);
    if (key == NULL) {
        return req->error;
    }
    if (form_field(form, "x-amz-security-token").data != NULL) {
        return form_refuse(req, S3_InvalidToken, NULL); /* no session was ever issued here */
    }
    if (options->now_s > time_s + LIMIT_PRESIGN_S) {
        return form_refuse(req, S3_AccessDenied, "Invalid according to Policy: Policy expired.");
    }
    hmac_sign(&signing_key_get(options->cache, &credential,
                               slice_of(key->key->secret_key.data, key->key->secret_key.len))
                   ->hmac,
              policy.data, policy.len, code);
    hex_encode(text, code, sizeof(code));
    return form_compare(req, key, policy, form_field(form, "x-amz-signature"),
                        slice_of(text, sizeof(text)));
}

/* ---- Version 2 ---- */

static enum s3_error form_sigv2(struct s3_request *req, const struct sigv4_options *options)
{
    const struct form_parser *form = &req->form->parser;
    struct slice policy = form_field(form, "policy");
    struct slice provided = form_field(form, "signature");
    struct slice access_key = form_field(form, "awsaccesskeyid");
    uint8_t code[HASH_SHA1_BYTES];
    char text[FORM_V2_BYTES];
    const struct view_key *key;

    if (!options->sigv2_ahead) {
        return form_refuse(req, S3_InvalidRequest,
                           "The authorization mechanism you have provided is not supported. "
                           "Please use AWS4-HMAC-SHA256.");
    }
    if (access_key.data == NULL) {
        return form_missing(req, "AWSAccessKeyId");
    }
    if (provided.data == NULL) {
        return form_missing(req, "Signature");
    }
    if (policy.data == NULL) {
        return form_missing(req, "policy");
    }
    if (form_field(form, "x-amz-security-token").data != NULL) {
        return form_refuse(req, S3_InvalidToken, NULL);
    }
    key = form_key(req, access_key);
    if (key == NULL) {
        return req->error;
    }
    hmac_sha1(key->key->secret_key.data, key->key->secret_key.len, policy.data, policy.len, code);
    ASSERT(base64_encoded_len(sizeof(code)) == sizeof(text));
    (void)base64_encode(text, code, sizeof(code));
    return form_compare(req, key, policy, provided, slice_of(text, sizeof(text)));
}

/* ---- Both ---- */

static bool form_has_any(const struct form_parser *form, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (form_field(form, names[i]).data != NULL) {
            return true;
        }
    }
    return false;
}

static enum s3_error form_check_policy(struct s3_request *req, const struct sigv4_options *options)
{
    struct env *env = req->gateway->env;
    struct form_policy_input input = {
        .form = &req->form->parser,
        .policy = form_field(&req->form->parser, "policy"),
        .bucket = req->bucket_name,
        .key = req->form->key,
        .now_ns = env->clock->wall_ns(env),
        .arena = req->arena,
    };
    struct slice text = SLICE_EMPTY;
    enum s3_error error = form_policy_check(&input, &req->form->limits, &text);

    (void)options;
    if (error != S3_OK) {
        (void)s3_fail(req, error, NULL);
        req->error_text = text;
    }
    return error;
}

enum s3_error form_authenticate(struct s3_request *req, const struct sigv4_options *options)
{
    static const char *const v4[] = {"x-amz-algorithm", "x-amz-credential", "x-amz-date",
                                     "x-amz-signature"};
    static const char *const v2[] = {"awsaccesskeyid", "signature", "policy"};
    struct form *form = req->form;
    enum s3_error error;

    req->auth = (struct sigv4_result){.mode = PAYLOAD_UNSIGNED};
    form->limits = (struct form_limits){.length_min = 0, .length_max = UINT64_MAX};
    if (form_has_any(&form->parser, v4, ARRAY_LEN(v4))) {
        error = form_sigv4(req, options);
    } else if (form_has_any(&form->parser, v2, ARRAY_LEN(v2))) {
        error = form_sigv2(req, options);
    } else {
        req->auth.anonymous = true;
        return S3_OK;
    }
    return error == S3_OK ? form_check_policy(req, options) : error;
}
