#include "kernels/c/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "kernels/c/grown.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {
namespace {

std::string quoted(const std::string& text) { return fmt::format("\"{}\"", text); }

template <class All, class Text>
std::string list(const All& all, const Text& text) {
  std::vector<std::string> texts;
  for (const auto& one : all) texts.push_back(text(one));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string text_of(const kernels::RowTensor& t) {
  constexpr const char* types[] = {"any",  "of_first",         "number", "integer",
                                   "e4m3", "of_first_or_e4m3", "bytes"};
  return fmt::format(
      R"({{"name": "{}", "shape": {}, "type": "{}", "written": {}, "updated": {}, "optional": {}, "meaning": "{}"}})",
      t.name, list(t.shape, quoted), types[static_cast<size_t>(t.type)], t.is_written(), t.is_updated(),
      t.is_optional(), t.meaning);
}

std::string text_of(const kernels::RowOperation& o) {
  const auto number = [](const kernels::RowNumber& n) {
    return fmt::format(R"({{"name": "{}", "unsaid": {}, "meaning": "{}"}})", n.name, n.unsaid, n.meaning);
  };
  return fmt::format(R"({{"name": "{}", "summary": "{}", "tensors": {}, "numbers": {}}})", o.name, o.summary,
                     list(o.tensors, [](const kernels::RowTensor& t) { return text_of(t); }),
                     list(o.numbers, number));
}

}  // namespace

kernels::RowOperand read_row_operand(const std::string& name, const ptxb_tensor* tensor, int gpu,
                                     bool may_have_gaps) {
  const Placed t(name.c_str(), tensor, gpu);
  kernels::RowOperand x{t.type, {}, t.memory()};
  int64_t compact = 1;
  bool has_gaps = false;
  for (size_t i = t.rank(); i-- > 0; compact *= t.extent(i)) {
    x.extents.insert(x.extents.begin(), t.extent(i));
    has_gaps |= t.extent(i) > 1 && x.memory.bytes > 0 && t.stride(i) != compact;
  }
  if (!has_gaps) return x;
  if (!may_have_gaps) throw Error(fmt::format("{}: it has gaps: make it contiguous", name));
  for (size_t i = 0; i < t.rank(); ++i) x.strides.push_back(t.stride(i));
  return x;
}

kernels::RowCall read_rows(const ptxb_rows& given_rows, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_rows, number_count) + sizeof given_rows.number_count;
  const ptxb_rows rows = grown(given_rows, PTXB_ROWS_INIT, kFirst, "ptxb_rows", "PTXB_ROWS_INIT");
  kernels::RowCall call;
  call.operation = &kernels::row_operation(&given(rows.operation, "the operation's name"));
  const auto& tensors = call.operation->tensors;
  // A program that was built for an older library does not pass the optional tensors that were added later.
  const auto required =
      std::ranges::find_if_not(tensors.rbegin(), tensors.rend(), &kernels::RowTensor::is_optional);
  if (rows.tensor_count > tensors.size() ||
      rows.tensor_count < static_cast<size_t>(tensors.rend() - required))
    throw Error(
        fmt::format("{}: {} tensors were given, but it takes {}: pass NULL for a tensor that is left out",
                    call.operation->name, rows.tensor_count, tensors.size()));
  given(rows.tensors, "the list of tensors");
  for (size_t i = 0; i < tensors.size(); ++i) {
    call.tensors.emplace_back();
    if (i < rows.tensor_count && rows.tensors[i])
      call.tensors.back() =
          read_row_operand(tensors[i].name, rows.tensors[i], gpu, !tensors[i].strided.empty());
  }
  if (rows.number_count > 0) {
    const float* numbers = &given(rows.numbers, "the list of numbers");
    call.numbers.assign(numbers, numbers + rows.number_count);
  }
  return call;
}

const std::string& rows_table() {
  static const std::string table =
      list(kernels::row_operations(), [](const kernels::RowOperation& o) { return text_of(o); });
  return table;
}

}  // namespace ptxbuilder::c
