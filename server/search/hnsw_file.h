// The file beside a table that keeps the graph of its rows, so that the next start need not build it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/search/hnsw_graph.h"

namespace embedding {

// "PATH.NAME.hnsw": the name of the table tells tables of one file apart.
std::string HnswFilePath(absl::string_view table_path, absl::string_view table_name);

// Writes a temporary file in the same folder, flushes it and renames it, so that the file is whole or not there.
// fingerprint: of the table, 32 characters. UNAVAILABLE with the step and the errno text: a folder that may not be
// written, a full disk; nothing is left behind then. The message does not name the path.
absl::Status WriteHnswFile(const std::string& path, absl::string_view fingerprint, const HnswGraph& graph);

// The graph of such a file. NOT_FOUND: there is none. FAILED_PRECONDITION: it is whole, but of other rows or built with
// other parameters. DATA_LOSS: it is no such file, is broken (a checksum over all of it, and each link, is looked at)
// or cannot be read. RESOURCE_EXHAUSTED as HnswGraph::Create. The message does not name the path.
absl::StatusOr<HnswGraph> ReadHnswFile(const std::string& path, absl::string_view fingerprint,
                                       const HnswParameters& parameters, int64_t num_rows);

}  // namespace embedding
