/* Redirects of a website: which rule, and where to. Pure functions. */
#include "common/base/buffer.h"
#include "gateway/web/website.h"

const Kist__RoutingRule *website_rule(const Kist__Website *website, struct slice key, int status)
{
    for (size_t i = 0; i < website->n_rules; i++) {
        const Kist__RoutingRule *rule = website->rules[i];

        if ((int)rule->error_code == status && slice_starts(key, s3_slice(rule->prefix))) {
            return rule;
        }
    }
    return NULL;
}

/* Into a Location: what was configured stays as it is, but for what no URL may hold; of a key also
 * what would end its path, and '%'. */
static void location_put(struct buffer *to, struct slice text, bool is_key)
{
    static const char digits[] = "0123456789ABCDEF";
    const struct slice never = SLICE("\"<>\\^`{|}");
    const struct slice ends = SLICE("?#%");

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (c <= 0x20 || c >= 0x7f || slice_find(never, (char)c) < never.len ||
            (is_key && slice_find(ends, (char)c) < ends.len)) {
            buffer_append_byte(to, '%');
            buffer_append_byte(to, digits[c >> 4]);
            buffer_append_byte(to, digits[c & 15]);
        } else {
            buffer_append_byte(to, (char)c);
        }
    }
}

static void location_begin(struct buffer *to, struct slice protocol, struct slice host, bool secure)
{
    buffer_init(to);
    if (protocol.len > 0) {
        buffer_append(to, protocol);
    } else {
        buffer_append(to, secure ? SLICE("https") : SLICE("http"));
    }
    buffer_append(to, SLICE("://"));
    buffer_append(to, host);
    buffer_append_byte(to, '/');
}

static struct slice location_end(struct buffer *text, struct slice query, struct arena *arena)
{
    struct slice out;

    if (query.len > 0) {
        buffer_append_byte(text, '?');
        location_put(text, query, false);
    }
    out = arena_copy(arena, buffer_slice(text));
    buffer_deinit(text);
    return out;
}

struct slice website_rule_location(struct arena *arena, const Kist__RoutingRule *rule,
                                   struct slice key, struct slice query, struct slice host,
                                   bool secure)
{
    struct buffer text;

    location_begin(&text, s3_slice(rule->protocol),
                   rule->host.len > 0 ? s3_slice(rule->host) : host, secure);
    if (rule->has_replace_key) {
        location_put(&text, s3_slice(rule->replace_key), false);
    } else if (rule->has_replace_prefix) {
        location_put(&text, s3_slice(rule->replace_prefix), false);
        location_put(&text, slice_after(key, rule->prefix.len), true);
    } else {
        location_put(&text, key, true);
    }
    return location_end(&text, query, arena);
}

struct slice website_all_location(struct arena *arena, const Kist__Website *website,
                                  struct slice key, struct slice query, bool secure)
{
    struct buffer text;

    location_begin(&text, s3_slice(website->redirect_protocol), s3_slice(website->redirect_host),
                   secure);
    location_put(&text, key, true);
    return location_end(&text, query, arena);
}
