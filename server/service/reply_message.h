// The answer of a call whose speed does not count: a message, serialised by protobuf.
#pragma once

#include "google/protobuf/message_lite.h"
#include "server/service/call.h"
#include "server/service/embedding_service.h"

namespace embedding {

// Ends the call with the message, or with RESOURCE_EXHAUSTED (OVERLOADED) where it is not admitted.
void ReplyWithMessage(const ServiceContext& context, const google::protobuf::MessageLite& message, const CallPtr& call);

}  // namespace embedding
