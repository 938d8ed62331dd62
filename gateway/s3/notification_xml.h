/* NotificationConfiguration: the document of Get- and PutBucketNotificationConfiguration. */
#ifndef GATEWAY_S3_NOTIFICATION_XML_H
#define GATEWAY_S3_NOTIFICATION_XML_H

#include "gateway/s3/op.h"
#include "gateway/xml/xml_reader.h"

enum notification_kind {
    NOTIFICATION_TOPIC = 1,
    NOTIFICATION_QUEUE = 2,
    NOTIFICATION_FUNCTION = 3
};

/* Reads and checks as AWS does; the targets live in req->arena. STEP_NEXT or STEP_FAIL. */
enum step_result notification_xml_read(struct s3_request *req, const struct xml_node *root,
                                       Kist__Notification *notification);
void notification_xml_write(struct xml_writer *xml, const Kist__Notification *notification);

#endif
