/*
 * GetObjectLockConfiguration, PutObjectLockConfiguration. Object lock once enabled stays; a PUT
 * without a rule takes the default retention away. Whether versioning allows it is decided in the
 * apply.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

enum { LOCK_GOVERNANCE = 1, LOCK_COMPLIANCE = 2 };
enum { LOCK_DAYS_MAX = 36500, LOCK_YEARS_MAX = 100 }; /* AWS */

static enum step_result get_lock_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__ObjectLock *lock = s3_settings(req->bucket)->object_lock;
    struct xml_writer xml;

    if (lock == NULL || !lock->enabled) {
        (void)s3_fail(req, S3_ObjectLockConfigurationNotFoundError, NULL);
        s3_error_detail(req, "BucketName", req->bucket_name);
        return STEP_FAIL;
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "ObjectLockConfiguration", XML_NS_S3);
    xml_writer_str(&xml, "ObjectLockEnabled", "Enabled");
    if (lock->mode != 0) {
        xml_writer_open(&xml, "Rule");
        xml_writer_open(&xml, "DefaultRetention");
        xml_writer_str(&xml, "Mode", lock->mode == LOCK_GOVERNANCE ? "GOVERNANCE" : "COMPLIANCE");
        xml_writer_u64(&xml, lock->days != 0 ? "Days" : "Years",
                       lock->days != 0 ? lock->days : lock->years);
        xml_writer_close(&xml);
        xml_writer_close(&xml);
    }
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static enum step_result put_lock_period(struct s3_request *req, const char *name, struct slice text,
                                        uint32_t max, uint32_t *out)
{
    bool negative = slice_starts(text, SLICE("-"));
    uint64_t value = 0;

    if (!slice_to_u64(negative ? slice_after(text, 1) : text, INT32_MAX, &value)) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (negative || value == 0 || value > max) {
        (void)s3_fail(req, S3_InvalidArgument,
                      negative || value == 0
                          ? "Default retention period must be a positive integer value."
                          : "Default retention period too large.");
        s3_error_detail(req, "ArgumentName", slice_str(name));
        return STEP_FAIL;
    }
    *out = (uint32_t)value;
    return STEP_NEXT;
}

static enum step_result put_lock_retention(struct s3_request *req, const struct xml_node *rule,
                                           Kist__ObjectLock *lock)
{
    static const char *const rule_names[] = {"DefaultRetention", NULL};
    static const char *const names[] = {"Mode", "Days", "Years", NULL};
    const struct xml_node *retention = xml_child(rule, "DefaultRetention");
    struct slice mode = retention != NULL ? xml_child_text(retention, "Mode") : SLICE_EMPTY;
    struct slice days = retention != NULL ? xml_child_text(retention, "Days") : SLICE_EMPTY;
    struct slice years = retention != NULL ? xml_child_text(retention, "Years") : SLICE_EMPTY;

    if (retention == NULL || !setting_children_known(rule, rule_names) ||
        !setting_children_known(retention, names) || (days.data == NULL) == (years.data == NULL)) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    if (slice_eq(mode, SLICE("GOVERNANCE"))) {
        lock->mode = LOCK_GOVERNANCE;
    } else if (slice_eq(mode, SLICE("COMPLIANCE"))) {
        lock->mode = LOCK_COMPLIANCE;
    } else {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    return days.data != NULL ? put_lock_period(req, "Days", days, LOCK_DAYS_MAX, &lock->days)
                             : put_lock_period(req, "Years", years, LOCK_YEARS_MAX, &lock->years);
}

static enum step_result put_lock_check(struct task *task)
{
    static const char *const names[] = {"ObjectLockEnabled", "Rule", NULL};
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "ObjectLockConfiguration");
    const struct xml_node *rule;
    Kist__ObjectLock *lock;

    if (root == NULL) {
        return STEP_FAIL;
    }
    if (!setting_children_known(root, names) ||
        !slice_eq(xml_child_text(root, "ObjectLockEnabled"), SLICE("Enabled"))) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    lock = arena_alloc(req->arena, sizeof(*lock));
    kist__object_lock__init(lock);
    lock->enabled = true;
    rule = xml_child(root, "Rule");
    if (rule != NULL && put_lock_retention(req, rule, lock) == STEP_FAIL) {
        return STEP_FAIL;
    }
    setting_begin(op, SETTING_OBJECT_LOCK)->object_lock = lock;
    return STEP_NEXT;
}

const struct s3_handler get_object_lock = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_lock_reply},
                },
};

const struct s3_handler put_object_lock = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT | NEEDS_CHECKSUM,
    .steps =
        {
                {"check", put_lock_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
