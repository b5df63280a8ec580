// Lookup: ids from the wire, rows gathered once into the slice that goes out.
#include <memory>
#include <utility>

#include "server/service/handlers.h"
#include "server/service/lookup_work.h"

namespace embedding {
namespace {

void Finish(LookupWork& work, Call& call) {
  absl::StatusOr<grpc::ByteBuffer> answer = work.Answer(call);
  if (answer.ok()) {
    call.Reply(*std::move(answer));
  } else {
    call.Fail(answer.status());
  }
}

// On a worker, with a place among the searches for as long as it takes.
void FinishOnPool(const ServiceContext& context, std::shared_ptr<LookupWork> work, CallPtr call) {
  absl::StatusOr<Admission::Ticket> place = context.admission->Admit(0, /*search=*/true);
  if (!place.ok()) {
    call->Fail(place.status());
    return;
  }
  auto held = std::make_shared<Admission::Ticket>(*std::move(place));
  context.pool->Submit(
      1,
      [work = std::move(work), call = std::move(call), held = std::move(held)](int) {
        absl::StatusOr<grpc::ByteBuffer> answer = work->Answer(*call);
        *held = Admission::Ticket();  // before the caller can send the next one
        if (answer.ok()) {
          call->Reply(*std::move(answer));
        } else {
          call->Fail(answer.status());
        }
      },
      [] {});
}

}  // namespace

void HandleLookup(const ServiceContext& context, CallPtr call) {
  auto work = std::make_shared<LookupWork>(context, Rpc::kLookup, call->request());
  if (absl::Status status = work->Prepare(); !status.ok()) {
    call->Fail(status);
  } else if (work->runs_long()) {
    FinishOnPool(context, std::move(work), std::move(call));
  } else {
    Finish(*work, *call);
  }
}

}  // namespace embedding
