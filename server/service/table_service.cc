#include "server/service/table_service.h"

#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "embedding/v1/embedding.pb.h"
#include "google/protobuf/util/time_util.h"
#include "server/service/method.h"
#include "server/service/reply_message.h"
#include "server/service/reply_writer.h"
#include "server/service/request_body.h"
#include "server/service/request_errors.h"
#include "server/service/row_selection.h"
#include "server/service/table_info.h"

namespace embedding {
namespace {

using google::protobuf::util::TimeUtil;

// Keys that one prefix gives.
constexpr int32_t kDefaultPrefixLimit = 10;
constexpr int32_t kMaxPrefixLimit = 10000;

// Answers table RPCs; parse and serialise through protobuf, as speed does not count here.
class TableService {
 public:
  TableService(const ServiceContext& context, BuildInfo build, std::chrono::steady_clock::time_point started)
      : context_(context), build_(std::move(build)), started_(started) {}

  absl::Status GetServerInfo(const v1::GetServerInfoRequest&, v1::GetServerInfoResponse* response) const {
    response->set_version(build_.version);
    response->set_revision(build_.revision);
    response->set_simd_target(build_.simd);
    const auto uptime =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - started_);
    *response->mutable_uptime() = TimeUtil::NanosecondsToDuration(uptime.count());
    v1::Limits* limits = response->mutable_limits();
    limits->set_max_ids(context_.limits.max_ids);
    limits->set_max_queries(context_.limits.max_queries);
    limits->set_max_k(context_.limits.max_k);
    limits->set_max_pairs(context_.limits.max_pairs);
    limits->set_max_filter_ids(context_.limits.max_filter_ids);
    limits->set_max_request_bytes(context_.limits.max_request_bytes);
    limits->set_max_response_bytes(context_.limits.max_response_bytes);
    *limits->mutable_max_deadline() = TimeUtil::MillisecondsToDuration(context_.limits.max_deadline.count());
    return absl::OkStatus();
  }

  absl::Status ListTables(const v1::ListTablesRequest&, v1::ListTablesResponse* response) const {
    absl::StatusOr<std::vector<TableRecord>> tables = context_.registry->List();
    if (!tables.ok()) return tables.status();
    for (const TableRecord& record : *tables) FillTableInfo(record, response->add_tables());
    return absl::OkStatus();
  }

  absl::Status GetTable(const v1::GetTableRequest& request, v1::GetTableResponse* response) const {
    absl::StatusOr<TableRecord> record = context_.registry->Describe(request.table().name(), request.table().version());
    if (!record.ok()) return record.status();
    FillTableInfo(*record, response->mutable_table());
    return absl::OkStatus();
  }

  absl::Status ResolveKeys(const v1::ResolveKeysRequest& request, v1::ResolveKeysResponse* response) const {
    // What is wrong whatever the table.
    RowSelection rows;
    const RequestLimits& limits = context_.limits;
    switch (request.query_case()) {
      case v1::ResolveKeysRequest::kKeys:
        rows = SelectionOf(request.keys(), limits.max_ids);
        break;
      case v1::ResolveKeysRequest::kIds:
        rows = SelectionOf(request.ids(), limits.max_ids);
        break;
      case v1::ResolveKeysRequest::kPrefix:
        break;
      case v1::ResolveKeysRequest::QUERY_NOT_SET:
        return InvalidField("query", "query is unset, must hold keys, ids or prefix");
    }
    rows.bare = true;
    if (request.limit() < 0 || request.limit() > kMaxPrefixLimit) {
      return InvalidField("limit", absl::StrCat("limit=", request.limit(), ", must be in 1..", kMaxPrefixLimit,
                                                ", or 0 for ", kDefaultPrefixLimit));
    }
    const bool by_prefix = request.query_case() == v1::ResolveKeysRequest::kPrefix;
    if (!by_prefix) {
      if (absl::Status status = CheckRows(rows, limits, ShapeRule::kOneDimension, ""); !status.ok()) return status;
    }
    absl::StatusOr<SnapshotPtr> snapshot = Acquire(request.table());
    if (!snapshot.ok()) return snapshot.status();
    const EmbeddingTable& table = *(*snapshot)->table;
    if (table.vocabulary() == nullptr) return NoKeys(table);
    if (by_prefix) {
      const int32_t limit = request.limit() == 0 ? kDefaultPrefixLimit : request.limit();
      rows.ids = table.vocabulary()->WithPrefix(request.prefix(), limit);
    } else if (absl::Status status = ResolveRows(rows, table, ""); !status.ok()) {
      return status;
    }
    return FillResolved(**snapshot, rows.ids, response);
  }

 private:
  absl::StatusOr<SnapshotPtr> Acquire(const v1::TableSpec& table) const {
    return context_.registry->Acquire(table.name(), table.version());
  }

  absl::Status FillResolved(const Snapshot& snapshot, const std::vector<int64_t>& ids,
                            v1::ResolveKeysResponse* response) const {
    const Vocabulary& vocabulary = *snapshot.table->vocabulary();
    // Keys are long or short as the table has them, so the answer is measured before it is built: the bytes of the
    // keys, and at most 16 for an id, two tags and a length.
    const auto limit = static_cast<uint64_t>(context_.limits.max_response_bytes);
    uint64_t bytes = 0;
    size_t fitting = 0;
    for (const int64_t id : ids) {
      bytes += vocabulary.KeyOf(id).size() + 16;
      fitting += bytes + 128 <= limit ? 1 : 0;  // 128: the stamp
    }
    if (fitting < ids.size()) {
      return AnswerTooLarge("query", bytes + 128, context_.limits.max_response_bytes,
                            absl::StrCat("the largest batch that fits is ", fitting));
    }
    response->mutable_table()->set_name(snapshot.name);
    response->mutable_table()->set_version(snapshot.version);
    response->mutable_table()->set_fingerprint(snapshot.table->fingerprint());
    response->mutable_ids()->Assign(ids.begin(), ids.end());
    response->mutable_keys()->Reserve(static_cast<int>(ids.size()));
    for (const int64_t id : ids) {
      const absl::string_view key = vocabulary.KeyOf(id);
      response->add_keys(key.data(), key.size());
    }
    return absl::OkStatus();
  }

  const ServiceContext context_;
  const BuildInfo build_;
  const std::chrono::steady_clock::time_point started_;
};

// Before the parser takes memory for it all. Of ResolveKeys; requests of the others have no such lists.
absl::Status CheckResolveCounts(const FieldCounts& counts, const RequestLimits& limits) {
  return CheckRowCounts(counts, "", /*bare=*/true, limits, "");
}

// Parses, calls and answers.
template <typename Request, typename Response>
void Handle(const ServiceContext& context, const TableService& service,
            absl::Status (TableService::*handle)(const Request&, Response*) const, const CallPtr& call) {
  Request request;
  const CountsCheck check = std::is_same_v<Request, v1::ResolveKeysRequest> ? &CheckResolveCounts : nullptr;
  if (absl::Status status = ParseRequest(call->request(), context.limits, &request, check); !status.ok()) {
    call->Fail(status);
    return;
  }
  Response response;
  if (absl::Status status = (service.*handle)(request, &response); !status.ok()) {
    call->Fail(status);
    return;
  }
  ReplyWithMessage(context, response, call);
}

}  // namespace

std::vector<RpcMethod> TableServiceMethods(const ServiceContext& context, BuildInfo build,
                                           std::chrono::steady_clock::time_point started) {
  const auto service = std::make_shared<const TableService>(context, std::move(build), started);
  const auto method = [&](Rpc rpc, auto handle) {
    return MakeMethod(rpc, *context.metrics,
                      [context, service, handle](const CallPtr& call) { Handle(context, *service, handle, call); });
  };
  return {method(Rpc::kGetServerInfo, &TableService::GetServerInfo),
          method(Rpc::kListTables, &TableService::ListTables), method(Rpc::kGetTable, &TableService::GetTable),
          method(Rpc::kResolveKeys, &TableService::ResolveKeys)};
}

}  // namespace embedding
