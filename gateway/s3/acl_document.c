#include "gateway/s3/acl_document.h"

#include "common/base/limits.h"
#include "gateway/xml/xml_reader.h"

struct acl_word {
    const char *name;   /* in documents */
    const char *header; /* x-amz-grant-... */
    uint32_t permission;
};

static const struct acl_word acl_words[] = {
    {"READ",         "x-amz-grant-read",         ACL_READ        },
    {"WRITE",        "x-amz-grant-write",        ACL_WRITE       },
    {"READ_ACP",     "x-amz-grant-read-acp",     ACL_READ_ACP    },
    {"WRITE_ACP",    "x-amz-grant-write-acp",    ACL_WRITE_ACP   },
    {"FULL_CONTROL", "x-amz-grant-full-control", ACL_FULL_CONTROL},
};

struct acl_group {
    const char *uri;
    enum acl_grantee grantee;
};

static const struct acl_group acl_groups[] = {
    {"http://acs.amazonaws.com/groups/global/AllUsers",           ACL_EVERYBODY    },
    {"http://acs.amazonaws.com/groups/global/AuthenticatedUsers", ACL_AUTHENTICATED},
    {"http://acs.amazonaws.com/groups/s3/LogDelivery",            ACL_LOG_DELIVERY },
};

static bool acl_bad_argument(struct s3_request *req, const char *text, const char *name,
                             struct slice value)
{
    (void)s3_fail(req, S3_InvalidArgument, text);
    s3_error_detail(req, "ArgumentName", slice_str(name));
    s3_error_detail(req, "ArgumentValue", value);
    return false;
}

static bool acl_malformed(struct s3_request *req)
{
    (void)s3_fail(req, S3_MalformedACLError, NULL);
    return false;
}

static bool acl_group_parse(struct slice uri, enum acl_grantee *grantee)
{
    for (size_t i = 0; i < ARRAY_LEN(acl_groups); i++) {
        if (slice_eq_str(uri, acl_groups[i].uri)) {
            *grantee = acl_groups[i].grantee;
            return true;
        }
    }
    return false;
}

/* ---- Documents ---- */

/* AWS refuses a document with a grantee of another type; without one, what is in it tells. */
static bool acl_type_known(const struct xml_node *grantee)
{
    static const char *const types[] = {"CanonicalUser", "Group", "AmazonCustomerByEmail"};

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (slice_eq_str(grantee->type, types[i])) {
            return true;
        }
    }
    return grantee->type.data == NULL;
}

static bool acl_document_grantee(struct s3_request *req, const struct xml_node *grantee,
                                 Kist__Acl *acl, uint32_t permission)
{
    struct slice id = xml_child_text(grantee, "ID");
    struct slice uri = xml_child_text(grantee, "URI");
    struct slice email = xml_child_text(grantee, "EmailAddress");
    enum acl_grantee group;

    if (!acl_type_known(grantee) ||
        (id.data != NULL) + (uri.data != NULL) + (email.data != NULL) != 1) {
        return acl_malformed(req);
    }
    if (id.data != NULL) {
        acl_add(req->arena, acl, ACL_USER, id, permission);
    } else if (email.data != NULL) {
        acl_add(req->arena, acl, (enum acl_grantee)ACL_BY_EMAIL, email, permission);
    } else if (acl_group_parse(uri, &group)) {
        acl_add(req->arena, acl, group, SLICE_EMPTY, permission);
    } else {
        return acl_bad_argument(req, "Invalid group uri", "Group/URI", uri);
    }
    return true;
}

static bool acl_document_grant(struct s3_request *req, const struct xml_node *grant, Kist__Acl *acl)
{
    const struct xml_node *grantee = xml_child(grant, "Grantee");
    struct slice permission = xml_child_text(grant, "Permission");

    if (!xml_is(grant, "Grant") || grantee == NULL || acl->n_grants == LIMIT_ACL_GRANTS) {
        return acl_malformed(req);
    }
    for (size_t i = 0; i < ARRAY_LEN(acl_words); i++) {
        if (slice_eq_str(permission, acl_words[i].name)) {
            return acl_document_grantee(req, grantee, acl, acl_words[i].permission);
        }
    }
    return acl_malformed(req);
}

Kist__Acl *acl_from_document(struct s3_request *req)
{
    const struct xml_node *root = NULL;
    const struct xml_node *list;
    const struct xml_node *named;
    Kist__Acl *acl;

    if (xml_reader_parse(req->document, req->arena, &root, NULL) != RC_OK ||
        !xml_is(root, "AccessControlPolicy")) {
        (void)acl_malformed(req);
        return NULL;
    }
    list = xml_child(root, "AccessControlList");
    named = xml_child(root, "Owner");
    if (list == NULL || named == NULL || xml_child_text(named, "ID").len == 0) {
        (void)acl_malformed(req);
        return NULL;
    }
    acl = acl_new(req->arena, xml_child_text(named, "ID"), LIMIT_ACL_GRANTS);
    for (const struct xml_node *grant = xml_child(list, NULL); grant != NULL;
         grant = xml_next(grant, NULL)) {
        if (!acl_document_grant(req, grant, acl)) {
            return NULL;
        }
    }
    return acl;
}

/* ---- Headers ---- */

static struct slice acl_unquote(struct slice text)
{
    text = slice_trim(text);
    if (text.len >= 2 && text.data[0] == '"' && text.data[text.len - 1] == '"') {
        return slice_of(text.data + 1, text.len - 2);
    }
    return text;
}

/* id=..., uri=... or emailAddress=..., quoted or not. */
static bool acl_header_grantee(struct s3_request *req, const struct acl_word *word,
                               struct slice text, Kist__Acl *acl)
{
    size_t split = slice_find(text, '=');
    struct slice type = slice_trim(slice_of(text.data, split));
    struct slice value = acl_unquote(slice_after(text, split + 1));
    enum acl_grantee group;

    if (value.len == 0 || acl->n_grants == LIMIT_ACL_GRANTS) {
        return acl_bad_argument(req, "Argument format not recognized", word->header, text);
    }
    if (slice_eq_nocase(type, SLICE("id"))) {
        acl_add(req->arena, acl, ACL_USER, value, word->permission);
    } else if (slice_eq_nocase(type, SLICE("emailAddress"))) {
        acl_add(req->arena, acl, (enum acl_grantee)ACL_BY_EMAIL, value, word->permission);
    } else if (!slice_eq_nocase(type, SLICE("uri"))) {
        return acl_bad_argument(req, "Argument format not recognized", word->header, text);
    } else if (acl_group_parse(value, &group)) {
        acl_add(req->arena, acl, group, SLICE_EMPTY, word->permission);
    } else {
        return acl_bad_argument(req, "Invalid group uri", "uri", value);
    }
    return true;
}

bool acl_headers_present(const struct s3_request *req)
{
    for (size_t i = 0; i < ARRAY_LEN(acl_words); i++) {
        if (s3_header(req, acl_words[i].header).data != NULL) {
            return true;
        }
    }
    return false;
}

Kist__Acl *acl_from_headers(struct s3_request *req, struct slice owner)
{
    Kist__Acl *acl;

    if (!acl_headers_present(req)) {
        return NULL;
    }
    acl = acl_new(req->arena, owner, LIMIT_ACL_GRANTS);
    for (size_t i = 0; i < ARRAY_LEN(acl_words); i++) {
        struct slice rest = s3_header(req, acl_words[i].header);

        while (rest.len > 0) {
            struct slice one = slice_of(rest.data, slice_find(rest, ','));

            rest = slice_after(rest, one.len + 1);
            if (!acl_header_grantee(req, &acl_words[i], slice_trim(one), acl)) {
                return NULL;
            }
        }
    }
    return acl;
}

/* ---- Replies ---- */

static void acl_write_user(struct xml_writer *xml, const char *name, struct slice attributes,
                           struct slice user)
{
    xml_writer_begin(xml, slice_str(name), SLICE_EMPTY, attributes);
    xml_writer_text(xml, "ID", user);
    xml_writer_text(xml, "DisplayName", user);
    xml_writer_close(xml);
}

static void acl_write_grant(struct xml_writer *xml, const Kist__Grant *grant, uint32_t permission)
{
    const struct slice user = SLICE(" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                                    "xsi:type=\"CanonicalUser\"");
    const struct slice group =
        SLICE(" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\"");

    xml_writer_open(xml, "Grant");
    if (grant->grantee == ACL_USER) {
        acl_write_user(xml, "Grantee", user, s3_slice(grant->user));
    } else {
        xml_writer_begin(xml, SLICE("Grantee"), SLICE_EMPTY, group);
        for (size_t i = 0; i < ARRAY_LEN(acl_groups); i++) {
            if (grant->grantee == (uint32_t)acl_groups[i].grantee) {
                xml_writer_str(xml, "URI", acl_groups[i].uri);
            }
        }
        xml_writer_close(xml);
    }
    for (size_t i = 0; i < ARRAY_LEN(acl_words); i++) {
        if (acl_words[i].permission == permission) {
            xml_writer_str(xml, "Permission", acl_words[i].name);
        }
    }
    xml_writer_close(xml);
}

/* Groups first, then users, each as they were given: AWS documents no order, and ceph/s3-tests
 * looks for them there. */
static void acl_write_grants(struct xml_writer *xml, const Kist__Acl *acl, bool users)
{
    for (size_t i = 0; i < acl->n_grants; i++) {
        const Kist__Grant *grant = acl->grants[i];

        for (uint32_t bit = ACL_READ; bit <= ACL_FULL_CONTROL; bit <<= 1) {
            if ((grant->permissions & bit) != 0 && (grant->grantee == ACL_USER) == users) {
                acl_write_grant(xml, grant, bit);
            }
        }
    }
}

void acl_document_write(struct s3_request *req, const Kist__Acl *acl, struct slice owner)
{
    struct xml_writer xml;

    if (acl == NULL) {
        acl = acl_canned(req->arena, SLICE("private"), owner, owner);
    }
    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "AccessControlPolicy", XML_NS_S3);
    acl_write_user(&xml, "Owner", SLICE_EMPTY, owner);
    xml_writer_open(&xml, "AccessControlList");
    acl_write_grants(&xml, acl, false);
    acl_write_grants(&xml, acl, true);
    xml_writer_close(&xml);
    xml_writer_close(&xml);
}
