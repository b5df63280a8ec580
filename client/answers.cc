#include "client/answers.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/convert.h"
#include "proto/vector_codec.h"

namespace embedding::client {
namespace {

absl::Status Broken(absl::string_view what, absl::string_view why) {
  return absl::InternalError(absl::StrCat("the server's answer breaks the contract: ", what, " ", why));
}

}  // namespace

absl::Status TakeTensor(v1::Tensor& wire, size_t num_rows, absl::string_view what, Tensor& out) {
  const Dtype dtype = FromWire(wire.dtype());
  if (dtype == Dtype::kUnspecified || dtype == Dtype::kF64) {
    return Broken(what, absl::StrCat("have dtype ", static_cast<int>(wire.dtype()), ", which this client cannot read"));
  }
  const std::span<const int64_t> shape(wire.shape().data(), static_cast<size_t>(wire.shape_size()));
  const std::optional<int64_t> rows = shape.empty() ? std::nullopt : Product(shape.first(shape.size() - 1));
  const std::optional<int64_t> elements = Product(shape);
  const auto element_bytes = static_cast<int64_t>(DtypeSize(dtype));
  const auto bytes = static_cast<int64_t>(wire.data().size());
  if (rows != static_cast<int64_t>(num_rows) || !elements || bytes % element_bytes != 0 ||
      *elements != bytes / element_bytes) {
    return Broken(what, absl::StrCat("of ", num_rows, " rows have the shape [", absl::StrJoin(shape, ", "), "] and ",
                                     bytes, " bytes of ", DtypeName(dtype)));
  }
  out.dtype = dtype;
  out.shape.assign(shape.begin(), shape.end());
  out.data = std::move(*wire.mutable_data());
  return absl::OkStatus();
}

absl::Status TakeScores(v1::Tensor& wire, std::span<float> scores) {
  if (wire.dtype() != v1::DTYPE_F32 || wire.data().size() != scores.size_bytes()) {
    return Broken("scores", absl::StrCat("of ", scores.size(), " pairs have dtype ", static_cast<int>(wire.dtype()),
                                         " and ", wire.data().size(), " bytes"));
  }
  BytesToFloats(wire.data().data(), scores.size(), scores.data());
  return absl::OkStatus();
}

absl::Status TakeNeighbours(v1::NearestNeighbourResponse& wire, const NearestNeighbourRequest& request,
                            std::span<Neighbours> out) {
  if (wire.results_size() != static_cast<int>(out.size())) {
    return Broken("results", absl::StrCat("are ", wire.results_size(), " for ", out.size(), " queries"));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    v1::Neighbours& from = *wire.mutable_results(static_cast<int>(i));
    const int found = from.ids_size();
    if (found > request.k || from.scores_size() != found || (request.return_keys && from.keys_size() != found)) {
      return Broken(absl::StrCat("results[", i, "]"),
                    absl::StrCat("holds ", found, " ids, ", from.scores_size(), " scores and ", from.keys_size(),
                                 " keys for k = ", request.k));
    }
    Neighbours neighbours;
    neighbours.ids.assign(from.ids().begin(), from.ids().end());
    neighbours.scores.assign(from.scores().begin(), from.scores().end());
    neighbours.keys.assign(std::make_move_iterator(from.mutable_keys()->begin()),
                           std::make_move_iterator(from.mutable_keys()->end()));
    if (request.return_vectors) {
      absl::Status status = TakeTensor(*from.mutable_vectors(), static_cast<size_t>(found),
                                       absl::StrCat("vectors of results[", i, "]"), neighbours.vectors);
      if (!status.ok()) return status;
    }
    out[i] = std::move(neighbours);
  }
  return absl::OkStatus();
}

absl::Status TakePositions(const google::protobuf::RepeatedField<int64_t>& wire, size_t begin, size_t size,
                           absl::string_view what, std::vector<int64_t>& out) {
  int64_t last = -1;
  for (const int64_t position : wire) {
    if (position <= last || position >= static_cast<int64_t>(size)) {
      return Broken(what, absl::StrCat("hold ", position, " after ", last, " for ", size, " elements"));
    }
    last = position;
    out.push_back(static_cast<int64_t>(begin) + position);
  }
  return absl::OkStatus();
}

absl::Status CheckResolved(const v1::ResolveKeysResponse& wire, std::optional<size_t> num_asked) {
  if (wire.ids_size() == wire.keys_size() &&
      num_asked.value_or(wire.ids_size()) == static_cast<size_t>(wire.ids_size())) {
    return absl::OkStatus();
  }
  return Broken("it", absl::StrCat("holds ", wire.ids_size(), " ids and ", wire.keys_size(), " keys",
                                   num_asked ? absl::StrCat(" for ", *num_asked, " rows") : ""));
}

}  // namespace embedding::client
