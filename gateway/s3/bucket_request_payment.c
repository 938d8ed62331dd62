/*
 * GetBucketRequestPayment, PutBucketRequestPayment. Nobody is billed here; under "Requester"
 * callers other than the owner must say that they would pay (judge.c), as their programs do at AWS.
 */
#include "gateway/s3/handlers.h"
#include "gateway/s3/setting.h"

enum { PAYER_OWNER = 1, PAYER_REQUESTER = 2 };

static enum step_result get_payment_reply(struct task *task)
{
    struct s3_request *req = S3_REQUEST_OF(task);
    const Kist__RequestPayment *payment = s3_settings(req->bucket)->request_payment;
    bool requester = payment != NULL && payment->payer == PAYER_REQUESTER;
    struct xml_writer xml;

    s3_xml_begin(req, &xml);
    xml_writer_open_ns(&xml, "RequestPaymentConfiguration", XML_NS_S3);
    xml_writer_str(&xml, "Payer", requester ? "Requester" : "BucketOwner");
    xml_writer_close(&xml);
    return s3_reply_xml(req, 200);
}

static enum step_result put_payment_check(struct task *task)
{
    struct setting_op *op = setting_op_of(task);
    struct s3_request *req = &op->base;
    const struct xml_node *root = setting_document(req, "RequestPaymentConfiguration");
    struct slice payer = root != NULL ? xml_child_text(root, "Payer") : SLICE_EMPTY;
    Kist__RequestPayment *payment;

    if (root == NULL) {
        return STEP_FAIL;
    }
    if (!slice_eq(payer, SLICE("BucketOwner")) && !slice_eq(payer, SLICE("Requester"))) {
        return s3_fail(req, S3_MalformedXML, NULL);
    }
    payment = arena_alloc(req->arena, sizeof(*payment));
    kist__request_payment__init(payment);
    payment->payer = slice_eq(payer, SLICE("Requester")) ? PAYER_REQUESTER : PAYER_OWNER;
    setting_begin(op, SETTING_REQUEST_PAYMENT)->request_payment = payment;
    return STEP_NEXT;
}

const struct s3_handler get_bucket_request_payment = {
    .state_size = sizeof(struct setting_op),
    .steps =
        {
                {"refresh", setting_refresh},
                {"confirm", setting_confirm},
                {"reply", get_payment_reply},
                },
};

const struct s3_handler put_bucket_request_payment = {
    .state_size = sizeof(struct setting_op),
    .flags = BODY_DOCUMENT,
    .steps =
        {
                {"check", put_payment_check},
                {"write", setting_write},
                {"reply", setting_reply},
                },
};
