#include "server/table/dtype.h"

namespace embedding {

absl::string_view DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "F32";
    case Dtype::kF16:
      return "F16";
    case Dtype::kBF16:
      return "BF16";
    case Dtype::kF64:
      return "F64";
    case Dtype::kI8:
      return "I8";
    case Dtype::kU8:
      return "U8";
    case Dtype::kF8E4M3:
      return "F8_E4M3";
    case Dtype::kF8E5M2:
      return "F8_E5M2";
  }
  return "";
}

std::optional<Dtype> DtypeFromName(absl::string_view name) {
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64, Dtype::kI8, Dtype::kU8, Dtype::kF8E4M3, Dtype::kF8E5M2}) {
    if (name == DtypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

ElementType ElementTypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return ElementType::kF32;
    case Dtype::kF16:
      return ElementType::kF16;
    case Dtype::kBF16:
      return ElementType::kBF16;
    case Dtype::kF64:
      return ElementType::kF64;
    case Dtype::kI8:
      return ElementType::kI8;
    case Dtype::kU8:
      return ElementType::kU8;
    case Dtype::kF8E4M3:
      return ElementType::kF8E4M3;
    case Dtype::kF8E5M2:
      return ElementType::kF8E5M2;
  }
  return ElementType::kF32;
}

size_t DtypeSize(Dtype dtype) { return ElementSize(ElementTypeOf(dtype)); }

}  // namespace embedding
