/* Rules become the document that a client reads back: each as it was put. */
#include "common/codec/time_format.h"
#include "gateway/s3/lifecycle_xml.h"

static void write_predicates(struct xml_writer *xml, const Kist__LifecycleFilter *filter, bool all)
{
    if (filter->prefix.len > 0 ||
        (!all && filter->n_tags == 0 && !filter->has_size_greater && !filter->has_size_less)) {
        xml_writer_text(xml, "Prefix", s3_slice(filter->prefix));
    }
    for (size_t i = 0; i < filter->n_tags; i++) {
        xml_writer_open(xml, "Tag");
        xml_writer_text(xml, "Key", s3_slice(filter->tags[i]->name));
        xml_writer_text(xml, "Value", s3_slice(filter->tags[i]->value));
        xml_writer_close(xml);
    }
    if (filter->has_size_greater) {
        xml_writer_u64(xml, "ObjectSizeGreaterThan", filter->size_greater);
    }
    if (filter->has_size_less) {
        xml_writer_u64(xml, "ObjectSizeLessThan", filter->size_less);
    }
}

static void write_filter(struct xml_writer *xml, const Kist__LifecycleRule *rule)
{
    if (rule->form == LIFECYCLE_FORM_PREFIX) {
        xml_writer_text(xml, "Prefix", s3_slice(rule->filter->prefix));
        return;
    }
    xml_writer_open(xml, "Filter");
    if (rule->form == LIFECYCLE_FORM_AND) {
        xml_writer_open(xml, "And");
        write_predicates(xml, rule->filter, true);
        xml_writer_close(xml);
    } else {
        write_predicates(xml, rule->filter, false);
    }
    xml_writer_close(xml);
}

static void write_expiration(struct s3_request *req, struct xml_writer *xml,
                             const Kist__LifecycleRule *rule)
{
    if (rule->expire_days == 0 && rule->expire_date == 0 && !rule->expire_marker) {
        return;
    }
    xml_writer_open(xml, "Expiration");
    if (rule->expire_days > 0) {
        xml_writer_u64(xml, "Days", rule->expire_days);
    } else if (rule->expire_date > 0) {
        char text[TIME_ISO8601_BYTES + 1];

        time_format_iso8601(rule->expire_date, text);
        xml_writer_raw(xml, "Date", arena_copy(req->arena, slice_str(text)));
    } else {
        xml_writer_bool(xml, "ExpiredObjectDeleteMarker", true);
    }
    xml_writer_close(xml);
}

static void write_rule(struct s3_request *req, struct xml_writer *xml,
                       const Kist__LifecycleRule *rule)
{
    xml_writer_open(xml, "Rule");
    xml_writer_text(xml, "ID", s3_slice(rule->id));
    write_filter(xml, rule);
    xml_writer_str(xml, "Status", rule->enabled ? "Enabled" : "Disabled");
    write_expiration(req, xml, rule);
    if (rule->noncurrent_days > 0) {
        xml_writer_open(xml, "NoncurrentVersionExpiration");
        xml_writer_u64(xml, "NoncurrentDays", rule->noncurrent_days);
        if (rule->noncurrent_keep > 0) {
            xml_writer_u64(xml, "NewerNoncurrentVersions", rule->noncurrent_keep);
        }
        xml_writer_close(xml);
    }
    if (rule->abort_days > 0) {
        xml_writer_open(xml, "AbortIncompleteMultipartUpload");
        xml_writer_u64(xml, "DaysAfterInitiation", rule->abort_days);
        xml_writer_close(xml);
    }
    xml_writer_close(xml);
}

void lifecycle_xml_write(struct s3_request *req, struct xml_writer *xml,
                         const Kist__Lifecycle *lifecycle)
{
    xml_writer_open_ns(xml, "LifecycleConfiguration", XML_NS_S3);
    for (size_t i = 0; i < lifecycle->n_rules; i++) {
        write_rule(req, xml, lifecycle->rules[i]);
    }
    xml_writer_close(xml);
}
