#include "server/admin/admin_server.h"

#include <arpa/inet.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "civetweb.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"
#include "server/admin/listen_address.h"
#include "server/service/log.h"

namespace embedding {
namespace {

// Clients that hang take a thread each until the timeout, so there are more than a scraper, a prober and a person need.
constexpr const char* kNumThreads = "12";
constexpr const char* kRequestTimeoutMs = "3000";

constexpr const char* kPlainText = "text/plain; charset=utf-8";
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

struct Reply {
  int status = 200;
  const char* reason = "OK";
  std::string body;
  const char* content_type = kPlainText;
  const char* extra_header = "";
};

void Write(mg_connection* connection, const Reply& reply, bool with_body) {
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", reply.status, " ", reply.reason, "\r\nContent-Type: ", reply.content_type,
      "\r\nContent-Length: ", reply.body.size(), "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
      reply.extra_header, "Connection: close\r\n\r\n");
  // A client that has gone is no event worth a line.
  if (mg_write(connection, head.data(), head.size()) <= 0 || !with_body) return;
  mg_write(connection, reply.body.data(), reply.body.size());
}

// Malformed requests and timeouts, which it would print to stderr by itself.
int OnMessage(const mg_connection*, const char* message) {
  Log(LogLevel::kDebug, message, {{"component", "admin"}});
  return 1;
}

}  // namespace

struct AdminServer::Impl {
  Impl(const prometheus::Collectable& collectable, std::function<bool()> is_ready)
      : metrics(collectable), ready(std::move(is_ready)) {}
  // civetweb's listening thread looks for a request to stop only every 2 s, unless a connection wakes it.
  ~Impl() {
    if (context == nullptr) return;
    std::atomic<bool> stopped{false};
    std::thread stopper([this, &stopped] {
      mg_stop(context);
      stopped = true;
    });
    while (!stopped) {
      WakeListener(address);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    stopper.join();
  }

  Reply Answer(const mg_request_info& request) const {
    const absl::string_view method = request.request_method;
    if (method != "GET" && method != "HEAD") {
      return {405, "Method Not Allowed", "only GET and HEAD are answered\n", kPlainText, "Allow: GET, HEAD\r\n"};
    }
    const absl::string_view path = request.local_uri != nullptr ? request.local_uri : "";
    if (path == "/livez") return {200, "OK", "alive\n"};
    if (path == "/readyz") {
      return ready() ? Reply{200, "OK", "ready\n"} : Reply{503, "Service Unavailable", "not ready\n"};
    }
    if (path == "/metrics") {
      return {200, "OK", prometheus::TextSerializer().Serialize(metrics.Collect()), kMetricsText};
    }
    return {404, "Not Found", "not found; there are /metrics, /livez and /readyz\n"};
  }

  // civetweb is C: nothing may be thrown through it.
  int Handle(mg_connection* connection, const mg_request_info& request) const {
    const bool with_body = absl::string_view(request.request_method) != "HEAD";
    try {
      const Reply reply = Answer(request);
      Write(connection, reply, with_body);
      return reply.status;
    } catch (const std::exception& e) {
      Log(LogLevel::kError, "admin request failed", {{"reason", e.what()}});
      Write(connection, {500, "Internal Server Error", "internal error\n"}, with_body);
      return 500;
    }
  }

  // Before any of civetweb's own handling, and always the last: nothing of it can be reached, files on the disk above
  // all.
  static int OnRequest(mg_connection* connection) {
    const mg_request_info& request = *mg_get_request_info(connection);
    return static_cast<const Impl*>(request.user_data)->Handle(connection, request);
  }

  const prometheus::Collectable& metrics;
  const std::function<bool()> ready;
  sockaddr_in address{};  // as bound
  mg_context* context = nullptr;
};

AdminServer::AdminServer(std::unique_ptr<Impl> impl, std::string address)
    : impl_(std::move(impl)), address_(std::move(address)) {}
AdminServer::~AdminServer() = default;

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const std::string& address,
                                                                const prometheus::Collectable& metrics,
                                                                std::function<bool()> ready) {
  absl::StatusOr<sockaddr_in> resolved = ResolveListenAddress(address);
  if (!resolved.ok()) return resolved.status();
  const std::string listen_on = ListenAddressText(*resolved);

  // Once, and never undone: its counterpart would take the library from under another instance. No feature is asked
  // for, so no TLS library is loaded.
  static const unsigned initialised = mg_init_library(MG_FEATURES_DEFAULT);
  static_cast<void>(initialised);

  auto impl = std::make_unique<Impl>(metrics, std::move(ready));
  // No document_root: without it a path that is not ours is never looked for on the disk, which keeps the heap overflow
  // of civetweb 1.14 to 1.16 (CVE-2025-55763) out of reach.
  // clang-format off
  const char* options[] = {
      "listening_ports", listen_on.c_str(),
      "num_threads", kNumThreads,
      "request_timeout_ms", kRequestTimeoutMs,
      "enable_keep_alive", "no",
      "enable_auth_domain_check", "no",
      "decode_url", "no",  // %00 would end a path early
      nullptr};
  // clang-format on
  mg_callbacks callbacks{};
  callbacks.begin_request = &Impl::OnRequest;
  callbacks.log_message = &OnMessage;
  char reason[256] = "";
  unsigned code = 0;
  mg_error_data error{&code, reason, sizeof(reason)};
  mg_init_data init{&callbacks, impl.get(), options};
  impl->context = mg_start2(&init, &error);
  if (impl->context == nullptr) {
    // Its own text says that binding failed, not why.
    std::string why = WhyNotBound(*resolved);
    if (why.empty()) why = reason;
    return absl::UnavailableError(absl::StrCat("cannot listen on admin address ", address, ": ", why));
  }
  mg_server_port port{};
  if (mg_get_server_ports(impl->context, 1, &port) == 1) resolved->sin_port = htons(static_cast<uint16_t>(port.port));
  impl->address = *resolved;
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl), ListenAddressText(*resolved)));
}

}  // namespace embedding
