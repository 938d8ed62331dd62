/* Access control lists: who may do what, canned lists, ownership. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/assert.h"
#include "gateway/access/acl.h"

static struct arena arena;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return 0;
}

static Kist__Acl *canned(const char *name)
{
    return acl_canned(&arena, slice_str(name), SLICE("ann"), SLICE("bob"));
}

struct row {
    const char *canned;
    const char *user; /* "": anonymous */
    bool ignore_public;
    uint32_t permissions;
};

/* Each canned list lets in whom AWS says, and nobody else; a public access block takes the public
 * grants away and leaves the others. */
static void canned_lists_let_in_whom_they_say(void **state)
{
    static const struct row rows[] = {
        {"private",                   "ann", false, ACL_ALL             },
        {"private",                   "bob", false, 0                   },
        {"private",                   "",    false, 0                   },
        {"public-read",               "",    false, ACL_READ            },
        {"public-read",               "eve", false, ACL_READ            },
        {"public-read",               "",    true,  0                   },
        {"public-read",               "ann", true,  ACL_ALL             },
        {"public-read-write",         "",    false, ACL_READ | ACL_WRITE},
        {"authenticated-read",        "",    false, 0                   },
        {"authenticated-read",        "eve", false, ACL_READ            },
        {"authenticated-read",        "eve", true,  0                   },
        {"bucket-owner-read",         "bob", false, ACL_READ            },
        {"bucket-owner-read",         "eve", false, 0                   },
        {"bucket-owner-read",         "bob", true,  ACL_READ            },
        {"bucket-owner-full-control", "bob", false, ACL_ALL             },
        {"log-delivery-write",        "eve", false, 0                   },
        {"aws-exec-read",             "eve", false, 0                   },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(acl_permissions(canned(rows[i].canned), SLICE("ann"),
                                         slice_str(rows[i].user), rows[i].ignore_public),
                         rows[i].permissions);
    }
    assert_null(canned("publicread"));
    assert_null(canned(""));
}

/* No list at all is the owner's alone; an anonymous caller never matches an empty owner. */
static void without_a_list_only_the_owner(void **state)
{
    (void)state;
    assert_int_equal(acl_permissions(NULL, SLICE("ann"), SLICE("ann"), false), ACL_ALL);
    assert_int_equal(acl_permissions(NULL, SLICE("ann"), SLICE("bob"), false), 0);
    assert_int_equal(acl_permissions(NULL, SLICE_EMPTY, SLICE_EMPTY, false), 0);
}

/* What counts as public decides what a public access block refuses. */
static void public_lists_are_known(void **state)
{
    (void)state;
    assert_true(acl_is_public(canned("public-read")));
    assert_true(acl_is_public(canned("authenticated-read")));
    assert_false(acl_is_public(canned("log-delivery-write")));
    assert_false(acl_is_public(canned("bucket-owner-full-control")));
    assert_false(acl_is_public(NULL));
}

/* Only such lists may stand where ACLs are off, so nothing else may pass for one. */
static void private_lists_are_known(void **state)
{
    Kist__Acl *acl = acl_new(&arena, SLICE("ann"), 2);

    (void)state;
    assert_true(acl_is_private(NULL, SLICE("ann")));
    assert_true(acl_is_private(canned("private"), SLICE("ann")));
    assert_false(acl_is_private(canned("private"), SLICE("bob")));
    assert_false(acl_is_private(canned("public-read"), SLICE("ann")));
    assert_false(acl_is_private(acl, SLICE("ann"))); /* it takes the owner's rights away */
    acl_add(&arena, acl, ACL_USER, SLICE("ann"), ACL_READ);
    assert_false(acl_is_private(acl, SLICE("ann")));
    acl_add(&arena, acl, ACL_USER, SLICE("ann"), ACL_FULL_CONTROL);
    assert_true(acl_is_private(acl, SLICE("ann")));
}

/* An owner given twice by bucket-owner-*: one grant is enough. */
static void the_bucket_owners_own_object_has_one_grant(void **state)
{
    const Kist__Acl *acl =
        acl_canned(&arena, SLICE("bucket-owner-full-control"), SLICE("ann"), SLICE("ann"));

    (void)state;
    assert_int_equal(acl->n_grants, 1);
}

/* The bucket's ownership rule decides whether what is stored counts at all. */
static void ownership_decides_what_counts(void **state)
{
    Kist__Bucket bucket = KIST__BUCKET__INIT;
    Kist__Settings settings = KIST__SETTINGS__INIT;
    Kist__Ownership ownership = KIST__OWNERSHIP__INIT;
    Kist__Record record = KIST__RECORD__INIT;

    (void)state;
    bucket.owner = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)(uintptr_t)"ann"};
    record.owner = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)(uintptr_t)"bob"};
    record.acl = canned("public-read");
    assert_int_equal(acl_ownership(&bucket), OWNERSHIP_ENFORCED);
    bucket.settings = &settings;
    settings.acl = canned("public-read");
    assert_int_equal(acl_ownership(&bucket), OWNERSHIP_ENFORCED);
    assert_null(acl_of_bucket(&bucket));
    assert_null(acl_of_object(&bucket, &record));
    assert_true(slice_eq(acl_object_owner(&bucket, &record), SLICE("ann")));
    settings.ownership = &ownership;
    ownership.rule = OWNERSHIP_WRITER;
    assert_non_null(acl_of_bucket(&bucket));
    assert_non_null(acl_of_object(&bucket, &record));
    assert_true(slice_eq(acl_object_owner(&bucket, &record), SLICE("bob")));
    record.owner.len = 0;
    assert_true(slice_eq(acl_object_owner(&bucket, &record), SLICE("ann")));
}

/* Names go in and out as AWS spells them. */
static void ownership_names(void **state)
{
    static const char *const names[] = {"BucketOwnerEnforced", "BucketOwnerPreferred",
                                        "ObjectWriter"};
    enum ownership_rule rule;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(acl_ownership_parse(slice_str(names[i]), &rule));
        assert_string_equal(acl_ownership_name(rule), names[i]);
    }
    assert_false(acl_ownership_parse(SLICE("objectwriter"), &rule));
    assert_false(acl_ownership_parse(SLICE_EMPTY, &rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(canned_lists_let_in_whom_they_say, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_list_only_the_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(public_lists_are_known, setup, teardown),
        cmocka_unit_test_setup_teardown(private_lists_are_known, setup, teardown),
        cmocka_unit_test_setup_teardown(the_bucket_owners_own_object_has_one_grant, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(ownership_decides_what_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(ownership_names, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
