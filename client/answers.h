// Checks an answer against its request before anything of it is believed, and takes its content out.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/types.h"
#include "embedding/v1/embedding.pb.h"

namespace embedding::client {

// All give INTERNAL, saying what is wrong, for an answer that breaks the contract.

// Moves the tensor's bytes out. Right is: dtype F32, F16 or BF16; a shape whose sizes but the last multiply to
// num_rows; as many bytes as shape and dtype say.
absl::Status TakeTensor(v1::Tensor& wire, size_t num_rows, absl::string_view what, Tensor& out);

// scores: [count], overwritten. Right is: F32, count elements.
absl::Status TakeScores(v1::Tensor& wire, std::span<float> scores);

// out: one per query of the request, overwritten. Right is: as many results; in each at most k ids, as many scores, and
// keys and rows of vectors where they were asked for.
absl::Status TakeNeighbours(v1::NearestNeighbourResponse& wire, const NearestNeighbourRequest& request,
                            std::span<Neighbours> out);

// Appends positions of missing elements, counted from `begin` on. Right is: ascending, each in [0, size).
absl::Status TakePositions(const google::protobuf::RepeatedField<int64_t>& wire, size_t begin, size_t size,
                           absl::string_view what, std::vector<int64_t>& out);

// Right is: as many keys as ids, and as many as asked for if num_asked is given.
absl::Status CheckResolved(const v1::ResolveKeysResponse& wire, std::optional<size_t> num_asked);

}  // namespace embedding::client
