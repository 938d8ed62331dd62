#include "gateway/s3/lifecycle_headers.h"

#include "common/codec/percent.h"
#include "common/codec/time_format.h"
#include "common/lifecycle/lifecycle.h"

static const uint64_t NS_PER_S = 1000000000ULL;
/* The last second that the dates of HTTP can say: 31 December 9999. */
static const uint64_t SECONDS_MAX = 253402300799ULL;

static const Kist__Lifecycle *rules_of(const struct s3_request *req)
{
    const Kist__Settings *settings = req->bucket->settings;

    return settings != NULL ? settings->lifecycle : NULL;
}

/* False: no rule acts. */
static bool when_date(const struct lifecycle_when *when, char text[TIME_HTTP_BYTES + 1])
{
    uint64_t seconds = when->due / NS_PER_S;

    if (when->rule == NULL || seconds > SECONDS_MAX) {
        return false;
    }
    time_format_http(seconds, text);
    return true;
}

void s3_reply_expiration(struct s3_request *req, const Kist__Record *record)
{
    const Kist__Lifecycle *rules = rules_of(req);
    char date[TIME_HTTP_BYTES + 1];
    struct lifecycle_when when;
    struct slice id;

    if (rules == NULL || record->delete_marker) {
        return;
    }
    when = lifecycle_current(rules, req->key, record);
    if (when_date(&when, date)) {
        id = percent_encode(req->arena, s3_slice(when.rule->id), false);
        s3_reply_header(req, "x-amz-expiration",
                        arena_printf(req->arena, "expiry-date=\"%s\", rule-id=\"%.*s\"", date,
                                     (int)id.len, id.data));
    }
}

void s3_reply_abort(struct s3_request *req, uint64_t stamp)
{
    const Kist__Lifecycle *rules = rules_of(req);
    Kist__Upload upload = KIST__UPLOAD__INIT;
    char date[TIME_HTTP_BYTES + 1];
    struct lifecycle_when when;

    if (rules == NULL) {
        return;
    }
    upload.stamp = stamp;
    when = lifecycle_upload(rules, req->key, &upload);
    if (when_date(&when, date)) {
        s3_reply_header(req, "x-amz-abort-date", arena_copy(req->arena, slice_str(date)));
        s3_reply_header(req, "x-amz-abort-rule-id",
                        percent_encode(req->arena, s3_slice(when.rule->id), false));
    }
}
