#include "ptxbuilder/dtype.h"

#include <array>

namespace ptxbuilder {
namespace {

struct Entry {
  DType type;
  std::string_view name;
  int bytes;
};

constexpr std::array kTypes = {
    Entry{DType::u8, "u8", 1},     Entry{DType::s8, "s8", 1},     Entry{DType::u16, "u16", 2},
    Entry{DType::s16, "s16", 2},   Entry{DType::u32, "u32", 4},   Entry{DType::s32, "s32", 4},
    Entry{DType::u64, "u64", 8},   Entry{DType::s64, "s64", 8},   Entry{DType::f16, "f16", 2},
    Entry{DType::bf16, "bf16", 2}, Entry{DType::tf32, "tf32", 4}, Entry{DType::e4m3, "e4m3", 1},
    Entry{DType::e5m2, "e5m2", 1}, Entry{DType::f32, "f32", 4},   Entry{DType::f64, "f64", 8},
};

const Entry& entry(DType type) { return kTypes[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name(DType type) { return entry(type).name; }

int size_of(DType type) { return entry(type).bytes; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Entry& e : kTypes)
    if (e.name == name) return e.type;
  return std::nullopt;
}

}  // namespace ptxbuilder
