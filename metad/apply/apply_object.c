#include "metad/apply/apply.h"

void apply_set_object(struct apply *apply, const ProtobufCMessage *message)
{
    (void)message;
    (void)apply_refuse(apply, KIST__OUTCOME__UNKNOWN_COMMAND);
}
