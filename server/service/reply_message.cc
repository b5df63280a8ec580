#include "server/service/reply_message.h"

#include <utility>

#include "absl/status/statusor.h"
#include "server/service/answer_buffer.h"

namespace embedding {

void ReplyWithMessage(const ServiceContext& context, const google::protobuf::MessageLite& message,
                      const CallPtr& call) {
  const size_t size = message.ByteSizeLong();
  absl::StatusOr<Admission::Ticket> ticket = context.admission->Admit(static_cast<int64_t>(size), /*search=*/false);
  if (!ticket.ok()) {
    call->Fail(ticket.status());
    return;
  }
  AnswerBuffer answer(size, *std::move(ticket));
  message.SerializeWithCachedSizesToArray(answer.data());
  call->Reply(answer.TakeBytes());
}

}  // namespace embedding
