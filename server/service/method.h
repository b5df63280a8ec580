// How the handlers of both services become methods.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "server/service/call.h"
#include "server/service/metrics.h"

namespace embedding {

// The method of an rpc. A call that is over before its work begins does not reach handle; it is counted and ended.
inline RpcMethod MakeMethod(Rpc rpc, Metrics& metrics, std::function<void(CallPtr)> handle) {
  // Protobuf would print parts of malformed requests on stderr, past the log; handlers say what is wrong to the caller.
  google::protobuf::SetLogHandler(nullptr);
  return {absl::StrCat("/", RpcServiceName(rpc), "/", RpcMethodName(rpc)), rpc,
          [rpc, &metrics, handle = std::move(handle)](CallPtr call) {
            if (call->stopped()) {
              metrics.OnExpiredBeforeRun(rpc);
              call->Fail(call->StoppedStatus());
              return;
            }
            handle(std::move(call));
          }};
}

}  // namespace embedding
