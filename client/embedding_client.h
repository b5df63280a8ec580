// The client library: rows, scores and neighbours of an embedding server, by blocking calls.
//
//   auto client = embedding::EmbeddingClient::Create({.address = "127.0.0.1:50051"});
//   auto rows = (*client)->Lookup({.rows = embedding::client::Ids{{5, 7}, {}}});
//
// - Every call has a deadline, which covers all its parts and attempts.
// - A batch over the server's published limits is sent in parts, one after the other, and joined in order. All parts
//   bear one stamp: if the table changes in between, the call starts over, and ends ABORTED if that happens again and
//   again.
// - A request that ends UNAVAILABLE, or that the server pushed back (grpc-retry-pushback-ms), is sent again after a
//   growing, jittered pause, as often as ClientOptions says, while the deadline lasts and not too many calls fail.
// - Errors are the server's: code, message and details (absl::Status payloads google.rpc.ErrorInfo and BadRequest).
//   In a batch that was split, positions in a message count from the start of the part, which the message then names.
//   Of the client's own making: UNAVAILABLE, DEADLINE_EXCEEDED, ABORTED, INTERNAL for an answer that breaks the
//   contract, INVALID_ARGUMENT for a request whose sizes contradict each other or whose result would be over 4 GiB.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/client_options.h"
#include "client/lookup_stream.h"
#include "client/types.h"

namespace embedding {

// Thread-safe; calls from several threads share one connection.
class EmbeddingClient {
 public:
  // Connects on first use. INVALID_ARGUMENT names an option that is out of its range.
  static absl::StatusOr<std::unique_ptr<EmbeddingClient>> Create(const ClientOptions& options);
  ~EmbeddingClient();

  EmbeddingClient(const EmbeddingClient&) = delete;
  EmbeddingClient& operator=(const EmbeddingClient&) = delete;

  // The rows of the ids or keys. OUT_OF_RANGE: an id >= V, or a value that does not fit output_dtype; NOT_FOUND: table,
  // version or key; FAILED_PRECONDITION: keys asked of a table without keys, a default row of one that has none, or
  // arithmetic with a row that holds NaN or infinity. A pooled request is cut between bags; a bag that is over a limit
  // by itself is refused.
  absl::StatusOr<client::LookupResult> Lookup(const client::LookupRequest& request,
                                              const client::CallOptions& call = {});

  // Many lookups under way on one stream. call.deadline is the whole stream's; without one it may stay open as long as
  // the server does. Errors come from the stream, a server that cannot be reached included.
  std::unique_ptr<LookupStream> OpenLookupStream(const client::CallOptions& call = {});

  // The scores of pairs of vectors, or of the means of both sides. Errors as Lookup; FAILED_PRECONDITION also for a row
  // that holds NaN or infinity.
  absl::StatusOr<client::SimilarityResult> Similarity(const client::SimilarityRequest& request,
                                                      const client::CallOptions& call = {});

  // The k closest rows of each target or each query by examples, exactly. Errors as Similarity. A filter goes along
  // with every part of a batch that is split.
  absl::StatusOr<client::NearestNeighbourResult> NearestNeighbour(const client::NearestNeighbourRequest& request,
                                                                  const client::CallOptions& call = {});

  // NOT_FOUND: no such table or version.
  absl::StatusOr<client::TableInfo> GetTable(const client::TableRef& table, const client::CallOptions& call = {});

  // Every table, by name.
  absl::StatusOr<std::vector<client::TableInfo>> ListTables(const client::CallOptions& call = {});

  // Changes to what is served, by a server with --table-root (UNIMPLEMENTED without). Each gives the table as it is
  // then.
  //
  // Loads a table or a new version of one; returns when it answers. Sent once, never again by itself. Without a
  // deadline of its own it has an hour: a large file takes a while. INVALID_ARGUMENT: path or options; NOT_FOUND;
  // FAILED_PRECONDITION: the file was refused, another load of the table runs, or memory is short - the old version
  // serves on.
  absl::StatusOr<client::TableInfo> LoadTable(const client::LoadTableRequest& request,
                                              const client::CallOptions& call = {});
  // Serves a version that is in memory. NOT_FOUND.
  absl::StatusOr<client::TableInfo> SetServingVersion(const std::string& name, uint64_t version,
                                                      const client::CallOptions& call = {});
  // Drops the table (version 0; given as it was), or a version that does not serve. Sent once. NOT_FOUND,
  // FAILED_PRECONDITION.
  absl::StatusOr<client::TableInfo> UnloadTable(const std::string& name, uint64_t version = 0,
                                                const client::CallOptions& call = {});

  // Asks the server each time; the limits that splitting goes by are asked for once.
  absl::StatusOr<client::ServerInfo> GetServerInfo(const client::CallOptions& call = {});

  // Keys to ids, ids to keys, or the keys with a prefix. NOT_FOUND: a key; OUT_OF_RANGE: an id.
  absl::StatusOr<client::ResolveKeysResult> ResolveKeys(const client::ResolveKeysRequest& request,
                                                        const client::CallOptions& call = {});

 private:
  class Impl;
  explicit EmbeddingClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace embedding
