// Implements the table at run time: the rows with short names, and the members of families.
#include "ptxbuilder/isa/rows.h"

#include <fmt/format.h>

#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptxbuilder/isa/family_table.h"

namespace ptxbuilder::isa {
namespace {

class Table {
 public:
  Table() {
    rows.reserve(1536);  // large enough for all rows, which are expensive to copy
#define PTXBUILDER_ADD(name) rows.push_back(rows_def::name);
    PTXBUILDER_SHORT_NAMES(PTXBUILDER_ADD)
#undef PTXBUILDER_ADD
    std::vector<std::string_view> keys;
    detail::for_each_member([&](const MadeRow& m, std::string_view key, const auto&) {
      rows.push_back(
          {keep(m.name.view()), keep(m.syntax.view()), m.effect, m.ptx_version, m.targets, {}, m.early});
      keys.push_back(keep(key));
    });
    for (const Row& row : rows) by_name.emplace(row.name, &row);
    for (size_t i = 0; i < keys.size(); ++i) by_key.emplace(keys[i], &rows[rows.size() - keys.size() + i]);
  }

  std::vector<Row> rows;
  std::unordered_map<std::string_view, const Row*> by_name;
  std::unordered_map<std::string_view, const Row*> by_key;  // contains only members of families

 private:
  std::string_view keep(std::string_view text) { return texts_.emplace_back(text); }

  std::deque<std::string> texts_;
};

const Table& table() {
  static const Table t;
  return t;
}

const Row* found(const std::unordered_map<std::string_view, const Row*>& rows, std::string_view text) {
  const auto it = rows.find(text);
  return it == rows.end() ? nullptr : it->second;
}

}  // namespace

std::span<const Row> rows() { return table().rows; }

const Row* find(std::string_view name) { return found(table().by_name, name); }

std::string_view typed_call(const Row& row) {
  static const auto calls = [] {  // calls of members of families
    std::unordered_map<std::string, std::string> all;
    detail::for_each_member(
        [&](const MadeRow& m, std::string_view, const auto& call) { all.emplace(m.name.view(), call()); });
    return all;
  }();
  const auto it = calls.find(std::string(row.name));
  return it == calls.end() ? row.name : std::string_view(it->second);
}

std::string detail::call_text(std::string_view family, std::string_view form,
                              std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  if (form.empty()) return fmt::format("{}<{}>", family, fields.begin()->second);
  std::string inside;
  for (const auto& [name, value] : fields)
    if (value != "false") inside += fmt::format("{}.{} = {}", inside.empty() ? "" : ", ", name, value);
  return fmt::format("{}<{}{{{}}}>", family, form, inside);
}

const Row& detail::find_member(std::string_view family, std::span<const Text> keys,
                               std::string_view broken_rule, Where where) {
  for (const Text& key : keys)
    if (const Row* row = found(table().by_key, key.view()); row && broken_rule.empty()) return *row;
  throw Error(where, fmt::format("{}: {} does not exist; {}", family, keys.back().view(), broken_rule));
}

bool wgmma_has_width(DType d, int n) {
  const DType ab = d == DType::s32 ? DType::s8 : DType::f16;
  return !detail::wgmma_mma_async_row({d, ab, ab, n}).syntax.view().empty();
}

int wgmma_width_of(DType d, int n) {
  return wgmma_has_width(d, n) ? n : n > 256 && n % 2 == 0 && wgmma_has_width(d, n / 2) ? n / 2 : 0;
}

std::vector<DType> types_of(CopyReduction reduction) {
  std::vector<DType> types;
  for (size_t i = 0; i < std::size(kElementBytes); ++i)
    if (!detail::cp_reduce_async_bulk_row({reduction, static_cast<DType>(i)}).syntax.view().empty())
      types.push_back(static_cast<DType>(i));
  return types;
}

}  // namespace ptxbuilder::isa
