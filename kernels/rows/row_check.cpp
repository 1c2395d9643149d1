#include "kernels/rows/row_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/call/operand.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 31, kBlock = 128;

bool is_type_of_rows(DType type) { return type == DType::f16 || type == DType::bf16 || type == DType::f32; }

class RowCheck {
 public:
  RowCheck(const RowCall& call, Where where) : call_(call), operation_(*call.operation), where_(where) {}

  CheckedRows operator()() {
    if (call_.tensors.size() != operation_.tensors.size())
      fail(fmt::format("{} tensors were given, but it has {}", call_.tensors.size(),
                       operation_.tensors.size()));
    if (!call_.numbers.empty() && call_.numbers.size() != operation_.numbers.size())
      fail(fmt::format("{} numbers were given, but it has {}", call_.numbers.size(),
                       operation_.numbers.size()));
    CheckedRows checked;
    checked.problem.operation = &operation_;
    for (size_t i = 0; i < operation_.tensors.size(); ++i) {
      const RowTensor& t = operation_.tensors[i];
      checked.problem.types.push_back(std::nullopt);
      if (!call_.tensors[i]) {
        if (!t.is_optional()) fail(fmt::format("{} is not given", t.name));
        check_company(t, false);
        continue;
      }
      check_company(t, true);
      check_type(t, *call_.tensors[i]);
      check_extents(t, *call_.tensors[i], checked.sizes);
      check_place(t, *call_.tensors[i]);
      checked.problem.types.back() = t.is_summed ? DType::f32 : call_.tensors[i]->type;
    }
    check_apart();
    if (const auto k = checked.sizes.find("k"); k != checked.sizes.end() && k->second > checked.columns())
      fail(fmt::format("k is {}, but must be at most the {} columns", k->second, checked.columns()));
    for (const auto& [word, of] : {std::pair("scales", "heads"), {"scale_pages", "pages"}})
      if (const auto s = checked.sizes.find(word);
          s != checked.sizes.end() && s->second != 1 && s->second != checked.sizes.at(of))
        fail(fmt::format("{} {} were given, but there must be one, or one for each of {} {}", s->second, word,
                         checked.sizes.at(of), of));
    for (const auto& [blocks, of] :
         {std::pair("column_blocks", "columns"), std::pair("row_blocks", "rows")}) {
      const auto given = checked.sizes.find(blocks);
      const int64_t right = (checked.sizes.at(of) + kBlock - 1) / kBlock;
      if (given != checked.sizes.end() && given->second != right)
        fail(fmt::format("{} {}, but {} {} have {} of {}", given->second, blocks, checked.sizes.at(of), of,
                         right, kBlock));
    }
    for (const std::string& word : operation_.sizes())
      checked.sizes.emplace(word, 0);  // adds the extents of omitted tensors
    checked.is_empty = checked.rows() == 0 || updates_nothing();
    const auto [bytes, vector] = widest_access();
    if (!checked.is_empty) checked.problem.tile = tile(checked.columns(), bytes, vector);
    return checked;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(where_, fmt::format("{}: {}", operation_.name, what));
  }

  void check_company(const RowTensor& t, bool is_given) const {
    for (size_t i = 0; i < operation_.tensors.size(); ++i)
      if (operation_.tensors[i].name == t.goes_with && call_.tensors[i].has_value() != is_given)
        fail(fmt::format("{} is {}given, but {} is{}: they must be given together", t.name,
                         is_given ? "" : "not ", t.goes_with, is_given ? " not" : ""));
  }

  bool updates_nothing() const {
    for (size_t i = 0; i < operation_.tensors.size(); ++i)
      if (operation_.tensors[i].is_updated() && elements_of(*call_.tensors[i]) == 0) return true;
    return false;
  }

  void check_type(const RowTensor& t, const RowOperand& x) const {
    const DType first = call_.tensors[0]->type;
    const bool fits = t.type == RowTensor::Type::of_first  ? x.type == first
                      : t.type == RowTensor::Type::number  ? x.type == DType::f32
                      : t.type == RowTensor::Type::integer ? x.type == DType::s32 || x.type == DType::s64
                      : t.type == RowTensor::Type::e4m3    ? x.type == DType::e4m3
                      : t.type == RowTensor::Type::bytes   ? x.type == DType::u8
                      : t.type == RowTensor::Type::of_first_or_e4m3 ? x.type == first || x.type == DType::e4m3
                                                                    : is_type_of_rows(x.type);
    if (fits) return;
    const std::string of_first = fmt::format("that of {}, {}", operation_.tensors[0].name, name(first));
    const std::string rule = t.type == RowTensor::Type::of_first           ? of_first
                             : t.type == RowTensor::Type::of_first_or_e4m3 ? of_first + ", or e4m3"
                             : t.type == RowTensor::Type::number           ? "f32"
                             : t.type == RowTensor::Type::integer          ? "s32 or s64"
                             : t.type == RowTensor::Type::e4m3             ? "e4m3"
                             : t.type == RowTensor::Type::bytes            ? "u8"
                                                                           : "f16, bf16 or f32";
    fail(fmt::format("{} is {}; its type must be {}", t.name, name(x.type), rule));
  }

  void check_extents(const RowTensor& t, const RowOperand& x, std::map<std::string, int64_t>& sizes) const {
    const size_t rank = t.shape.size(), given = x.extents.size();
    const auto refuse = [&](const std::string& what) {
      fail(fmt::format("{} must have the shape [{}], but is [{}]: {}", t.name, fmt::join(t.shape, ", "),
                       fmt::join(x.extents, ", "), what));
    };
    // Additional leading extents are counted as rows. A single scale for all pages lacks the extent
    // "scale_pages".
    const size_t rows = given + 1 - rank;
    if (given + 1 < rank ||
        (rows != 1 && t.shape[0] != "rows" && !(rows == 0 && t.shape[0] == "scale_pages")))
      refuse("the number of dimensions is wrong");
    int64_t ahead = 1;  // product of all extents except the last
    for (size_t k = 0; k < rank; ++k) {
      int64_t extent = 1;
      for (size_t d = k == 0 ? 0 : rows + k - 1; d < rows + k; ++d) {
        if (x.extents[d] < 0 || x.extents[d] >= kMostExtent) refuse("each extent must be 0 to 2^31 - 1");
        extent *= x.extents[d];
        if (extent >= kMostExtent) refuse("there must be less than 2^31 rows");
      }
      if (k + 1 < rank && (ahead *= extent) >= kMostExtent) refuse("there must be less than 2^31 rows");
      if (t.shape[k] == "halves" && extent != 2) refuse("there must be two halves");
      if (const auto fixed = operation_.fixed_extent(t.shape[k]); fixed && extent != *fixed)
        refuse(fmt::format("there must be {} {}", *fixed, t.shape[k]));
      const auto [known, is_new] = sizes.emplace(t.shape[k], extent);
      if (known->second != extent)
        refuse(fmt::format("an earlier tensor has {} {}", known->second, t.shape[k]));
    }
  }

  static int64_t elements_of(const RowOperand& x) {
    int64_t count = 1;
    for (const int64_t extent : x.extents) count *= extent;
    return count;
  }
  // Returns the memory of a tensor as a single row or, if the tensor may have gaps, as rows that consist of
  // the dimensions without gaps.
  static Operand place_of(const RowTensor& t, const RowOperand& x) {
    if (x.strides.empty()) return one_row(t.name.c_str(), x.type, x.memory, elements_of(x));
    const size_t outer = t.strided.size();
    Operand place = {t.name.c_str(), x.type, x.memory, 1, outer, {}};
    for (size_t d = outer; d < x.extents.size(); ++d) place.columns *= x.extents[d];
    for (size_t d = 0; d < outer; ++d)
      place.outer[outer - 1 - d] = {t.strided[d].c_str(), x.extents[d], x.strides[d]};
    return place;
  }

  // Checks the alignment of rows of bytes, which contain numbers of several bytes.
  void check_bytes(const RowTensor& t, const RowOperand& x) const {
    bool is_aligned = x.memory.address % kAccessBytes == 0;
    for (size_t d = 0; d + 1 < x.strides.size(); ++d) is_aligned &= x.strides[d] % kAccessBytes == 0;
    if (!is_aligned)
      fail(fmt::format("{} has rows that do not begin at multiples of {} bytes", t.name, kAccessBytes));
  }

  void check_place(const RowTensor& t, const RowOperand& x) const {
    const Operand place = place_of(t, x);
    if (t.type == RowTensor::Type::bytes) check_bytes(t, x);
    if (x.strides.empty()) return check_row(operation_.name.c_str(), place, where_);
    if (x.strides.size() != x.extents.size())
      fail(fmt::format("{} has {} dimensions, but {} strides", t.name, x.extents.size(), x.strides.size()));
    int64_t compact = 1;
    for (size_t d = x.extents.size(); d-- > t.strided.size(); compact *= x.extents[d])
      if (x.extents[d] > 1 && x.strides[d] != compact)
        fail(fmt::format("{} has gaps between its {}: make them adjacent", t.name, t.shape[d]));
    check_memory(operation_.name.c_str(), place, where_);
    check_no_self_overlap(operation_.name.c_str(), place, where_);
  }

  // Throws an Error if a result overlaps another tensor. A result may overwrite an input if the input has the
  // same shape, type and address, and if the result is not summed.
  void check_apart() const {
    for (size_t i = 0; i < call_.tensors.size(); ++i) {
      const RowTensor& t = operation_.tensors[i];
      if (!call_.tensors[i] || !t.is_written()) continue;
      for (size_t k = 0; k < call_.tensors.size(); ++k) {
        const RowTensor& other = operation_.tensors[k];
        if (k == i || !call_.tensors[k]) continue;
        const bool is_in_place = !other.is_written() && other.shape == t.shape && !t.is_summed &&
                                 call_.tensors[k]->type == call_.tensors[i]->type &&
                                 call_.tensors[k]->memory.address == call_.tensors[i]->memory.address;
        if (!is_in_place)
          kernels::check_apart(operation_.name.c_str(), place_of(t, *call_.tensors[i]),
                               place_of(other, *call_.tensors[k]), !other.is_written(), where_);
      }
    }
  }

  // Returns the size in bytes of the widest elements in a row, and the number of elements per access that all
  // addresses, strides and extents allow.
  std::pair<int, int> widest_access() const {
    int widest = 1, narrowest = 8;
    const auto of_columns = [&](auto&& visit) {
      for (size_t i = 0; i < call_.tensors.size(); ++i)
        if (call_.tensors[i] && operation_.tensors[i].has_columns() && !operation_.tensors[i].is_summed)
          visit(*call_.tensors[i], size_of(call_.tensors[i]->type));
    };
    of_columns([&](const RowOperand&, int bytes) {
      widest = std::max(widest, bytes);
      narrowest = std::min(narrowest, bytes);
    });
    int vector = kAccessBytes / narrowest;
    const auto fits = [&] {
      bool all = true;
      of_columns([&](const RowOperand& x, int bytes) {
        for (const int64_t stride : x.strides) all = all && (stride == 1 || stride % vector == 0);
        all = all && x.extents.back() % vector == 0 &&
              x.memory.address % static_cast<uint64_t>(std::min(kAccessBytes, vector * bytes)) == 0;
      });
      return all;
    };
    while (!fits()) vector /= 2;
    return {widest, vector};
  }

  RowTile tile(int64_t columns, int bytes, int vector) const {
    if (!operation_.is_of_rows) return {.vector = vector};
    try {
      return row_tile(columns, bytes, vector, operation_.limits, 0, where_);
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  static constexpr int kAccessBytes = 16;
  const RowCall& call_;
  const RowOperation& operation_;
  Where where_;
};

}  // namespace

CheckedRows check_rows(const RowCall& call, Where where) {
  if (!call.operation) throw Error(where, "a call on rows has no operation");
  return RowCheck(call, where)();
}

void check_row_addresses(const RowCall& call, Where where) {
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const auto& x = call.tensors[i];
    if (!x || x->memory.address != 0) continue;
    if (std::find(x->extents.begin(), x->extents.end(), 0) == x->extents.end())
      throw Error(where,
                  fmt::format("{}: {}: data is NULL", call.operation->name, call.operation->tensors[i].name));
  }
}

}  // namespace ptxbuilder::kernels
