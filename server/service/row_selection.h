// Which rows a request names: by ids, by keys or by a tensor of ids.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "embedding/v1/embedding.pb.h"
#include "server/service/field_counts.h"
#include "server/service/limits.h"
#include "server/service/snapshot.h"

namespace embedding {

// A RowSelector as it came, before it is checked. Borrows from the request.
struct RowSelection {
  enum class Kind : uint8_t { kUnset, kIds, kKeys, kIdTensor };

  Kind kind = Kind::kUnset;
  bool bare = false;                    // stands in the request without a RowSelector around it (ResolveKeys)
  int64_t count = 0;                    // ids or keys, kept or not
  std::vector<int64_t> ids;             // kIds: the first `keep` ones; of every kind after ResolveRows: all row ids
  std::vector<absl::string_view> keys;  // kKeys: the first `keep` ones
  int64_t rank = 0;                     // sizes in the shape, kept or not
  std::vector<int64_t> shape;           // the first kMaxRank + 1 ones
  int32_t dtype = 0;                    // kIdTensor, as all below: number of the v1::Dtype
  absl::string_view data;
  int64_t num_values = 0;  // float values, which no id tensor may have
  // After ResolveRows under a policy that marks: positions of the rows that do not exist, ascending; their ids are
  // kMissingId. Counts match `ids`, so that nothing shifts.
  std::vector<int64_t> missing;
};

// Stands in `ids` for a row that does not exist, where the policy is not to fail.
inline constexpr int64_t kMissingId = -1;

// Dimensions that a shape may have.
inline constexpr int64_t kMaxRank = 8;

// A RowSelector that protobuf parsed, which must outlive the result. keep: ids and keys that are kept at most.
RowSelection SelectionOf(const v1::RowSelector& rows, int64_t keep);
RowSelection SelectionOf(const v1::IdList& ids, int64_t keep);
RowSelection SelectionOf(const v1::KeyList& keys, int64_t keep);

enum class ShapeRule : uint8_t { kAnyRank, kOneDimension };

// Checks all that needs no table: that something is set, the limit on ids, shape, dtype and byte count, sizes of keys.
// Then `shape` is never empty and `count` its product; the ids of a tensor stand in `ids`.
// prefix: where the selector stands in the request, for messages and field paths, such as "left." or "".
// INVALID_ARGUMENT (INVALID_FIELD, LIMIT_EXCEEDED), with the field's path.
absl::Status CheckRows(RowSelection& rows, const RequestLimits& limits, ShapeRule rule, absl::string_view prefix);

// The limit on ids and the number of dimensions, before protobuf parses. at: the path of the RowSelector, or with bare
// that of the message which holds ids and keys themselves, as in FieldCounts; ends in a dot unless empty.
// prefix: as in CheckRows. INVALID_ARGUMENT (INVALID_FIELD, LIMIT_EXCEEDED), as CheckRows.
absl::Status CheckRowCounts(const FieldCounts& counts, absl::string_view at, bool bare, const RequestLimits& limits,
                            absl::string_view prefix);

// Checks a MissingPolicy as it came: unset (which means MISSING_POLICY_ERROR) or one of those that the rpc names.
// path: "missing". INVALID_ARGUMENT (INVALID_FIELD): "missing=MISSING_POLICY_SKIP (4), allowed: ...".
absl::Status CheckMissing(int32_t policy, std::initializer_list<v1::MissingPolicy> allowed, absl::string_view path);

// Turns keys into ids and checks every id against the table, in its own width; after CheckRows.
// Unset and MISSING_POLICY_ERROR: the first wrong element decides: INVALID_ARGUMENT (negative id), OUT_OF_RANGE
// (ID_OUT_OF_RANGE), NOT_FOUND (KEY_NOT_FOUND). Any other policy: a row that does not exist becomes kMissingId in `ids`
// and its position goes into `missing`; what that means is the caller's; a negative id is the same error as ever.
// Always FAILED_PRECONDITION (NO_KEYS) for keys of a table without keys.
// num_missing (may be null): how many elements named no row of this table, where that is what decides or is marked.
absl::Status ResolveRows(RowSelection& rows, const EmbeddingTable& table, absl::string_view prefix,
                         v1::MissingPolicy policy = v1::MISSING_POLICY_ERROR, int64_t* num_missing = nullptr);

// What the list is called in messages, "left.keys", and its path in the request, "left.rows.keys".
std::string SelectionName(const RowSelection& rows, absl::string_view prefix);
std::string SelectionPath(const RowSelection& rows, absl::string_view prefix);
// What element `index` is called in messages: "ids[7]", "left.keys[3] \"qx\"".
std::string ElementName(const RowSelection& rows, absl::string_view prefix, int64_t index);
// Its path in the request: "rows.ids.values[7]".
std::string ElementPath(const RowSelection& rows, absl::string_view prefix, int64_t index);

}  // namespace embedding
