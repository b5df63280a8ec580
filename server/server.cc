#include "server/server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/admin/admin_server.h"
#include "server/build_info.h"
#include "server/endpoint.h"
#include "server/exec/cpu_count.h"
#include "server/exec/memory_limit.h"
#include "server/exec/mutex.h"
#include "server/exec/worker_pool.h"
#include "server/load_progress.h"
#include "server/port_sockets.h"
#include "server/service/admission.h"
#include "server/service/embedding_service.h"
#include "server/service/health_service.h"
#include "server/service/log.h"
#include "server/service/metrics.h"
#include "server/service/reflection_service.h"
#include "server/service/rpc_server.h"
#include "server/service/snapshot.h"
#include "server/service/table_admin_service.h"
#include "server/service/table_manager.h"
#include "server/service/table_service.h"
#include "server/table/table_memory.h"

namespace embedding {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr char kEmbeddingService[] = "embedding.v1.EmbeddingService";
constexpr char kTableService[] = "embedding.v1.TableService";
constexpr char kTableAdminService[] = "embedding.v1.TableAdminService";
// How often a drain looks whether calls are answered and sockets flushed.
constexpr std::chrono::milliseconds kDrainPoll{2};
// For what was answered in the last moment of a drain to leave.
constexpr std::chrono::milliseconds kFlushTime{100};

constexpr char kHealthService[] = "grpc.health.v1.Health";

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

std::string TableHealthName(const std::string& table) { return absl::StrCat("table/", table); }

std::vector<std::string> TableNames(const ServerOptions& options) {
  std::vector<std::string> names;
  for (const TableOptions& table : options.tables) names.push_back(table.name);
  return names;
}

std::vector<std::string> HealthNames(const ServerOptions& options) {
  std::vector<std::string> names = {"", kEmbeddingService};
  for (const TableOptions& table : options.tables) names.push_back(TableHealthName(table.name));
  return names;
}

absl::Status NotBound(const std::string& flag, const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, " (--", flag, "): ", why));
}

// Where nothing is said: the memory limit, less room for answers, searches, norms and the program itself.
int64_t TableMemoryLimitOf(const ServerOptions& options) {
  constexpr int64_t kLeastRoom = int64_t{256} << 20;
  if (options.max_table_bytes > 0) return options.max_table_bytes;
  const int64_t limit = MemoryLimit();
  return limit - std::min(limit / 2, std::max(limit / 8, kLeastRoom));
}

}  // namespace

struct Server::Impl {
  explicit Impl(const ServerOptions& given)
      : options(given),
        threads(options.threads > 0 ? options.threads : AvailableCpus()),
        polling_threads(options.polling_threads > 0 ? options.polling_threads : PollingThreadsFor(threads)),
        metrics(ThisBuild()),
        admission(options.admission),
        registry(TableNames(options), static_cast<int>(options.keep_versions)),
        health(HealthNames(options)),
        pool(std::make_unique<WorkerPool>(threads)),
        manager(std::make_unique<TableManager>(ManagerSettings())) {}

  const ServerOptions options;
  const int threads;
  const int polling_threads;
  const SteadyClock::time_point started = SteadyClock::now();

  // What calls use, before what brings the calls: destroyed after it.
  Metrics metrics;
  Admission admission;
  TableRegistry registry;
  HealthService health;
  std::unique_ptr<WorkerPool> pool;  // Similarity and NearestNeighbour
  std::unique_ptr<TableManager> manager;
  std::unique_ptr<RpcServer> rpc;
  std::unique_ptr<grpc::Server> grpc_server;
  std::unique_ptr<AdminServer> admin;

  std::string grpc_address;
  std::string unix_path;  // ours to remove; empty for TCP
  std::optional<PortSockets> sockets;

  std::atomic<bool> draining{false};
  int64_t calls_cut = 0;  // by the end of the drain's time; written and read by the thread that drains
  Mutex mutex;
  CondVar wake;
  bool drained ABSL_GUARDED_BY(mutex) = false;

  ServiceContext Context();
  std::vector<RpcMethod> Methods();
  std::vector<StreamMethod> Streams();
  absl::Status Listen();
  TableManager::Settings ManagerSettings();
  void Shutdown(std::chrono::milliseconds timeout);
  void Pause(SteadyClock::duration time);
};

TableManager::Settings Server::Impl::ManagerSettings() {
  TableManager::Settings settings;
  settings.registry = &registry;
  settings.metrics = &metrics;
  settings.limits = options.table_limits;
  settings.table_root = options.table_root;
  settings.threads = threads;
  settings.progress = [](const std::string& table) -> LoadProgress::Report {
    const auto line = std::make_shared<LoadProgressLine>(table);
    return [line](int64_t done_bytes, int64_t total_bytes) { line->Update(done_bytes, total_bytes); };
  };
  settings.health = [this](const std::string& table, bool serving) {
    if (serving) {
      health.SetServing(TableHealthName(table), true);
    } else {
      health.Remove(TableHealthName(table));
    }
  };
  return settings;
}

ServiceContext Server::Impl::Context() { return {&registry, pool.get(), &metrics, &admission, options.limits}; }

std::vector<RpcMethod> Server::Impl::Methods() {
  const ServiceContext context = Context();
  std::vector<RpcMethod> methods = EmbeddingServiceMethods(context);
  for (RpcMethod& method : TableServiceMethods(context, ThisBuild(), started)) methods.push_back(std::move(method));
  if (!options.table_root.empty()) {
    for (RpcMethod& method : TableAdminServiceMethods(context, manager.get())) methods.push_back(std::move(method));
  }
  return methods;
}

std::vector<StreamMethod> Server::Impl::Streams() {
  std::vector<StreamMethod> streams = EmbeddingServiceStreams(Context());
  for (StreamMethod& method : health.Methods()) streams.push_back(std::move(method));
  if (options.reflection) {
    std::vector<std::string> services = {kEmbeddingService, kTableService, kHealthService};
    if (!options.table_root.empty()) services.push_back(kTableAdminService);
    for (const std::string& name : ReflectionServiceNames()) services.push_back(name);
    for (StreamMethod& method : ReflectionMethods(services)) streams.push_back(std::move(method));
  }
  return streams;
}

absl::Status Server::Impl::Listen() {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(options.grpc_address, /*allow_unix=*/true);
  if (!endpoint.ok()) return NotBound("grpc-address", options.grpc_address, std::string(endpoint.status().message()));
  std::vector<std::string> addresses = {options.grpc_address};
  if (endpoint->unix_path.empty()) {
    absl::StatusOr<std::vector<std::string>> resolved = ResolveEndpoint(*endpoint);
    if (!resolved.ok()) {
      return NotBound("grpc-address", options.grpc_address, std::string(resolved.status().message()));
    }
    addresses = *std::move(resolved);
  } else if (absl::Status s = ClearUnixSocket(endpoint->unix_path); !s.ok()) {
    return NotBound("grpc-address", options.grpc_address, std::string(s.message()));
  }

  absl::StatusOr<std::unique_ptr<AdminServer>> started_admin =
      AdminServer::Start(options.admin_address, metrics, [this] { return registry.all_loaded() && !draining.load(); });
  if (!started_admin.ok()) {
    return absl::UnavailableError(absl::StrCat(std::string(started_admin.status().message()), " (--admin-address)"));
  }
  admin = *std::move(started_admin);

  rpc = std::make_unique<RpcServer>(Methods(), options.limits, metrics, polling_threads, Streams());
  grpc::ServerBuilder builder;
  rpc->Register(builder);
  // The library would be content if one of a name's addresses were free: so each is bound by itself.
  std::vector<int> ports(addresses.size(), 0);
  for (size_t i = 0; i < addresses.size(); ++i) {
    builder.AddListeningPort(addresses[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  grpc_server = builder.BuildAndStart();
  const auto unbound = std::find(ports.begin(), ports.end(), 0);
  if (grpc_server == nullptr || unbound != ports.end()) {
    if (grpc_server != nullptr) {
      grpc_server->Shutdown();
      rpc->Join();
      grpc_server.reset();
    }
    const std::string& address = unbound == ports.end() ? addresses[0] : addresses[unbound - ports.begin()];
    return NotBound("grpc-address", address, WhyNotBound(address));
  }
  unix_path = endpoint->unix_path;
  if (!unix_path.empty()) {
    sockets = PortSockets::Unix(unix_path);
  } else {
    sockets = PortSockets::Tcp({ports.begin(), ports.end()});
    for (size_t i = 0; i < addresses.size(); ++i) {
      addresses[i] = absl::StrCat(addresses[i].substr(0, addresses[i].rfind(':')), ":", ports[i]);
    }
  }
  grpc_address = absl::StrJoin(addresses, ",");
  rpc->Start();
  return absl::OkStatus();
}

void Server::Impl::Pause(SteadyClock::duration time) {
  const SteadyClock::time_point until = SteadyClock::now() + time;
  MutexLock lock(&mutex);
  while (SteadyClock::now() < until) wake.WaitUntil(&mutex, until);
}

// Ends the calls in the order in which nothing gets lost: new ones are told why, streams end, those in flight are
// answered and their answers flushed, and only then does the library end (see port_sockets.h).
void Server::Impl::Shutdown(std::chrono::milliseconds timeout) {
  registry.BeginShutdown();
  manager->Stop();
  if (grpc_server == nullptr) return;
  SteadyClock::time_point until = SteadyClock::now() + timeout;
  sockets->StopListening();
  rpc->BeginDrain();
  // A caller who goes on is told UNAVAILABLE meanwhile: only those who came before are waited for.
  bool answered = false;
  while (!(answered = rpc->undrained_calls() == 0) && SteadyClock::now() < until) Pause(kDrainPoll);
  calls_cut = answered ? 0 : rpc->undrained_calls();
  if (answered) {
    until = std::max(until, SteadyClock::now() + kFlushTime);
    Pause(kDrainPoll);  // a thread may be on its way to the socket with the last answer
    while (sockets->EndFlushedConnections() > 0 && SteadyClock::now() < until) Pause(kDrainPoll);
  }
  // The library waits without end for bytes under way to a peer that has stopped reading.
  if (SteadyClock::now() >= until) sockets->CutUnflushedConnections();
  grpc_server->Shutdown(std::chrono::system_clock::now() +
                        std::max(until - SteadyClock::now(), SteadyClock::duration::zero()));
  rpc->Join();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  if (absl::Status s = InitLogging(options.log_format, options.log_level, &impl->metrics); !s.ok()) return s;
  const BuildInfo build = ThisBuild();
  const int64_t table_bytes = TableMemoryLimitOf(options);
  SetTableMemoryLimit(table_bytes);
  Log(LogLevel::kInfo, "embedding-server",
      {{"version", build.version},
       {"revision", build.revision},
       {"compiler", build.compiler},
       {"simd", build.simd},
       {"threads", impl->threads},
       {"polling_threads", impl->polling_threads},
       {"max_table_bytes", table_bytes}});
  std::unique_ptr<Server> server(new Server(std::move(impl)));
  if (absl::Status s = server->impl_->Listen(); !s.ok()) return s;
  Log(LogLevel::kInfo, "listening",
      {{"grpc", server->grpc_address()}, {"admin", absl::StrCat("http://", server->admin_address(), "/")}});
  return server;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  bool drained;
  {
    MutexLock lock(&impl_->mutex);
    drained = impl_->drained;
  }
  impl_->draining.store(true);
  if (!drained) {
    impl_->health.BeginShutdown();
    impl_->Shutdown(std::chrono::milliseconds(0));
  }
  impl_->grpc_server.reset();
  if (!impl_->unix_path.empty()) unlink(impl_->unix_path.c_str());
  impl_->admin.reset();
  impl_->rpc.reset();
  impl_->manager.reset();
  impl_->pool.reset();
  // The metrics that count log lines end here.
  static_cast<void>(InitLogging(impl_->options.log_format, impl_->options.log_level, nullptr));
}

absl::Status Server::Load() {
  Impl& impl = *impl_;
  WorkerPool loaders(impl.threads);
  for (const TableOptions& table : impl.options.tables) {
    if (impl.draining.load()) return absl::CancelledError("the server is shutting down");
    if (absl::Status s = impl.manager->LoadFirst(table, loaders); !s.ok()) return s;
  }
  if (impl.draining.load()) return absl::CancelledError("the server is shutting down");
  impl.manager->Open();  // first, so that who is told of health finds every call answered
  impl.health.SetServing(kEmbeddingService, true);
  impl.health.SetServing("", true);
  Log(LogLevel::kInfo, "ready", {{"seconds", SecondsSince(impl.started)}});
  return absl::OkStatus();
}

void Server::Reload() { impl_->manager->ReloadAll(); }

void Server::Drain() {
  Impl& impl = *impl_;
  if (impl.draining.exchange(true)) return;
  const SteadyClock::time_point start = SteadyClock::now();
  impl.health.BeginShutdown();
  Log(LogLevel::kInfo, "draining",
      {{"drain_delay_seconds", std::chrono::duration<double>(impl.options.drain_delay).count()},
       {"drain_timeout_seconds", std::chrono::duration<double>(impl.options.drain_timeout).count()}});
  // The delay is for balancers to see NOT_SERVING; before all tables are there, none sends calls.
  if (impl.registry.all_loaded()) {
    impl.Pause(impl.options.drain_delay);
  } else {
    impl.manager->Stop();
  }
  impl.Shutdown(impl.options.drain_timeout);
  {
    MutexLock lock(&impl.mutex);
    impl.drained = true;
  }
  if (!impl.unix_path.empty()) unlink(impl.unix_path.c_str());
  // A call that was cut ended without an answer, though its handler did.
  Log(impl.calls_cut == 0 ? LogLevel::kInfo : LogLevel::kWarning, "drained",
      {{"seconds", SecondsSince(start)},
       {"started", impl.metrics.calls_started()},
       {"answered", impl.metrics.calls_handled() - impl.calls_cut},
       {"cut", impl.calls_cut}});
}

std::string Server::grpc_address() const { return impl_->grpc_address; }
std::string Server::admin_address() const { return impl_->admin == nullptr ? "" : impl_->admin->address(); }

}  // namespace embedding
