// Plain values <-> messages of the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/split.h"
#include "client/types.h"
#include "embedding/v1/embedding.pb.h"

namespace embedding::client {

// Requests. A range that covers the whole source takes its shape along; a part of it is [range.size()].
v1::TableSpec ToWire(const TableRef& table);
v1::Dtype ToWire(Dtype dtype);
v1::Metric ToWire(Metric metric);
v1::Layout ToWire(Layout layout);
v1::MissingPolicy ToWire(MissingPolicy policy);
v1::Reduce ToWire(Reduce reduce);
void RowsToWire(const Rows& rows, Range range, v1::RowSelector& out);
void VectorsToWire(const VectorSource& source, Range range, v1::VectorSet& out);
void ExamplesToWire(std::span<const ExampleQuery> queries, v1::ExampleQueries& out);
void FilterToWire(const Filter& filter, v1::Filter& out);
void QueryToWire(const std::variant<Ids, Keys, KeyPrefix>& query, Range range, v1::ResolveKeysRequest& out);

// Answers. Enum numbers that this client does not know become kUnspecified or kTableDefault.
TableStamp FromWire(const v1::TableStamp& stamp);
Dtype FromWire(v1::Dtype dtype);
Metric FromWire(v1::Metric metric);
TableInfo FromWire(const v1::TableInfo& info);
ServerInfo FromWire(const v1::GetServerInfoResponse& info);
ServerLimits FromWire(const v1::Limits& limits);

// INVALID_ARGUMENT, naming `side` ("targets"), if the values of a Vectors are no whole number of rows.
absl::Status CheckVectors(const VectorSource& source, absl::string_view side);
// The same for each set of an example, "examples[2].positive[0]".
absl::Status CheckVectors(const std::vector<ExampleQuery>& examples);
// INVALID_ARGUMENT if the shape of ids or keys does not hold as many elements as there are.
absl::Status CheckShape(const Rows& rows);
// The product of sizes; nullopt for a negative size or a product beyond int64.
std::optional<int64_t> Product(std::span<const int64_t> sizes);
// The sizes of the rows: their shape, or [n].
std::vector<int64_t> ShapeOf(const Rows& rows);

}  // namespace embedding::client
